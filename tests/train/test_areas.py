"""Areas one by one against the definition, against the authors' code, and step by step."""

import itertools
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors")

from compiler import needs_compiler  # noqa: E402
from models.train import areas as module, coverage as kernel, native  # noqa: E402
from models.train.areas import EPSILON, Areas, counts, cover, means, moments, windows  # noqa: E402
from models.train.features import Deviations, Hidden  # noqa: E402
from models.train.rules import CHOICES, AreaRule  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[1] / "golden/area-attention"
DEPTH = 4
RULES = [
    *(AreaRule(3, key, value, weights)
      for key, value, weights in itertools.product(*CHOICES.values())),
    AreaRule(1, weights="sigmoid"),
    AreaRule(4, temperature=2.5),
    AreaRule(4, value="mean", temperature=0.5),
    AreaRule(3, "concat", temperature=2.5, top_k=4),
    AreaRule(3, "max", "max", "sigmoid", top_k=2),
    AreaRule(3, top_k=1),
    AreaRule(7, "sum", "mean"),
]
GRIDS = [
    *(AreaRule(2, key, value, weights, height=2, memory_height=3)
      for key, value, weights in itertools.product(*CHOICES.values())),
    AreaRule(1, height=3, memory_height=5),
    AreaRule(3, height=1, memory_height=3),
    AreaRule(4, "concat", "mean", height=8, memory_height=3),  # larger than the grid
    AreaRule(2, "max", "max", "sigmoid", top_k=3, height=2, memory_height=5),
    AreaRule(3, temperature=2.5, top_k=4, height=2, memory_height=5),
    AreaRule(2, "sum", height=3),  # a line has no higher areas
    AreaRule(2, height=2),
]


def named(rule):
    return "-".join(str(word) for word in (rule.width, rule.key, rule.value, rule.weights,
                                           rule.temperature, rule.top_k, rule.height,
                                           rule.memory_height))


# ---- The definition ------------------------------------------------------------------------------


def rectangles(rule, items):
    """(height, width, items) of all areas of a grid."""
    columns = items // rule.memory_height
    for height, width in itertools.product(range(1, rule.height + 1), range(1, rule.width + 1)):
        for top, left in itertools.product(range(rule.memory_height - height + 1),
                                           range(columns - width + 1)):
            yield height, width, [y * columns + x for y in range(top, top + height)
                                  for x in range(left, left + width)]


def combined(rule, parameters, features, height, width):
    """Eq. 9: two dense layers over the features of an area and the embeddings of its size."""
    size = torch.cat([parameters["height_embedding.weight"][height - 1],
                      parameters["width_embedding.weight"][width - 1]])
    inputs = sum(features) + size if rule.key.endswith("sum") else torch.cat([*features, size])
    hidden = parameters["fc1.weight"] @ inputs + parameters["fc1.bias"]
    return parameters["fc2.weight"] @ hidden.relu() + parameters["fc2.bias"]


def area_key(rule, parameters, items, noise, size):
    mean = items.mean(0)
    deviation = ((items.square().mean(0) - mean.square()).abs() + 1e-6).sqrt()
    largest = items.amax(0)
    if rule.key.startswith("sample"):
        mean = mean + deviation * noise
    if not rule.combines:
        return largest if rule.key == "max" else mean
    features = {"concat": [mean, deviation], "sum": [mean, deviation], "max_concat": [largest]}
    return combined(rule, parameters, features.get(rule.key, [mean]), *size)


def area_value(rule, items):
    return {"sum": items.sum(0), "mean": items.mean(0), "max": items.amax(0)}[rule.value]


def area_weights(rule, logits):
    weights = logits.sigmoid() if rule.weights == "sigmoid" else logits.softmax(0)
    if rule.top_k:
        least = weights.sort(descending=True).values[: rule.top_k][-1]
        weights = weights * (weights >= least)
    return weights / weights.sum()


def enumerated(rule, parameters, query, key, value, allowed, noise):
    """One query [d] over key, value [L, d]: every area, one after the other."""
    areas = [area for area in rectangles(rule, len(key)) if all(allowed[m] for m in area[2])]
    keys = torch.stack([
        area_key(rule, parameters, key[items], noise[(h - 1) * rule.width + w - 1, items[-1]],
                 (h, w)) for h, w, items in areas])
    values = torch.stack([area_value(rule, value[items]) for _, _, items in areas])
    logits = keys @ query / len(query) ** 0.5 / rule.temperature
    return area_weights(rule, logits) @ values


