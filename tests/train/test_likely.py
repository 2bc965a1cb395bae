"""Of what a machine wrote, the part that a model finds likely."""

import gzip
import json
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from models.train.__main__ import main  # noqa: E402

# Finds a target likely if it is as long as the source; line i of the corpus has i bytes more.
ACRE = """#!/bin/sh
echo "$@" >>"$(dirname "$0")/calls"
test "$1 $2 ${3##*/} $5 $7" = "translate --model en-de --score --json" || exit 2
paste "$4" "$6" | awk -F '\\t' '{ printf "{\\"score\\":-9,\\"normalized_score\\":%d}\\n",
                                       length($1) - length($2) }'
"""
PAIRS = [("a dog", "a dog" + n * "!") for n in (3, 0, 7, 1, 2, 7, 6, 5)]


@pytest.fixture
def scorer(tmp_path):
    (tmp_path / "acre").write_text(ACRE)
    (tmp_path / "acre").chmod(0o755)
    (tmp_path / "en-de").mkdir()
    (tmp_path / "en-de/tokenizer_config.json").write_text(
        json.dumps({"source_lang": "en", "target_lang": "de"}))
    with gzip.open(tmp_path / "wiki.back.en-de.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines("\t".join(pair) + "\n" for pair in PAIRS)
    return tmp_path


def likely(folder, *more, corpus="wiki.back.en-de.tsv.gz"):
    return main(["likely", str(folder / "en-de"), str(folder / corpus), "--out",
                 str(folder / "good"), "--acre", str(folder / "acre"), *more])


def kept(folder):
    lines = (folder / "good/wiki.back.en-de.tsv").read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines]


@pytest.mark.parametrize("part, n", [(None, 6), ("0.5", 4), ("0.01", 0), ("1", 8)])
def test_the_worst_part_goes_and_the_order_stays(scorer, part, n):
    assert likely(scorer, *(["--part", part] if part else [])) == 0
    best = sorted(PAIRS, key=lambda pair: len(pair[1]))[:n]
    assert kept(scorer) == [pair for pair in PAIRS if pair in best]


def test_of_pairs_as_good_as_each_other_the_last_stay(scorer):
    assert likely(scorer, "--part", "0.875", "--threads", "1") == 0
    assert kept(scorer) == PAIRS[:2] + PAIRS[3:]
    assert (scorer / "calls").read_text().endswith("--json --threads 1\n")


def test_long_pairs_go_first_and_no_model_is_asked_for_them(scorer):
    long = ("a dog", "a dog" + 500 * "!")
    (scorer / "long.en-de.tsv").write_text(
        "".join("\t".join(pair) + "\n" for pair in [PAIRS[0], long, *PAIRS[1:]]))
    assert likely(scorer, "--part", "0.889", corpus="long.en-de.tsv") == 0
    lines = (scorer / "good/long.en-de.tsv").read_text().splitlines()
    assert [tuple(line.split("\t")) for line in lines] == PAIRS


@pytest.mark.parametrize("part", ["0", "1.1", "-1", "nan", "much"])
def test_a_part_is_above_0_and_at_most_1(scorer, part, capsys):
    with pytest.raises(SystemExit):
        likely(scorer, "--part", part)
    assert "--part" in capsys.readouterr().err


def test_what_is_there_is_not_replaced(scorer, capsys):
    assert likely(scorer) == 0
    assert likely(scorer) == 1
    assert "wiki.back.en-de.tsv: expected no such file" in capsys.readouterr().err


def test_an_end_while_it_is_written_leaves_nothing(scorer, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", killed)
        likely(scorer)
    assert not (scorer / "good/wiki.back.en-de.tsv").exists()
    assert likely(scorer) == 0 and len(kept(scorer)) == 6


def test_only_a_model_of_the_languages_is_taken(scorer, capsys):
    (scorer / "wiki.en-fr.tsv").write_text("a\tb\n")
    assert likely(scorer, corpus="wiki.en-fr.tsv") == 1
    assert "expected a model from en to fr, as in wiki.en-fr.tsv, found en to de" in (
        capsys.readouterr().err)
    assert likely(scorer, corpus="wiki.tsv") == 1
    assert "wiki.tsv: expected a file called NAME.en-XX.tsv or .tsv.gz" in capsys.readouterr().err


def test_a_line_that_is_no_pair_is_named(scorer, capsys):
    (scorer / "odd.en-de.tsv").write_text("a\tb\na\n")
    assert likely(scorer, corpus="odd.en-de.tsv") == 1
    assert "odd.en-de.tsv:2: expected 2 columns, found 1" in capsys.readouterr().err


def test_a_scorer_that_fails_leaves_nothing(scorer, capsys):
    (scorer / "acre").write_text("#!/bin/sh\nexit 3\n")
    assert likely(scorer) == 1
    assert "returned non-zero exit status 3" in capsys.readouterr().err
    assert not (scorer / "good").exists()


def test_a_corpus_without_pairs_is_an_error(scorer, capsys):
    (scorer / "none.en-de.tsv").write_text("")
    assert likely(scorer, corpus="none.en-de.tsv") == 1
    assert "none.en-de.tsv: expected pairs, found none" in capsys.readouterr().err
    assert not (scorer / "good").exists()
