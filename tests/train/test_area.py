"""Area attention through the scores against the definition: enumerate every area."""

import shutil

import pytest

torch = pytest.importorskip("torch")

from compiler import needs_compiler  # noqa: E402
from models.train import area, coverage as kernel, native  # noqa: E402
from models.train.area import MASKED, attend, coverage  # noqa: E402


def enumerated(query, key, value, allowed, width):
    """The definition (Eq. 3 and 4) word for word, for one query [d] over key, value [L, d]."""
    areas = [range(j, j + w) for w in range(1, width + 1) for j in range(len(key) - w + 1)]
    areas = [list(area) for area in areas if all(allowed[m] for m in area)]
    keys = torch.stack([key[area].mean(0) for area in areas])
    values = torch.stack([value[area].sum(0) for area in areas])
    return torch.softmax(keys @ query / len(query) ** 0.5, 0) @ values


def enumerated_all(query, key, value, mask, width):
    batch, heads, length, _ = query.shape
    mask = mask.expand(batch, heads, length, key.shape[2])
    rows = [enumerated(query[b, h, s], key[b, h], value[b, h], mask[b, h, s], width)
            for b in range(batch) for h in range(heads) for s in range(length)]
    return torch.stack(rows).view(query.shape)


def case(queries, items, seed=0):
    torch.manual_seed(seed)
    shape = (2, 3, queries, 4), (2, 3, items, 4), (2, 3, items, 4)
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shape]


def padding(items, kept):
    mask = torch.ones(2, 1, 1, items, dtype=torch.bool)
    mask[1, ..., kept:] = False
    return mask


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("items", [1, 2, 4, 9])
def test_attention_is_the_enumeration(width, items):
    query, key, value = case(3, items)
    mask = padding(items, max(1, items // 2))
    expected = enumerated_all(query, key, value, mask, width)
    torch.testing.assert_close(attend(query, key, value, mask, width), expected)


@pytest.mark.parametrize("width", [2, 4, 5])
def test_causal_attention_is_the_enumeration(width):
    query, key, value = case(6, 6)
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    expected = enumerated_all(query, key, value, mask, width)
    torch.testing.assert_close(attend(query, key, value, mask, width), expected)


@pytest.mark.parametrize("width", [2, 5])
def test_gradients_are_those_of_the_enumeration(width):
    mask = padding(6, 3)
    results = []
    for attention in (attend, enumerated_all):
        inputs = case(3, 6, seed=1)
        (attention(*inputs, mask, width) ** 2).sum().backward()
        results.append([x.grad for x in inputs])
    for ours, expected in zip(*results):
        torch.testing.assert_close(ours, expected)


def test_gradient_against_differences():
    scores = torch.randn(2, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: coverage(s, 3), scores)


@pytest.mark.parametrize("spread", [1e-3, 10.0, 1e3])
def test_scores_of_any_spread_stay_finite(spread):
    scores = spread * torch.randn(4, 20)
    scores[:, 15:] = MASKED
    weights = coverage(scores, 5)
    assert weights.isfinite().all()
    assert (weights[:, 15:] == 0).all()
    expected_width = weights.sum(-1)
    assert (expected_width >= 1 - 1e-5).all() and (expected_width <= 5 + 1e-5).all()


def test_width_one_is_softmax():
    scores = torch.randn(3, 8, dtype=torch.float64)
    torch.testing.assert_close(coverage(scores, 1), scores.softmax(-1))


@pytest.mark.skipif(not shutil.which("c++"), reason="needs a compiler")
def test_compiled_passes_are_those_written(monkeypatch):
    passes = [area.coverage_pass, area.gradient_pass]
    for name, written in zip(("coverage_pass", "gradient_pass"), passes):
        monkeypatch.setattr(area, name, written)  # put back afterwards
    area.fuse.__wrapped__()
    torch.manual_seed(1)
    for queries, items, width in ((3, 9, 5), (7, 7, 5), (4, 2, 2), (1, 30, 3)):
        scores = torch.randn(2, 3, queries, items)
        scores[..., -1] = MASKED
        gradient = torch.randn_like(scores)
        coverage, total = passes[0](scores, width, False)
        torch.testing.assert_close(area.coverage_pass(scores, width, False), (coverage, total))
        rest = scores, total, coverage, width, False
        torch.testing.assert_close(area.gradient_pass(gradient, *rest), passes[1](gradient, *rest))


ODD_SHAPES = [(3, 9, 5), (7, 7, 5), (4, 2, 2), (1, 30, 3), (5, 1, 1), (2, 17, 17), (3, 131, 4)]


def written(scores, gradient, width, means):
    """What area.py computes: (coverage, gradient of the scores)."""
    coverage, total = area.coverage_pass(scores, width, means)
    return coverage, area.gradient_pass(gradient, scores, total, coverage, width, means)


@needs_compiler
@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("queries,items,width", ODD_SHAPES)
def test_the_kernel_computes_what_is_written(queries, items, width, spread, means):
    torch.manual_seed(items)
    scores = spread * torch.randn(2, 3, queries, items)
    scores[0, ..., items // 2 + 1 :] = MASKED
    gradient = torch.randn_like(scores)
    found = (kernel.coverage(scores, width, means),
             kernel.gradient_of_scores(gradient, scores, width, means))
    torch.testing.assert_close(found, written(scores, gradient, width, means), rtol=1e-5,
                               atol=1e-5)


@needs_compiler
def test_the_kernel_reads_and_writes_bfloat16():
    torch.manual_seed(0)
    scores, gradient = torch.randn(2, 5, 3, 33).bfloat16()
    expected = written(scores.float(), gradient.float(), 5, False)
    scores.requires_grad_()
    found = coverage(scores, 5)
    assert found.dtype == torch.bfloat16
    found.backward(gradient)
    torch.testing.assert_close(found.float(), expected[0], rtol=2**-8, atol=1e-6)
    torch.testing.assert_close(scores.grad.float(), expected[1], rtol=2**-8, atol=1e-6)


@needs_compiler
def test_items_that_are_all_masked_count_alike():
    scores = torch.full((1, 4), MASKED)
    expected = coverage(scores.double(), 3).float()
    torch.testing.assert_close(kernel.coverage(scores, 3, False), expected)


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_no_number_stays_none(dtype):
    for place in range(5):
        scores = torch.zeros(3, 5, dtype=dtype)
        scores[1, place] = torch.nan
        found = kernel.coverage(scores, 2, False)
        assert found[1].isnan().all() and found[[0, 2]].isfinite().all()


def test_a_compiler_that_fails_is_done_without(monkeypatch, tmp_path, capsys):
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho no libgomp here >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(native, "compiler", lambda: str(broken))
    assert native.library.__wrapped__() is None
    assert "no libgomp here" in capsys.readouterr().out
