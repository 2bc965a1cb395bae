"""Holds `acre translate` to the golden translations of tests/golden/models/ (see README.md there).

Needs no PyTorch. The binary is build/acre, or what the environment variable ACRE names.
"""

import json
import os
import random
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted(path.parent for path in (ROOT / "tests/golden/models").glob("*/golden.json"))
GOLDEN = {path.name: json.loads((path / "golden.json").read_text("utf-8")) for path in MODELS}
CASES = [(path, run) for path in MODELS for run in GOLDEN[path.name]["runs"]]
BOUND = 1e-4  # of S and of N, in float32 on the CPU
EXACT = ("--device", "cpu", "--compute-type", "f32")
SOME = [path for path in MODELS
        if path.name in ("tiny-token", "tiny-area", "tiny-char", "tiny-lstm", "area-concat",
                         "area-max")]


def named(value):
    return value.name if isinstance(value, Path) else str(value)


def acre(model, lines, *options, env=None):
    """The lines that `acre translate` writes for these lines."""
    binary = os.environ.get("ACRE", str(ROOT / "build/acre"))
    command = [binary, "translate", "--model", str(model), *EXACT, *options]
    result = subprocess.run(
        command,
        input="".join(line + "\n" for line in lines).encode(),
        capture_output=True,
        env=os.environ | (env or {}),
        timeout=300,
        check=False,
    )
    errors = result.stderr.decode(errors="replace")
    assert result.returncode == 0, f"{command} exited with {result.returncode}: {errors}"
    output = result.stdout.decode().split("\n")
    assert output.pop() == "" and len(output) == len(lines), errors
    return output


def translate(model, lines, *options, env=None):
    """One list of hypotheses for each line of tokens."""
    output = acre(model, lines, "--tokens", "--json", *options, env=env)
    return [json.loads(line)["hypotheses"] for line in output]


def sources(model):
    return [sentence["source"] for sentence in GOLDEN[model.name]["sentences"]]


def arguments(options):
    pairs = [("--" + key.replace("_", "-"), str(value)) for key, value in options.items()]
    return [word for pair in pairs for word in pair]


def spelled(tokens):
    """Byte tokens have two spellings, the character and <0xHH>: the second, for comparing."""
    if any(re.fullmatch("<0x[0-9A-Fa-f]{2}>", token) for token in tokens):
        return [f"<0x{ord(t):02X}>" if len(t) == 1 else t.upper().replace("X", "x") for t in tokens]
    return tokens


def difference(found, expected):
    """What is wrong with the hypotheses of one sentence, or None."""
    if len(found) != len(expected):
        return f"{len(found)} hypotheses instead of {len(expected)}"
    for rank, (got, (tokens, score, normalized)) in enumerate(zip(found, expected)):
        if spelled(got["tokens"]) != spelled(tokens.split()):
            return f"hypothesis {rank}: {' '.join(got['tokens'])!r} instead of {tokens!r}"
        errors = np.abs([got["score"] - score, got["normalized_score"] - normalized])
        if not errors.max() <= BOUND:
            return f"hypothesis {rank}: scores are wrong by {errors}"
    return None


def compare(model, run, *options, env=None):
    golden = GOLDEN[model.name]
    given = arguments(golden["runs"][run])
    found = translate(model, sources(model), *given, *options, env=env)
    pairs = zip(golden["sentences"], found, strict=True)
    wrong = [(s["text"], difference(got, s["runs"][run])) for s, got in pairs]
    wrong = [f"{text!r}: {what}" for text, what in wrong if what]
    assert not wrong, f"{len(wrong)} of {len(found)} sentences:\n" + "\n".join(wrong[:5])


def test_there_are_models():
    assert len(MODELS) >= 9


@pytest.mark.parametrize("model, run", CASES, ids=named)
def test_translations_are_those_of_transformers(model, run):
    compare(model, run)


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_defaults_come_from_the_model(model):
    found = translate(model, sources(model))
    expected = [sentence["runs"]["beam"][:1] for sentence in GOLDEN[model.name]["sentences"]]
    assert [difference(*pair) for pair in zip(found, expected)] == [None] * len(found)


