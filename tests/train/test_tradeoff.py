"""BLEU against speed: a table that grows, and a figure of it."""

import os
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from models import tradeoff  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ACRE = ROOT / os.environ.get("ACRE", "build/acre")
GOLDEN = ROOT / "tests/golden/models/tiny-token"


@pytest.fixture
def measure(tmp_path):
    """Measures models by greedy search, {shape: folder}; returns the status."""
    (tmp_path / "newstest2014-ende.en").write_text("The house is small.\nShe reads a book.\n")
    (tmp_path / "newstest2014-ende.de").write_text("Das Haus ist klein.\nSie liest ein Buch.\n")

    def run(**models):
        return tradeoff.main([*(f"{shape}={folder}" for shape, folder in models.items()),
                              "--acre", str(ACRE), "--eval", str(tmp_path), "--beam", "1",
                              "--threads", "1", "--out", str(tmp_path / "speed.svg")])

    return run


def test_models_can_be_measured_one_after_the_other(measure, tmp_path):
    assert measure(small=GOLDEN) == 0
    assert measure(wide=GOLDEN) == 0
    titles, *lines = [line.split("\t") for line in
                      (tmp_path / "speed.tsv").read_text().splitlines()]
    assert titles == tradeoff.TITLES
    assert [line[:3] for line in lines] == [["en-de", "small", "1"], ["en-de", "wide", "1"]]
    assert lines[0][3] == lines[1][3] and all(float(line[4]) > 0 for line in lines)
    assert all(shape in (tmp_path / "speed.svg").read_text() for shape in ("small", "wide"))


def test_the_same_numbers_give_the_same_figure(measure, tmp_path):
    assert measure(small=GOLDEN) == 0
    figure = (tmp_path / "speed.svg").read_bytes()
    assert measure() == 0
    assert (tmp_path / "speed.svg").read_bytes() == figure


def test_another_table_is_not_written_over(measure, tmp_path, capsys):
    (tmp_path / "speed.tsv").write_text("my\tnotes\n")
    assert measure(small=GOLDEN) == 1
    assert "speed.tsv:1: expected languages shape" in capsys.readouterr().err
    assert (tmp_path / "speed.tsv").read_text() == "my\tnotes\n"


def test_an_empty_table_is_named(measure, tmp_path, capsys):
    (tmp_path / "speed.tsv").touch()
    assert measure(small=GOLDEN) == 1
    assert "speed.tsv:1: expected languages shape" in capsys.readouterr().err


def test_a_table_is_written_whole(measure, tmp_path, monkeypatch):
    assert measure(small=GOLDEN) == 0
    before = (tmp_path / "speed.tsv").read_text()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        measure(wide=GOLDEN)
    assert (tmp_path / "speed.tsv").read_text() == before


def test_without_the_set_nothing_is_measured(measure, tmp_path, capsys):
    (tmp_path / "newstest2014-ende.en").rename(tmp_path / "news-ende.en")
    (tmp_path / "newstest2014-ende.de").rename(tmp_path / "news-ende.de")
    assert measure(small=GOLDEN) == 1
    assert "expected newstest2014 of en and de, found news" in capsys.readouterr().err
    assert not (tmp_path / "speed.svg").exists()
