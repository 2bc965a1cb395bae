"""Mistakes in recipes, and the recipes of the models shipped."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")

from models.train.parent import check_parent  # noqa: E402
from models.train.recipe import SHIPPED, find_recipe, read_recipe  # noqa: E402
from small import RECIPE  # noqa: E402


@pytest.mark.parametrize("mistake, message", [
    ({"warm_up": 3}, "recipe.json: unknown key warm_up"),
    ({"vocabulary": 150}, "recipe.json: vocabulary: expected 300 to 65535 pieces, found 150"),
    ({"preset": "big"}, "recipe.json: unknown preset big; there are .*big-en-fr"),
    ({"area": {"key": "median"}}, "recipe.json: area.key: expected one of mean.*'median'"),
    ({"preset": "lstm-256", "area": "eq8"}, "recipe.json: area: expected regular, eq3, eq9 or an"),
    ({"heads": 4}, "recipe.json: heads: expected only with an LSTM preset"),
    ({"preset": "lstm-256", "area": {"decoder_cross": {"memory_height": 2}}},
     "recipe.json: area.decoder_cross.memory_height: expected 1, as this memory cannot be a grid"),
])
def test_mistakes_in_recipes_are_errors(tmp_path, mistake, message):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(RECIPE | mistake))
    with pytest.raises(ValueError, match=message):
        read_recipe(path)


@pytest.mark.parametrize("model", ["en-de-token", "en-fr-token", "en-de-char", "en-fr-char"])
def test_shipped_recipes_are_valid(model):
    recipe = read_recipe(find_recipe(model))
    assert recipe.name == model
    if recipe.start_from:
        check_parent(recipe.shape(), SHIPPED / recipe.start_from)
    assert sum(group.share for group in recipe.mix.values()) == pytest.approx(1)
    assert not recipe.uses("msdocs-MT")
