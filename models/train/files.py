"""Files: JSON, which is read with errors that name it, and logs that an end may have cut off."""

import json
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


def whole_lines(path):
    """The lines of a file, if there is one. A last one without its end is taken away: a full disk
    or a sudden end cut it off, and what is appended would go on with it."""
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    with open(path, "r+b") as file:
        file.truncate(whole)
    return data[:whole].decode().split("\n")[:-1]
