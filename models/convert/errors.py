"""What is wrong with a file: which file, which field, what was expected, what was found."""

import json

LONGEST_FOUND = 60


class ConvertError(ValueError):
    """A source that cannot be converted; the text is all that a user sees."""


def shown(value):
    """A value of a file for a message: one short line, whatever the file holds."""
    text = json.dumps(value, ensure_ascii=False, default=lambda other: f"a {type(other).__name__}")
    return text if len(text) <= LONGEST_FOUND else text[:LONGEST_FOUND] + "..."


def unlike(where, expected, found):
    """The error for a value other than expected; `found` is text, see shown()."""
    return ConvertError(f"{where}: expected {expected}, found {found}")


def missing(where, expected):
    return unlike(where, expected, "nothing")
