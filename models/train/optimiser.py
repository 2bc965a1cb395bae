"""The optimiser: Muon for the matrices of layers, Adam for embeddings, norms and biases.

Muon (Jordan et al. 2024) moves a matrix by its averaged gradient made orthogonal, so that every
direction moves alike and not only the few that dominate the gradient; a step is scaled to be as
long as Adam's (Liu et al. 2025, "Muon is Scalable for LLM Training"), so both share one learning
rate. torch.optim.Muon is not used: it multiplies in bfloat16 always, which many CPUs only emulate,
and one matrix at a time.
"""

from collections import defaultdict

import torch
from torch import nn

MOMENTUM = 0.95
# Of the quintic that draws singular values towards 1, and how often it is applied.
COEFFICIENTS = 3.4445, -4.7750, 2.0315
ITERATIONS = 5


def orthogonalised(matrices):
    """Of [N, rows, columns] each matrix U S V^T becomes about U V^T (Newton-Schulz)."""
    a, b, c = COEFFICIENTS
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


class Muon(torch.optim.Optimizer):
    """For matrices only; those of one shape are stepped together, with products in `dtype`."""

    def __init__(self, matrices, dtype):
        super().__init__(matrices, {"lr": 0.0})
        self.dtype = dtype

    def direction(self, matrix):
        """The gradient averaged over steps, with Nesterov's look ahead."""
        state = self.state[matrix]
        if not state:
            state["average"] = torch.zeros_like(matrix)
        state["average"].lerp_(matrix.grad, 1 - MOMENTUM)
        return matrix.grad.lerp(state["average"], MOMENTUM)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            alike = defaultdict(list)
            for matrix in group["params"]:
                alike[matrix.shape].append(matrix)
            for shape, matrices in alike.items():
                directions = torch.stack([self.direction(m) for m in matrices])
                updates = orthogonalised(directions.to(self.dtype)).to(directions.dtype)
                length = 0.2 * max(shape) ** 0.5  # Adam's elements are about 0.2 on average
                torch._foreach_add_(matrices, list(updates), alpha=-group["lr"] * length)


def is_matrix(parameter):
    return parameter.ndim == 2 and min(parameter.shape) > 1


class Optimiser:
    """Both, as one. With `bf16`, Muon multiplies in bfloat16: what it makes is inexact anyway."""

    def __init__(self, model, bf16=False):
        tables = {m.weight for m in model.modules() if isinstance(m, nn.Embedding)}
        matrices = [p for p in model.parameters() if is_matrix(p) and p not in tables]
        others = [p for p in model.parameters() if not is_matrix(p) or p in tables]
        adam = torch.optim.Adam(others, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
        muon = Muon(matrices, torch.bfloat16 if bf16 else torch.float32)
        self.parts = {"adam": adam, "muon": muon}

    def step(self, rate):
        """Moves the parameters and forgets their gradients."""
        for part in self.parts.values():
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
            part.zero_grad()

    def state_dict(self):
        return {name: part.state_dict() for name, part in self.parts.items()}

    def load_state_dict(self, state):
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
