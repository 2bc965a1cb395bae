"""acre bench --preset: the table, the JSON, the presets there are, and wrong usage."""

import json
import sys

import pytest

from conftest import ROOT, failed

sys.path.insert(0, str(ROOT))
from models.train.shape import EQUATIONS, PRESETS, LstmPreset, with_heads  # noqa: E402

SMALL = ["--batch-size", "2", "--length", "3", "--vocabulary", "50", "--repeat", "3"]
ROW_KEYS = {"pass_ms", "pass_ratio", "paper_ratio", "step_ms", "step_ratio"}


def measured(acre, preset, *flags):
    done = acre("bench", "--preset", preset, *SMALL, *flags)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_json(acre):
    found = json.loads(measured(acre, "tiny", "--json", "--threads", "1"))
    assert found["preset"]["name"] == "tiny"
    assert (found["batch_size"], found["length"], found["vocabulary"]) == (2, 3, 50)
    assert (found["threads"], found["repeat"]) == (1, 3)
    assert (found["device"], found["compute_type"]) == ("cpu", "f32")
    assert list(found["rows"]) == ["eq3", "eq9", "regular"]
    for name, row in found["rows"].items():
        assert set(row) == ROW_KEYS
        assert all(value > 0 for value in row.values()), (name, row)
    paper = {name: row["paper_ratio"] for name, row in found["rows"].items()}
    assert paper == {"regular": 1, "eq3": 1.25, "eq9": 2}
    assert found["rows"]["regular"]["pass_ratio"] == found["rows"]["regular"]["step_ratio"] == 1


def test_table(acre):
    lines = measured(acre, "tiny", "--compute-type", "int8").splitlines()
    assert lines[0].startswith("tiny: 2 sentences of 3 tokens, vocabulary 50, int8 on cpu ")
    assert lines[2].split() == ["areas", "ms/pass", "ratio", "paper", "ms/step", "ratio"]
    assert [line[:16].split() for line in lines[3:6]] == [
        ["regular", "-"], ["Eq.", "3", "5", "in", "2"], ["Eq.", "9", "5", "in", "2"]]
    numbers = [[float(word) for word in line[16:].split()] for line in lines[3:6]]
    assert [row[2] for row in numbers] == [1, 1.25, 2]
    assert (numbers[0][1], numbers[0][4]) == (1, 1)
    assert len({len(line) for line in lines[2:6]}) == 1


@pytest.mark.parametrize("preset", ["lstm-256", "lstm-256-4"])
def test_lstms_have_no_pass(acre, preset):
    rows = json.loads(measured(acre, preset, "--json"))["rows"]
    assert list(rows) == ["eq3", "eq9", "regular"]
    for row in rows.values():
        assert row["pass_ms"] is row["pass_ratio"] is None
        assert row["step_ms"] > 0 and row["step_ratio"] > 0
    lines = measured(acre, preset).splitlines()
    assert [line[16:].split()[:3] for line in lines[3:6]] == [["-", "-", "-"]] * 3
    assert lines[6] == ""


# ---- Presets ------------------------------------------------------------------------------------


def test_presets_are_those_of_the_recipe(acre):
    """LSTMs of several heads have names of their own: recipes have a key for the heads."""
    sizes = PRESETS | {f"{name}-4": with_heads(size, 4) for name, size in PRESETS.items()
                       if isinstance(size, LstmPreset)}
    done = acre("bench", "--preset", "list", "--json")
    found = {preset["name"]: preset for preset in json.loads(done.stdout)}
    assert list(found) == list(sizes)
    for name, size in sizes.items():
        preset = found[name]
        layers = ({size.layers} if isinstance(size, LstmPreset)
                  else {size.encoder_layers, size.decoder_layers})
        assert {preset["layers"]} == layers
        assert preset["d_model"] == size.width
        assert preset["attention_heads"] == size.heads
        assert preset["ffn"] == getattr(size, "inner", 0)
        for equation in EQUATIONS:
            areas, widths = preset[equation], size.widths(equation, size.attentions[0])
            regular = len(widths) - areas["layers"]
            assert [areas["width"]] * areas["layers"] + [1] * regular == widths


def test_list_is_a_table(acre):
    done = acre("bench", "--preset", "list")
    names = [preset["name"] for preset in
             json.loads(acre("bench", "--preset", "list", "--json").stdout)]
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "preset"
    assert [line.split()[0] for line in lines[1:len(names) + 1]] == names


# ---- Wrong usage --------------------------------------------------------------------------------


@pytest.mark.parametrize("args, texts", [
    (["--preset", "huge"], ["--preset: expected tiny, small, base", '"huge"']),
    (["--preset", "tiny", "--model", "m"], ["--model: expected without --preset"]),
    (["--preset", "tiny", "--input", "f"], ["--input: expected without --preset"]),
    (["--preset", ""], ['--preset: expected a name, found ""']),
    (["--preset", "tiny", "--source", "en"], ["--source: expected without --preset"]),
    (["--preset", "tiny", "--target", "de"], ["--target: expected without --preset"]),
    (["--preset", "tiny", "--tokens"], ["--tokens: expected without --preset"]),
    (["--preset", "tiny", "--beam-threshold", "2"], ["--beam-threshold: expected without"]),
    (["--preset", "tiny", "--beam-size", "2"], ["--beam-size: expected without --preset"]),
    (["--preset", "tiny", "--length-penalty", "0"], ["--length-penalty: expected without"]),
    (["--preset", "tiny", "--max-length", "9"], ["--max-length: expected without --preset"]),
    (["--preset", "tiny", "--threads", "2"], ["--threads: expected 1 with --preset, found 2"]),
    (["--preset", "tiny", "--repeat", "1001"], ["--repeat: expected at most 1000 with --preset"]),
    (["--preset", "tiny", "--length", "1025"], ["--length: expected an integer from 1 to 1024"]),
    (["--preset", "tiny", "--vocabulary", "1"], ["--vocabulary: expected an integer from 2"]),
    (["--model", "m", "--length", "27"], ["--length: expected together with --preset"]),
    (["--model", "m", "--vocabulary", "27"], ["--vocabulary: expected together with --preset"]),
])
def test_wrong_usage(acre, args, texts):
    failed(acre("bench", *args), 2, *texts)


def test_what_this_build_cannot_do(acre):
    failed(acre("bench", "--preset", "tiny", "--device", "cuda:7"), 1, "cuda: expected")
