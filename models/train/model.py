"""The Transformer that Hugging Face's MarianMT computes, with area attention where asked.

Post-norm, sinusoidal positions (sines in the first half of a vector, cosines in the second),
scaled embeddings shared by encoder, decoder and output, ReLU, an output bias. Modules carry
MarianMT's names, so `state_dict()` is an OPUS-MT checkpoint without its position tables.

Letters: B batch, S source length, T target length, C width, H heads, d head width, V vocabulary.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .areas import Areas
from .dropout import dropout
from .layers import linear
from .translator import Stack, Translator


def position_table(length, width, device=None):
    """[length, width]: sines in the first half, cosines in the second."""
    rates = 10000 ** (-torch.arange(0, width, 2, device=device).double() / width)
    angles = torch.arange(length, device=device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


class Attention(nn.Module):
    """Multi-head attention over areas, as an AreaRule says; width 1 is regular attention."""

    def __init__(self, shape, rule):
        super().__init__()
        self.heads, self.dropout = shape.heads, shape.dropout
        self.q_proj = linear(shape.width, shape.width)
        self.k_proj = linear(shape.width, shape.width)
        self.v_proj = linear(shape.width, shape.width)
        self.out_proj = linear(shape.width, shape.width)
        self.area = Areas(rule, shape.width // shape.heads)

    def project(self, x, *layers):
        """x through several layers in one product; each result split into heads [B, H, L, d]."""
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        batch, length, width = x.shape
        joined = F.linear(x, weight, bias).view(batch, length, len(layers), self.heads, -1)
        return joined.permute(2, 0, 3, 1, 4).unbind(0)

    def memory(self, x):
        """Keys and values of what is attended to."""
        return self.area.memory(*self.project(x, self.k_proj, self.v_proj))

    def over(self, query, memory, mask):
        dropout = self.dropout if self.training else 0.0
        heads = self.area.attend(query, memory, mask, dropout)
        return self.out_proj(heads.transpose(1, 2).flatten(2))

    def cross(self, x, memory, mask):
        (query,) = self.project(x, self.q_proj)
        return self.over(query, memory, mask)

    def self(self, x, mask):
        query, key, value = self.project(x, self.q_proj, self.k_proj, self.v_proj)
        return self.over(query, self.area.memory(key, value), mask)

    def step(self, x, cache):
        """One decoding step: x [B, 1, C] joins the cached items and sees all of them."""
        query, key, value = self.project(x, self.q_proj, self.k_proj, self.v_proj)
        memory, cache = self.area.step(cache, key, value)
        return self.over(query, memory, None), cache


class EncoderLayer(nn.Module):
    def __init__(self, shape, rule):
        super().__init__()
        self.dropout = shape.dropout
        self.self_attn = Attention(shape, rule)
        self.self_attn_layer_norm = nn.LayerNorm(shape.width)
        self.fc1 = linear(shape.width, shape.inner)
        self.fc2 = linear(shape.inner, shape.width)
        self.final_layer_norm = nn.LayerNorm(shape.width)

    def drop(self, x):
        return dropout(x, self.dropout) if self.training else x

    def feed_forward(self, x):
        inner = self.drop(F.relu(self.fc1(x)))
        return self.final_layer_norm(x + self.drop(self.fc2(inner)))

    def forward(self, x, mask):
        x = self.self_attn_layer_norm(x + self.drop(self.self_attn.self(x, mask)))
        return self.feed_forward(x)


class DecoderLayer(EncoderLayer):
    def __init__(self, shape, rule, cross_rule):
        super().__init__(shape, rule)
        self.encoder_attn = Attention(shape, cross_rule)
        self.encoder_attn_layer_norm = nn.LayerNorm(shape.width)

    def forward(self, x, causal, memory, memory_mask):
        x = self.self_attn_layer_norm(x + self.drop(self.self_attn.self(x, causal)))
        return self.attend_memory(x, self.encoder_attn.memory(memory), memory_mask)

    def attend_memory(self, x, memory, mask):
        attended = self.encoder_attn.cross(x, memory, mask)
        return self.feed_forward(self.encoder_attn_layer_norm(x + self.drop(attended)))

    def step(self, x, cache, memory, memory_mask):
        attended, cache = self.self_attn.step(x, cache)
        x = self.self_attn_layer_norm(x + attended)
        return self.attend_memory(x, memory, memory_mask), cache


class Transformer(Translator):
    def __init__(self, shape, vocabulary_size, pad):
        super().__init__(shape, vocabulary_size, pad)
        self.model.encoder = Stack(EncoderLayer(shape, rule) for rule in shape.encoder_self)
        self.model.decoder = Stack(
            DecoderLayer(shape, own, cross)
            for own, cross in zip(shape.decoder_self, shape.decoder_cross)
        )
        self.register_buffer("positions", torch.zeros(0, shape.width), persistent=False)

    def reserve(self, length):
        """Makes sure that the position table covers `length` positions."""
        if len(self.positions) < length:
            device = self.model.shared.weight.device
            self.positions = position_table(length, self.shape.width, device)

    def embed(self, ids, start=0):
        scaled = self.model.shared(ids) * math.sqrt(self.shape.width)
        return self.drop(scaled + self.positions[start : start + ids.shape[1]])

    def encode(self, source):
        """Encoder memory [B, S, C] and its mask [B, 1, 1, S], true where there is an item."""
        mask = (source != self.pad)[:, None, None, :]
        x = self.embed(source)
        for layer in self.model.encoder.layers:
            x = layer(x, mask)
        return x, mask

    def decode(self, memory, memory_mask, inputs):
        """Decoder states [B, T, C] under teacher forcing; inputs [B, T] begin with pad."""
        length = inputs.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=inputs.device).tril()
        x = self.embed(inputs)
        for layer in self.model.decoder.layers:
            x = layer(x, causal, memory, memory_mask)
        return x

    def begin(self, memory, memory_mask):
        layers = self.model.decoder.layers
        memories = [layer.encoder_attn.memory(memory) for layer in layers]
        return memories, memory_mask, [None] * len(layers), 0

    def step(self, token, seen):
        memories, mask, caches, t = seen
        x, after = self.embed(token, start=t), []
        for layer, cache, memory in zip(self.model.decoder.layers, caches, memories):
            x, cache = layer.step(x, cache, memory, mask)
            after.append(cache)
        return x, (memories, mask, after, t + 1)
