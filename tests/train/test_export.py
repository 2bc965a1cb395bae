"""Exported models, their cards, and what an export leaves alone."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")

from safetensors.torch import load_file  # noqa: E402

from models.train import card, checkpoint, export, folder  # noqa: E402
from models.train.__main__ import main  # noqa: E402
from models.train.recipe import find_recipe, read_recipe  # noqa: E402
from models.train.sets import fingerprint  # noqa: E402
from models.train.trainer import Trainer  # noqa: E402
from small import of_bytes, train  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.usefixtures("small_and_quick")


@pytest.mark.parametrize("language, name", [("fr", "French"), ("nl", "nl")])
def test_the_card_of_any_language(tmp_path, language, name):
    recipe, model, _ = of_bytes(tmp_path, target=language)
    best = {"average": model.state_dict(), "step": 8, "tokens": 9, "seconds": 10.0}
    text = card.model_card(recipe, best, {}, None, {})
    assert text.startswith(f"# test: English to {name}, char")


def test_the_card_says_what_was_held_out(tmp_path):
    sets = {"tatoeba": (["A dog.", "A cat."], ["Ein Hund.", "Eine Katze."]), "it": (["A"], ["B"])}
    for start, of_pair in ((None, "data."), ("en-de-char", "data of this language pair.")):
        recipe, model, _ = of_bytes(tmp_path, start_from=start)
        best = {"average": model.state_dict(), "step": 8, "tokens": 9, "seconds": 10.0}
        text = card.model_card(recipe, best, {}, None, sets)
        assert f"held-out sentences, are not in the training {of_pair}" in " ".join(text.split())
        assert card.held_out_in(text) == {name: fingerprint(*sides) for name, sides in sets.items()}


def test_the_card_has_no_scores_of_other_weights():
    news = {"newstest2013": {"sentences": 3000, "bleu": 16.13, "chrf": 44.7}}
    scores = {"step": 8, "sets": news}
    assert "| newstest2013 | 3,000 | 16.1 | 44.7 |" in card.scores_table(scores, 8)
    for stale in (None, scores | {"step": 7}, news):  # the last as it was written before
        assert card.scores_table(stale, 8) == "Not yet scored."


@pytest.mark.parametrize("files", [
    {"thesis.txt": "years of work"},
    {"config.json": '{"model_type": "marian"}', "index.html": "a web site"},
    {"config.json": '{"port": 80}', "package.json": "{}"},
    {"config.json": '{"model_type": "bert"}', "model.safetensors": "months of work"},
    {"config.json": "not JSON"},
    {"model.safetensors": "months of work"},
])
def test_export_spares_other_folders(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match="found other files"), folder.replacing(tmp_path):
        pass
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


def test_an_export_that_fails_leaves_the_model_that_was_there(run, tmp_path, monkeypatch):
    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("# old")

    def full(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(export, "model_card", full)
        with pytest.raises(OSError):
            export.export(run, tmp_path / "model")
    assert (tmp_path / "model" / "README.md").read_text() == "# old"
    assert (tmp_path / "model" / "model.safetensors").exists()
    export.export(run, tmp_path / "model")
    assert (tmp_path / "model" / "README.md").read_text() != "# old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_last_weights_can_be_exported(run, recipe, tmp_path):
    trainer = Trainer(run)
    trainer.evaluate()
    best = checkpoint.load(run / "best.pt")
    train(trainer, 2)
    trainer.save()
    for options, expected in (([], best), (["--last"], trainer.state())):
        assert main(["export", recipe.name, "--run", str(run), "--out", str(tmp_path / "model"),
                     *options]) == 0
        found = load_file(tmp_path / "model/model.safetensors")["model.shared.weight"]
        assert torch.equal(found, expected["average"]["model.shared.weight"].bfloat16())
        assert f"Trained for {expected['step']} steps" in (
            tmp_path / "model/README.md").read_text()


@pytest.mark.parametrize("folder", [
    "en-de-token", "en-de-char", "en-fr-token", "en-fr-char", "train/reverse/de-en-token",
    "train/reverse/fr-en-token"])
def test_cards_say_what_the_recipes_begin_with(folder):
    text = " ".join((ROOT / "models" / folder / "README.md").read_text().split())
    recipe = read_recipe(find_recipe(Path(folder).name))
    assert f"for the Acre translation server from {card.start_in_words(recipe)}. " in text
    assert ("training data of this language pair." in text) == bool(recipe.start_from)


def test_an_interruption_between_the_renames_leaves_the_old_model(tmp_path, monkeypatch):
    model, rename = tmp_path / "model", Path.rename
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "marian"}')

    def interrupted(path, target):
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), folder.replacing(model):
        pass
    assert (model / "config.json").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_large_models_are_written_in_shards(monkeypatch, tmp_path):
    monkeypatch.setattr(export, "LARGEST_SINGLE_FILE", 100)
    monkeypatch.setattr(export, "LARGEST_SHARD", 50)
    tensors = {name: torch.zeros(20) for name in "abcd"}
    export.write_weights(tensors, tmp_path)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == set(tensors)
    assert all((tmp_path / name).exists() for name in index["weight_map"].values())
