"""The comparison of regular and area attention, on a made-up language and a made-up translator."""

import dataclasses
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("sentencepiece")
sacrebleu = pytest.importorskip("sacrebleu")
pytest.importorskip("safetensors")

from models.markdown import put_in_place  # noqa: E402
from models.train import bootstrap, checkpoint, compare, comparison  # noqa: E402
from models.train import development, trainer as training  # noqa: E402
from models.train.__main__ import main  # noqa: E402
from models.train.recipe import Phase, read_recipe  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
RECIPE = {
    "name": "test", "source": "en", "target": "de", "level": "token", "preset": "tiny",
    "vocabulary": 350, "held_out_sentences": 20, "hours": 8, "start_from": "en-de-token",
    "mix": {"all": {"share": 1, "corpora": {"*": 1}}},
    "phases": [{"max_length": 48, "batch_tokens": 200}],
}
# Of each sentence a model with areas translates all, a regular one the first three words.
ACRE = """#!/bin/sh
echo "$*" >> "${0%/*}/calls"
case "$1 $3" in
translate*regular*) cut -d " " -f 1-3 "$4" ;;
translate*) cat "$4" ;;
esac
"""
STEPS = 3
SCORES = {"bleu": [1.0] * 41, "chrf": [2.0] * 41}
CELL = {"step": STEPS, "tokens": 9, "seconds": 2.5, "loss": 3.5, "machine": "one",
        "data": {"languages": "en-de", "pairs": 5, "longest": 7, "sets": {"tatoeba": [4, "00"]}},
        "scores": {"tatoeba": SCORES}}
TABLE = "# Models\n\n## What area attention gives\n\nold\n\n## More\n"


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch, tmp_path_factory):
    monkeypatch.setattr(development, "DEVELOPMENT_SENTENCES", 4)
    monkeypatch.setattr(development, "LONGEST_TRANSLATION", {"token": 10, "char": 20})
    monkeypatch.setattr(bootstrap, "RESAMPLES", 40)
    for name, model in compare.GRID_MODELS.items():
        preset = "tiny" if model.preset == "small" else model.preset
        monkeypatch.setitem(compare.GRID_MODELS, name,
                            dataclasses.replace(model, preset=preset, steps=STEPS))
    small_data(monkeypatch, tmp_path_factory.mktemp("recipe"))
    torch.set_num_threads(1)


def small_data(patch, folder):
    (folder / "recipe.json").write_text(json.dumps(RECIPE))
    patch.setattr(compare, "DATA", dict.fromkeys(("token", "char"), folder / "recipe.json"))
    patch.setattr(compare, "VOCABULARY", None)


