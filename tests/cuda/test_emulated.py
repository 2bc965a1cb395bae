"""build/emulated/acre: the CUDA backend on the emulator, held to the CPU and to golden values.

The emulator is slow, so that a few sentences of every model are decoded; EMULATED=all takes all of
them and every run of golden.json (`make emulated-test`). In emulated/sanitized and emulated/race
are the same programs with the sanitizers, and with races looked for: what these find ends a program
with another status than 0."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_right import NEAR

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/parity"))
from test_models import GOLDEN, MODELS, arguments, difference, named  # noqa: E402

EMULATED = Path(os.environ.get("ACRE", ROOT / "build/acre")).parent / "emulated"
ACRE = EMULATED / "acre"
ALL = os.environ.get("EMULATED") == "all"
RUNS = [(path, run) for path in MODELS for run in GOLDEN[path.name]["runs"]
        if ALL or run in ("greedy", "beam")]
SOME = [path for path in MODELS if ALL or path.name in ("tiny-area", "area-max", "tiny-lstm-heads")]
CHECKS = ("sanitized", "race")
CHECKED = ([(path, kind) for path in MODELS for kind in ("f32", "f16", "bf16", "int8")] if ALL else
           [(path, kind) for path, kind in zip(SOME, ("f32", "f16", "int8"), strict=True)])
ORDERS = ("0", "1", "2") if ALL else ("2",)  # of threads, see emulate.h
TIMEOUT_S = 1800  # on a busy machine

pytestmark = pytest.mark.skipif(not ACRE.exists(), reason="there is no emulated program")


def run(program, *arguments, text="", **environment):
    """The lines that a program of the emulated device writes."""
    result = subprocess.run([EMULATED / program, *map(str, arguments)], input=text.encode(),
                            capture_output=True, timeout=TIMEOUT_S, check=False,
                            env=os.environ | environment)
    output = result.stdout.decode()
    assert result.returncode == 0, output[-2000:] + result.stderr.decode(errors="replace")
    return output.splitlines()


def translate(model, lines, *options, device="cuda", batch=3, check=".", order="0"):
    return run(f"{check}/acre", "translate", "--model", model, "--device", device, "--batch-size",
               batch, "--tokens", "--json", *options, text="".join(line + "\n" for line in lines),
               EMULATED_ORDER=order)


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


def many_languages(name):
    """A model, and of its sentences those from English to German."""
    model = ROOT / "tests/golden/multilingual" / name
    golden = json.loads((model / "golden.json").read_text("utf-8"))
    sentences = [s for s in golden["sentences"] if s["pair"] == ["en", "de"]]
    return model, golden["runs"]["beam"], sentences if ALL else sentences[:2]


@pytest.mark.parametrize("name", ("m2m-many", "nllb-many", "mbart-many"))
def test_models_of_many_languages(name, tmp_path):
    """First tokens are forced, and whole translations scored, as on the CPU."""
    model, options, sentences = many_languages(name)
    given = ("--compute-type", "f32", "--source", "en", "--target", "de")
    sources = [s["source"] for s in sentences]
    lines = translate(model, sources, *given, *arguments(options))
    for sentence, line in zip(sentences, lines, strict=True):
        assert difference(json.loads(line)["hypotheses"], sentence["runs"]["beam"]) is None
    targets = tmp_path / "targets"
    targets.write_text("".join(s["runs"]["beam"][0][0] + "\n" for s in sentences))
    for sentence, line in zip(sentences, translate(model, sources, *given, "--score", targets)):
        assert abs(json.loads(line)["score"] - sentence["runs"]["beam"][0][1]) < 1e-3


@pytest.mark.parametrize("kind", ("f32", "f16", "bf16", "int8"))
@pytest.mark.parametrize("model", SOME, ids=named)
def test_batches_change_no_bit(model, kind):
    lines = [s["source"] for s in short(model, 3)]
    given = ("--compute-type", kind, "--beam-size", "3", "--num-hypotheses", "3")
    together = translate(model, lines * 2, *given, batch=4)
    assert together == translate(model, lines, *given, batch=1) * 2


@pytest.mark.parametrize("model", SOME, ids=named)
def test_the_largest_beam(model):
    """All 64 hypotheses are the CPU's, in its order."""
    given = ("--compute-type", "f32", "--beam-size", "64", "--num-hypotheses", "64",
             "--max-length", "3")
    found, wanted = (json.loads(translate(model, ["We go."], *given, device=device)[0])
                     for device in ("cuda", "cpu"))
    assert ([h["tokens"] for h in found["hypotheses"]] ==
            [h["tokens"] for h in wanted["hypotheses"]])


