"""Inputs that must not derail a model: the file of them, and what counts as derailed."""

import os
import subprocess
from pathlib import Path

import pytest

from models import robustness
from models.robustness import Input

ROOT = Path(__file__).resolve().parents[2]
ACRE = ROOT / os.environ.get("ACRE", "build/acre")
LINK = "https://example.com/a?b=1&c=2"


def faults(text, translation, *kept):
    return robustness.faults(Input("kind", text, kept), translation)


@pytest.mark.parametrize("text, times", [
    ("", 1), ("Guten Morgen", 1), ("sehr, sehr gut", 2), ("Nein, nein! NEIN.", 3),
    ("auf und lange auf und lange", 2), ("ja nein ja nein ja", 2), ("so so la la la", 3),
    ("s'il vous plaît, s'il vous plaît, s'il vous plaît", 3), ("49.9.9.9", 3), ("😂 😂 😂", 1),
    ("ein paar mehr Worte ein paar mehr Worte ein paar mehr Worte", 3),
    ("eins zwei drei vier fünf eins zwei drei vier fünf eins zwei drei vier fünf", 1),
])
def test_repeats(text, times):
    assert robustness.repeats(text) == times


def test_a_loop_is_a_fault_unless_the_source_has_it():
    assert faults("Very good.", "Sehr sehr sehr gut.") == ["loop: repeats 3 times, at most 2"]
    assert faults("Very good.", "Sehr sehr gut.") == []
    assert faults("Very, very, very good.", "Sehr, sehr, sehr gut.") == []
    assert faults("No no no.", "Nein nein nein nein.") == ["loop: repeats 4 times, at most 3"]


def test_invented_text_is_a_fault():
    assert faults("?", "x" * 22) == []
    assert faults("?", "x" * 23) == ["length: 23 bytes, at most 22"]
    assert faults("ä", "x" * 24) == []


@pytest.mark.parametrize("kept, translation, held", [
    (LINK, f"Siehe {LINK}.", True), (LINK, "Siehe https://example.com/a?b=1", False),
    ("10", "um 10.30 Uhr", True), ("10", "à 10h30", True), ("10", "um 1030 Uhr", False),
    ("4", "im 4. Stock", True), ("4", "Zimmer 404", False), ("4", "Zimmer 404, 4. Stock", True),
    ("2.14.3", "Version 12.14.3", False), ("Tom", "Toms Haus", True), ("😀", "Guten Morgen", False),
])
def test_what_must_come_out_unchanged(kept, translation, held):
    assert robustness.keeps(translation, kept) == held


def test_every_fault_is_told():
    assert faults("Tom is 7.", "er er er ist siebenundzwanzig Jahre alt", "Tom", "7") == [
        "loop: repeats 3 times, at most 2", "length: 39 bytes, at most 38", "lost: Tom", "lost: 7"]


def test_counts_are_by_kind():
    inputs = [Input("numbers", "1", ("1",)), Input("numbers", "2", ("2",)), Input("odd", "?", ())]
    assert robustness.passed(inputs, ["1", "zwei", "?"]) == {"numbers": 1, "odd": 1, "all": 2}


def test_the_inputs_are_what_they_say():
    inputs = robustness.read_inputs()
    assert len(inputs) == len(set(inputs)) >= 60
    assert all(faults(given.text, given.text, *given.kept) == [] for given in inputs)


@pytest.mark.parametrize("text, message", [
    ("text\n", "inputs.tsv:1: expected 'kind.*, found 'text'"),
    ("kind\ttext\tkept\nodd\t?\nodd\n", "inputs.tsv:3: expected a kind, a text and what it keeps"),
    ("kind\ttext\tkept\nodd\t?\t\n", "inputs.tsv:2: expected a kind, a text and what it keeps"),
    ("kind\ttext\tkept\nnames\tTom\tTim\n",
     "inputs.tsv:2: kept: expected a part of the text, found 'Tim'"),
])
def test_mistakes_in_the_file_are_errors(tmp_path, text, message):
    path = tmp_path / "inputs.tsv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        robustness.read_inputs(path)


@pytest.mark.parametrize("name", ["en-de-token", "en-fr-token"])
def test_token_models_neither_loop_nor_invent(name):
    """What they lose is in models/README.md; the models of characters still do all three."""
    inputs = robustness.read_inputs()
    done = subprocess.run(
        [ACRE, "translate", "--model", ROOT / "models" / name, "--beam-size",
         str(robustness.BEAM), "--compute-type", robustness.COMPUTE_TYPE],
        input="".join(given.text + "\n" for given in inputs), capture_output=True, text=True,
        check=True)
    for given, translation in zip(inputs, done.stdout.split("\n")[:-1], strict=True):
        found = [fault for fault in robustness.faults(given, translation)
                 if not fault.startswith("lost")]
        assert not found, f"{given.text!r} became {translation!r}"
