"""A tensor of the source: what it is, and how to read its items when they are needed."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# What Acre reads. numpy has no bfloat16: its items are moved as 16 bits that nothing looks into.
ITEM_TYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}


@dataclass(frozen=True)
class Tensor:
    dtype: str  # as safetensors names it; not all of ITEM_TYPES, a source may hold others too
    shape: tuple[int, ...]
    load: Callable[[], np.ndarray]  # reads the items; may raise ConvertError

    @property
    def size_bytes(self):
        return math.prod(self.shape) * ITEM_TYPES[self.dtype].itemsize
