"""`acre translate` against the definition of LSTMs (lstm.py) on random models of odd shapes, with
keys of every kind and with one head and several.

The binary is build/acre, or what the environment variable ACRE names.
"""

import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

sys.path.insert(0, str(Path(__file__).parent))
import lstm  # noqa: E402
import make_golden  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ACRE = Path(os.environ.get("ACRE", ROOT / "build/acre"))
KEYS = ["mean", "max", "sample", "concat", "max_concat", "sum", "sample_concat", "sample_sum"]
BEST = 8  # tokens of the first step that are compared
FIRST = {"beam_size": BEST, "num_hypotheses": BEST, "min_length": 1, "max_length": 1}
FORCED = {"beam_size": 1, "min_length": 9, "max_length": 9}
BOUND = 1e-5  # of a token's log-probability, in float32
SOURCES = 3

pytestmark = pytest.mark.skipif(not ACRE.exists(), reason="there is no acre")


def random_area(chance, key):
    return {"key": key, "value": chance.choice(["sum", "mean", "max"]),
            "weights": chance.choice(["softmax", "sigmoid"]),
            "temperature": chance.choice([0.7, 1.5]),
            "decoder_cross": {"width": [chance.randint(2, 5)]}}


def random_model(directory, key, heads):
    """Keys that are sums must have an even width."""
    chance = random.Random(f"{key} {heads}")
    cells = chance.randrange(9, 45, 2) + key.endswith("sum")
    lstm.make(directory, heads, random_area(chance, key), chance.getrandbits(31),
              cells=cells, layers=chance.randint(1, 3))
    return lstm.load(directory)


def names_of(directory):
    ids = json.loads((directory / "vocab.json").read_text())
    return {i: name for name, i in ids.items()}


def random_sources(names):
    """The first one, with its end token, is not longer than the widest areas."""
    chance = random.Random(2)
    words = [i for i, name in names.items() if not name.startswith("<")]
    lengths = [1, *(chance.randint(1, 20) for _ in range(SOURCES))]
    return [[*chance.choices(words, k=length), 0] for length in lengths]


def translations(directory, names, sources, options):
    """[(ids, S)] of the hypotheses of each source."""
    given = itertools.chain(*((f"--{k.replace('_', '-')}", str(v)) for k, v in options.items()))
    command = [ACRE, "translate", "--model", directory, "--tokens", "--json", "--device", "cpu",
               "--compute-type", "f32", "--threads", "1", *given]
    lines = "".join(" ".join(names[i] for i in source[:-1]) + "\n" for source in sources)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True,
                          timeout=300)
    ids = {name: i for i, name in names.items()}
    return [[([ids[t] for t in h["tokens"]], h["score"]) for h in json.loads(line)["hypotheses"]]
            for line in done.stdout.splitlines()]


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("key", KEYS)
def test_translations_are_those_of_the_definition(tmp_path, key, heads):
    model = random_model(tmp_path / "model", key, heads)
    names = names_of(tmp_path / "model")
    sources = random_sources(names)
    for options in (FIRST, FORCED):
        found = translations(tmp_path / "model", names, sources, options)
        for source, hypotheses in zip(sources, found, strict=True):
            tokens = max(len(ids) for ids, _ in hypotheses)
            for ids, score in hypotheses:
                expected = make_golden.score(model, source, ids, options)
                assert score == pytest.approx(expected, abs=tokens * BOUND)
            best = make_golden.translate(model, source, options)
            assert [ids for ids, _ in hypotheses] == [ids for ids, _ in best]
