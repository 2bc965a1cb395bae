"""`make eval`: scores and robustness, in the models' cards and in models/README.md."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("numpy")

from models import evaluate  # noqa: E402
from models.train.card import held_out_in  # noqa: E402
from models.train.corpus import normalised  # noqa: E402
from models.train.sets import evaluation_sentences, fingerprint, read_set  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ACRE = ROOT / os.environ.get("ACRE", "build/acre")
GOLDEN = ROOT / "tests/golden/models/tiny-token"
CARD = """# A model

Words.

## Scores

old

| old |

## Robustness

earlier

## Limits

Many.
"""
SUMMARY = "# Models\n\n## Scores\n\n## Robustness\n"


@pytest.fixture
def models(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "models" / "one")
    (tmp_path / "models" / "one" / "README.md").write_text(CARD)
    (tmp_path / "models" / "README.md").write_text(SUMMARY)
    return tmp_path / "models"


@pytest.fixture
def sets(tmp_path):
    folder = tmp_path / "eval"
    folder.mkdir()
    (folder / "news-ende.en").write_text("The house is small.\nShe reads a book.\n")
    (folder / "news-ende.de").write_text("Das Haus ist klein.\nSie liest ein Buch.\n")
    return folder


def run(models, sets, *arguments):
    return evaluate.main([*arguments, "--acre", str(ACRE), "--eval", str(sets), "--threads", "1",
                          "--folder", str(models), "--part", "scores"])


def run_robustness(models):
    return evaluate.main(["--acre", str(ACRE), "--threads", "1", "--folder", str(models),
                          "--part", "robustness"])


def test_scores_are_written_in_place(models, sets, capsys):
    assert run(models, sets) == 0
    card = (models / "one" / "README.md").read_text()
    before, after = card.split("## Scores\n")
    assert before == CARD[: CARD.index("## Scores")]
    assert after.endswith("\n\n" + CARD[CARD.index("## Robustness") :])
    assert "\nold\n" not in after and "| old |" not in after
    assert "| model | beam | type | news (2) | per s |" in after
    rows = [line for line in after.splitlines() if line.startswith("| one |")]
    assert [row.split(" | ")[1:3] for row in rows] == [
        ["4", "int8"], ["4", "f32"], ["1", "int8"], ["1", "f32"]]
    readme = (models / "README.md").read_text()
    assert all(row in readme for row in rows) and readme.count("| one |") == 4
    assert rows[0] in capsys.readouterr().out


def test_scores_are_those_of_sacrebleu(models, sets):
    import subprocess

    text = (sets / "news-ende.en").read_text()
    (sets / "news-ende.de").write_text(subprocess.run(
        [ACRE, "translate", "--model", GOLDEN, "--beam-size", "4", "--compute-type", "f32"],
        input=text, text=True, capture_output=True, check=True).stdout)
    assert run(models, sets) == 0
    rows = (models / "README.md").read_text().splitlines()
    assert any(row.startswith("| one | 4 | f32 | 100.0 / 100.0 |") for row in rows)


def write_summary(models, scores):
    text = SUMMARY.replace("## Scores\n", f"## Scores\n\n{scores}\n")
    (models / "README.md").write_text(text)


def test_lines_of_other_models_stay_in_the_summary(models, sets):
    other = "| zero | 4 | int8 | 1.0 / 2.0 | – | 9 |"
    old = f"""| model | beam | type | it (3) | news (2) | per s |
