"""build/emulated/acre: the CUDA backend on the emulator, held to the CPU and to golden values.

The emulator is slow, so that a few sentences of every model are decoded; EMULATED=all takes all of
them and every run of golden.json (`make emulated-test`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/parity"))
from test_models import GOLDEN, MODELS, arguments, difference, named  # noqa: E402

ACRE = Path(os.environ.get("ACRE", ROOT / "build/acre")).parent / "emulated/acre"
ALL = os.environ.get("EMULATED") == "all"
RUNS = [(path, run) for path in MODELS for run in GOLDEN[path.name]["runs"]
        if ALL or run in ("greedy", "beam")]
SOME = [path for path in MODELS if ALL or path.name in ("tiny-area", "area-max", "tiny-lstm-heads")]
TIMEOUT_S = 900  # on a busy machine

pytestmark = pytest.mark.skipif(not ACRE.exists(), reason="there is no emulated program")


def acre(model, lines, *options, command="translate"):
    command = [ACRE, command, "--model", str(model), *options]
    result = subprocess.run(command, input="".join(line + "\n" for line in lines).encode(),
                            capture_output=True, timeout=TIMEOUT_S, check=False)
    assert result.returncode == 0, result.stderr.decode(errors="replace")
    return result.stdout.decode().splitlines()


def translate(model, lines, *options, device="cuda", batch=3):
    return acre(model, lines, "--device", device, "--batch-size", str(batch), "--tokens", "--json",
                *options)


def short(model, n):
    """The n shortest sentences, or all."""
    sentences = sorted(GOLDEN[model.name]["sentences"], key=lambda each: len(each["source"]))
    return GOLDEN[model.name]["sentences"] if ALL else sentences[:n]


@pytest.mark.parametrize("model, run", RUNS, ids=named)
def test_translations_are_the_golden_ones(model, run):
    sentences = short(model, 2)
    given = arguments(GOLDEN[model.name]["runs"][run])
    lines = translate(model, [s["source"] for s in sentences], "--compute-type", "f32", *given)
    for sentence, line in zip(sentences, lines, strict=True):
        assert difference(json.loads(line)["hypotheses"], sentence["runs"][run]) is None


@pytest.mark.parametrize("kind", ("f32", "bf16", "int8"))
@pytest.mark.parametrize("model", SOME, ids=named)
def test_batches_change_no_bit(model, kind):
    lines = [s["source"] for s in short(model, 3)]
    given = ("--compute-type", kind, "--beam-size", "3", "--num-hypotheses", "3")
    together = translate(model, lines * 2, *given, batch=4)
    assert together == translate(model, lines, *given, batch=1) * 2


@pytest.mark.parametrize("kind", ("bf16", "int8"))
@pytest.mark.parametrize("model", SOME, ids=named)
def test_other_types_are_near_the_cpu(model, kind):
    """Forced to the same length, greedily: as probable as the CPU's, if the tokens are the same."""
    lines = [s["source"] for s in short(model, 3)]
    given = ("--compute-type", kind, "--beam-size", "1", "--min-length", "6", "--max-length", "6")
    found = [json.loads(line)["hypotheses"][0] for line in translate(model, lines, *given)]
    cpu = translate(model, lines, *given, device="cpu")
    wanted = [json.loads(line)["hypotheses"][0] for line in cpu]
    same = [(f["score"], w["score"]) for f, w in zip(found, wanted) if f["tokens"] == w["tokens"]]
    assert len(same) >= len(lines) - 1
    assert all(abs(f - w) < 0.02 * abs(w) + 0.02 for f, w in same)


@pytest.mark.parametrize("model", SOME, ids=named)
def test_attention_is_that_of_the_cpu(model):
    """What `translate --attention` tells: areas and their weights, by the device's own kernels."""
    lines = [short(model, 1)[0]["source"]]
    given = ("--compute-type", "f32", "--beam-size", "1", "--attention")
    found = json.loads(translate(model, lines, *given)[0])
    wanted = json.loads(translate(model, lines, *given, device="cpu")[0])
    assert near(found, wanted)


def near(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(near, a, b))
    return abs(a - b) < 1e-3 if isinstance(a, float) else a == b


def test_attention_is_that_of_the_authors_code():
    result = subprocess.run([ACRE.parent / "golden/area", ROOT / "tests/golden/area-attention"],
                            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                            env=os.environ | {"DEVICE": "cuda"})
    assert result.returncode == 0, result.stdout
    assert result.stdout.splitlines()[-1] == "25 passed, 0 failed, 0 skipped"


def test_attention_is_its_definition():
    """Random shapes in all modes against double precision, see shapes.c."""
    result = subprocess.run([ACRE.parent / "cuda/shapes", "cuda", "2500" if ALL else "250"],
                            capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert result.returncode == 0, result.stdout
    assert result.stdout.rstrip().endswith(" 0 shapes off")


def test_device_is_named():
    model = MODELS[0]
    result = subprocess.run([ACRE, "translate", "--model", model, "--device", "cuda:3"],
                            input=b"", capture_output=True, timeout=TIMEOUT_S, check=False)
    assert result.returncode == 1
    assert b"cuda:3: expected a GPU from 0 to 0" in result.stderr