@pytest.fixture(scope="module")
def data(tmp_path_factory, corpora):
    """The prepared folders; the reference of a sentence is itself."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        small_data(patch, folder)
        options = SimpleNamespace(folder=folder, corpora=[corpora], eval=corpora / "eval")
        for level in ("token", "char"):
            compare.prepare_data(level, options)
    for path in (folder / "data").glob("*/*/*.en"):
        path.with_suffix(".de").write_bytes(path.read_bytes())
    return folder / "data"


@pytest.fixture
def acre(tmp_path):
    path = tmp_path / "acre"
    path.write_text(ACRE)
    path.chmod(0o755)
    return path


@pytest.fixture
def run(tmp_path, data, acre):
    """Runs the command; the other options are those given."""
    (tmp_path / "README.md").write_text(TABLE)
    shutil.copytree(data, tmp_path / "compare/data")

    def command(*only, acre=acre):
        return main(["compare", "--folder", str(tmp_path / "compare"),
                     "--kept", str(tmp_path / "kept"), "--table", str(tmp_path / "README.md"),
                     *(["--only", *only] if only else []),
                     *(["--acre", str(acre)] if acre else [])])

    return command


def cell(tmp_path, name):
    return tmp_path / "compare" / name


def test_the_grid_has_the_starts_first_then_a_seed_of_everything():
    cells = [str(cell) for cell in compare.grid()]
    assert len(cells) == 46 and all("start/" in name for name in cells[:10])
    assert cells[10:13] == ["token/regular/1", "token/eq3/1", "token/eq9/1"]
    assert [name.split("/")[0] for name in cells[10:19:3]] == ["token", "lstm", "char"]
    assert all(name.endswith("/1") for name in cells[10:28])
    assert [str(c) for c in compare.chosen(["lstm/eq3", "token/eq9/2"])] == [
        "lstm/eq3/1", "token/eq9/2", "lstm/eq3/2"]


def rows_of(text, first):
    """The rows of the table whose header begins so, as lists of cells."""
    lines = text[text.index(first):].split("\n\n")[0].splitlines()
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def test_one_command_makes_the_table(run, tmp_path, capsys):
    assert run("token/regular", "token/eq3/1", "char/eq9/1", "lstm/eq3/1") == 0
    before, text = (tmp_path / "README.md").read_text().split("## What area attention gives\n\n")
    assert before == "# Models\n\n" and text.endswith("\n\n## More\n") and "\nold" not in text
    assert text.startswith("Made by `python3 -m models.train compare`: the same data, steps and")
    assert all(len(line) <= 100 or line.startswith("|") for line in text.splitlines())
    words = " ".join(text.split())
    for said in ("At token level EN-DE is learnt from ", ": by Tiny for 3 steps, by Lstm-256 for 3 "
                 "steps. At char level EN-DE is learnt ", "bytes a side: by Tiny for 3 steps."):
        assert words.count(said) == 1
    speeds = rows_of(text, "| model, steps | attention | seeds")
    assert [row[:3] for row in speeds] == [
        ["tiny, token, 3", "regular", "2"], ["tiny, token, 3", "areas, Eq. 3", "1"],
        ["lstm-256, token, 3", "areas, Eq. 3", "1"], ["tiny, char, 3", "areas, Eq. 9", "1"]]
    assert [row[4] == "–" for row in speeds] == [False, False, True, True]
    assert [row[6] == "–" for row in speeds] == [True, False, True, True]
    assert all(1 < float(row[5]) < 20 for row in speeds)
    scores = {tuple(row[:3]): row[3:] for row in rows_of(text, "| model, steps | attention | set")}
    assert len(scores) == 7 and ("tiny, char, 3", "areas, Eq. 9", "newstest2013") not in scores
    better = scores["tiny, token, 3", "areas, Eq. 3", "tatoeba"]
    assert better[0] == better[2] == "100.0 ± 0.0" and better[1].startswith("**+")
    assert scores["tiny, char, 3", "areas, Eq. 9", "tatoeba"] == [
        "100.0 ± 0.0", "–", "100.0 ± 0.0", "–"]
    assert text.split("\n\n## More")[0] in capsys.readouterr().out


def test_what_is_kept_is_enough(run, tmp_path):
    """Another machine goes on with the cells that are left, and makes the same table."""
    assert run("char/regular/1", "char/eq3/1") == 0
    text = (tmp_path / "README.md").read_text()
    shutil.rmtree(tmp_path / "compare")
    (tmp_path / "README.md").write_text(TABLE)
    assert run("char/regular/1") == 0
    assert (tmp_path / "README.md").read_text() == text
    kept = tmp_path / "kept/char/eq3/1"
    assert {path.name for path in kept.iterdir()} == {"cell.json", "log.jsonl"}
    cell = json.loads((kept / "cell.json").read_text())
    assert len(cell["scores"]["tatoeba"]["bleu"]) == 41  # the set, and its resamples
    assert cell["torch"] == torch.__version__ and cell["arithmetic"] in ("bf16", "f32")
    assert cell["tokens"] > 0 and cell["seconds"] > 0 and cell["recipe"]["learning_rate"] == 1.5e-3
    assert cell["recipe"]["report_steps"] == 50 and "seed" not in cell["recipe"]


def test_cells_of_other_data_are_not_compared(run, tmp_path, capsys):
    assert run("char/regular/1", "char/eq3/1") == 0
    path = tmp_path / "kept/char/eq3/1/cell.json"
    path.write_text(path.read_text().replace('"pairs": ', '"pairs": 1'))
    assert run("char/regular/1") == 1
    assert f"{path}: data: expected" in capsys.readouterr().err


def kept_cell(folder, area, seed, **changes):
    """Writes cell.json of the model char; the changes are in its recipe."""
    path = folder / "char" / area / str(seed) / "cell.json"
    path.parent.mkdir(parents=True)
    recipe = {"dropout": 0.1, "learning_rate": 0.001, "area": area, "area_start": None} | changes
    path.write_text(json.dumps(CELL | {"recipe": recipe}))
    return path


@pytest.mark.parametrize("area, changes, message", [
    ("eq3", {"learning_rate": 0.002}, "recipe: learning_rate: expected 0.001, as in other cells"),
    ("regular", {"area_start": 3}, "recipe: area_start: expected None"),
    ("eq9", {"area_start": 3, "of_later": 1}, None),
])
def test_cells_of_other_recipes_are_not_compared(tmp_path, area, changes, message):
    """But for their areas, of which only those of one name must be the same."""
    kept_cell(tmp_path, "regular", 1)
    path = kept_cell(tmp_path, area, 2, **changes)
    if not message:
        assert set(comparison.kept_cells("char", tmp_path)) == {"regular", "eq9"}
        return
    with pytest.raises(ValueError) as error:
        comparison.kept_cells("char", tmp_path)
    assert str(error.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize("changes, message", [
    ([], "expected an object, found []"), ({}, "step: expected an integer, found None"),
    (CELL | {"step": True}, "step: expected an integer, found True"),
    (CELL | {"seconds": 0}, "seconds: expected more than 0, found 0"),
    (CELL | {"seconds": "2"}, "seconds: expected a number, found '2'"),
    (CELL | {"loss": float("nan")}, "loss: expected a number, found nan"),
    (CELL | {"recipe": []}, "recipe: expected an object, found []"),
    (CELL | {"data": {}}, "data.languages: expected a text, found None"),
    (CELL | {"scores": {}}, "scores: expected those of tatoeba, as in data.sets, found none"),
    (CELL | {"scores": {"it": SCORES}}, "scores: expected those of tatoeba, as in data.sets, found "
                                        "it"),
    (CELL | {"scores": {"tatoeba": {}}}, "scores.tatoeba: expected bleu and chrf, found []"),
    (CELL | {"scores": {"tatoeba": {"bleu": []}}},
     "scores.tatoeba: expected bleu and chrf, found ['bleu']"),
    (CELL | {"scores": {"tatoeba": 5}}, "scores.tatoeba: expected bleu and chrf, found 5"),
    (CELL | {"scores": {"tatoeba": SCORES | {"chrf": [2.0] * 40}}},
     "scores.tatoeba.chrf: expected 41 numbers, found 40"),
    (CELL | {"scores": {"tatoeba": SCORES | {"chrf": 2.0}}},
     "scores.tatoeba.chrf: expected 41 numbers, found 2.0"),
    (CELL | {"scores": {"tatoeba": SCORES | {"bleu": ["1"] * 41}}},
     "scores.tatoeba.bleu: expected numbers, found others"),
])
def test_a_cell_that_lacks_something_is_named(tmp_path, changes, message):
    """Without its scores on a set it would be a row less of the table."""
    path = kept_cell(tmp_path, "regular", 1)
    kept_cell(tmp_path, "eq3", 1)
    path.write_text(json.dumps({"recipe": {}} | changes if changes else changes))
    with pytest.raises(ValueError) as error:
        comparison.results(tmp_path)
    assert str(error.value) == f"{path}: {message}"


@pytest.mark.parametrize("name, known", [
    ("chars", "start, lstm-start, token"), ("char/eq4", "regular, eq3, eq9"),
    ("char/eq3/3", "1, 2")])
def test_what_is_kept_under_no_name_of_the_grid_is_an_error(run, tmp_path, capsys, name, known):
    """Before anything is trained."""
    folder = tmp_path / "kept" / name
    folder.mkdir(parents=True)
    assert run("char/regular/1") == 1
    assert f"{folder}: expected a folder called as one of {known}" in capsys.readouterr().err
    assert not cell(tmp_path, "char/regular/1").exists()


def test_what_is_kept_has_names_of_the_grid():
    comparison.check_folders(ROOT / "models/train/compared", compare.GRID_MODELS)


def test_a_key_that_is_not_there_is_none(tmp_path):
    kept_cell(tmp_path, "eq3", 1, area_start=3)
    path = kept_cell(tmp_path, "eq3", 2)
    cell = json.loads(path.read_text())
    del cell["recipe"]["area_start"]
    path.write_text(json.dumps(cell))
    with pytest.raises(ValueError, match="recipe: area_start: expected 3, .* found None"):
        comparison.kept_cells("char", tmp_path)


def test_cells_of_other_sets_are_not_compared(run, tmp_path, capsys):
    """As on a machine whose evaluation text is another."""
    assert run("char/regular/1") == 0
    path = tmp_path / "compare/data/char/heldout/tatoeba.de"
    path.write_text(path.read_text().replace("dog", "hog"))
    assert run("char/eq3/1") == 1
    assert "char/eq3/1/cell.json: data: expected" in capsys.readouterr().err


def test_a_first_cell_replaces_no_table(run, tmp_path, capsys):
    for cells in (["char/regular/1", "char/regular/2"], ["lstm/eq3/1"]):
        assert run(*cells) == 0
        assert "compare: no table yet" in capsys.readouterr().out
        assert (tmp_path / "README.md").read_text() == TABLE
    assert run("lstm/regular/1") == 0
    assert (tmp_path / "README.md").read_text() != TABLE


def test_areas_are_where_a_name_says():
    model = compare.GRID_MODELS["where"]
    found = {}
    for area in model.areas:
        base = compare.recipe_of_data("token")
        shape = compare.recipe_of(compare.Cell("where", area, 1), base).shape()
        found[area] = [[rule.width for rule in layers] for layers in
                       (shape.encoder_self, shape.decoder_self, shape.decoder_cross)]
    assert found["all-5"] == [[5, 5]] * 3 and found["all-8"] == [[8, 8]] * 3
    assert found["first-5"] == [[5, 1]] * 3 and found["regular"] == [[1, 1]] * 3
    assert found["cross-5"] == [[1, 1], [1, 1], [5, 5]]
    assert found["encoder-5"] == [[5, 5], [1, 1], [1, 1]]


def test_starts_are_what_a_name_says():
    base, found = compare.recipe_of_data("token"), {}
    for model in compare.STARTS:
        for area in compare.GRID_MODELS[model].areas:
            shape = compare.recipe_of(compare.Cell(model, area, 1), base).shape()
            rule = shape.decoder_cross[0]
            found[model, area] = rule.width, rule.key, rule.value, shape.divisor(rule)
    assert found == {
        ("start", "regular"): (1, "mean", "sum", 1),
        ("start", "eq9-1"): (5, "concat", "sum", 1), ("start", "eq9-3"): (5, "concat", "sum", 3),
        ("start", "max-sum-1"): (5, "max", "sum", 1), ("start", "max-sum-3"): (5, "max", "sum", 3),
        ("start", "max-max-1"): (5, "max", "max", 1), ("start", "max-max-3"): (5, "max", "max", 3),
        ("lstm-start", "regular"): (1, "mean", "sum", 1),
        ("lstm-start", "eq3-1"): (2, "mean", "sum", 1),
        ("lstm-start", "eq3-1.5"): (2, "mean", "sum", 1.5)}


def test_every_row_of_the_table_has_a_name():
    areas = {area for model in compare.GRID_MODELS.values() for area in model.areas}
    assert areas <= set(comparison.AREA_LABELS)


def test_the_data_are_of_the_recipes():
    """Both levels learn the same mix, without what a model wrote."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "DATA", {level: compare.RECIPES / f"en-de-{level}.json"
                                        for level in ("token", "char")})
        token, char = map(compare.recipe_of_data, ("token", "char"))
    assert token.mix == char.mix and char.level == "char" and char.teacher is None
    assert char.phases == read_recipe(compare.RECIPES / "en-de-char.json").phases
    token.shape(), char.shape()


