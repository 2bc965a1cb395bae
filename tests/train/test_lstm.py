"""The LSTM model against its definition (tests/golden/lstm.py), and against itself."""

import dataclasses
import importlib
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from models.train.card import model_in_words  # noqa: E402
from models.train.export import model_config  # noqa: E402
from models.train.lstm import Lstm  # noqa: E402
from models.train.products import Shared  # noqa: E402
from models.train.recipe import find_recipe, read_recipe  # noqa: E402
from models.train.search import greedy_ids  # noqa: E402
from models.train.shape import LstmShape, shape_of  # noqa: E402

PAD, END, SIZE = 59, 0, 60
GOLDEN = Path(__file__).resolve().parents[1] / "golden"
# As in a recipe: areas and heads.
KINDS = [
    ("regular", 1),
    ("eq3", 4),
    ({"decoder_cross": {"width": [5], "value": "mean"}, "temperature": 0.5}, 1),
    ({"key": "max", "value": "max"}, 2),
    ({"top_k": 3, "decoder_cross": {"width": [3], "weights": "sigmoid"}}, 3),
    ("eq9", 1),
    ("eq9", 4),
    ({"key": "max_concat", "weights": "sigmoid", "temperature": 2.0}, 2),
    ({"key": "sum", "decoder_cross": {"width": [3]}}, 1),
    ({"key": "sample_concat", "value": "mean", "temperature": 0.5}, 4),
    ({"key": "sample_sum", "weights": "sigmoid", "decoder_cross": {"width": [4]}}, 1),
]


def small_model(area, heads, dropout=0.0, seed=3):
    torch.manual_seed(seed)
    shape = dataclasses.replace(shape_of("lstm-256", dropout, area, heads), width=24)
    return Lstm(shape, SIZE, PAD, END)


def lively_model(area, heads):
    """Random weights, large enough that the logits tell tokens apart; of a seed with which every
    kind translates the sentences of batch() differently."""
    model = small_model(area, heads, seed=10).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=1.5 * parameter.shape[-1] ** -0.5)
    model.clear_pad()
    return model


def batch():
    source = torch.randint(1, PAD, (4, 9))
    source[1, 5:], source[3, 1:] = PAD, PAD
    return source, torch.randint(1, PAD, (4, 7))


def defined(model, recipe):
    """The definition's model with the weights of ours and the config.json of its recipe."""
    pytest.importorskip("transformers")
    sys.path.insert(0, str(GOLDEN))
    golden = importlib.import_module("lstm")
    vocabulary = type("Vocabulary", (), {"size": SIZE, "pad": PAD, "end": END})
    config = model_config(recipe, vocabulary) | {"d_model": model.shape.width}
    config.setdefault("area", {"decoder_cross": {"width": [1]}})
    definition = golden.Lstm(golden.LstmConfig(**config)).double()
    golden.restore(definition, model.state_dict())
    assert set(golden.stored(definition)) == set(model.state_dict())
    return definition


@torch.no_grad()
@pytest.mark.parametrize("area, heads", [
    *KINDS, ("eq3", 1), ({"decoder_cross": {"width": [3]}}, 2)], ids=str)
