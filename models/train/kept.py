"""What compare.py keeps of its cells, KEPT/MODEL/AREA/SEED/cell.json, read with errors that name
the file: a cell that lacks something would lack a row of the table, and nobody would miss it."""

import math

from .files import read_json
from .rules import place

NUMBER = (int, float)
# What the table is made of, and of which kind.
CELL = {"step": int, "tokens": int, "seconds": NUMBER, "loss": NUMBER, "machine": str,
        "recipe": dict, "data": dict, "scores": dict}
DATA = {"languages": str, "pairs": int, "longest": int, "sets": dict}
POSITIVE = "step", "tokens", "seconds"


def is_of(kinds, value):
    is_number = isinstance(value, NUMBER) and not isinstance(value, bool)
    return isinstance(value, kinds) and (not isinstance(value, NUMBER)
                                         or is_number and math.isfinite(value))


def in_words(kinds):
    return {int: "an integer", NUMBER: "a number", str: "a text", dict: "an object"}[kinds]


def check_keys(values, kinds, where=""):
    """Each key is there, and of its kind."""
    if not isinstance(values, dict):
        raise ValueError(f"expected an object, found {values!r:.40}")
    for key, kind in kinds.items():
        value = values.get(key)
        if not is_of(kind, value):
            raise ValueError(f"{place(key, where)}: expected {in_words(kind)}, found {value!r:.40}")
        if key in POSITIVE and value <= 0:
            raise ValueError(f"{place(key, where)}: expected more than 0, found {value}")


def check_scores(scores, sets, metrics, count):
    """Of every set of the data, and of each metric, that of the set and those of its resamples."""
    if scores.keys() != sets.keys():
        raise ValueError(f"scores: expected those of {', '.join(sets)}, as in data.sets, found "
                         f"{', '.join(scores) or 'none'}")
    for name, of_set in scores.items():
        if not isinstance(of_set, dict) or of_set.keys() != set(metrics):
            found = list(of_set) if isinstance(of_set, dict) else of_set
            raise ValueError(f"scores.{name}: expected {' and '.join(metrics)}, found "
                             f"{found!r:.40}")
        for metric, values in of_set.items():
            if not isinstance(values, list) or len(values) != count:
                found = len(values) if isinstance(values, list) else f"{values!r:.40}"
                raise ValueError(f"scores.{name}.{metric}: expected {count} numbers, found {found}")
            if not all(is_of(NUMBER, value) for value in values):
                raise ValueError(f"scores.{name}.{metric}: expected numbers, found others")


def read_cell(path, metrics, count):
    """A cell.json with all that the table needs; of each metric `count` scores of every set."""
    cell = read_json(path)
    try:
        check_keys(cell, CELL)
        check_keys(cell["data"], DATA, "data")
        check_scores(cell["scores"], cell["data"]["sets"], metrics, count)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return cell


def check_names(folder, known):
    """The folders in `folder`, if that is there, have names that are known."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and path.name not in known:
            raise ValueError(f"{path}: expected a folder called as one of {', '.join(known)}")


def check_folders(folder, models):
    """Nothing is kept under a name that no cell of the `models` of a grid has."""
    check_names(folder, [*models])
    for name, model in models.items():
        check_names(folder / name, [*model.areas])
        for area in model.areas:
            check_names(folder / name / area, [*map(str, model.seeds)])