def scores(model, lines, targets, kind, device):
    """What the model gives each target there, divided by its length."""
    given = ("--compute-type", kind, "--score", targets)
    return [json.loads(line)["normalized_score"]
            for line in translate(model, lines, *given, device=device)]


@pytest.mark.parametrize("kind", NEAR)
@pytest.mark.parametrize("model", SOME, ids=named)
def test_other_types_are_near_f32(model, kind, tmp_path):
    """Golden translations are as probable as in f32 on the CPU, relative to 1 + |score|."""
    sentences = short(model, 3)
    lines, targets = [s["source"] for s in sentences], tmp_path / "targets"
    targets.write_text("".join(s["runs"]["greedy"][0][0] + "\n" for s in sentences))
    wanted = scores(model, lines, targets, "f32", "cpu")
    errors = [abs(found - score) / (1 + abs(score)) for found, score in
              zip(scores(model, lines, targets, kind, "cuda"), wanted, strict=True)]
    mean, most = NEAR[kind]
    assert sum(errors) / len(errors) <= mean and max(errors) <= most


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("model, kind", CHECKED, ids=named)
@pytest.mark.parametrize("check", CHECKS)
def test_sanitizers_and_races(check, model, kind, order):
    """They find nothing, in any order of the threads, and the bits are the same."""
    lines = [s["source"] for s in sorted(GOLDEN[model.name]["sentences"],
                                         key=lambda each: len(each["source"]))[:3 if ALL else 1]]
    given = ("--compute-type", kind, "--beam-size", "2", "--num-hypotheses", "2", "--max-length",
             "8" if ALL else "3")
    wanted = translate(model, lines, *given)
    assert translate(model, lines, *given, check=check, order=order) == wanted


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


@pytest.mark.parametrize("check", (".", *CHECKS) if ALL else (".",))
def test_attention_is_that_of_the_authors_code(check):
    lines = run(f"{check}/golden/area", ROOT / "tests/golden/area-attention", DEVICE="cuda")
    assert lines[-1] == "25 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize("check, n", ((".", 2500 if ALL else 250),
                                      *((check, 500 if ALL else 20) for check in CHECKS)))
def test_attention_is_its_definition(check, n):
    """Random shapes in all modes against double precision, see shapes.c."""
    assert run(f"{check}/cuda/shapes", "cuda", n)[-1].endswith(" 0 shapes off")


@pytest.mark.parametrize("form", ("f16", "f32"))
def test_long_attention_is_its_definition(form):
    """Of several tiles, with heads of 64 and 128 numbers."""
    assert run("cuda/shapes", "cuda", 40 if ALL else 2, 1, form)[-1].endswith(" 0 shapes off")


def changed(directory, name, **changes):
    """A copy of a model with another configuration."""
    model = shutil.copytree(ROOT / "tests/golden/models" / name, directory / name)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | changes))
    return model


def refusal(model, *options, text=""):
    """What is said by a program that translates nothing."""
    result = subprocess.run([ACRE, "translate", "--model", model, "--device", "cuda",
                             "--batch-size", "1", *options], input=text.encode(),
                            capture_output=True, timeout=TIMEOUT_S, check=False)
    assert result.returncode == 1
    return result.stderr.decode()


def test_too_long_a_memory_is_refused(tmp_path):
    """Its scores do not fit into the shared memory of a block."""
    model = changed(tmp_path, "tiny-area", max_position_embeddings=8192)
    assert f"{model}/config.json: expected fewer positions, narrower heads of attention or a " \
        "smaller vocabulary for cuda:0" in refusal(model)


def test_too_large_a_picture_is_refused(tmp_path):
    """And nothing else: of plain attention pictures alone take areas one by one."""
    area = {"key": "mean", "value": "mean", "decoder_cross": {"width": [16, 16]}}
    model = changed(tmp_path, "tiny-area-mean", area=area, max_position_embeddings=4096)
    given = ("--max-length", "3")
    assert len(translate(model, ["We go."], *given, batch=1)) == 1
    assert "config.json: expected fewer positions to show attention on cuda:0" in \
        refusal(model, *given, "--json", "--attention", text="We go.\n")


def test_device_is_named():
    model = MODELS[0]
    result = subprocess.run([ACRE, "translate", "--model", model, "--device", "cuda:3"],
                            input=b"", capture_output=True, timeout=TIMEOUT_S, check=False)
    assert result.returncode == 1
    assert b"cuda:3: expected a GPU from 0 to 0" in result.stderr