def test_runs_differ_only_in_what_is_compared(run, tmp_path):
    assert run("token/regular/1", "token/eq9/2", acre=None) == 0
    regular, eq9 = (vars(read_recipe(cell(tmp_path, name) / "prepared/recipe.json"))
                    for name in ("token/regular/1", "token/eq9/2"))
    assert {key for key in regular if regular[key] != eq9[key]} == {"name", "area", "seed"}
    assert (regular["preset"], regular["start_from"], regular["hours"]) == ("tiny", None, None)
    shared = cell(tmp_path, "token/eq9/2") / "prepared/train.npz"
    assert shared.samefile(tmp_path / "compare/data/token/train.npz")
    assert (tmp_path / "README.md").read_text() == TABLE
    assert not (tmp_path / "kept").exists()


def test_the_cool_down_is_not_that_of_the_data(data):
    base = read_recipe(data / "token" / "recipe.json")
    for part in (0.2, 0.5):
        recipe = compare.recipe_of(compare.grid()[0], dataclasses.replace(base, cooldown_part=part))
        assert recipe.cooldown_part == 0.2


def test_the_longest_pairs_are_those_of_the_phases_that_were_reached(data, monkeypatch):
    base = read_recipe(data / "token" / "recipe.json")
    recipe = dataclasses.replace(base, phases=(Phase(48, 200, 10), Phase(96, 200, 20),
                                               Phase(64, 200)))
    monkeypatch.setattr(comparison, "read_recipe", lambda _: recipe)
    for steps, longest in ((10, 47), (11, 95), (20, 95), (30, 95)):
        assert comparison.described(data / "token", steps)["longest"] == longest


