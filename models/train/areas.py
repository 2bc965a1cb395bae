"""Attention over areas one by one: keys, values and weights that are not linear in the items.

A memory is a grid, its items in row-major order; most are a line, a grid of one row. An area is
named by its last item, bottom right: all areas of one size are a *plane* of L entries, of which
those are void whose areas would begin outside of the grid. Planes are ordered by height, then by
width. So an item that is appended to a line adds one entry to each plane and changes none.

Keys of several features (Eq. 9) are fc2(h), h = relu(fc1([mean, std, size embeddings])). fc1's part
for the mean is applied to the items, whose images are then averaged: L products for A * L areas.
fc2 is applied to the query, q·(W2 h + b2) = (W2ᵀ q)·h + q·b2, so that areas keep h; and the softmax
does not see q·b2, which is the same for all areas.

Letters: B batch, H heads, S queries, A sizes of areas, L memory length, d head width.
"""

from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional as F

from . import coverage as kernel
from . import native
from .area import attend, item_weights
from .dropout import dropout as drop
from .features import Deviations, Hidden
from .layers import embedding, linear

EPSILON = 1e-6  # under the root of the standard deviation, as in the authors' code


def in_float(x):
    """In float32 at least."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def shift(x, distance, dim):
    """x[i - distance] at i along `dim`, which is negative; zero (false) where there is none."""
    return F.pad(x, (0, 0) * (-1 - dim) + (distance, -distance))


def runs(x, longest, join, dim):
    """join(...) of the n items that end at each place along `dim`, for n = 1 ... longest."""
    found = [x]
    while len(found) < longest:
        found.append(join(shift(found[-1], 1, dim), x))
    return found


def windows(x, rule, join, dim):
    """join(...) of the items of every area; `dim` has the L items.

    The planes are stacked before `dim`. Void entries hold something finite.
    """
    grid = x.unflatten(dim, (rule.memory_height, -1))
    planes = [plane for columns in runs(grid, rule.height, join, dim - 1)
              for plane in runs(columns, rule.width, join, dim)]
    return torch.stack(planes, dim - 2).flatten(dim - 1, dim)


def counts(rule, dim, like):
    """How many items the areas of each plane have, shaped to divide planes."""
    height, width = (torch.arange(1, most + 1, device=like.device)
                     for most in (rule.height, rule.width))
    return torch.outer(height, width).view(-1, *[1] * -dim)


def means(x, rule, dim):
    """The mean of each such window."""
    return windows(x, rule, torch.add, dim) / counts(rule, dim, x)


def moments(key, rule):
    """Mean and standard deviation of all areas' keys, sqrt(|E[k²] - E[k]²| + EPSILON)."""
    key = in_float(key)  # the difference needs the digits
    mean, square = means(torch.cat([key, key.square()], -1), rule, -2).chunk(2, -1)
    return mean, ((square - mean.square()).abs() + EPSILON).sqrt()


def spread(weights, dim):
    """What the items along `dim` get from runs that weigh weights[n - 1], the reverse of runs().

    Item i - t lies in the runs up to i that are longer than t: sum those, then shift by t.
    """
    longer = items = weights[-1]
    for weight in reversed(weights[:-1]):
        longer = longer + weight
        items = longer + shift(items, -1, dim)
    return items


def cover(weights, rule):
    """Coverage [..., L] of the items from the weights [..., A, L] of the areas."""
    grid = weights.unflatten(-1, (rule.memory_height, -1))
    planes = grid.unflatten(-3, (rule.height, rule.width))
    columns = spread(planes.unbind(-3), -1)
    return spread(columns.unbind(-3), -2).flatten(-2)


def shown(mask, logits):
    """`mask`, or one that shows all items where it is None."""
    return logits.new_ones(logits.shape[-1], dtype=torch.bool) if mask is None else mask


def keep_top(weights, k):
    """Only weights that are at least the k-th, summing to 1 again; weights [..., areas]."""
    least = weights.topk(min(k, weights.shape[-1])).values[..., -1:]
    kept = weights.masked_fill(weights < least, 0.0)
    return kept / kept.sum(-1, keepdim=True)


