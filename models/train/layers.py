"""Dense layers and embeddings as every part of the model begins them."""

from torch import nn


def linear(inputs, outputs):
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def embedding(count, width):
    table = nn.Embedding(count, width)
    nn.init.xavier_uniform_(table.weight)
    return table
