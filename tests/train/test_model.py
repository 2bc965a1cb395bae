"""The model against transformers' MarianMT on the same weights, and against itself."""

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from models.train.export import model_config  # noqa: E402
from models.train.model import Translator  # noqa: E402
from models.train.recipe import find_recipe, read_recipe  # noqa: E402
from models.train.search import greedy_ids  # noqa: E402
from models.train.shape import PRESETS, shape_of  # noqa: E402

PAD, END, SIZE = 59, 0, 60


def small_model(area_width):
    torch.manual_seed(3)
    model = Translator(shape_of("tiny", 0.0, area_width), SIZE, PAD).eval()
    torch.nn.init.normal_(model.final_logits_bias)
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear | torch.nn.LayerNorm):
            torch.nn.init.normal_(layer.bias, std=0.3)
    model.reserve(64)
    return model


def batch():
    source = torch.randint(1, PAD, (4, 9))
    source[1, 5:], source[3, 2:] = PAD, PAD
    return source, torch.randint(1, PAD, (4, 7))


def marian_with(weights):
    transformers = pytest.importorskip("transformers")
    recipe = dataclasses.replace(read_recipe(find_recipe("en-de-token")),
                                 preset="tiny", area_width=1)
    vocabulary = type("Vocabulary", (), {"size": SIZE, "pad": PAD, "end": END})
    config = transformers.MarianConfig(**model_config(recipe, vocabulary))
    marian = transformers.MarianMTModel(config).eval()
    missing, unexpected = marian.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all("embed" in name or name == "lm_head.weight" for name in missing)
    marian.tie_weights()
    return marian.float()


@torch.no_grad()
def test_width_one_is_marian():
    model = small_model(area_width=1)
    marian = marian_with(model.state_dict())
    source, target = batch()
    inputs = torch.nn.functional.pad(target, (1, -1), value=PAD)
    expected = marian(input_ids=source, attention_mask=(source != PAD).long(),
                      decoder_input_ids=inputs).logits
    torch.testing.assert_close(model(source, target), expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("area_width", [1, 5])
def test_greedy_search_follows_the_full_pass(area_width):
    """Each token of the step-by-step search is the best one of the whole-sentence pass."""
    model = small_model(area_width)
    source, _ = batch()
    for row, ids in zip(source, greedy_ids(model, source, END, 12)):
        alone = row[row != PAD][None]
        logits = model(alone, torch.tensor([ids + [END]]))[0]
        logits[:, PAD] = -torch.inf
        assert logits.argmax(-1)[: len(ids)].tolist() == ids


@torch.no_grad()
def test_padding_changes_nothing():
    model = small_model(area_width=5)
    source, target = batch()
    alone = model(source[1:2, :5], target[1:2])
    torch.testing.assert_close(model(source, target)[1:2], alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("preset, areas", [("tiny", (5, 5)), ("small", (5, 5)),
                                           ("base", (4, 1, 1, 1, 1, 1)),
                                           ("big", (4, 1, 1, 1, 1, 1))])
def test_presets_use_the_published_areas(preset, areas):
    shape = shape_of(preset)
    assert shape.encoder_self == shape.decoder_self == shape.decoder_cross == areas
    assert set(PRESETS) == {"tiny", "small", "base", "big"}


def test_pad_embedding_is_zero():
    model = small_model(area_width=5)
    assert not model.model.shared.weight[PAD].any()
