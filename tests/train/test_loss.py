"""The loss against PyTorch's own, on odd sizes."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from compiler import needs_compiler  # noqa: E402
from models.train import loss, native  # noqa: E402
from models.train.loss import cross_entropy  # noqa: E402

ROWS = loss.ROWS["cpu"]


@pytest.fixture(params=[pytest.param(True, id="native", marks=needs_compiler),
                        pytest.param(False, id="pytorch")], autouse=True)
def passes(request, monkeypatch):
    """Every test with cross_entropy.c and with PyTorch alone."""
    if not request.param:
        monkeypatch.setattr(native, "knows", lambda _: False)
    assert native.knows(torch.zeros(1)) == request.param
    return request.param


def example(rows, width, vocabulary):
    torch.manual_seed(rows)
    states = torch.randn(rows, width, requires_grad=True)
    weight = torch.randn(vocabulary, width, requires_grad=True)
    bias = torch.randn(vocabulary, requires_grad=True)
    return (states, weight, bias), torch.randint(0, vocabulary, (rows,))


def gradients(loss, parts):
    return torch.autograd.grad(loss * 0.7, parts)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows, width, vocabulary",
                         [(1, 3, 2), (7, 5, 11), (ROWS, 4, 9), (2 * ROWS + 3, 6, 33)])
def test_loss_and_gradients_are_those_of_pytorch(rows, width, vocabulary, smoothing):
    parts, target = example(rows, width, vocabulary)
    ours = cross_entropy(*parts, target, smoothing)
    theirs = F.cross_entropy(F.linear(*parts), target, label_smoothing=smoothing, reduction="sum")
    assert torch.allclose(ours, theirs, rtol=1e-5)
    for got, expected in zip(gradients(ours, parts), gradients(theirs, parts)):
        assert torch.allclose(got, expected, rtol=1e-4, atol=1e-5 * rows)


def test_a_hopeless_target_has_a_finite_loss():
    parts, target = example(3, 4, 6)
    with torch.no_grad():
        parts[2][target] -= 1000
    ours = cross_entropy(*parts, target, 0.0)
    theirs = F.cross_entropy(F.linear(*parts), target, reduction="sum")
    assert torch.isfinite(ours) and torch.allclose(ours, theirs)


def test_autocast_multiplies_in_bfloat16_and_keeps_gradients_in_float32():
    parts, target = example(ROWS + 5, 16, 40)
    with torch.autocast("cpu", torch.bfloat16):
        ours = cross_entropy(*parts, target, 0.1)
    exact = cross_entropy(*parts, target, 0.1)
    assert ours.dtype == torch.float32 and ours != exact
    assert torch.allclose(ours, exact, rtol=1e-2)
    for got, expected in zip(gradients(ours, parts), gradients(exact, parts)):
        assert got.dtype == torch.float32
        assert (got - expected).norm() < 0.02 * expected.norm()


@pytest.mark.parametrize("place", [0, 15, 16, 36])
def test_a_logit_that_is_no_number_makes_a_loss_that_is_none(place):
    parts, target = example(3, 4, 37)
    with torch.no_grad():
        parts[2][place] = torch.nan
    assert cross_entropy(*parts, target, 0.1).isnan()


@pytest.mark.parametrize("target", [[0, 7, 1], [0, -1, 1], [0, 1]])
def test_targets_that_are_none_are_an_error(target):
    with pytest.raises((ValueError, RuntimeError)):
        loss.rows_loss(torch.randn(3, 7), torch.tensor(target), 0.1)


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_native_gradients_are_those_of_pytorch(passes, monkeypatch, dtype):
    if not passes:
        pytest.skip("compares both")
    torch.manual_seed(5)
    logits = (torch.randn(37, 1003) * 4).to(dtype)
    target = torch.randint(0, 1003, (37,))
    found = logits.clone()
    summed = loss.native_loss(found, target, 0.1)
    monkeypatch.setattr(native, "knows", lambda _: False)
    expected, gradient = loss.rows_loss(logits, target, 0.1)
    assert torch.allclose(summed, expected, rtol=1e-5)
    tolerance = 2**-8 if dtype == torch.bfloat16 else 1e-5
    assert torch.allclose(found.float(), gradient, rtol=tolerance, atol=1e-6)
