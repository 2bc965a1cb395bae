"""Dense layers and embeddings as every part of the model begins them."""

from torch import nn


def linear(inputs, outputs, bias=True):
    layer = nn.Linear(inputs, outputs, bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def embedding(count, width):
    table = nn.Embedding(count, width)
    nn.init.xavier_uniform_(table.weight)
    return table
