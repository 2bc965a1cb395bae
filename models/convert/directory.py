"""The model directory that is written: all of it at once, or nothing."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from .errors import unlike
from .files import json_bytes, read_bytes
from .safetensors import write_safetensors
from .tensor import Tensor

CARDS = ("README.md", "LICENSE", "LICENSE.txt")
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
OWN_SUFFIXES = (".json", ".safetensors", ".spm", ".model")


@dataclass
class Model:
    """What goes into a directory: weights, files, and the JSON files as values."""

    tensors: dict[str, Tensor]
    documents: dict[str, dict]
    files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what the user should know


def cards_of(folder):
    """Who made a model and under which licence goes with its weights."""
    paths = [folder / name for name in CARDS if (folder / name).is_file()]
    return {path.name: read_bytes(path) for path in paths}


def check_target(source, target):
    """Refuses to replace what is no model directory, and the source itself."""
    here, there = source.resolve(), target.resolve()
    if here == there or there in here.parents or here in there.parents:
        raise unlike(str(target), "a folder apart from the source", f"{source}")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise unlike(str(target), "a folder, or none yet", "something else")
    found = sorted(target.iterdir()) if target.exists() else []
    if not found:
        return
    names = [path.name for path in found]
    if "config.json" not in names or not any(name in names for name in WEIGHTS):
        raise unlike(str(target), "no folder, an empty one or a model directory",
                     f"other files: {', '.join(names[:3])}")
    for path in found:
        if not path.is_file() or not (path.suffix in OWN_SUFFIXES or path.name in CARDS):
            raise unlike(str(target), "a model directory and nothing else", f"{path.name} too")


def fill(folder, model):
    for name, value in model.documents.items():
        (folder / name).write_bytes(json_bytes(value))
    for name, data in model.files.items():
        (folder / name).write_bytes(data)
    write_safetensors(folder / WEIGHTS[0], model.tensors)
    folder.chmod(0o755)  # mkdtemp makes folders for their owner only


def put_in_place(new, target):
    """Renames; a model that was there is deleted only when the new one has its name, and gets its
    own back if anything, a signal too, comes between."""
    if not target.exists() or not any(target.iterdir()):
        new.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    try:
        target.rename(old)
        new.rename(target)
    finally:
        if target.exists():
            shutil.rmtree(old)
        else:
            old.rename(target)


def write_directory(model, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        fill(new, model)
        put_in_place(new, target)
    finally:
        shutil.rmtree(new, ignore_errors=True)
