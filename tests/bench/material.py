"""What is measured with: random models, made-up sentences, sentences of newstest2014."""

import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
SCRATCH = ROOT / "build/bench"
TEST_PYTHON = ROOT / "build/venv-test/bin/python"
PEER_PYTHON = ROOT / "build/venv-bench/bin/python"


def progress(text):
    print(text, file=sys.stderr, flush=True)


def is_older(made, *sources):
    return not made.exists() or any(made.stat().st_mtime < s.stat().st_mtime for s in sources)


def random_model(preset, width=1):
    directory = SCRATCH / f"{preset}-w{width}"
    script = HERE / "random_model.py"
    if is_older(directory / "config.json", script):
        progress(f"writing {directory.name}")
        command = [PEER_PYTHON, script, directory, "--preset", preset, "--width", str(width)]
        subprocess.run(command, check=True)
    return directory


def peer_model(preset):
    """The same weights as random_model(preset), for CTranslate2."""
    model, directory = random_model(preset), SCRATCH / f"{preset}-ctranslate2"
    script = HERE / "peer.py"
    if is_older(directory / "model.bin", script, model / "config.json"):
        progress(f"writing {directory.name}")
        subprocess.run([PEER_PYTHON, script, "convert", model, directory], check=True)
    return directory


def token_file(length, sentences):
    """Sentences of `length` tokens that every random model has."""
    rng = random.Random(length)
    path = SCRATCH / f"tokens-{length}-{sentences}.txt"
    lines = (
        " ".join(f"▁made{rng.randrange(1000, 7000)}up" for _ in range(length))
        for _ in range(sentences)
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def made_up_text(sentences):
    """Text for random models: short words, which their tokeniser knows."""
    rng = random.Random(sentences)
    words = "I you we Tom Mary want to see like the house money school good here now not".split()
    path = SCRATCH / f"text-{sentences}.txt"
    lines = (" ".join(rng.choices(words, k=rng.randrange(5, 35))) for _ in range(sentences))
    path.write_text("\n".join(lines) + "\n")
    return path


def newstest(folder, target):
    """(source, reference) of newstest2014, or None. Two spellings of the names are in use."""
    for name in ("newstest2014", f"newstest2014-en{target}"):
        source, reference = folder / f"{name}.en", folder / f"{name}.{target}"
        if source.exists() and reference.exists():
            return source, reference
    return None


def english(folder, most, name):
    """A file of at most `most` sentences: of newstest2014 if it is in `folder`, else made up."""
    found = folder and (newstest(folder, "de") or newstest(folder, "fr"))
    return some_lines(found[0], most, name) if found else made_up_text(most)


def some_lines(path, most, name):
    """A file of at most `most` lines taken evenly from `path`, the same ones on every call."""
    lines = path.read_text().splitlines()
    step = max(1, len(lines) // most)
    out = SCRATCH / name
    out.write_text("\n".join(lines[::step][:most]) + "\n")
    return out