def test_logits_are_those_of_the_definition(area, heads):
    model = lively_model(area, heads)
    recipe = dataclasses.replace(read_recipe(find_recipe("en-de-char")),
                                 preset="lstm-256", norm="post", area=area, heads=heads)
    definition = defined(model, recipe)
    source, target = batch()
    inputs = torch.nn.functional.pad(target, (1, -1), value=PAD)
    expected = torch.stack([definition.decode(row[row != PAD], ids)
                            for row, ids in zip(source, inputs)])
    torch.testing.assert_close(model.double()(source, target), expected)
    torch.testing.assert_close(model.float()(source, target).double(), expected,
                               rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("area, heads", KINDS, ids=str)
def test_padding_changes_nothing(area, heads):
    model = lively_model(area, heads)
    source, target = batch()
    alone = model(source[1:2, :5], target[1:2])
    torch.testing.assert_close(model(source, target)[1:2], alone, rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("area, heads", KINDS, ids=str)
def test_greedy_search_follows_the_full_pass(area, heads):
    model = lively_model(area, heads)
    source, _ = batch()
    found = greedy_ids(model, source, END, 12)
    assert len({tuple(ids) for ids in found}) == 4
    for row, ids in zip(source, found):
        logits = model(row[row != PAD][None], torch.tensor([ids + [END]]))[0]
        logits[:, PAD] = -torch.inf
        assert logits.argmax(-1)[: len(ids)].tolist() == ids


@pytest.mark.parametrize("area, heads", [*KINDS, ({"key": "sample"}, 1)], ids=str)
def test_models_learn(area, heads):
    """A few steps on one batch lower the loss, and every parameter has moved."""
    model = small_model(area, heads, dropout=0.1)
    source, target = batch()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    losses = []
    for _ in range(8):
        loss = torch.nn.functional.cross_entropy(model(source, target).flatten(0, 1),
                                                 target.flatten())
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert all(not torch.equal(p, before[name]) for name, p in model.named_parameters())


@pytest.mark.parametrize("batches", [(), (3,)], ids=["matrix", "batched"])
def test_shared_matrices_have_the_gradients_of_ordinary_products(batches):
    """Through a loop whose steps depend on each other; twice, as in two training steps."""
    torch.manual_seed(1)
    matrix = torch.randn(*batches, 4, 4, dtype=torch.float64, requires_grad=True)
    first = torch.randn(*batches, 2, 4, dtype=torch.float64, requires_grad=True)

    def gradients(product):
        x, loss = first, 0.0
        for _ in range(5):
            x = product(x).tanh()
            loss = loss + x.square().sum()
        return torch.autograd.grad(loss, (matrix, first))

    expected = gradients(lambda x: x @ matrix)
    for _ in range(2):
        torch.testing.assert_close(gradients(Shared(matrix)), expected)


def test_bfloat16_changes_little():
    model = lively_model("eq3", 4)
    source, target = batch()
    exact = model(source, target)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(source, target)
    rounded.float().sum().backward()
    assert (rounded - exact).norm() < 0.05 * exact.norm()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("cells", [256, 512, 1024])
def test_presets_are_the_published_ones(cells):
    shape = shape_of(f"lstm-{cells}")
    section = {"key": "mean", "value": "sum", "top_k": 0, "temperature": 1.0,
               "decoder_cross": {"width": [2]}}
    assert (shape.width, shape.layers, shape.heads, shape.area) == (cells, 2, 1, section)
    assert shape_of(f"lstm-{cells}", heads=4).heads == 4
    assert shape_of(f"lstm-{cells}", area="regular").area is None
    assert model_in_words(shape).startswith("LSTM") and isinstance(shape, LstmShape)


def test_a_recipe_says_how_large_what_areas_give_starts():
    """The query's part starts as ever, and so does all of an attention without areas."""
    def begun(area, start):
        torch.manual_seed(3)
        shape = shape_of("lstm-256", area=area, heads=2, area_start=start)
        return Lstm(shape, SIZE, PAD, END).model.decoder.attention.a_proj.weight

    plain = begun("regular", None)
    assert torch.equal(begun("regular", 1.5), plain) and torch.equal(begun("eq3", None), plain)
    found = begun("eq3", 1.5)
    assert torch.equal(found[:, :256], plain[:, :256])
    torch.testing.assert_close(found[:, 256:] * 1.5, plain[:, 256:])


@pytest.mark.parametrize("given, message", [
    ({"area": "eq8"}, "area: expected regular, eq3, eq9 or an object, found 'eq8'"),
    ({"area": {"decoder_cross": {"key": "std"}}}, "decoder_cross.key: expected one of .*'std'"),
    ({"area": {"encoder_self": {"width": [2, 2]}}}, "area: expected one of .*, found encoder_self"),
    ({"area": {"decoder_cross": {"width": [2, 2]}}}, "width: expected 1 integer from 1 to 16"),
    ({"heads": 0}, "heads: expected an integer from 1 to 1024, found 0"),
    ({"heads": "4"}, "heads: expected an integer from 1 to 1024, found '4'"),
    ({"preset": "tiny", "heads": 4}, "heads: expected only with an LSTM preset; this one has 4"),
])
def test_wrong_recipes_are_errors(given, message):
    with pytest.raises(ValueError, match=message):
        shape_of(**{"preset": "lstm-256"} | given)
