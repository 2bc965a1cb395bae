"""The part of YAML that Marian writes: one mapping of scalars and of lists of scalars.

Everything else of YAML (nesting, anchors, tags, texts over several lines) is an error. Scalars stay
text, so that the piece "no" is no boolean. There is no need for PyYAML, which also refuses some
characters that vocabularies hold.
"""

import re

from .errors import unlike

DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
SINGLE_QUOTED = re.compile(r"'((?:[^']|'')*)'")
# A plain scalar ends before ": " and " #"; what it may not begin with has another meaning.
PLAIN = re.compile(r"(?![,\[\]{}#&*!|>'\"%@`]|[-?:](?:[ \t]|$))"
                   r"(?:[^ \t:#]|:(?![ \t]|$)|(?<![ \t])#|[ \t](?!#))+")
BLANKS = re.compile(r"[ \t]*")
IN_LIST = re.compile(r"(?![#&*!|>'\"%@`])[^,\[\]{}]+")
ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
ESCAPED = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f",
           "r": "\r", "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85",
           "_": "\xa0", "L": "\u2028", "P": "\u2029"}
NOTHING = ("", "~", "null", "Null", "NULL")
LARGEST_CODE = 0x10FFFF


class Unreadable(Exception):
    """A line that is not of this part of YAML; the text says what was expected."""


def unescape(match):
    code = match[1]
    if len(code) == 1:
        if code not in ESCAPED:
            raise Unreadable("a known escape sequence")
        return ESCAPED[code]
    number = int(code[1:], 16)
    if number > LARGEST_CODE or 0xD800 <= number < 0xE000:
        raise Unreadable("an escape sequence of a character")
    return chr(number)


def take_scalar(text, plain=PLAIN, begin=0):
    """(value, is quoted, where it ends) of the scalar that begins there."""
    if match := DOUBLE_QUOTED.match(text, begin):
        return ESCAPE.sub(unescape, match[1]), True, match.end()
    if match := SINGLE_QUOTED.match(text, begin):
        return match[1].replace("''", "'"), True, match.end()
    if match := plain.match(text, begin):
        return match[0].rstrip(" \t"), False, match.end()
    raise Unreadable("a text")


def check_end(text):
    if text.strip(" \t") and not re.match(r"[ \t]+#", text):
        raise Unreadable("the end of the line")


def read_scalar(text):
    """A value: text, or None for YAML's null."""
    if not text.strip(" \t") or text.startswith("#"):
        return None
    value, is_quoted, end = take_scalar(text)
    check_end(text[end:])
    return None if not is_quoted and value in NOTHING else value


def skip_blanks(text, begin):
    return BLANKS.match(text, begin).end()


def read_list(text):
    """A list as `[a, b]`, on one line."""
    items, place = [], skip_blanks(text, 1)
    while not text.startswith("]", place):
        item, _, end = take_scalar(text, IN_LIST, place)
        items.append(item)
        place = skip_blanks(text, end)
        if text.startswith(",", place):
            place = skip_blanks(text, place + 1)
        elif not text.startswith("]", place):
            raise Unreadable("`,` or `]`")
    check_end(text[place + 1:])
    return items


def read_value(text):
    text = text.strip(" \t")
    return read_list(text) if text.startswith("[") else read_scalar(text)


class Reader:
    """Takes one line after the other; `key` is the last one, which a list may follow."""

    def __init__(self):
        self.mapping, self.key, self.waits_for_value = {}, None, False

    def add(self, key, value):
        if key in self.mapping:
            raise Unreadable("a key that was not there before")
        self.mapping[key], self.key = value, key

    def add_item(self, text):
        if self.key is None or not isinstance(self.mapping[self.key], (list, type(None))):
            raise Unreadable("a key before the list")
        if self.mapping[self.key] is None:
            self.mapping[self.key] = []
        self.mapping[self.key].append(read_scalar(text))

    def take(self, line):
        text = line.strip(" \t")
        if self.waits_for_value and not re.match(r":(?:[ \t]|$)", line):
            raise Unreadable("`: value` after `? key`")
        if not text or text.startswith("#") or line in ("---", "..."):
            return
        if self.waits_for_value:
            self.mapping[self.key], self.waits_for_value = read_value(line[1:]), False
        elif re.match(r"-(?:[ \t]|$)", text):
            self.add_item(text[1:].lstrip(" \t"))
        elif line != line.lstrip(" \t"):
            self.take_indented(text)
        elif re.match(r"\?[ \t]", line):
            text = line[1:].lstrip(" \t")
            key, _, end = take_scalar(text)
            check_end(text[end:])
            self.add(key, None)
            self.waits_for_value = True
        else:
            self.take_pair(line)

    def take_indented(self, text):
        """The value of the key before, `[]`, which yaml-cpp writes on a line of its own."""
        if self.key is None or self.mapping[self.key] is not None or not text.startswith("["):
            raise Unreadable("a key at the beginning of the line")
        self.mapping[self.key] = read_list(text)

    def take_pair(self, line):
        key, _, end = take_scalar(line)
        match = re.fullmatch(r"[ \t]*:(?:[ \t]+(.*))?", line[end:], re.DOTALL)
        if not match:
            raise Unreadable("`key: value`")
        self.add(key, read_value(match[1] or ""))


def read_mapping(where, text):
    """Key -> text, list of texts, or None, in the order of the text."""
    reader = Reader()
    # Lines end at \n alone: vocabularies hold characters that splitlines() would split at.
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        try:
            reader.take(line.removesuffix("\r"))
        except Unreadable as error:
            raise unlike(f"{where}: line {number}", str(error), ascii(line[:40])) from None
    if reader.waits_for_value:
        raise unlike(where, "`: value` after `? key`", "the end")
    return reader.mapping
