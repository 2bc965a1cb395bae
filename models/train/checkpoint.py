"""Checkpoints: everything a run needs to go on after being killed at any moment."""

import os

import torch

FORMAT = 2


def save_atomically(state, path):
    """Writes beside `path`, then renames: `path` is always either the old or the new file."""
    unfinished = path.with_name(path.name + ".part")
    with open(unfinished, "wb") as file:
        torch.save(state | {"format": FORMAT}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def read(path):
    """The dictionary that a file holds. Torch has many errors for what it cannot read, some of many
    lines."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{path}: expected a checkpoint, found a file that is damaged or "
                         "another") from error
    if not isinstance(state, dict):
        raise ValueError(f"{path}: expected a checkpoint, found a {type(state).__name__}")
    return state


def load(path, vocabulary=None):
    """What was saved; an error if that belongs to another vocabulary than the one given."""
    state = read(path)
    if state.get("format") != FORMAT:
        raise ValueError(f"{path}: format: expected {FORMAT}, found {state.get('format')}")
    known = state.get("vocabulary")  # absent in older checkpoints
    if vocabulary and known and known != vocabulary.fingerprint:
        raise ValueError(f"{path}: vocabulary: expected {vocabulary.fingerprint}, that of "
                         f"{vocabulary.folder}, found {known}: it was trained with other "
                         "pieces, before the run was prepared anew")
    return state
