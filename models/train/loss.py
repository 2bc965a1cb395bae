"""Label-smoothed cross-entropy of a vocabulary, without the logits of a whole batch in memory.

The logits of 4,000 target ids over 8,000 pieces are 128 MB, and autograd keeps several copies of
them. Here they exist for some rows at a time, on a CPU so few that they stay in its cache, and
become gradients at once.

Letters: N target ids, C width, V vocabulary, s label smoothing.
"""

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from . import native

ROWS = {"cpu": 512, "cuda": 16384}


def rows_loss(logits, target, smoothing):
    """(summed loss, gradient of the logits [rows, V], in their place or float) of a few rows, whose
    probabilities p are to become q: 1 - s + s/V for the target, s/V for all else."""
    if target.shape != logits.shape[:1] or target.dtype != torch.int64:
        raise ValueError(f"expected {len(logits)} targets of int64, found {tuple(target.shape)} of "
                         f"{target.dtype}")
    if native.knows(logits):
        return native_loss(logits, target, smoothing), logits
    logits = logits.float()
    probabilities = logits.softmax(-1)  # exp() alone is slow where it comes to nothing
    rest, hits = smoothing / logits.shape[1], target[:, None]
    sought = (1 - smoothing) * logits.gather(1, hits).sum() + rest * logits.sum()
    # The largest probability is no less than 1/V, so that its logarithm is a number.
    normalisers = logits.amax(-1) - probabilities.amax(-1).log()
    gradient = probabilities.sub_(rest)  # p - q
    gradient.scatter_add_(1, hits, torch.full_like(hits, smoothing - 1, dtype=gradient.dtype))
    return normalisers.sum() - sought, gradient


def native_loss(logits, target, smoothing):
    """The summed loss by cross_entropy.c; the logits become their gradient."""
    if len(target) and not 0 <= target.min() <= target.max() < logits.shape[1]:
        raise ValueError(f"expected targets of 0 to {logits.shape[1] - 1}, found {target.min()} to "
                         f"{target.max()}")
    target = target.contiguous()
    losses = logits.new_empty(len(logits), dtype=torch.float)
    if not native.library().cross_entropy_rows(
            logits.data_ptr(), target.data_ptr(), losses.data_ptr(), *logits.shape, smoothing,
            logits.dtype == torch.bfloat16, torch.get_num_threads()):
        raise MemoryError(f"loss of {logits.shape[1]} logits")
    return losses.sum()


class CrossEntropy(Function):
    @staticmethod
    def forward(ctx, states, weight, bias, target, smoothing):
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        parts = [t.detach().to(dtype or t.dtype) for t in (states, weight, bias)]
        states_gradient = torch.empty_like(states)
        weight_gradient, bias_gradient = torch.zeros_like(weight), torch.zeros_like(bias)
        total = torch.zeros((), device=states.device)
        count = ROWS[device]
        for first in range(0, len(states), count):
            rows = slice(first, first + count)
            logits = F.linear(parts[0][rows], *parts[1:])
            loss, gradient = rows_loss(logits, target[rows], smoothing)
            total += loss
            gradient = gradient.to(parts[0].dtype)
            if ctx.needs_input_grad[2]:  # a sum is ten times as slow
                bias_gradient += (gradient.new_ones(1, len(gradient)) @ gradient)[0]
            states_gradient[rows] = gradient @ parts[1]
            weight_gradient += gradient.T @ parts[0][rows]
        ctx.save_for_backward(states_gradient, weight_gradient, bias_gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, scale):
        return *(gradient * scale for gradient in ctx.saved_tensors), None, None


def cross_entropy(states, weight, bias, target, smoothing):
    """Summed over the ids of target [N]: states [N, C] times weight [V, C] plus bias [V] are the
    logits. Products are in autocast's type, where it is on."""
    return CrossEntropy.apply(states, weight, bias, target, smoothing)
