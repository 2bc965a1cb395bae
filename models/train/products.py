"""Products of a loop's steps with one matrix, whose gradient is computed in one product.

Autograd makes a gradient of the matrix at every step and adds it to those of the other steps. Where
a step has few rows, as in a recurrent network or in attention to one target position at a time,
that moves more memory than the products do: a fifth of a training step of lstm-256 on sentences of
150 bytes. Here the steps keep their inputs and the gradients of their outputs, and when all are
through, one product makes the gradient.
"""

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Product(Function):
    @staticmethod
    def forward(ctx, x, matrix, kept):
        ctx.kept = kept
        ctx.save_for_backward(x, matrix)
        return x @ matrix

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        x, matrix = ctx.saved_tensors
        ctx.kept.append((x, gradient))
        return gradient @ matrix.mT, None, None


class Matrix(Function):
    """The matrix itself. Autograd comes back here after all products with it."""

    @staticmethod
    def forward(ctx, matrix, kept):
        ctx.kept = kept
        ctx.set_materialize_grads(False)
        return matrix.view_as(matrix)

    @staticmethod
    @once_differentiable
    def backward(ctx, _):
        if not ctx.kept:
            return None, None
        x, gradient = (torch.cat(steps, -2) for steps in zip(*ctx.kept))
        ctx.kept.clear()
        return x.mT @ gradient, None


class Shared:
    """A matrix [..., N, M] that the steps of a loop share; called with x [..., R, N]."""

    def __init__(self, matrix):
        device = matrix.device.type
        if torch.is_autocast_enabled(device):  # which would convert it at every step
            matrix = matrix.to(torch.get_autocast_dtype(device))
        self.kept = []
        self.matrix = Matrix.apply(matrix, self.kept)

    def __call__(self, x):
        return Product.apply(x.to(self.matrix.dtype), self.matrix, self.kept)
