"""Files: JSON, which is read with errors that name it, logs that an end may have cut off, and what
is written whole or not at all."""

import json
import shutil
from contextlib import contextmanager
from pathlib import Path


def read_json(path):
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # a UnicodeDecodeError is one, too
        raise ValueError(f"{path}: expected JSON: {error}") from error


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_whole(path, text):
    """The file has all of the text, or is as it was."""
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_text(text, encoding="utf-8", newline="")
    unfinished.replace(path)


@contextmanager
def made_whole(folder):
    """A new folder, which takes the name of `folder`, and the place of one that is there, only when
    everything is in it."""
    unfinished = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    yield unfinished
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def drop_cut_line(path):
    """Takes away a last line without its end: a full disk or a sudden end cut it off, and what is
    appended would go on with it."""
    if path.exists():
        with open(path, "r+b") as file:
            file.truncate(path.read_bytes().rfind(b"\n") + 1)


def whole_lines(path):
    """The lines of a file, if there is one, without one that was cut off."""
    drop_cut_line(path)
    return path.read_bytes().decode().split("\n")[:-1] if path.exists() else []
