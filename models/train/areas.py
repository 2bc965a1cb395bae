"""Attention over areas one by one: keys, values and weights that are not linear in the items.

An area is named by its last item: all areas of one width are a *plane* of L entries, whose first
ones are void because their areas would begin before the memory. So an item that is appended to a
memory adds one entry to each plane and changes none.

Keys of several features (Eq. 9) are fc2(h), h = relu(fc1([mean, std, size embeddings])). fc1's part
for the mean is applied to the items, whose images are then averaged: L products for A * L areas.
fc2 is applied to the query, q·(W2 h + b2) = (W2ᵀ q)·h + q·b2, so that areas keep h; and the softmax
does not see q·b2, which is the same for all areas.

Letters: B batch, H heads, S queries, A largest width, L memory length, d head width.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .area import attend, item_weights
from .dropout import dropout as drop
from .layers import embedding, linear

EPSILON = 1e-6  # under the root of the standard deviation, as in the authors' code


def shift(x, distance, dim):
    """x[i - distance] at i along `dim`, -1 or -2; zero (false) where there is none."""
    return F.pad(x, (0, 0) * (-1 - dim) + (distance, -distance))


def windows(x, width, join, dim):
    """join(...) of the w items that end at each place along `dim`, for w = 1 ... width.

    The planes are stacked before `dim`. Void entries hold something finite.
    """
    planes = [x]
    while len(planes) < width:
        planes.append(join(shift(planes[-1], 1, dim), x))
    return torch.stack(planes, dim - 1)


def counts(width, dim, like):
    """How many items the areas of each plane have, shaped to divide planes."""
    return torch.arange(1, width + 1, device=like.device).view(-1, *[1] * -dim)


def means(x, width, dim):
    """The mean of each such window."""
    return windows(x, width, torch.add, dim) / counts(width, dim, x)


def moments(key, width):
    """Mean and standard deviation of all areas' keys, sqrt(|E[k²] - E[k]²| + EPSILON)."""
    key = key.to(torch.promote_types(key.dtype, torch.float32))  # the difference needs the digits
    mean, square = means(torch.cat([key, key.square()], -1), width, -2).chunk(2, -1)
    return mean, ((square - mean.square()).abs() + EPSILON).sqrt()


def cover(weights):
    """Coverage [..., L] of the items from the weights [..., A, L] of the areas.

    Item i - t lies in the areas up to i that are wider than t: sum those, then shift by t.
    """
    areas = weights.unbind(-2)[: weights.shape[-1]]  # none is wider than the memory
    longer = areas[-1]
    items = shift(longer, 1 - len(areas), -1)
    for t in range(len(areas) - 2, -1, -1):
        longer = longer + areas[t]
        items = items + shift(longer, -t, -1)
    return items


def keep_top(weights, k):
    """Only weights that are at least the k-th, summing to 1 again; weights [..., areas]."""
    least = weights.topk(min(k, weights.shape[-1])).values[..., -1:]
    kept = weights.masked_fill(weights < least, 0.0)
    return kept / kept.sum(-1, keepdim=True)


