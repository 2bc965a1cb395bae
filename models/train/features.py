"""features.c: what areas.py makes keys of several features of, for areas of a line on a CPU."""

import ctypes

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .native import library

POINTERS = "items", "planes", "gradient", "sizes", "made_items", "made_planes", "made_sizes"
NUMBERS = "rows", "length", "depth"


class Task(ctypes.Structure):
    """As in features.c, which says what shapes the tensors have."""

    _fields_ = [*((name, ctypes.c_void_p) for name in POINTERS),
                *((name, ctypes.c_int64) for name in NUMBERS),
                ("width", ctypes.c_int), ("threads", ctypes.c_int), ("is_bf16", ctypes.c_bool)]


def run(one_pass, like, **tensors):
    """`like` is any of the planes; all tensors are contiguous."""
    width, length, depth = like.shape[-3:]
    pointers = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    task = Task(rows=like.shape[:-3].numel(), length=length, depth=depth, width=width,
                threads=torch.get_num_threads(), is_bf16=like.dtype == torch.bfloat16, **pointers)
    if not one_pass(ctypes.byref(task)):
        raise MemoryError(f"features of {length} items in areas of {width}")


class Deviations(Function):
    """The standard deviations [..., A, L, d] of the areas of keys [..., L, d]."""

    @staticmethod
    def forward(ctx, key, width):
        key = key.contiguous()
        ctx.save_for_backward(key)
        made = key.new_empty(*key.shape[:-2], width, *key.shape[-2:])
        run(library().deviations, made, items=key, made_planes=made)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        (key,) = ctx.saved_tensors
        gradient = gradient.to(key.dtype).contiguous()
        made = torch.empty_like(key)
        run(library().deviations_back, gradient, items=key, gradient=gradient, made_items=made)
        return made, None


class Hidden(Function):
    """relu(means of the items [..., L, d] + planes [..., A, L, d] + sizes [A, 1, d])."""

    @staticmethod
    def forward(ctx, items, planes, sizes):
        items, planes = items.contiguous(), planes.to(items.dtype).contiguous()
        made = torch.empty_like(planes)
        sizes = sizes.float().contiguous()
        run(library().hidden, planes, items=items, planes=planes, sizes=sizes, made_planes=made)
        ctx.save_for_backward(made)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        (hidden,) = ctx.saved_tensors
        gradient = gradient.to(hidden.dtype).contiguous()
        *batch, width, length, depth = hidden.shape
        items, planes = hidden.new_empty(*batch, length, depth), torch.empty_like(hidden)
        sizes = hidden.new_zeros(*batch, width, 1, depth, dtype=torch.float32)
        run(library().hidden_back, hidden, planes=hidden, gradient=gradient, made_items=items,
            made_planes=planes, made_sizes=sizes)
        return items, planes, sizes.sum(tuple(range(len(batch))))
