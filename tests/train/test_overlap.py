"""Training text that repeats evaluation text: what counts, and that no run has any."""

import json
from collections import Counter

import pytest

pytest.importorskip("numpy")

from models.train import overlap  # noqa: E402
from models.train.corpus import Pair  # noqa: E402
from models.train.prepare import prepare  # noqa: E402
from models.train.recipe import PARTS, read_recipe  # noqa: E402

TEN = "One two three four five six seven eight nine ten."  # six runs of five words
EVALUATED = [TEN, "Tom likes tea.", "Room 4 is free.", "I have lived here since 1999, you know."]
FIGURES = "copies                          4        1        1        1\n"
RECIPE = {
    "name": "test", "source": "en", "target": "de", "level": "char", "preset": "tiny",
    "held_out_sentences": 20, "variants": dict.fromkeys(PARTS, 0),
    "mix": {"all": {"share": 1, "corpora": {"*": 1}}},
    "phases": [{"max_length": 160, "batch_tokens": 400}],
}


@pytest.mark.parametrize("sentence, found", [
    ("tom likes TEA", ("exact", "Tom likes tea.")),
    ("Room 5 is free!", ("near", "Room 4 is free.")),
    ("Tom likes coffee.", None),
    ("Tom likes tea very much.", None),
    ("I have lived here since 2005, you know!", ("near", EVALUATED[3])),
    ("I have lived here for years, you know.", None),
    ("One two three four five six seven.", ("near", TEN)),  # three runs of the six
    ("One two three four five six.", None),
    ("And zero one two three four five six seven and so on.", ("near", TEN)),
    ("One two three four five, then six seven eight nine ten.", None),
    ("Ten nine eight seven six five four three two one.", None),
])
def test_what_repeats_a_sentence(sentence, found):
    assert overlap.RepeatIndex(EVALUATED).find(sentence) == found


def test_the_sentence_that_is_repeated_most_is_named():
    others = "One two three four five six seven and eight are the numbers."
    assert overlap.RepeatIndex([others, TEN]).find(TEN.replace("ten", "nine")) == ("near", TEN)


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(RECIPE))
    return path


@pytest.fixture
def repeating(tmp_path, corpora):
    """The corpora and one more, which repeats the evaluation set in three ways."""
    folder = tmp_path / "corpora"
    folder.mkdir()
    for path in corpora.glob("*.tsv"):
        (folder / path.name).write_text(path.read_text())
    english, german = ((corpora / "eval" / f"newstest2013.{language}").read_text().splitlines()
                       for language in ("en", "de"))
    long = next(line for line in english if line.count(" ") == 8)
    (folder / "copies.en-de.tsv").write_text(
        f"{english[0].upper()}\tAbgeschrieben, Wort für Wort von dort\n"
        f"{long[:-1]} xylophone.\tFast abgeschrieben, und so ist es gewesen.\n"
        f"Something else, and no copy of anything.\t{german[0]}\n"
        "Quite unlike all of it.\tGanz anders als alles.\n")
    return folder


def test_a_run_is_prepared_without_repeats(tmp_path, corpora, repeating, recipe, capsys):
    prepared = tmp_path / "prepared"
    prepare(recipe, repeating, corpora / "eval", prepared)
    sources = json.loads((prepared / "sources.json").read_text())
    assert sources["repeats"]["copies"] == {"exact": 1, "near": 1, "target": 1}
    assert sources["corpora"]["copies"]["pairs"] == 1
    assert FIGURES in capsys.readouterr().out


def test_a_prepared_run_is_checked(tmp_path, corpora, repeating, recipe, capsys):
    pytest.importorskip("torch")
    from models.train.__main__ import main

    (tmp_path / "other").mkdir()
    for language in ("en", "de"):
        (tmp_path / "other" / f"newstest2013.{language}").write_text("Nothing.\n")
    prepare(recipe, repeating, tmp_path / "other", tmp_path / "run" / "prepared")
    check = ["overlap", str(recipe), "--run", str(tmp_path / "run")]
    capsys.readouterr()
    assert main(check) == 0
    assert capsys.readouterr().out.splitlines()[1:] == []
    assert main([*check, "--eval", str(corpora / "eval")]) == 0
    out = capsys.readouterr().out
    assert "copies, near: '" in out and " xylophone.' / 'Fast abgeschrieben" in out
    assert FIGURES in out
    assert main([*check, "--eval", str(tmp_path)]) == 1
    assert f"{tmp_path}: no evaluation set NAME.en" in capsys.readouterr().err


def test_repeats_are_counted_by_corpus(tmp_path, recipe):
    (tmp_path / "set.en").write_text("Hello there.\n")
    (tmp_path / "set.de").write_text("Guten Tag.\n")
    evaluated = overlap.Evaluated([tmp_path], read_recipe(recipe))
    pairs = [Pair("a", "hello, there", "Hallo."), Pair("a", "Good day.", "guten Tag!"),
             Pair("a", "Good night.", "Gute Nacht.")]
    kept, counts = overlap.without_repeats({"a": pairs, "b": pairs[2:]}, evaluated)
    assert kept == {"a": pairs[2:], "b": pairs[2:]}
    assert counts == {"a": Counter(exact=1, target=1), "b": Counter()}