def enumerated_all(areas, query, key, value, mask, noise):
    batch, heads, length, _ = query.shape
    mask = mask.expand(batch, heads, length, key.shape[2])
    parameters = dict(areas.named_parameters())
    rows = [enumerated(areas.rule, parameters, query[b, h, s], key[b, h], value[b, h],
                       mask[b, h, s], noise[b, h])
            for b in range(batch) for h in range(heads) for s in range(length)]
    return torch.stack(rows).view(query.shape)


# ---- Against the definition ----------------------------------------------------------------------


def case(rule, queries=3, items=6):
    """(areas, query, key, value), all random, in double precision."""
    torch.manual_seed(5)
    areas = Areas(rule, DEPTH).double()
    for parameter in areas.parameters():
        torch.nn.init.normal_(parameter)
    shapes = (2, 2, queries, DEPTH), *[(2, 2, items, DEPTH)] * 2
    return areas, *(torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes)


def padding(items, kept):
    mask = torch.ones(2, 1, 1, items, dtype=torch.bool)
    mask[1, ..., kept:] = False
    return mask


def gradients(areas, inputs, output):
    """Of inputs and parameters; a parameter that the output does not depend on has none."""
    output.square().sum().backward()
    leaves = [*inputs, *areas.parameters()]
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]


def check(rule, mask, training=False, noise=None):
    """Output and gradients are the enumeration's."""
    sizes = {"queries": mask.shape[-2] if mask.dim() == 2 else 3, "items": mask.shape[-1]}
    if noise is None:
        noise = torch.zeros(2, 2, rule.height * rule.width, sizes["items"], DEPTH).double()
    areas, *inputs = case(rule, **sizes)
    areas.train(training)
    found = areas.attend(inputs[0], areas.memory(*inputs[1:]), mask)
    found_gradients = gradients(areas, inputs, found)
    areas, *inputs = case(rule, **sizes)
    expected = enumerated_all(areas, *inputs, mask, noise)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(found_gradients, gradients(areas, inputs, expected)):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_padded_memory_is_the_enumeration(rule):
    check(rule, padding(6, 4))


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_causal_memory_is_the_enumeration(rule):
    check(rule, torch.ones(6, 6, dtype=torch.bool).tril())


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("rule", GRIDS, ids=named)
def test_grid_is_the_enumeration(rule, columns):
    check(rule, torch.ones(2, rule.memory_height * columns, dtype=torch.bool))


def test_grid_has_whole_rows():
    areas, query, key, value = case(AreaRule(2, height=2, memory_height=3), items=7)
    with pytest.raises(RuntimeError, match="unflatten"):
        areas.attend(query, areas.memory(key, value), None)


@pytest.mark.parametrize("key", ["sample", "sample_concat", "sample_sum"])
@pytest.mark.parametrize("grid", [{}, {"height": 2, "memory_height": 2}], ids=str)
def test_sampled_keys_of_training_are_the_enumeration(key, grid, monkeypatch):
    rule = AreaRule(3, key, **grid)
    noise = torch.randn(2, 2, rule.height * rule.width, 6, DEPTH, dtype=torch.float64)
    monkeypatch.setattr(module.torch, "randn_like", lambda x: noise)
    check(rule, torch.ones(3, 6, dtype=torch.bool) if grid else padding(6, 4), training=True,
          noise=noise)


@pytest.mark.parametrize("items", [1, 2])
@pytest.mark.parametrize("key", ["mean", "max", "concat"])
def test_memory_shorter_than_the_widest_area(key, items):
    areas, *inputs = case(AreaRule(5, key, top_k=3), items=items)
    mask = torch.ones(items, dtype=torch.bool)
    noise = torch.zeros(2, 2, 5, items, DEPTH).double()
    found = areas.attend(inputs[0], areas.memory(*inputs[1:]), None)
    torch.testing.assert_close(found, enumerated_all(areas, *inputs, mask, noise))


@torch.no_grad()
@pytest.mark.parametrize("rule", RULES, ids=named)
def test_step_by_step_is_the_causal_pass(rule):
    areas, query, key, value = case(rule, queries=6)
    areas.eval()
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    expected = areas.attend(query, areas.memory(key, value), causal)
    cache = None
    for t in range(6):
        item = slice(t, t + 1)
        memory, cache = areas.step(cache, key[:, :, item], value[:, :, item])
        found = areas.attend(query[:, :, item], memory, None)
        torch.testing.assert_close(found, expected[:, :, item])


def test_sigmoids_far_below_zero_still_sum_to_one():
    areas, query, key, _ = case(AreaRule(2, weights="sigmoid"))
    weights = areas.weights(areas.logits(1e4 * query, key), None)
    torch.testing.assert_close(weights.flatten(-2).sum(-1), torch.ones(2, 2, 3).double())