def test_what_is_done_is_not_repeated(run, tmp_path, monkeypatch):
    assert run("token/regular/1") == 0
    calls = (tmp_path / "calls").read_text().count("translate")
    monkeypatch.setattr(compare, "Trainer", None)
    assert run("token/regular/1") == 0
    assert (tmp_path / "calls").read_text().count("translate") == calls == 2


def test_an_interrupted_run_goes_on(run, tmp_path, monkeypatch, capsys):
    whole = training.Trainer.train_step

    def interrupted(trainer):
        whole(trainer)
        if trainer.step == 2:
            trainer.stop()

    monkeypatch.setattr(training.Trainer, "train_step", interrupted)
    assert run("char/eq3/1", "char/eq3/2") == 130
    assert "interrupted; the same command goes on" in capsys.readouterr().out
    assert not (cell(tmp_path, "char/eq3/1") / "trained.json").exists()
    assert not cell(tmp_path, "char/eq3/2").exists()
    monkeypatch.setattr(training.Trainer, "train_step", whole)
    assert run("char/eq3/1") == 0
    assert "going on from step 2" in capsys.readouterr().out
    trained = json.loads((cell(tmp_path, "char/eq3/1") / "trained.json").read_text())
    assert trained["step"] == STEPS and trained["seconds"] > 0