@contextmanager
def drawn_apart():
    """Random numbers of which those that are drawn later know nothing. The model is on the CPU."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(torch.randint(1 << 62, ()).item())
        yield


class Areas(nn.Module):
    """The areas of one attention's memory. Heads share the parameters, if keys need any."""

    def __init__(self, rule, depth):
        super().__init__()
        self.rule, self.depth = rule, depth
        if rule.combines:
            with drawn_apart():  # all else begins as it does with regular attention
                self.add_parameters()

    def add_parameters(self):
        rule, depth = self.rule, self.depth
        half = depth // 2
        self.height_embedding = embedding(rule.height, half)
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
            value = windows(value, self.rule, torch.maximum, -2)
        return self.keys(key), value

    def step(self, cache, key, value):
        """(memory, cache) after one more item [B, H, 1, d] of a line; `cache` None: the first.

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
            return windows(key, self.rule, torch.maximum, -2)
        if self.draws:
            mean, deviation = moments(key, self.rule)
            return mean + deviation * torch.randn_like(deviation)
        return key

    def hidden(self, key):
        """What fc2 makes keys of, [B, H, A, L, d]."""
        mode, sizes = self.rule.key, self.of_sizes()
        base = self.fc1.weight[:, : self.depth]
        if mode == "max_concat":
            return F.relu(F.linear(windows(key, self.rule, torch.maximum, -2), base) + sizes)
        if self.draws or mode in ("concat", "sum"):
            own = self.fc1.weight[:, self.depth : 2 * self.depth] if mode == "concat" else base
            return self.join(F.linear(key, base), F.linear(self.deviations(key), own), sizes)
        return F.relu(means(F.linear(key, base), self.rule, -2) + sizes)

    def deviations(self, key):
        if self.in_c(key):
            deviation = Deviations.apply(key, self.rule.width)
        else:
            _, deviation = moments(key, self.rule)
        return deviation * torch.randn_like(deviation) if self.draws else deviation

    def join(self, items, planes, sizes):
        """What fc1 makes of the means, of the deviations and of the sizes, added up."""
        if self.in_c(items):
            return Hidden.apply(items, planes, sizes)
        return F.relu(means(items, self.rule, -2) + planes + sizes)

    def in_c(self, tensor):
        """Whether C does what is computed of areas one by one; it knows areas of lines only."""
        return self.rule.memory_height == self.rule.height == 1 and native.knows(tensor)

    def of_sizes(self):
        """fc1's part of the embeddings, and its bias: [A, 1, d]."""
        height = self.height_embedding.weight.repeat_interleave(self.rule.width, 0)
        width = self.width_embedding.weight.repeat(self.rule.height, 1)
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
        logits = self.mean_logits(scores) if scores.dim() == 4 else scores
        return self.row_weights(logits, mask)

    def is_basic(self, key):
        """Whether coverage follows from the scores of items by area.py; `key` or its scores."""
        return key.dim() == 4 and self.is_plain

    @property
    def is_plain(self):
        """Whether a softmax over areas of a line weighs values that follow from those of items."""
        rule = self.rule
        return (rule.value != "max" and rule.weights == "softmax" and rule.top_k == 0
                and rule.memory_height == 1)

    def row_weights(self, logits, mask):
        """What each row of the value weighs: every area where it has planes, else every item."""
        if self.is_plain and self.in_c(logits):
            rows = shown(mask, logits).expand(*logits.shape[:-2], -1)
            return kernel.AreaCoverage.apply(logits, rows, self.rule.value == "mean")
        weights = self.weights(logits, mask)
        if self.rule.value == "max":
            return weights.flatten(-2)
        if self.rule.value == "mean":
            weights = weights / counts(self.rule, -1, weights)
        return cover(weights, self.rule)

    def mean_logits(self, scores):
        """Of areas whose keys are means: the means of the scores of their items."""
        return means(in_float(scores), self.rule, -1)

    def logits(self, query, key):
        """[B, H, S, A, L]."""
        query = query * (self.depth**-0.5 / self.rule.temperature)
        turned = query @ self.fc2.weight if self.rule.combines else query
        products = turned @ key.flatten(2, -2).mT
        if key.dim() == 4:
            return self.mean_logits(products)
        if self.rule.combines and self.rule.weights == "sigmoid":
            products = in_float(products) + (query @ self.fc2.bias)[..., None]
        return products.unflatten(-1, key.shape[2:4])

    def weights(self, logits, mask):
        """Of all areas whose items may all be seen; [..., A, L], summing to 1."""
        logits = in_float(logits)
        allowed = windows(shown(mask, logits), self.rule, torch.logical_and, -1)
        barred = torch.zeros_like(allowed, dtype=logits.dtype).masked_fill(~allowed, -torch.inf)
        if self.rule.weights == "sigmoid":  # sigmoids over their sum: softmax of their logarithms
            logits = F.logsigmoid(logits)
        weights = (logits + barred).flatten(-2).softmax(-1)
        if self.rule.top_k:
            weights = keep_top(weights, self.rule.top_k)
        return weights.view_as(logits)
