"""Area attention (Eq. 3 and 4): one softmax over all areas of up to `width` adjacent items.

An area's key is the mean of its items' keys, its value the sum (or the mean) of their values. Both
are linear, so no area needs a vector of its own: an area's logit is the mean of its items'
ordinary scores, and the output weighs each item's value with its *coverage*, the probability of
all the areas that contain it. Where values are sums, coverage sums to the expected area width, not
to 1. What is not linear is computed in areas.py.

Letters: L memory length, A width, s scores, e exponentials of the area logits.
"""

from functools import cache

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from . import coverage as kernel
from . import native
from .dropout import dropout as drop

# What a masked item scores. Finite, so that differences of masked scores stay numbers, and low
# enough that the mean over an area with one such item is as good as minus infinity.
MASKED = -1e4
# Below this an exponential, beside that of the largest score, is nothing in float32. Not further:
# exponentials that underflow, or their gradients, take a CPU ten times as long.
LOWEST = -60.0


def ahead(x, distance, fill=0.0):
    """x[..., j + distance] at j, with `fill` beyond the end."""
    return F.pad(x, (-distance, distance), value=fill) if distance else x


def behind(x, distance):
    """x[..., j - distance] at j, with zero before the start."""
    return F.pad(x, (distance, -distance)) if distance else x


def exponential(logits):
    """exp(logits), zero where that is nothing."""
    return logits.clamp(min=LOWEST).exp() * (logits > LOWEST)


def area_exponentials(scores, width):
    """e_w(j) of the area of w items that starts at j, for w = 1 ... width.

    The largest item score bounds every mean. Areas that reach past the end take a masked score.
    """
    scores = scores - scores.amax(-1, keepdim=True)
    total = scores
    exponentials = [exponential(total)]
    for w in range(2, width + 1):
        total = total + ahead(scores, w - 1, fill=MASKED)
        exponentials.append(exponential(total / w))
    return exponentials


def spread_over_items(areas):
    """For each item the sum over the areas that contain it; areas[w - 1][..., j] as above.

    Item j + t lies in the areas from j that are wider than t: sum those, then shift by t.
    """
    longer = areas[-1]
    items = behind(longer, len(areas) - 1)
    for t in range(len(areas) - 2, -1, -1):
        longer = longer + areas[t]
        items = items + behind(longer, t)
    return items


def shares(areas, means):
    """What an area gives to each of its items: all, or an equal part where values are means."""
    return [area / w for w, area in enumerate(areas, 1)] if means else areas


def coverage_pass(scores, width, means):
    """(coverage, sum of all areas' exponentials [..., 1])."""
    areas = area_exponentials(scores, width)
    total = sum(e.sum(-1, keepdim=True) for e in areas)
    return spread_over_items(shares(areas, means)) / total, total


def gradient_pass(gradient, scores, total, coverage, width, means):
    """The gradient of the scores from that of the coverage; computes the exponentials anew."""
    areas = area_exponentials(scores, width)
    # As in softmax: an area's probability moves with its gradient less the mean gradient.
    mean = (gradient * coverage).sum(-1, keepdim=True)
    reach = gradient
    logits = []
    for w, e in enumerate(areas, 1):
        if w > 1:
            reach = reach + ahead(gradient, w - 1)
        value = reach / w if means else reach
        logits.append(e * (value - mean) / (w * total))
    return spread_over_items(logits)


@cache
def fuse():
    """Has PyTorch compile both passes into one loop each, for the rest of the process: on GPUs two
    to four times as fast, after some forty seconds."""
    global coverage_pass, gradient_pass
    coverage_pass = torch.compile(coverage_pass, dynamic=True)
    gradient_pass = torch.compile(gradient_pass, dynamic=True)


class Coverage(torch.autograd.Function):
    """Scores [..., L] to coverage [..., L]; keeps what is not recomputed."""

    @staticmethod
    def forward(ctx, scores, width, means):
        ctx.width, ctx.means = width, means
        if native.knows(scores):
            ctx.save_for_backward(scores)
            return kernel.coverage(scores, width, means)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        coverage, total = coverage_pass(scores, width, means)
        ctx.save_for_backward(scores, total, coverage)
        return coverage

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        rest = *ctx.saved_tensors, ctx.width, ctx.means
        one_pass = kernel.gradient_of_scores if len(ctx.saved_tensors) == 1 else gradient_pass
        return one_pass(gradient, *rest), None, None


def coverage(scores, width, means=False):
    """How much each item counts, [..., L], from the scores of the items, [..., L].

    Computed in float32 at least. With `means` an area's value is the mean of its items' values,
    not their sum.
    """
    return Coverage.apply(scores, min(width, scores.shape[-1]), means)


def item_weights(scores, mask, width, means=False):
    """Coverage of the items that `mask` shows; `mask` as below, for scores [B, H, S, L]."""
    if mask is not None:
        scores = scores.masked_fill(~mask, MASKED)
    return coverage(scores, width, means)


def attend(query, key, value, mask, width, dropout=0.0, means=False, temperature=1.0):
    """Attention of query [B, H, S, d] over key, value [B, H, L, d].

    `mask` is true where a query may see an item, broadcastable to [B, H, S, L], or None. Width 1
    is regular attention. Dropout falls on the coverage, as it falls on regular weights.
    """
    if width == 1 and query.is_cuda:  # on CPUs PyTorch's own takes longer
        return F.scaled_dot_product_attention(query, key, value, mask, dropout)
    scores = (query * (query.shape[-1] ** -0.5 / temperature)) @ key.transpose(-1, -2)
    weights = item_weights(scores, mask, width, means).to(value.dtype)
    return drop(weights, dropout) @ value
