"""Text that a model put into English, made in several goes."""

import gzip
import json

import pytest

pytest.importorskip("numpy")
pytest.importorskip("torch")

from models.train import corpus  # noqa: E402
from models.train.__main__ import main  # noqa: E402

ACRE = """#!/bin/sh
echo "$@" >>"$(dirname "$0")/calls"
test "$1 $2 ${3##*/}" = "translate --model de-en" || exit 2
sed "s/^/So: /" "$4" | head -n ${LINES_MADE:-1000}
"""
LINES = [f"Der Satz Nummer {n} ist lang genug." for n in range(40)]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A translator that writes LINES_MADE lines; a model into English; a text in two files."""
    (tmp_path / "acre").write_text(ACRE)
    (tmp_path / "acre").chmod(0o755)
    (tmp_path / "de-en").mkdir()
    (tmp_path / "de-en/tokenizer_config.json").write_text(
        json.dumps({"source_lang": "de", "target_lang": "en"}))
    with gzip.open(tmp_path / "wiki.de.txt.gz", "wt", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in [*LINES, "", LINES[3]])
    (tmp_path / "talk.txt").write_text("Kurz   gesagt.\n")
    monkeypatch.delenv("LINES_MADE", raising=False)
    return tmp_path


def back(machine, *more):
    return main(["back", str(machine / "de-en"), *(str(machine / t) for t in more[:1]),
                 "--out", str(machine / "made"), "--acre", str(machine / "acre"), *more[1:]])


def test_a_text_becomes_a_corpus(machine):
    assert back(machine, "wiki.de.txt.gz", "--beam", "4", "--threads", "1") == 0
    assert back(machine, "talk.txt") == 0
    files = corpus.corpus_files([machine / "made"], "de")
    assert set(files) == {"wiki.back", "talk.back"}
    pairs = [line.rstrip("\n").split("\t") for line in corpus.read_lines(files["wiki.back"])]
    assert sorted(german for _, german in pairs) == sorted(LINES)
    assert all(english == f"So: {german}" for english, german in pairs)
    assert [german for _, german in pairs] != LINES  # any beginning of it is a fair sample
    assert files["talk.back"].read_text() == "So: Kurz gesagt.\tKurz gesagt.\n"
    first, second = (machine / "calls").read_text().splitlines()
    assert first.endswith("--beam-size 4 --threads 1") and second.endswith("--beam-size 1")


def test_what_was_cut_off_goes_on(machine):
    assert back(machine, "wiki.de.txt.gz") == 0
    made = machine / "made/wiki.back.en-de.tsv"
    whole = made.read_bytes()
    for kept in (len(whole) // 3, 0, len(whole)):
        made.write_bytes(whole[:kept])
        assert back(machine, "wiki.de.txt.gz") == 0
        assert made.read_bytes() == whole


def test_a_text_that_has_changed_goes_on(machine):
    """What is there stands anywhere in the order of the text; only what is new is translated."""
    (machine / "talk.txt").write_text("".join(line + "\n" for line in LINES[:20]))
    assert back(machine, "talk.txt") == 0
    (machine / "talk.txt").write_text("".join(line + "\n" for line in LINES))
    assert back(machine, "talk.txt") == 0
    made = (machine / "made/talk.back.en-de.tsv").read_text().splitlines()
    assert sorted(made) == sorted(f"So: {line}\t{line}" for line in LINES)
    assert back(machine, "talk.txt") == 0
    assert (machine / "calls").read_text().count("translate") == 2


def test_what_another_model_wrote_is_not_gone_on_with(machine, capsys):
    (machine / "de-en/model.safetensors").write_bytes(b"one")
    assert back(machine, "talk.txt") == 0
    (machine / "de-en/model.safetensors").write_bytes(b"two")
    assert back(machine, "talk.txt") == 1
    made = machine / "made/talk.back.en-de.tsv"
    assert f"{made}: expected text by {machine / 'de-en'}" in capsys.readouterr().err
    made.unlink()
    assert back(machine, "talk.txt") == 0
    made.with_suffix(".model").unlink()  # as of older text
    assert back(machine, "talk.txt") == 0


def test_a_translator_that_leaves_lines_out_is_an_error(machine, monkeypatch, capsys):
    monkeypatch.setenv("LINES_MADE", "7")
    assert back(machine, "wiki.de.txt.gz") == 1
    assert "expected 40 translations, found 7" in capsys.readouterr().err
    assert (machine / "made/wiki.back.en-de.tsv").read_text().count("\n") == 7


def test_at_most_so_many_sentences(machine):
    assert back(machine, "wiki.de.txt.gz", "--most", "5") == 0
    assert (machine / "made/wiki.back.en-de.tsv").read_text().count("\n") == 5


def test_of_a_text_some_sentences(machine):
    assert back(machine, "wiki.de.txt.gz") == 0
    whole = (machine / "made/wiki.back.en-de.tsv").read_text().splitlines()
    (machine / "made/wiki.back.en-de.tsv").unlink()
    assert back(machine, "wiki.de.txt.gz", "--first", "6", "--most", "5") == 0
    assert (machine / "made/wiki.back.en-de.tsv").read_text().splitlines() == whole[5:10]


def test_only_models_into_english_are_taken(machine, capsys):
    (machine / "de-en/tokenizer_config.json").write_text(
        json.dumps({"source_lang": "en", "target_lang": "de"}))
    assert back(machine, "talk.txt") == 1
    assert "target_lang: expected a model into en, found en to de" in capsys.readouterr().err


@pytest.mark.parametrize("text, more, message", [
    ("", [], "talk.txt: expected sentences, found none"),
    (" \n\n", [], "talk.txt: expected sentences, found none"),
    ("Kurz gesagt.\n", ["--first", "2"], "talk.txt: --first: expected at most 1, as many as"),
])
def test_a_text_without_sentences_is_an_error(machine, capsys, text, more, message):
    (machine / "talk.txt").write_text(text)
    assert back(machine, "talk.txt", *more) == 1
    assert message in capsys.readouterr().err
    assert not (machine / "made").exists()
