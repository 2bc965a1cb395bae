"""Averaging exported models: the weighted mean of every tensor.

States of one run (Izmailov et al., UAI 2018) and runs that go on from one model (Wortsman et al.,
*Model soups*, ICML 2022) lie so close together that their mean is a model as good, often a steadier
one. All must be the same model but for the values of its weights.
"""

import hashlib
import math
import shutil
from contextlib import ExitStack
from pathlib import Path

from safetensors import SafetensorError, safe_open

from .export import write_tensors
from .files import read_json
from .folder import is_of_model, replacing
from .inherit import weight_files

# A model may also hold its card and decoding defaults, which say nothing of its weights.
COMPARED_SUFFIXES = (".json", ".safetensors", ".spm")
NOT_COMPARED = "generation_config.json"


def weighted(text):
    """(DIR, WEIGHT) of DIR[:WEIGHT]."""
    folder, colon, number = text.rpartition(":")
    if not colon:
        return Path(text), 1.0
    try:
        weight = float(number)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise ValueError(f"{text}: weight: expected a positive number, found {number!r}")
    return Path(folder), weight


def tensor_types(path):
    with safe_open(path, "pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}
        return {name: {"dtype": part.get_dtype(), "shape": part.get_shape()}
                for name, part in slices.items()}


def contents(path):
    """What models that are averaged agree in."""
    try:
        if path.suffix == ".safetensors":
            return tensor_types(path)
        if path.suffix == ".json":
            return read_json(path)
        return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    except SafetensorError as error:
        raise ValueError(f"{path}: {error}") from error


def description(folder):
    weight_files(folder)  # or else it is no model
    return {path.name: contents(path) for path in sorted(folder.iterdir())
            if path.suffix in COMPARED_SUFFIXES and path.name != NOT_COMPARED}


def check_same(where, expected, found):
    """Names the first field, at any depth, that differs."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in expected | found:
            check_same(f"{where}: {key}", expected.get(key, "nothing"), found.get(key, "nothing"))
    elif expected != found:
        raise ValueError(f"{where}: expected {expected}, found {found}")


def check_models(folders, out):
    for folder in folders:
        here, there = folder.resolve(), out.resolve()
        if here.is_relative_to(there) or there.is_relative_to(here):
            raise ValueError(f"{out}: expected a folder apart from the models, found {folder}")
    first = description(folders[0])
    for folder in folders[1:]:
        check_same(str(folder), first, description(folder))


def mean(tensors, parts):
    """In float32, then rounded to the type that the tensors have."""
    total = sum(part * tensor.float() for tensor, part in zip(tensors, parts))
    return total.to(tensors[0].dtype)


def write_mean(paths, parts, path):
    """Takes one tensor of every model at a time: many models need little more memory than one."""
    with ExitStack() as stack:
        files = [stack.enter_context(safe_open(each, "pt")) for each in paths]
        means = {name: mean([file.get_tensor(name) for file in files], parts)
                 for name in files[0].keys()}
    write_tensors(means, path)


def average(models, out):
    """Writes the mean of `models`, pairs (folder, weight); the other files are the first model's.

    `out` is written whole or not at all; a model that was there is replaced.
    """
    folders = [folder for folder, _ in models]
    total = sum(weight for _, weight in models)
    parts = [weight / total for _, weight in models]
    check_models(folders, out)
    with replacing(out) as new:
        for path in filter(is_of_model, folders[0].iterdir()):
            if path.suffix != ".safetensors":
                shutil.copy(path, new)
        for file in weight_files(folders[0]):
            write_mean([folder / file.name for folder in folders], parts, new / file.name)
    mixed = " + ".join(f"{part:.3g} {folder}" for folder, part in zip(folders, parts))
    print(f"average: {out}: {mixed}; all but the weights, README.md too, is that of {folders[0]}")
