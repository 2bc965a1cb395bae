"""The optimiser against singular values and against torch.optim.Muon, which rounds to bfloat16."""

from copy import deepcopy

import pytest

torch = pytest.importorskip("torch")

from models.train.lstm import Lstm  # noqa: E402
from models.train.model import Transformer  # noqa: E402
from models.train.optimiser import Muon, Optimiser, orthogonalised  # noqa: E402
from models.train.shape import shape_of  # noqa: E402


@pytest.mark.parametrize("rows, columns", [(5, 5), (24, 7), (7, 24), (64, 65)])
def test_orthogonalised_keeps_directions_and_levels_singular_values(rows, columns):
    torch.manual_seed(1)
    matrices = torch.randn(3, rows, columns)
    for before, after in zip(matrices, orthogonalised(matrices)):
        u, _, v = torch.linalg.svd(before, full_matrices=False)
        levels = u.T @ after @ v.T
        # The quintic ends where it may, between 0.6 and 1.25; small values grow from below.
        assert 0.3 < levels.diagonal().min() and levels.diagonal().max() < 1.3
        assert (levels - levels.diagonal().diag()).abs().max() < 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_steps_are_those_of_pytorch(dtype):
    torch.manual_seed(2)
    begin = [torch.randn(shape) for shape in [(12, 40), (12, 40), (30, 8), (16, 16)]]
    ours, theirs = ([torch.nn.Parameter(b.clone()) for b in begin] for _ in range(2))
    optimisers = Muon(ours, dtype), torch.optim.Muon(
        theirs, lr=0.05, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    optimisers[0].param_groups[0]["lr"] = 0.05
    for _ in range(3):
        for a, b in zip(ours, theirs):
            a.grad = b.grad = torch.randn(a.shape)
        for optimiser in optimisers:
            optimiser.step()
    for a, b, start in zip(ours, theirs, begin):
        moved = (b - start).norm()
        assert moved > 0.1
        assert (a - b).norm() < 0.03 * moved


@pytest.mark.parametrize("preset, kind, area", [("tiny", Transformer, "eq9"),
                                                ("lstm-256", Lstm, "eq3")])
def test_embeddings_and_vectors_are_left_to_adam(preset, kind, area):
    model = kind(shape_of(preset, area=area), 50, 49, 0)
    parts = Optimiser(model).parts
    owned = {name: [p for group in part.param_groups for p in group["params"]]
             for name, part in parts.items()}
    assert len(owned["adam"]) + len(owned["muon"]) == len(list(model.parameters()))
    assert not {id(p) for p in owned["adam"]} & {id(p) for p in owned["muon"]}
    assert any(p is model.model.shared.weight for p in owned["adam"])
    assert all(p.ndim == 2 and 1 not in p.shape for p in owned["muon"])


def test_a_run_goes_on_from_saved_state():
    def gradients(parameters, seed):
        torch.manual_seed(seed)
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape)

    torch.manual_seed(3)
    models = [Transformer(shape_of("tiny"), 50, 49, 0) for _ in range(2)]
    first, second = map(Optimiser, models)
    gradients(models[0].parameters(), 4)
    first.step(0.01)
    models[1].load_state_dict(models[0].state_dict())
    second.load_state_dict(deepcopy(first.state_dict()))
    for model, optimiser in zip(models, (first, second)):
        gradients(model.parameters(), 5)
        optimiser.step(0.01)
    for a, b in zip(models[0].parameters(), models[1].parameters()):
        assert torch.equal(a, b)
