"""The folder of a model: written whole or not at all, and in the place of nothing but a model.

models/convert/directory.py does likewise; a machine that only trains has a copy of models/train.
"""

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path

MODEL_TYPES = ("marian", "m2m_100", "mbart", "acre-lstm")
SUFFIXES = (".json", ".safetensors", ".spm", ".model")
CARDS = ("README.md", "LICENSE", "LICENSE.txt")


def is_of_model(path):
    return path.is_file() and (path.suffix in SUFFIXES or path.name in CARDS)


def type_of(folder):
    """What config.json says of the kind of model, or None."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return config.get("model_type") if isinstance(config, dict) else None


def check_replaceable(folder):
    """Refuses a folder that holds anything but a model."""
    found = sorted(folder.iterdir()) if folder.exists() else []
    others = [path.name for path in found if not is_of_model(path)]
    if others:
        raise ValueError(f"{folder}: expected no folder or a model directory, found other files: "
                         f"{', '.join(others[:3])}")
    if found and type_of(folder) not in MODEL_TYPES:
        raise ValueError(f"{folder}: expected no folder or a model directory, found other files "
                         f"than config.json with a model_type of {', '.join(MODEL_TYPES)}")


@contextmanager
def replacing(folder):
    """A new folder, which takes the name of `folder` if nothing goes wrong while it is filled."""
    folder = Path(folder).resolve()
    check_replaceable(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as unfinished:
        new, old = (Path(unfinished) / name for name in ("new", "old"))
        new.mkdir()
        yield new
        try:
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
        finally:  # a signal may come between the two
            if old.exists() and not folder.exists():
                old.rename(folder)
