"""Sections of Markdown files that programs write, and their tables: lists of lines of cells, of
which the first is the titles."""

import re

from .train.files import write_whole


def markdown(table):
    titles, *lines = table
    return "\n".join(f"| {' | '.join(line)} |" for line in (titles, ["---"] * len(titles), *lines))


def table_in(text):
    """The first table of a Markdown text, or an empty list."""
    table = re.search(r"(?m)(^\|.*\|\n)+", text)
    lines = table[0].splitlines() if table else []
    cells = [line.strip("| ").split(" | ") for line in lines]
    return cells[:1] + cells[2:]  # the second line is dashes


def merged(old, new):
    """`new`, and of the table `old` the lines of models that `new` does not name."""
    named = {line[0] for line in new[1:]}
    lines = [dict(zip(old[0], line)) for line in old[1:] if line[0] not in named]
    if not lines:
        return new
    titles = old[0] + [title for title in new[0] if title not in old[0]]
    lines += [dict(zip(new[0], line)) for line in new[1:]]
    lines.sort(key=lambda line: line["model"])
    return [titles, *([line.get(title, "–") for title in titles] for line in lines)]


def section_of(path, section):
    """(start, end) of what a section of a Markdown file says, and the whole file."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected one section {section}, found no such file")
    text = path.read_text(encoding="utf-8")
    found = list(re.finditer(rf"(?ms)^## {section}\n(.*?)(?=^## |\Z)", text))
    if len(found) != 1:
        raise ValueError(f"{path}: expected one section {section}, found {len(found)}")
    return *found[0].span(1), text


def put_in_place(path, section, words):
    """Replaces what a section of a Markdown file says; the file is always whole."""
    start, end, text = section_of(path, section)
    text = f"{text[:start]}\n{words}\n\n{text[end:]}"
    write_whole(path, text.rstrip("\n") + "\n")
