"""Requests whose answers are known, sent by the program `load`, and what became of them."""

import json
import math
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from itertools import product
from pathlib import Path

from fleet import ACRE, BUILD, ROOT

LOAD = BUILD / "tests/deploy/load"
MODEL = "some-model"  # the name under which every model is served, so that one can follow another
TIMEOUT_S = 70  # longer than any balancer waits


def texts():
    """Short ones: a tiny model takes less than a millisecond for each."""
    for who, does, what in product(("I", "We", "They", "You"), ("see", "have", "want", "like"),
                                   ("water", "the cat", "a book", "the house", "two friends",
                                    "a car", "the city", "my school", "bread", "the sea")):
        yield f"{who} {does} {what}."


def translate(model, lines):
    """By the command, one sentence after the other on one thread: nothing is shared with it."""
    result = subprocess.run(
        [ACRE, "translate", "--model", model, "--beam-size", "1", "--threads", "1",
         "--batch-size", "1"],
        input="".join(line + "\n" for line in lines), capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


def make_models(folder, model):
    """A folder for --models, with one model of this repository."""
    models = folder / Path(model).name
    shutil.copytree(ROOT / model, models / MODEL)
    return models


def make_cases(path, *models):
    """Writes cases whose answers tell sentences and models apart; returns how many."""
    lines = list(texts())
    answers = [translate(folder / MODEL, lines) for folder in models]
    seen = Counter(text for of_model in answers for text in set(of_model))
    cases, taken = [], set()
    for line, *told in zip(lines, *answers):
        if any(seen[text] > 1 or text in taken for text in told):
            continue
        taken.update(told)
        cases.append({"path": f"/translate/{MODEL}",
                      "body": json.dumps({"q": line, "beam_size": 1}), "answers": told})
    path.write_text(json.dumps(cases))
    return len(cases)


class Load:
    """A run of `load` against a port; phases are (requests a second, seconds)."""

    def __init__(self, port, cases, *phases, clients=False):
        command = [LOAD, str(port), str(cases), str(TIMEOUT_S), "clients" if clients else "rate",
                   *(f"{rate:.3f}:{seconds:.3f}" for rate, seconds in phases)]
        self.began = time.monotonic()
        with tempfile.TemporaryFile("w+") as output:
            self.output = os.dup(output.fileno())
            self.process = subprocess.Popen(command, stdout=output)

    def seconds(self):
        return time.monotonic() - self.began

    def stop(self):
        """Sends no more; what was sent is waited for by finish()."""
        self.process.terminate()

    def finish(self):
        """All requests: (seconds after the start when due, milliseconds, what became of it)."""
        assert self.process.wait(timeout=3600) == 0, "load failed"
        with open(self.output, encoding="utf-8") as output:
            output.seek(0)
            rows = [line.split("\t") for line in output]
        return [(float(due), float(took), outcome.strip()) for due, took, outcome in rows]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def percentile(values, p):
    """By nearest rank; of nothing, not a number."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * p / 100) - 1)] if ordered else math.nan


def summarise(done):
    """Counts and latencies. Lost is what has neither an answer nor a refusal that says when."""
    kinds = Counter(outcome for _, _, outcome in done)
    good = [took for _, took, outcome in done if outcome.isdigit()]
    answered = len(good)
    return {
        "requests": len(done),
        "answered": answered,
        "refused": kinds["refused"],
        "wrong": kinds["wrong"],
        "lost": len(done) - answered - kinds["refused"] - kinds["wrong"],
        "outcomes": dict(kinds),
        "latency_ms": {f"p{p}": percentile(good, p) for p in (50, 99, 99.9)}
        | {"max": max(good, default=math.nan)},
    }