class Areas(nn.Module):
    """The areas of one attention's memory. Heads share the parameters, if keys need any."""

    def __init__(self, rule, depth):
        super().__init__()
        self.rule, self.depth = rule, depth
        if rule.combines:
            half = depth // 2
            self.height_embedding = embedding(1, half)  # a sentence is a grid of one row
            self.width_embedding = embedding(rule.width, half)
            features = {"concat": 2 * depth, "sum": 0, "sample_sum": 0}.get(rule.key, depth)
            self.fc1 = linear(features + 2 * half, depth)
            self.fc2 = linear(depth, depth)

    # ---- The memory ----

    def memory(self, key, value):
        """What is attended to, from the items' key and value [B, H, L, d].

        Planes [B, H, A, L, d], or the items where areas follow from those linearly.
        """
        if self.rule.value == "max":
            value = windows(value, self.rule.width, torch.maximum, -2)
        return self.keys(key), value

    def step(self, cache, key, value):
        """(memory, cache) after one more item [B, H, 1, d]; `cache` None: after the first.

        The areas that end with it need its last few neighbours only.
        """
        if cache is None:
            memory = self.memory(key, value)
            return memory, (memory, (key, value))
        past, recent = cache
        recent = [torch.cat([old, new], -2)[..., -self.rule.width :, :]
                  for old, new in zip(recent, (key, value))]
        memory = [torch.cat([old, new[..., -1:, :]], -2)
                  for old, new in zip(past, self.memory(*recent))]
        return memory, (memory, recent)

    @property
    def draws(self):
        """Whether means are drawn anew, as far off as the items spread: in training only."""
        return self.training and self.rule.key.startswith("sample")

    def keys(self, key):
        if self.rule.combines:
            return self.hidden(key)
        if self.rule.key == "max":
            return windows(key, self.rule.width, torch.maximum, -2)
        if self.draws:
            mean, deviation = moments(key, self.rule.width)
            return mean + deviation * torch.randn_like(deviation)
        return key

    def hidden(self, key):
        """What fc2 makes keys of, [B, H, A, L, d]."""
        mode, width = self.rule.key, self.rule.width
        base = self.fc1.weight[:, : self.depth]
        if mode == "max_concat":
            features = F.linear(windows(key, width, torch.maximum, -2), base)
        else:
            features = means(F.linear(key, base), width, -2)
        if mode in ("concat", "sum") or self.draws:
            _, deviation = moments(key, width)
            if self.draws:
                deviation = deviation * torch.randn_like(deviation)
            own = self.fc1.weight[:, self.depth : 2 * self.depth] if mode == "concat" else base
            features = features + F.linear(deviation, own)
        return F.relu(features + self.of_sizes())

    def of_sizes(self):
        """fc1's part of the embeddings, and its bias: [A, 1, d]."""
        width = self.width_embedding.weight
        height = self.height_embedding.weight.expand(len(width), -1)
        sizes = torch.cat([height, width], -1)
        return F.linear(sizes, self.fc1.weight[:, -sizes.shape[1] :], self.fc1.bias)[:, None]

    # ---- Weights and output ----

    def attend(self, query, memory, mask, dropout=0.0):
        """Attention of query [B, H, S, d]; `mask` as for area.attend()."""
        key, value = memory
        rule = self.rule
        if self.is_basic(key):
            return attend(query, key, value, mask, rule.width, dropout,
                          rule.value == "mean", rule.temperature)
        weights = self.row_weights(self.logits(query, key), mask).to(value.dtype)
        return drop(weights, dropout) @ value.flatten(2, -2)

    def value_weights(self, scores, mask):
        """[B, H, S, rows of the value] from a query's products with the rows of the key.

        For callers whose steps share the products (products.py): scores [B, H, S, L], or
        [B, H, S, A, L] of planes; of keys of several features, after fc2.
        """
        if self.is_basic(scores):
            return item_weights(scores, mask, self.rule.width, self.rule.value == "mean")
        logits = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if scores.dim() == 4:
            logits = means(logits, self.rule.width, -1)
        return self.row_weights(logits, mask)

    def is_basic(self, key):
        """Whether coverage follows from the scores of items by area.py; `key` or its scores."""
        rule = self.rule
        return (key.dim() == 4 and rule.value != "max" and rule.weights == "softmax"
                and rule.top_k == 0)

    def row_weights(self, logits, mask):
        """What each row of the value weighs: every area where it has planes, else every item."""
        weights = self.weights(logits, mask)
        if self.rule.value == "max":
            return weights.flatten(-2)
        if self.rule.value == "mean":
            weights = weights / counts(self.rule.width, -1, weights)
        return cover(weights)

    def logits(self, query, key):
        """[B, H, S, A, L], in float32 at least."""
        query = query * (self.depth**-0.5 / self.rule.temperature)
        turned = query @ self.fc2.weight if self.rule.combines else query
        products = turned @ key.flatten(2, -2).mT
        logits = products.to(torch.promote_types(products.dtype, torch.float32))
        if key.dim() == 4:  # scores of the items; the logit of a mean is the mean of the logits
            return means(logits, self.rule.width, -1)
        if self.rule.combines and self.rule.weights == "sigmoid":
            logits = logits + (query @ self.fc2.bias)[..., None]
        return logits.unflatten(-1, key.shape[2:4])

    def weights(self, logits, mask):
        """Of all areas whose items may all be seen; [..., A, L], summing to 1."""
        if mask is None:
            mask = torch.ones(logits.shape[-1], dtype=torch.bool, device=logits.device)
        allowed = windows(mask, self.rule.width, torch.logical_and, -1)
        barred = torch.zeros_like(allowed, dtype=logits.dtype).masked_fill(~allowed, -torch.inf)
        if self.rule.weights == "sigmoid":  # sigmoids over their sum: softmax of their logarithms
            logits = F.logsigmoid(logits)
        weights = (logits + barred).flatten(-2).softmax(-1)
        if self.rule.top_k:
            weights = keep_top(weights, self.rule.top_k)
        return weights.view_as(logits)
