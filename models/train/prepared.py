"""What a prepared folder (prepare.py) or a pack (pack.py) holds, read with errors that name the
file and what was expected of it."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from .files import read_json

# What numpy ends with where a file was cut off, has other bytes or is of another kind.
DAMAGE = (ValueError, TypeError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def read_arrays(path, *names):
    """{name: array} of an .npz file: those that are named, or all."""
    path, wanted = Path(path), ", ".join(names) or "some"
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected arrays ({wanted}), found no such file")
    try:
        with np.load(path) as arrays:
            return {name: arrays[name] for name in names or arrays.files}
    except DAMAGE as error:
        raise ValueError(f"{path}: expected arrays ({wanted}), found a file that is damaged or "
                         "lacks one") from error


def read_sources(folder):
    """What sources.json says: {"corpora": {name: {"pairs": ...}}} and more."""
    path = Path(folder) / "sources.json"
    sources = read_json(path)
    corpora = sources.get("corpora") if isinstance(sources, dict) else None
    if not isinstance(corpora, dict):
        raise ValueError(f"{path}: corpora: expected an object, found {corpora!r}")
    for name, counts in corpora.items():
        pairs = counts.get("pairs") if isinstance(counts, dict) else None
        if type(pairs) is not int:
            raise ValueError(f"{path}: corpora.{name}.pairs: expected an integer, found {pairs!r}")
    return sources