@pytest.mark.parametrize("level", ("scalar", "avx2", "avx512"))
@pytest.mark.parametrize("model", SOME, ids=named)
def test_every_instruction_set(model, level):
    compare(model, "beam", env={"ACRE_CPU": level})


@pytest.mark.parametrize("options", (("--batch-size", "1"), ("--batch-size", "7"),
                                     ("--threads", "1"), ("--threads", "2")), ids=" ".join)
@pytest.mark.parametrize("model", SOME, ids=named)
def test_batches_change_no_bit(model, options):
    given = ("--tokens", "--json", "--beam-size", "4", "--num-hypotheses", "4")
    assert acre(model, sources(model), *given, *options) == acre(model, sources(model), *given)


@pytest.mark.parametrize("beam", ("1", "4"))
@pytest.mark.parametrize("model", SOME, ids=named)
def test_neighbours_change_no_bit(model, beam):
    given = ("--tokens", "--json", "--beam-size", beam, "--num-hypotheses", beam)
    lines = sources(model)
    together = dict(zip(lines, acre(model, lines, *given)))
    shuffled = random.Random(1).sample(lines * 3, 3 * len(lines))
    assert acre(model, shuffled, *given) == [together[line] for line in shuffled]
    for line in lines[:6]:
        assert acre(model, [line], *given) == [together[line]]


@pytest.mark.parametrize("penalty", (0.0, 1.0, 1.4))
@pytest.mark.parametrize("model", SOME, ids=named)
def test_hypotheses_are_ranked(model, penalty):
    options = ("--beam-size", "5", "--num-hypotheses", "5", "--length-penalty", str(penalty))
    for hypotheses in translate(model, sources(model)[:10], *options):
        normalized = [h["normalized_score"] for h in hypotheses]
        assert len(hypotheses) == 5 and normalized == sorted(normalized, reverse=True)
        assert len({tuple(h["tokens"]) for h in hypotheses}) == 5
        expected = [h["score"] / (len(h["tokens"]) + 1) ** penalty for h in hypotheses]
        np.testing.assert_allclose(normalized, expected, rtol=1e-4)


@pytest.mark.parametrize("beam", ("1", "3"))
@pytest.mark.parametrize("length", (1, 7, 40))
@pytest.mark.parametrize("model", MODELS, ids=named)
def test_forced_length(model, length, beam):
    limits = ("--min-length", str(length), "--max-length", str(length))
    for hypotheses in translate(model, sources(model)[:10], "--beam-size", beam, *limits):
        assert [len(h["tokens"]) for h in hypotheses] == [length]


@pytest.mark.parametrize("model", SOME, ids=named)
def test_lengths_stay_within_limits(model):
    options = ("--beam-size", "4", "--num-hypotheses", "4", "--min-length", "3",
               "--max-length", "9")
    for hypotheses in translate(model, sources(model), *options):
        assert all(3 <= len(h["tokens"]) <= 9 for h in hypotheses)


def plain_text(model, tokens):
    """Tokens as text, by the vocabulary."""
    if (model / "target.spm").exists():
        spm = sentencepiece.SentencePieceProcessor(model_file=str(model / "target.spm"))
        return spm.decode(tokens)
    return "".join(chr(int(t[3:5], 16)) if len(t) > 1 else t for t in tokens)


@pytest.mark.parametrize("model", SOME, ids=named)
def test_text_goes_through_the_vocabulary(model):
    """Single sentences of plain ASCII, so that nothing is split and nothing is unknown."""
    sentences = [s for s in GOLDEN[model.name]["sentences"]
                 if s["text"].isascii() and re.fullmatch(r"[\w ,']+[.?!]", s["text"])]
    assert sentences
    tokens = [s["runs"]["greedy"][0][0].split() for s in sentences]
    found = acre(model, [s["text"] for s in sentences], "--beam-size", "1")
    assert [line.split() for line in found] == [plain_text(model, t).split() for t in tokens]
