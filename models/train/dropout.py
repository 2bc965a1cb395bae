"""Dropout that does not cost more than the layer before it.

PyTorch's own draws one number per element, on a CPU one after the other: a third of a training
step. Eight bits per element are enough: the rate is rounded to 1/256 and the scale is exact.
"""

import torch
from torch.nn import functional as F

LOWEST = torch.iinfo(torch.int64).min


def random_bytes(count):
    words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(LOWEST, None)
    return words.view(torch.uint8)[:count]


def dropout(x, rate):
    """x with about `rate` of its elements zeroed and the others scaled up."""
    if rate == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, rate)
    cut = round(rate * 256)
    kept = random_bytes(x.numel()).view(x.shape) >= cut
    return x * kept.to(x.dtype).mul_(256 / (256 - cut))