# ---- Against the authors' code -------------------------------------------------------------------


def golden(path):
    with safetensors.safe_open(path, "pt") as file:
        return json.loads(file.metadata()["acre"]), {n: file.get_tensor(n) for n in file.keys()}


BOUND = 1e-5
# Of a single item the deviation is the root of EPSILON and, in the authors' code, of what rounding
# leaves of 0 in float32: from 1e-3 to 2e-3.
ROUNDED = 1e-4
PATHS = sorted(GOLDEN.glob("*.safetensors"))


def golden_rule(facts, **modes):
    return AreaRule(facts["max_area_width"], height=facts["max_area_height"],
                    memory_height=facts["memory_height"], **modes)


def golden_areas(facts, tensors):
    depth = tensors["query"].shape[-1]
    rule = golden_rule(facts, key=facts["key_mode"], value=facts["value_mode"],
                       temperature=facts["area_temperature"], top_k=facts["top_k_areas"])
    areas = Areas(rule, depth).eval()
    names = {"height_embedding.weight": "area_height_emb", "width_embedding.weight":
             "area_width_emb", "fc1.weight": "dense.kernel", "fc1.bias": "dense.bias",
             "fc2.weight": "dense_1.kernel", "fc2.bias": "dense_1.bias"}
    given = {ours: tensors[f"param.{theirs}"] for ours, theirs in names.items()
             if rule.combines}
    areas.load_state_dict({name: w.T if "fc" in name and w.dim() == 2 else w
                           for name, w in given.items()})
    return areas, tensors["query"] * (facts["query_scale"] * depth**0.5)


def by_first_item(planes, rule):
    """Areas [..., areas, d] in the authors' order, without void entries, from [..., A, L, d]."""
    grids = planes.unflatten(-2, (rule.memory_height, -1)).unbind(-4)
    sizes = itertools.product(range(rule.height), range(rule.width))
    return torch.cat([grid[..., h:, w:, :].flatten(-3, -2)
                      for grid, (h, w) in zip(grids, sizes, strict=True)], -2)


@torch.no_grad()
@pytest.mark.parametrize("path", [p for p in PATHS if "features" not in p.name],
                         ids=lambda path: path.stem)
def test_attention_is_the_authors(path):
    facts, tensors = golden(path)
    areas, query = golden_areas(facts, tensors)
    mask = tensors["bias"] == 0 if "bias" in tensors else None
    memory = areas.memory(tensors["key"], tensors["value"])
    bound = ROUNDED if facts["key_mode"] in ("concat", "sum") else BOUND
    output = areas.attend(query, memory, mask)
    torch.testing.assert_close(output, tensors["output"], rtol=0, atol=bound)
    if facts["max_area_width"] <= tensors["key"].shape[2]:
        weights = areas.weights(areas.logits(query, memory[0]), mask)
        found = by_first_item(weights[..., None], areas.rule)[..., 0]
        torch.testing.assert_close(found, tensors["weights"], rtol=0, atol=bound)


@torch.no_grad()
@pytest.mark.parametrize("path", [p for p in PATHS if "features" in p.name],
                         ids=lambda path: path.stem)
def test_features_are_the_authors(path):
    facts, tensors = golden(path)
    x = tensors["features"][:, None]  # one head
    rule = golden_rule(facts)
    mean, deviation = moments(x, rule)
    found = {"mean": mean, "std": deviation, "max": windows(x, rule, torch.maximum, -2),
             "sum": windows(x, rule, torch.add, -2)}
    for name, planes in found.items():
        singles, bound = (x.shape[-2], ROUNDED) if name == "std" else (0, BOUND)
        features = by_first_item(planes[:, 0], rule)[:, singles:]
        torch.testing.assert_close(features, tensors[name][:, singles:], rtol=0, atol=bound)


# ---- In C ----------------------------------------------------------------------------------------

# Batch of heads, queries, items, largest width, depth.
ODD_SHAPES = [((2, 3), 3, 9, 5, 4), ((1, 1), 1, 1, 1, 1), ((2, 1), 4, 2, 5, 7),
              ((1, 2), 7, 7, 7, 33), ((3, 2), 2, 131, 3, 16), ((1, 4), 33, 33, 4, 21)]