def test_a_cell_that_fails_does_not_end_the_rest(run, tmp_path, capsys):
    """Here as its model writes too few lines."""
    (tmp_path / "acre").write_text(ACRE.replace('1-3 "$4"', '1-3 "$4" | head -n 2'))
    assert run("char/regular/1", "char/eq3/1") == 1
    said = capsys.readouterr()
    assert "char/regular/1/model: expected 20 translations, found 2" in said.err
    assert said.err.endswith("compare: char/regular/1 failed; what is done is kept\n")
    assert "compare: no table yet" in said.out
    assert not (tmp_path / "kept/char/regular").exists()
    assert (tmp_path / "kept/char/eq3/1/cell.json").exists()


def test_a_cell_can_be_extended(run, tmp_path):
    assert run("char/regular/1", acre=None) == 0
    folder = cell(tmp_path, "char/regular/1")
    before = checkpoint.load(folder / "before-cooldown.pt")
    assert before["step"] == STEPS - 1 and before["cooldown"] is None
    assert main(["train", "en-de-char", "--run", str(folder), "--extend", "--cooldown", "2"]) == 0
    assert checkpoint.load(folder / "checkpoint.pt")["cooldown"] == {"start": STEPS - 1, "steps": 2}
    assert checkpoint.load(folder / "checkpoint.pt")["step"] == STEPS + 1


