"""What every model has, whatever its layers are: one table of embeddings for source, target and
output, and the bias of the logits.

Letters: B batch, S source length, T target length, C width, V vocabulary.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .dropout import dropout


class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)


class Core(nn.Module):
    """What MarianMT calls `model`: the shared embedding, and the kind's encoder and decoder."""

    def __init__(self, shape, vocabulary_size):
        super().__init__()
        self.shared = nn.Embedding(vocabulary_size, shape.width)
        nn.init.normal_(self.shared.weight, std=shape.width**-0.5)


class Translator(nn.Module):
    """Its kinds have

    encode(source)               memory of source ids [B, S] and its mask [B, 1, 1, S], true where
                                 there is an item
    decode(memory, mask, inputs) decoder states [B, T, C] under teacher forcing, of inputs()
    begin(memory, mask)          what step() reads: nothing is translated yet
    step(token, seen)            (decoder states [B, 1, C], what is seen) after one more id [B, 1]
    reserve(length)              called before sentences of `length` ids

    Decoding starts with the id `start`. In M2M100's layout logits have no bias.
    """

    def __init__(self, shape, vocabulary_size, pad, start, has_bias=True):
        super().__init__()
        self.shape, self.pad, self.start = shape, pad, start
        self.model = Core(shape, vocabulary_size)
        bias = torch.zeros(1, vocabulary_size)
        if has_bias:
            self.final_logits_bias = nn.Parameter(bias)
        else:
            self.register_buffer("final_logits_bias", bias, persistent=False)
        self.clear_pad()

    @torch.no_grad()
    def clear_pad(self):
        """The pad embedding is zero by definition; as it is tied to the output, steps move it."""
        self.model.shared.weight[self.pad].zero_()

    def fuse(self):
        """Has PyTorch compile what it can of a training pass; worth its minute on a GPU."""

    def drop(self, x):
        return dropout(x, self.shape.dropout) if self.training else x

    def inputs(self, target):
        """What the decoder sees before each of the target ids [B, T]."""
        return F.pad(target, (1, -1), value=self.start)

    def output(self):
        """The matrix [V, C] and the bias [V] that make logits of decoder states."""
        return self.model.shared.weight, self.final_logits_bias[0]

    def logits(self, states):
        return F.linear(states, *self.output())

    def forward(self, source, target):
        """Logits [B, T, V] of the target ids [B, T], which end with the end id and pads."""
        return self.logits(self.decode(*self.encode(source), self.inputs(target)))
