"""The LSTM sequence-to-sequence model of engine/nn/lstm.c, with names as in ../README.md.

Two stacks of LSTM layers; at each step the decoder's last layer attends to the encoder's outputs,
and what every head makes of that, a_h, is fed to the first layer at the next step. So the decoder
is a loop over target positions: what does not depend on the position is computed before it or,
gradients of weights among it, after it.

Letters: B batch, S source length, T target length, C cells, H heads, A largest area width.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .areas import Areas
from .layers import linear
from .products import Shared
from .translator import Stack, Translator


def cell(gates, past):
    """(hidden, cell state) [B, C] from gates [B, 4C], in PyTorch's order, and the cell state."""
    write, keep, new, show = gates.chunk(4, -1)
    state = keep.sigmoid() * past + write.sigmoid() * new.tanh()
    return show.sigmoid() * state.tanh(), state


class Layer(nn.Module):
    def __init__(self, inputs, cells):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(4 * cells, inputs))
        self.weight_hh = nn.Parameter(torch.empty(4 * cells, cells))
        self.bias = nn.Parameter(torch.zeros(4 * cells))
        nn.init.xavier_uniform_(self.weight_ih)
        nn.init.xavier_uniform_(self.weight_hh)
        with torch.no_grad():
            self.bias[cells : 2 * cells] = 1.0  # keep the cell state at first

    def forward(self, x, last):
        """Hidden states [S, B, C] over x [S, B, C], and the state after each row's item `last`.

        What follows that item changes neither.
        """
        recurrent = Shared(self.weight_hh.T)
        h = c = self.bias.new_zeros(x.shape[1], len(self.bias) // 4)
        hidden, cells = [], []
        for gates in F.linear(x, self.weight_ih, self.bias):
            h, c = cell(gates + recurrent(h), c)
            hidden.append(h)
            cells.append(c)
        hidden, rows = torch.stack(hidden), torch.arange(x.shape[1], device=x.device)
        return hidden, (hidden[last, rows], torch.stack(cells)[last, rows])


class Attention(nn.Module):
    """Luong attention over areas of the encoder's outputs.

    Heads share the query, the values and, where keys combine features, what combines them.
    """

    def __init__(self, shape):
        super().__init__()
        joined = shape.heads * shape.width
        self.heads = shape.heads
        self.k_proj = linear(shape.width, joined, bias=False)
        self.a_proj = linear(2 * shape.width, joined, bias=False)
        self.out_proj = linear(joined, shape.width) if shape.heads > 1 else nn.Identity()
        (rule,) = shape.decoder_cross
        self.area = Areas(rule, shape.width)
        with torch.no_grad():
            self.a_proj.weight[:, shape.width :] /= shape.divisor(rule)

    def memory(self, outputs):
        """Keys [B, H, S, C] and values [B, 1, S, C], or planes of them, of outputs [B, S, C].

        Keys of several features are complete: queries come one by one, so that there is no product
        with fc2 for all of them at once.
        """
        key = self.k_proj(outputs).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key, value = self.area.memory(key, outputs[:, None])
        if self.area.rule.combines:
            key = self.area.fc2(key)
        return key, value


class Decoder(Stack):
    def __init__(self, shape):
        fed = (1 + shape.heads) * shape.width  # the embedding, then a_1 ... a_H
        inputs = [fed] + [shape.width] * (shape.layers - 1)
        super().__init__(Layer(n, shape.width) for n in inputs)
        self.attention = Attention(shape)

    def gates(self, x):
        """The embeddings' part of the first layer's gates, with the bias: [..., 4C]."""
        first = self.layers[0]
        return F.linear(x, first.weight_ih[:, : x.shape[-1]], first.bias)


class Steps:
    """The decoder's steps over one batch, and what they share."""

    def __init__(self, decoder, outputs, mask, drop):
        attention, cells = decoder.attention, outputs.shape[-1]
        self.area, self.heads = attention.area, attention.heads
        self.mask, self.drop = mask, drop
        weights = [layer.weight_ih for layer in decoder.layers]
        weights[0] = weights[0][:, cells:]  # gates() has the rest
        self.recurrent = [Shared(torch.cat([below, layer.weight_hh], 1).T)
                          for below, layer in zip(weights, decoder.layers)]
        self.biases = [layer.bias for layer in decoder.layers[1:]]
        key, value = attention.memory(outputs)
        self.key_rows = key.shape[2:-1]
        self.keys = Shared(key.flatten(1, -2).mT / self.area.rule.temperature)
        self.values = Shared(value.flatten(1, -2))
        self.mix = Shared(attention.a_proj.weight.unflatten(0, (self.heads, -1)).mT)

    def advance(self, gates, states, attended):
        """(states of the layers, a_1 ... a_H [B, H·C]) after one more embedding's gates."""
        after = []
        for recurrent, added, (h, c) in zip(self.recurrent, [gates, *self.biases], states):
            below = self.drop(after[-1][0]) if after else attended
            after.append(cell(recurrent(torch.cat([below, h], 1)) + added, c))
        return after, self.drop(self.attend(after[-1][0]))

    def attend(self, query):
        scores = self.keys(query[:, None]).view(len(query), self.heads, 1, *self.key_rows)
        context = self.values(self.area.value_weights(scores, self.mask).squeeze(2))
        pairs = torch.cat([query.expand(self.heads, -1, -1), context.transpose(0, 1)], -1)
        return self.mix(pairs).transpose(0, 1).flatten(1)


class Lstm(Translator):
    def __init__(self, shape, vocabulary_size, pad, end):
        super().__init__(shape, vocabulary_size, pad, start=pad)
        layers = (Layer(shape.width, shape.width) for _ in range(shape.layers))
        self.model.encoder = Stack(layers)
        self.model.decoder = Decoder(shape)

    def reserve(self, length):
        """Nothing here depends on positions."""

    def embed(self, ids):
        return self.drop(self.model.shared(ids))

    def encode(self, source):
        """The memory is the outputs [B, S, C] and every layer's state at the last real item."""
        mask = source != self.pad
        last = mask.sum(1) - 1
        x, states = self.embed(source.T), []
        for i, layer in enumerate(self.model.encoder.layers):
            x, state = layer(self.drop(x) if i else x, last)
            states.append(state)
        # At every position of the target, attention would copy what is not contiguous.
        return (x.transpose(0, 1).contiguous(), states), mask[:, None, None, :]

    def decode(self, memory, memory_mask, inputs):
        steps, states, attended = self.begin(memory, memory_mask)
        outputs = []
        for gates in self.model.decoder.gates(self.embed(inputs.T)):
            states, attended = steps.advance(gates, states, attended)
            outputs.append(attended)
        return self.model.decoder.attention.out_proj(torch.stack(outputs, 1))

    def begin(self, memory, memory_mask):
        outputs, states = memory
        steps = Steps(self.model.decoder, outputs, memory_mask, self.drop)
        return steps, states, outputs.new_zeros(len(outputs), steps.heads * self.shape.width)

    def step(self, token, seen):
        steps, states, attended = seen
        gates = self.model.decoder.gates(self.embed(token[:, 0]))
        states, attended = steps.advance(gates, states, attended)
        return self.model.decoder.attention.out_proj(attended[:, None]), (steps, states, attended)