def test_the_last_weights_are_compared(run, tmp_path, monkeypatch):
    """An evaluation after each step, each worse than the one before."""
    monkeypatch.setattr(training.Every, "due", lambda *_: True)
    falling = iter(range(100, 0, -1))
    monkeypatch.setattr(development, "bleu", lambda *_: next(falling))
    assert run("char/regular/1", acre=None) == 0
    trained = json.loads((cell(tmp_path, "char/regular/1") / "trained.json").read_text())
    assert trained["step"] == STEPS


def test_a_cell_that_another_process_has_is_left_to_it(run, tmp_path, capsys):
    cell(tmp_path, "char/regular/1").mkdir(parents=True)
    with open(cell(tmp_path, "char/regular/1") / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert run("char/regular/1", acre=None) == 0
    assert "char/regular/1: another process is at it" in capsys.readouterr().out
    assert not (cell(tmp_path, "char/regular/1") / "prepared").exists()


def test_intervals_are_those_of_sacrebleu():
    chance = np.random.default_rng(3)
    words = np.array("the a dog cat sees finds takes house garden letter".split())
    references = [" ".join(chance.choice(words, 9)) for _ in range(50)]
    hypotheses = [line.replace("cat", "dog").replace("garden", "a") for line in references]
    counts = bootstrap.resamples(len(references))
    for kind in (sacrebleu.BLEU, sacrebleu.CHRF):
        theirs = kind().corpus_score(hypotheses, [references], n_bootstrap=bootstrap.RESAMPLES)
        ours = bootstrap.interval(bootstrap.scores(kind(), hypotheses, references, counts))
        assert ours == pytest.approx({"score": theirs.score, "ci": theirs._ci}, rel=1e-4)


def test_differences_are_between_runs_of_the_same_seed():
    regular = {1: np.array([10.0, 9.0, 11.0]), 2: np.array([20.0, 19.0, 21.0])}
    areas, alone = {2: regular[2] + 1}, {"score": 1.0, "ci": 0.0}
    assert comparison.difference(areas, regular) == alone | {"seeds": [alone]}
    assert comparison.difference(areas, {1: regular[1]}) is None
    said = comparison.difference({s: v + s for s, v in regular.items()}, regular)
    assert comparison.difference_in_words(said) == "**+1.5 ± 0.0** (+1.0, +2.0)"


@pytest.mark.parametrize("seeds, is_bold", [
    ([(0.5, 0.4)], True), ([(0.3, 0.4)], False), ([(0.5, 0.4), (2.0, 0.4)], True),
    ([(-0.5, 0.4), (-2.0, 0.4)], True), ([(0.3, 0.4), (2.0, 0.4)], False),
    ([(-0.5, 0.4), (2.0, 0.4)], False)])
def test_a_difference_is_bold_if_every_seed_shows_it(seeds, is_bold):
    said = {"score": 1.0, "ci": 0.3,
            "seeds": [{"score": score, "ci": ci} for score, ci in seeds]}
    assert comparison.difference_in_words(said).startswith("**+1.0 ± 0.3**") == is_bold


def test_losses_are_compared_with_those_of_the_same_seed():
    regular, areas = ({seed: {"loss": loss} for seed, loss in enumerate(losses, 1)}
                      for losses in ((3.0, 2.0), (2.9, 2.3, 2.6)))
    said = comparison.loss(areas, regular)
    assert said["loss"] == pytest.approx(2.6)
    assert said["loss_differences"] == pytest.approx([-0.1, 0.3])
    assert comparison.loss_in_words(said["loss_differences"]) == "+0.100 (-0.100, +0.300)"
    assert comparison.loss_in_words(comparison.loss(areas, {})["loss_differences"]) == "–"


def test_what_models_learn_is_said_once_of_the_same_data():
    data = {"level": "token", "languages": "en-de", "pairs": 1200, "longest": 95}
    found = {number: data | {"preset": preset, "step": step} | more
             for number, (preset, step, more) in enumerate([
                 ("small", 500, {}), ("lstm-256", 500, {}), ("small", 4000, {"pairs": 9}),
                 ("small", 1000, {}), ("small", 500, {})])}
    assert comparison.models_in_words(found) == (
        "At token level EN-DE is learnt from 1,200 pairs, as far as they have at most 95 pieces a "
        "side: by Small for 500 and 1,000 steps, by Lstm-256 for 500 steps. At token level EN-DE "
        "is learnt from 9 pairs, as far as they have at most 95 pieces a side: by Small for 4,000 "
        "steps.")


def test_training_speeds_of_different_machines_are_not_compared():
    slow, quick = ({"tokens": 12, "seconds": seconds, "machine": name}
                   for seconds, name in ((12, "a"), (3, "b")))
    assert comparison.training_speed({1: slow, 2: quick}, {1: quick, 2: quick}) == {
        "ids_per_second": 2.5, "training_ratio": 1}
    assert comparison.training_speed({1: slow}, {1: quick}) == {"ids_per_second": 1}


@pytest.mark.parametrize("arguments, message", [
    (["--only", "token/eq4"], "--only token/eq4: expected the beginning of one of start/regular/1"),
    (["--only", "char"], "new/data/char: nothing is prepared; that needs --corpora DIR and --eval"),
    (["--only", "char", "--corpora", "/nowhere", "--eval", "/nowhere"], "/nowhere"),
])
def test_what_is_wrong_is_said(tmp_path, capsys, arguments, message):
    assert main(["compare", "--folder", str(tmp_path / "new"), "--kept", str(tmp_path / "kept"),
                 *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_machine_that_only_trains_needs_only_the_recipe(tmp_path):
    shutil.copytree(ROOT / "models/train", tmp_path / "models/train",
                    ignore=shutil.ignore_patterns("runs", "compared"))
    done = subprocess.run([sys.executable, "-m", "models.train", "compare", "--only", "char"],
                          cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, text=True,
                          capture_output=True, check=False)
    assert done.returncode == 1
    assert "compare/data/char: nothing is prepared" in done.stderr


def test_a_table_is_put_in_place_whole(tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text(TABLE)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", killed)
        put_in_place(tmp_path / "README.md", "What area attention gives", "new")
    assert (tmp_path / "README.md").read_text() == TABLE
    put_in_place(tmp_path / "README.md", "What area attention gives", "new")
    assert (tmp_path / "README.md").read_text() == TABLE.replace("old", "new")


def test_a_table_needs_its_section(run, tmp_path, capsys):
    run("char/regular/1", "char/eq3/1", acre=None)
    (tmp_path / "README.md").write_text("# Models\n")
    assert run("char/regular/1", "char/eq3/1") == 1
    assert "expected one section What area attention gives" in capsys.readouterr().err