| --- | --- | --- | --- | --- | --- |
| one | 2 | bf16 | 5.0 / 6.0 | – | 8 |
{other}
"""
    write_summary(models, f"Old.\n\n{old}\nWords.")
    assert run(models, sets, "one", "--beam", "4") == 0
    text = (models / "README.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[0] == old.splitlines()[0] and lines[-1] == other
    assert [line.split(" | ")[1:4] for line in lines[2:-1]] == [["4", "int8", "–"],
                                                                 ["4", "f32", "–"]]
    assert "Old." not in text and "Words." not in text and text.endswith("## Robustness\n")


def test_other_held_out_sentences_than_the_card_names_are_told(models, sets, capsys):
    path = models / "one/README.md"
    for mark, told in ((fingerprint(["The house is small.", "She reads a book."],
                                    ["Das Haus ist klein.", "Sie liest ein Buch."]), False),
                       ("0123abcd", True)):
        path.write_text(CARD + f"\nHeld out were `news` (2 sentences, `{mark}`).\n")
        assert run(models, sets, "--beam", "1", "--type", "int8") == 0
        said = capsys.readouterr().err
        assert ("one: news: what is held out of --corpora is not what was held out" in said) == told


def test_all_models_leave_no_line_of_others(models, sets):
    write_summary(models, "| model |\n| --- |\n| gone |")
    assert run(models, sets) == 0
    assert "gone" not in (models / "README.md").read_text()


def test_what_was_measured_before_an_interruption_is_written(models, sets, monkeypatch):
    """With the lines of models that are not measured yet."""
    shutil.copytree(models / "one", models / "two")
    write_summary(models, "| model | beam | type | it (3) | per s |\n| --- |\n"
                  "| gone | 4 | int8 | – | 7 |\n| two | 4 | int8 | – | 9 |")
    translate = evaluate.translate

    def interrupted(options, model, *rest):
        if model.name == "two":
            raise KeyboardInterrupt
        return translate(options, model, *rest)

    monkeypatch.setattr(evaluate, "translate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(models, sets, "--beam", "1", "--type", "int8")
    lines = [line for line in (models / "README.md").read_text().splitlines() if line[:1] == "|"]
    assert lines[0] == "| model | beam | type | it (3) | per s | news (2) |"
    assert lines[2].startswith("| one | 1 | int8 | – | ") and len(lines) == 4
    assert lines[3] == "| two | 4 | int8 | – | 9 | – |"
    monkeypatch.setattr(evaluate, "translate", translate)
    assert run(models, sets, "--beam", "1", "--type", "int8") == 0
    lines = [line for line in (models / "README.md").read_text().splitlines() if line[:1] == "|"]
    assert lines[0] == "| model | beam | type | news (2) | per s |" and len(lines) == 4


def test_a_folder_without_models_is_an_error(models, sets, capsys):
    shutil.rmtree(models / "one")
    assert run(models, sets) == 1
    assert f"{models}: expected models, found none" in capsys.readouterr().err


def test_robustness_is_written_in_place(models, monkeypatch, tmp_path, capsys):
    inputs = tmp_path / "inputs.tsv"
    inputs.write_text("kind\ttext\tkept\nodd\t?\nlinks\tSee a.b\ta.b\nlinks\tx.y\tx.y\n")
    read_inputs = evaluate.robustness.read_inputs
    monkeypatch.setattr(evaluate.robustness, "read_inputs", lambda: read_inputs(inputs))
    monkeypatch.setattr(evaluate, "translate", lambda *_: ["?", "See a.b", "x x x"])
    assert run_robustness(models) == 0
    card, summary = ((path / "README.md").read_text() for path in (models / "one", models))
    assert card.startswith(CARD[: CARD.index("earlier")])
    assert card.endswith("\n\n" + CARD[CARD.index("## Limits") :])
    for text in (card, summary):
        assert "| model | odd | links | all |\n" in text and "| one | 1/1 | 1/2 | 2/3 |\n" in text
    assert ("one, links: 'x.y' became 'x x x' (loop: repeats 3 times, at most 2; lost: x.y)"
            in capsys.readouterr().out)


def test_robustness_asks_the_model(models):
    assert run_robustness(models) == 0
    assert "| one | " in (models / "README.md").read_text()


def test_scores_need_sets(models, capsys):
    with pytest.raises(SystemExit) as stopped:
        evaluate.main(["--acre", str(ACRE), "--folder", str(models)])
    assert stopped.value.code == 2
    assert "--eval: expected a folder for the scores, found none" in capsys.readouterr().err


@pytest.mark.parametrize("spoil, message", [
    (lambda m, s: (s / "news-ende.de").write_text("Eins.\n"),
     "news-ende.de: expected 2 lines as in news-ende.en, found 1"),
    (lambda m, s: (s / "news-ende.de").unlink(), "no evaluation set NAME.en with NAME.de"),
    (lambda m, s: (m / "one" / "README.md").write_text("# A model\n"),
     "expected one section Scores, found 0"),
    (lambda m, s: (m / "one" / "README.md").unlink(),
     "one/README.md: expected one section Scores, found no such file"),
    (lambda m, s: (m / "README.md").write_text("# Models\n"),
     "models/README.md: expected one section Scores, found 0"),
    (lambda m, s: (m / "one" / "tokenizer_config.json").write_text('{"source_lang": "en"}'),
     "tokenizer_config.json: expected source_lang and target_lang, found no target_lang"),
    (lambda m, s: (m / "one" / "model.safetensors").write_text("broken"), "returned non-zero"),
])
def test_what_is_wrong_is_said(models, sets, capsys, spoil, message):
    spoil(models, sets)
    assert run(models, sets) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name, text, message", [
    ("README.md", "# Two\n", "two/README.md: expected one section Scores, found 0"),
    ("tokenizer_config.json", "{}", "found no source_lang and no target_lang"),
    ("tokenizer_config.json", '{"source_lang": "de", "target_lang": "fr"}',
     "expected en as either source_lang or target_lang, found de and fr"),
])
def test_every_model_is_checked_before_the_first_is_measured(models, sets, capsys, monkeypatch,
                                                             name, text, message):
    shutil.copytree(models / "one", models / "two")
    (models / "two" / name).write_text(text)
    monkeypatch.setattr(evaluate, "translate", lambda *_: pytest.fail("a model was measured"))
    assert run(models, sets) == 1
    assert message in capsys.readouterr().err


def test_recipes_are_there_before_the_first_is_measured(models, sets, capsys, monkeypatch):
    monkeypatch.setattr(evaluate, "translate", lambda *_: pytest.fail("a model was measured"))
    assert run(models, sets, "--corpora", "/nowhere") == 1
    assert "one: no such recipe; there are " in capsys.readouterr().err


def test_an_unknown_model_is_an_error(models, sets, capsys):
    assert run(models, sets, "two") == 1
    assert "two: expected a model, found no config.json" in capsys.readouterr().err


@pytest.mark.parametrize("source, target", [("en", "de"), ("de", "en")])
def test_sets_are_read_in_the_direction_of_the_model(sets, source, target):
    (test,) = evaluate.public_sets(sets, source, target)
    assert test.name == "news"
    assert test.sources == evaluate.read_lines(sets / f"news-ende.{source}")
    assert test.references == evaluate.read_lines(sets / f"news-ende.{target}")


def test_only_newlines_end_lines(tmp_path):
    """As `acre translate` takes them: others stand in texts."""
    lines = ["a\u2028b\x85c\fd\re", "", "f"]
    for language in ("en", "de"):
        (tmp_path / f"news.{language}").write_bytes("\r\n".join(lines).encode())
    recipe = SimpleNamespace(source="en", target="de")
    assert read_set(tmp_path / "news", recipe) == [lines, lines]
    assert evaluation_sentences(tmp_path) == {normalised(line) for line in lines}
    (test,) = evaluate.public_sets(tmp_path, "en", "de")
    assert test.sources == test.references == lines


@pytest.mark.parametrize("source, target", [("en", "de"), ("de", "en")])
def test_held_out_sentences_are_those_of_the_recipe(tmp_path, corpora, source, target):
    from models.train.prepare import prepare
    from models.train.recipe import read_recipe

    recipe = tmp_path / "recipe.json"
    recipe.write_text("""{"name": "r", "source": "%s", "target": "%s", "level": "char",
        "preset": "tiny", "held_out_sentences": 30,
        "mix": {"all": {"share": 1, "corpora": {"*": 1}}},
        "phases": [{"max_length": 96, "batch_tokens": 400}]}""" % (source, target))
    prepare(recipe, corpora, corpora / "eval", tmp_path / "prepared")
    for test in evaluate.held_out_sets(read_recipe(recipe), corpora, corpora / "eval"):
        stem = tmp_path / "prepared" / "heldout" / test.name
        assert test.sources == evaluate.read_lines(stem.with_suffix(f".{source}"))
        assert test.references == evaluate.read_lines(stem.with_suffix(f".{target}"))


SHIPPED = sorted(path.parent for path in (ROOT / "models").glob("*/config.json"))


@pytest.mark.parametrize("folder", [ROOT / "models", *SHIPPED], ids=lambda folder: folder.name)
def test_what_stands_above_scores_is_what_is_written_there(folder):
    note = evaluate.NOTE.split("`{bleu}`")[0].format(threads=2, choice=evaluate.CHOICE)
    assert f"\n## Scores\n\n{note}`nrefs:1" in (folder / "README.md").read_text()


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_cards_name_what_was_held_out(folder):
    """Models of a pair have the same sets, so that one learns none that another is judged by."""
    held_out = [held_out_in((path / "README.md").read_text()) for path in SHIPPED
                if path.name[:5] == folder.name[:5]]
    assert held_out[0].keys() == {"it", "tatoeba"} and len(held_out) == 2
    assert held_out[0] == held_out[1]
