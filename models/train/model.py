"""The Transformers that Hugging Face's MarianMT and M2M100 compute, with areas where asked.

Both have sinusoidal positions (sines in the first half of a vector, cosines in the second), scaled
embeddings shared by encoder, decoder and output, and ReLU. They differ as a shape's `norm` says:

    post   MarianMT: a layer norm after each sublayer and its residual; the decoder starts with the
           pad id; logits have a bias
    pre    M2M100: a layer norm before each sublayer and after the last layer, as in the paper's
           code; the decoder starts with the end id; positions count from the pad id and have
           slightly other wavelengths

Modules carry the names of either, so `state_dict()` is a checkpoint of it without position tables.

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


def position_table(first, length, width, longest, device=None):
    """[length, width] from position `first` on: sines in the first half, cosines in the second.

    Wavelengths grow geometrically, to 10000 times the first after `longest` of them.
    """
    rates = 10000 ** (-torch.arange(width // 2, device=device).double() / longest)
    angles = torch.arange(first, first + length, device=device)[:, None] * rates
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
        with torch.no_grad():  # else sums over areas begin by drowning what they are added to
            self.out_proj.weight /= shape.divisor(rule)

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
        self.dropout, self.is_pre = shape.dropout, shape.norm == "pre"
        self.self_attn = Attention(shape, rule)
        self.self_attn_layer_norm = nn.LayerNorm(shape.width)
        self.fc1 = linear(shape.width, shape.inner)
        self.fc2 = linear(shape.inner, shape.width)
        self.final_layer_norm = nn.LayerNorm(shape.width)

    def drop(self, x):
        return dropout(x, self.dropout) if self.training else x

    def into(self, norm, x):
        """What a sublayer is given."""
        return norm(x) if self.is_pre else x

    def add(self, norm, x, made):
        """x with what a sublayer made of it."""
        x = x + self.drop(made)
        return x if self.is_pre else norm(x)

    def feed_forward(self, x):
        norm = self.final_layer_norm
        inner = self.drop(F.relu(self.fc1(self.into(norm, x))))
        return self.add(norm, x, self.fc2(inner))

    def attend_self(self, x, mask):
        norm = self.self_attn_layer_norm
        return self.add(norm, x, self.self_attn.self(self.into(norm, x), mask))

    def forward(self, x, mask):
        return self.feed_forward(self.attend_self(x, mask))


class DecoderLayer(EncoderLayer):
    def __init__(self, shape, rule, cross_rule):
        super().__init__(shape, rule)
        self.encoder_attn = Attention(shape, cross_rule)
        self.encoder_attn_layer_norm = nn.LayerNorm(shape.width)

    def forward(self, x, causal, memory, memory_mask):
        x = self.attend_self(x, causal)
        return self.attend_memory(x, self.encoder_attn.memory(memory), memory_mask)

    def attend_memory(self, x, memory, mask):
        norm = self.encoder_attn_layer_norm
        attended = self.encoder_attn.cross(self.into(norm, x), memory, mask)
        return self.feed_forward(self.add(norm, x, attended))

    def step(self, x, cache, memory, memory_mask):
        norm = self.self_attn_layer_norm
        attended, cache = self.self_attn.step(self.into(norm, x), cache)
        return self.attend_memory(self.add(norm, x, attended), memory, memory_mask), cache


class Transformer(Translator):
    def __init__(self, shape, vocabulary_size, pad, end):
        is_pre = shape.norm == "pre"
        super().__init__(shape, vocabulary_size, pad, end if is_pre else pad, has_bias=not is_pre)
        self.model.encoder = Stack(EncoderLayer(shape, rule) for rule in shape.encoder_self)
        self.model.decoder = Stack(
            DecoderLayer(shape, own, cross)
            for own, cross in zip(shape.decoder_self, shape.decoder_cross)
        )
        for side in (self.model.encoder, self.model.decoder):
            side.layer_norm = nn.LayerNorm(shape.width) if is_pre else nn.Identity()
        self.register_buffer("positions", torch.zeros(0, shape.width), persistent=False)

    def fuse(self):
        # Constants stay constants: PyTorch 2.11 could not compile area attention with variables
        # for them.
        torch._dynamo.config.specialize_float = True
        for side in (self.model.encoder, self.model.decoder):
            for layer in side.layers:
                layer.compile(dynamic=True)

    def reserve(self, length):
        """Makes sure that the position table covers `length` positions."""
        if len(self.positions) < length:
            device, width = self.model.shared.weight.device, self.shape.width
            is_pre = self.shape.norm == "pre"
            first, longest = (self.pad + 1, width // 2 - 1) if is_pre else (0, width // 2)
            self.positions = position_table(first, length, width, longest, device)

    def embed(self, ids, start=0):
        scaled = self.model.shared(ids) * math.sqrt(self.shape.width)
        return self.drop(scaled + self.positions[start : start + ids.shape[1]])

    def encode(self, source):
        """Encoder memory [B, S, C] and its mask [B, 1, 1, S], true where there is an item."""
        mask = (source != self.pad)[:, None, None, :]
        x = self.embed(source)
        for layer in self.model.encoder.layers:
            x = layer(x, mask)
        return self.model.encoder.layer_norm(x), mask

    def decode(self, memory, memory_mask, inputs):
        """Decoder states [B, T, C] under teacher forcing."""
        length = inputs.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=inputs.device).tril()
        x = self.embed(inputs)
        for layer in self.model.decoder.layers:
            x = layer(x, causal, memory, memory_mask)
        return self.model.decoder.layer_norm(x)

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
        return self.model.decoder.layer_norm(x), (memories, mask, after, t + 1)