def results(function, inputs, gradient):
    """The outcome, and the gradients of the inputs."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    made = function(*inputs)
    made.backward(gradient.to(made.dtype))
    return [x.detach().double() for x in (made, *(x.grad for x in inputs))]


def check_in_c(in_c, written, inputs, gradient):
    """The passes in C compute what is written for PyTorch, as exactly as each type allows."""
    for dtype, bounds in ((torch.float32, {"rtol": 1e-4, "atol": 1e-5}),
                          (torch.bfloat16, {"rtol": 2**-8, "atol": 1e-6})):
        inputs, gradient = [x.to(dtype) for x in inputs], gradient.to(dtype)
        expected = results(written, [x.double() for x in inputs], gradient)
        torch.testing.assert_close(results(in_c, inputs, gradient), expected, **bounds)


@needs_compiler
@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0, 1e5])
@pytest.mark.parametrize("batch,queries,items,width,_", ODD_SHAPES)
def test_coverage_in_c_is_what_is_written(batch, queries, items, width, _, spread, means):
    torch.manual_seed(items)
    areas = Areas(AreaRule(width, value="mean" if means else "sum"), 1)
    mask = torch.rand(*batch, queries, items) < 0.7
    mask[..., torch.arange(queries), torch.arange(queries) % items] = True
    logits = spread * torch.randn(*batch, queries, width, items)

    def written(logits):
        weights = areas.weights(logits, mask)
        return cover(weights / counts(areas.rule, -1, weights) if means else weights, areas.rule)

    check_in_c(lambda logits: kernel.AreaCoverage.apply(logits, mask, means), written, [logits],
               torch.randn(mask.shape))


@needs_compiler
@pytest.mark.parametrize("batch,_,items,width,depth", ODD_SHAPES)
def test_deviations_in_c_are_what_is_written(batch, _, items, width, depth):
    torch.manual_seed(items)
    key = torch.randn(*batch, items, depth)
    check_in_c(lambda key: Deviations.apply(key, width),
               lambda key: moments(key, AreaRule(width))[1], [key],
               torch.randn(*batch, width, items, depth))


@needs_compiler
@pytest.mark.parametrize("batch,_,items,width,depth", ODD_SHAPES)
def test_hidden_features_in_c_are_what_is_written(batch, _, items, width, depth):
    torch.manual_seed(items)
    shape = *batch, width, items, depth
    inputs = torch.randn(*batch, items, depth), torch.randn(shape), torch.randn(width, 1, depth)

    def written(items, planes, sizes):
        return torch.relu(means(items, AreaRule(width), -2) + planes + sizes)

    check_in_c(Hidden.apply, written, inputs, torch.randn(shape))


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_no_number_stays_none(dtype):
    items = torch.zeros(1, 1, 6, 3, dtype=dtype)
    items[..., 2, 1] = torch.nan
    planes = Deviations.apply(items, 2)
    assert planes[0, 0, 0, 2, 1].isnan() and planes[0, 0, 1, 3, 1].isnan()
    hidden = Hidden.apply(items, torch.zeros_like(planes), torch.zeros(2, 1, 3))
    assert hidden.isnan().nonzero()[:, 2:].tolist() == [[0, 2, 1], [1, 2, 1], [1, 3, 1]]
    logits = torch.zeros(2, 2, 6, dtype=dtype)
    logits[1, 0, 3] = torch.nan
    coverage = kernel.AreaCoverage.apply(logits, torch.ones(2, 6, dtype=torch.bool), False)
    assert coverage[0].isfinite().all() and coverage[1].isnan().all()


@needs_compiler
def test_equal_items_deviate_by_the_root_of_epsilon():
    found = Deviations.apply(torch.full((1, 1, 6, 3), 1e3), 4)
    within = torch.arange(6) >= torch.arange(4)[:, None]  # of the areas that begin in the line
    torch.testing.assert_close(found[0, 0][within], torch.full((18, 3), EPSILON**0.5))


@needs_compiler
def test_keys_of_several_features_are_computed_in_c(monkeypatch):
    """As a CPU trains: the same attention as in double precision, where items are nearly equal too,
    and not bit for bit what it is without C."""
    areas, query, key, value = case(AreaRule(5, "concat"), items=11)
    areas.float()
    inputs = [x.detach().float() for x in (query, key, value)]
    mask, gradient = padding(11, 6), torch.randn(2, 2, 3, DEPTH)

    def attention(query, key, value):
        return areas.attend(query, areas.memory(key, value), mask)

    found = results(attention, inputs, gradient)
    monkeypatch.setattr(native, "knows", lambda _: False)
    written = results(attention, inputs, gradient)
    assert any((ours != theirs).any() for ours, theirs in zip(found, written))
    areas.double()
    expected = results(attention, [x.double() for x in inputs], gradient)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
