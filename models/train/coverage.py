"""coverage.c: the softmax over areas on a CPU, of scores of items or of the areas one by one."""

import torch
from torch.autograd.function import once_differentiable

from .native import library


def pointer(tensor):
    return None if tensor is None else tensor.data_ptr()


def run(scores, shown, gradient, made, width, means):
    """`scores` and `made` are contiguous, and so is `shown`."""
    if gradient is not None:
        gradient = gradient.to(scores.dtype).contiguous()
    length = scores.shape[-1]
    rows = (scores if shown is None else shown).numel() // length
    if not library().pass_rows(pointer(scores), pointer(shown), pointer(gradient), pointer(made),
                               rows, length, width, means, scores.dtype == torch.bfloat16,
                               torch.get_num_threads()):
        raise MemoryError(f"coverage of {length} items in areas of {width}")
    return made


def coverage(scores, width, means):
    """Of scores [..., L] the coverage [..., L], in the same type."""
    scores = scores.contiguous()
    return run(scores, None, None, torch.empty_like(scores), width, means)


def gradient_of_scores(gradient, scores, width, means):
    """From the gradient of the coverage [..., L]."""
    scores = scores.contiguous()
    return run(scores, None, gradient, torch.empty_like(scores), width, means)


class AreaCoverage(torch.autograd.Function):
    """Logits [..., A, L] of the areas of a line to coverage [..., L], in the same type.

    Of areas all of whose items are shown, `shown` [..., L].
    """

    @staticmethod
    def forward(ctx, logits, shown, means):
        logits, shown = logits.contiguous(), shown.contiguous()
        ctx.save_for_backward(logits, shown)
        ctx.means = means
        made = logits.new_empty(shown.shape)
        return run(logits, shown, None, made, logits.shape[-2], means)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        logits, shown = ctx.saved_tensors
        made = torch.empty_like(logits)
        return run(logits, shown, gradient, made, logits.shape[-2], ctx.means), None, None
