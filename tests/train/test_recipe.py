"""Mistakes in recipes, and the recipes of the models shipped."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")

from models.train.parent import check_parent  # noqa: E402
from models.train.recipe import MODELS, find_recipe, read_recipe  # noqa: E402
from small import RECIPE  # noqa: E402


@pytest.mark.parametrize("mistake, message", [
    ({"warm_up": 3}, "recipe.json: unknown key warm_up"),
    ({"vocabulary": 150}, "recipe.json: vocabulary: expected 300 to 65535 pieces, found 150"),
    ({"preset": "big"}, "recipe.json: unknown preset big; there are .*big-en-fr"),
    ({"area": {"key": "median"}}, "recipe.json: area.key: expected one of mean.*'median'"),
    ({"preset": "lstm-256", "area": "eq8"}, "recipe.json: area: expected regular, eq3, eq9 or an"),
    ({"level": "bytes"}, "recipe.json: level: expected token or char, found 'bytes'"),
    ({"mix": {}}, "recipe.json: mix: expected a group with a share, found none"),
    ({"mix": {"all": {"share": 1}}}, "recipe.json: mix.all: expected corpora, found no such key"),
    ({"mix": {"all": {"share": 1, "corpora": {"*": "1"}}}},
     r"recipe.json: mix.all.corpora.\*: expected a number from 0 to 1000000.0, found '1'"),
    ({"phases": []}, "recipe.json: phases: expected one at least, found none"),
    ({"phases": [{"max_length": 1, "batch_tokens": 9}]}, "recipe.json: phases.max_length: exp"),
    ({"flat_steps": 0}, "recipe.json: flat_steps: expected an integer from 1 to .*, found 0"),
    ({"warmup_steps": 0}, "recipe.json: warmup_steps: expected an integer from 1 to .*, found 0"),
    ({"cooldown_part": 1}, "recipe.json: cooldown_part: expected a number from 0.01 to 0.99"),
    ({"learning_rate": None}, "recipe.json: learning_rate: expected a number from .*, found None"),
    ({"limits": {"tatoeba": 0.5}}, "recipe.json: limits.tatoeba: expected an integer from 1 to"),
    ({"variants": {"shouted": 2}}, "recipe.json: variants.shouted: expected a number from 0 to 1"),
    ({"samples": "A dog."}, "recipe.json: samples: expected list, found 'A dog.'"),
    ({"exclude": [3]}, "recipe.json: exclude: expected a list of texts"),
    ({"teacher": 3}, r"recipe.json: teacher: expected str \| None, found 3"),
    ({"area_start": 0}, "recipe.json: area_start: expected a number from 0.01 to 100, found 0"),
    ({"area_start": "3"}, "recipe.json: area_start: expected a number from 0.01 to 100, found '3'"),
    ({"area_start": 3, "start_from": "en-de-token"}, "recipe.json: area_start: expected only"),
    ({"report_steps": 0}, "recipe.json: report_steps: expected an integer from 1 to .*, found 0"),
    ({"evaluation_steps": 0.5}, "recipe.json: evaluation_steps: expected an integer from 1"),
    ({"heads": 4}, "recipe.json: heads: expected only with an LSTM preset"),
    ({"preset": "lstm-256", "area": {"decoder_cross": {"memory_height": 2}}},
     "recipe.json: area.decoder_cross.memory_height: expected 1, as this memory cannot be a grid"),
])
def test_mistakes_in_recipes_are_errors(tmp_path, mistake, message):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(RECIPE | mistake))
    with pytest.raises(ValueError, match=message):
        read_recipe(path)


@pytest.mark.parametrize("key", ["name", "level", "mix", "phases"])
def test_a_recipe_has_every_key_without_a_default(tmp_path, key):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({name: value for name, value in RECIPE.items() if name != key}))
    with pytest.raises(ValueError, match=f"recipe.json: expected {key}, found no such key"):
        read_recipe(path)


@pytest.mark.parametrize("model", ["en-de-token", "en-fr-token", "en-de-char", "en-fr-char",
                                   "de-en-token", "fr-en-token", "en-de-token-prose",
                                   "en-fr-token-prose", "en-de-char-more", "en-fr-char-more"])
def test_shipped_recipes_are_valid(model):
    recipe = read_recipe(find_recipe(model))
    assert recipe.name == model.removesuffix("-prose").removesuffix("-more")
    if recipe.start_from:
        check_parent(recipe.shape(), MODELS / recipe.start_from)
    assert sum(group.share for group in recipe.mix.values()) == pytest.approx(1)
    assert not recipe.uses("msdocs-MT")
