"""The comparison of regular and area attention, on a made-up language and a made-up translator."""

import dataclasses
import fcntl
import json

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("sentencepiece")
sacrebleu = pytest.importorskip("sacrebleu")
pytest.importorskip("safetensors")

from models.train import bootstrap, compare, comparison  # noqa: E402
from models.train import trainer as training  # noqa: E402
from models.train.__main__ import main  # noqa: E402
from models.train.prepare import prepare  # noqa: E402
from models.train.recipe import Phase, read_recipe  # noqa: E402

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
bench*regular*) echo '{"seconds": 1.0, "target_tokens": 1000, "backend": "cpu made-up"}' ;;
bench*) echo '{"seconds": 1.5, "target_tokens": 1000, "backend": "cpu made-up"}' ;;
esac
"""
STEPS = 3
TABLE = "# Models\n\n## What area attention gives\n\nold\n\n## More\n"


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch):
    monkeypatch.setattr(training, "DEVELOPMENT_SENTENCES", 4)
    monkeypatch.setattr(training, "LONGEST_TRANSLATION", {"token": 10, "char": 20})
    monkeypatch.setattr(bootstrap, "RESAMPLES", 40)
    token = dataclasses.replace(compare.KINDS["token"], preset="tiny")
    monkeypatch.setitem(compare.KINDS, "token", token)
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory, corpora):
    """The prepared folders; the reference of a sentence is itself."""
    folder = tmp_path_factory.mktemp("data")
    for level in ("token", "char"):
        given = RECIPE | {"level": level}
        (folder / "recipe.json").write_text(json.dumps(given | {"start_from": None}))
        prepare(folder / "recipe.json", corpora, corpora / "eval", folder / level)
        (folder / level / "recipe.json").write_text(json.dumps(given))
        for path in folder.glob(f"{level}/*/*.en"):
            path.with_suffix(".de").write_bytes(path.read_bytes())
    return folder


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

    def command(*only, acre=acre):
        return main(["compare", "--steps", str(STEPS), "--folder", str(tmp_path / "compare"),
                     "--table", str(tmp_path / "README.md"), "--token", str(data / "token"),
                     "--char", str(data / "char"), *(["--only", *only] if only else []),
                     *(["--acre", str(acre)] if acre else [])])

    return command


def cell(tmp_path, name):
    return tmp_path / "compare" / f"{STEPS}-steps" / name


def test_the_grid_has_a_seed_of_everything_first():
    cells = [str(cell) for cell in compare.grid()]
    assert len(cells) == 16 and cells[:3] == ["token/regular/1", "token/eq3/1", "token/eq9/1"]
    assert all(name.endswith("/1") for name in cells[:8])
    assert [str(c) for c in compare.chosen(["lstm/eq3", "token/eq9/2"])] == [
        "lstm/eq3/1", "token/eq9/2", "lstm/eq3/2"]


def test_one_command_makes_the_table(run, tmp_path, data, capsys):
    assert run("token/regular", "token/eq3/1", "char/eq9/1", "lstm/eq3/1") == 0
    before, text = (tmp_path / "README.md").read_text().split("## What area attention gives\n\n")
    assert before == "# Models\n\n" and text.endswith("\n\n## More\n") and "\nold" not in text
    assert text.startswith("Made by `python3 -m models.train compare`: the same data, steps (3)")
    assert all(len(line) <= 100 or line.startswith("|") for line in text.splitlines())
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    speeds = [row for row in rows if len(row) == 7 and row[2] in ("1", "2")]
    assert [row[:3] for row in speeds] == [
        ["tiny, token", "regular", "2"], ["tiny, token", "areas, Eq. 3", "1"],
        ["tiny, char", "areas, Eq. 9", "1"], ["lstm-256, token", "areas, Eq. 3", "1"]]
    assert [row[4] == "–" for row in speeds] == [False, False, True, True]
    assert [row[6] for row in speeds] == ["1.00", "1.50", "–", "–"]
    scores = {tuple(row[:3]): row[3:] for row in rows if row[2] in ("tatoeba", "newstest2013")}
    assert len(scores) == 7 and ("tiny, char", "areas, Eq. 9", "newstest2013") not in scores
    better = scores["tiny, token", "areas, Eq. 3", "tatoeba"]
    assert better[0] == better[2] == "100.0 ± 0.0" and better[1].startswith("**+")
    assert scores["tiny, char", "areas, Eq. 9", "tatoeba"] == [
        "100.0 ± 0.0", "–", "100.0 ± 0.0", "–"]
    assert text.split("\n\n## More")[0] in capsys.readouterr().out
    found = json.loads(cell(tmp_path, "results.json").read_text())
    assert found["steps"] == STEPS and set(found["kinds"]) == {"token", "char", "lstm"}
    regular = found["kinds"]["token"]["systems"]["regular"]["sets"]["tatoeba"]["bleu"]
    assert set(regular["seeds"]) == {"1", "2"} and regular["difference"]["score"] == 0


def test_runs_differ_only_in_what_is_compared(run, tmp_path, data):
    assert run("token/regular/1", "token/eq9/2", acre=None) == 0
    original = json.loads((data / "token" / "recipe.json").read_text())
    assert original == RECIPE
    regular, eq9 = (vars(read_recipe(cell(tmp_path, name) / "prepared/recipe.json"))
                    for name in ("token/regular/1", "token/eq9/2"))
    assert {key for key in regular if regular[key] != eq9[key]} == {"name", "area", "seed"}
    assert (regular["preset"], regular["start_from"], regular["hours"]) == ("tiny", None, None)
    shared = cell(tmp_path, "token/eq9/2") / "prepared/train.npz"
    assert shared.samefile(data / "token/train.npz")
    assert (tmp_path / "README.md").read_text() == TABLE


def test_the_cool_down_is_not_that_of_the_data(data):
    base = read_recipe(data / "token" / "recipe.json")
    for part in (0.2, 0.5):
        recipe = compare.recipe_of(compare.grid()[0], dataclasses.replace(base, cooldown_part=part),
                                   STEPS)
        assert recipe.cooldown_part == 0.2


def test_the_longest_pairs_are_those_of_the_phases_that_were_reached(data):
    base = read_recipe(data / "token" / "recipe.json")
    recipe = dataclasses.replace(base, phases=(Phase(48, 200, 10), Phase(96, 200, 20),
                                               Phase(64, 200)))
    for steps, longest in ((10, 47), (11, 95), (20, 95), (30, 95)):
        said = comparison.described("token", recipe, data / "token", steps)
        assert said["longest"] == longest


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
    assert run("char/eq3/1", "char/eq3/2") == 0
    assert "interrupted; the same command goes on" in capsys.readouterr().out
    assert not (cell(tmp_path, "char/eq3/1") / "trained.json").exists()
    assert not cell(tmp_path, "char/eq3/2").exists()
    monkeypatch.setattr(training.Trainer, "train_step", whole)
    assert run("char/eq3/1") == 0
    assert "going on from step 2" in capsys.readouterr().out
    trained = json.loads((cell(tmp_path, "char/eq3/1") / "trained.json").read_text())
    assert trained["step"] == STEPS and trained["ids_per_second"] > 0


def test_the_last_weights_are_compared(run, tmp_path, monkeypatch):
    """An evaluation after each step, each worse than the one before."""
    monkeypatch.setattr(training.Every, "due", lambda _: True)
    falling = iter(range(100, 0, -1))
    monkeypatch.setattr(training, "bleu", lambda *_: next(falling))
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
    areas = {2: regular[2] + 1}
    assert comparison.difference(areas, regular) == {"score": 1.0, "ci": 0.0, "seeds": [1.0]}
    assert comparison.difference(areas, {1: regular[1]}) is None
    said = comparison.difference({s: v + s for s, v in regular.items()}, regular)
    assert comparison.difference_in_words(said) == "**+1.5 ± 0.0** (+1.0, +2.0)"
    assert comparison.difference_in_words(
        {"score": 0.2, "ci": 0.5, "seeds": [0.2]}) == "+0.2 ± 0.5"


def test_training_speeds_of_different_machines_are_not_compared():
    slow, quick = ({"ids_per_second": n, "machine": name} for n, name in ((1, "a"), (4, "b")))
    assert comparison.training_speed({1: slow, 2: quick}, {1: quick, 2: quick}) == {
        "ids_per_second": 2.5, "training_ratio": 1}
    assert comparison.training_speed({1: slow}, {1: quick}) == {"ids_per_second": 1}


@pytest.mark.parametrize("arguments, message", [
    (["--only", "token/eq4"], "--only token/eq4: expected the beginning of one of token/regular/1"),
    (["--only", "char", "--char", "/nowhere"], "/nowhere: expected a prepared folder, found no"),
])
def test_what_is_wrong_is_said(tmp_path, capsys, arguments, message):
    assert main(["compare", "--folder", str(tmp_path), *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_table_needs_its_section(run, tmp_path, capsys):
    run("char/regular/1", acre=None)
    (tmp_path / "README.md").write_text("# Models\n")
    assert run("char/regular/1") == 1
    assert "expected one section What area attention gives" in capsys.readouterr().err
