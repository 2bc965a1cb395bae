"""What must not derail a model: inputs as people type them, and what is wrong with a translation.

`robustness.tsv` has an input on each line: its kind, its text and, each in a column of its own, the
strings that must come out unchanged. Whether a translation is a good one is not asked here: it must
keep those strings, must not be much longer than its source and must not go round in circles.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

INPUTS = Path(__file__).with_name("robustness.tsv")
HEADING = "kind\ttext\tkept"
BEAM, COMPUTE_TYPE = 4, "int8"  # how the models are asked

LONGEST_LOOP_WORDS = 4
MOST_REPEATS = 2  # what is said twice may be meant
LENGTH_RATIO = 2
LENGTH_GRANT_BYTES = 20  # a word may take several in another language
WORDS = re.compile(r"\w+")

NOTE = """\
How many inputs of each kind in `models/robustness.tsv` came out in order, measured by `make eval`
through `acre translate` with beam {beam} and {type}. A translation may be wrong here, but it keeps
numbers, names, links and emoji, has at most {ratio} times its source's bytes and {grant} more, and
does not say one to {words} words more than {repeats} times in a row, unless its source does.\
""".format(beam=BEAM, type=COMPUTE_TYPE, ratio=LENGTH_RATIO, grant=LENGTH_GRANT_BYTES,
           words=LONGEST_LOOP_WORDS, repeats=MOST_REPEATS)


@dataclass(frozen=True)
class Input:
    kind: str
    text: str
    kept: tuple


def read_inputs(path=INPUTS):
    heading, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    if heading != HEADING:
        raise ValueError(f"{path}:1: expected {HEADING!r}, found {heading!r}")
    return [read_input(line, f"{path}:{number}") for number, line in enumerate(lines, 2)]


def read_input(line, where):
    kind, *texts = line.split("\t")
    if not kind or not texts or not all(texts):
        raise ValueError(f"{where}: expected a kind, a text and what it keeps, found {line!r}")
    text, *kept = texts
    for part in kept:
        if not keeps(text, part):
            raise ValueError(f"{where}: kept: expected a part of the text, found {part!r}")
    return Input(kind, text, tuple(kept))


def keeps(text, part):
    """Whether `part` is in the text; a number has to end where it ends there."""
    before = r"(?<!\d)" if part[0].isdigit() else ""
    after = r"(?!\d)" if part[-1].isdigit() else ""
    return re.search(before + re.escape(part) + after, text) is not None


def repeats(text):
    """How often in a row the text says the same one to LONGEST_LOOP_WORDS words."""
    words = WORDS.findall(text.lower())
    most = 1
    for size in range(1, LONGEST_LOOP_WORDS + 1):
        equal = 0  # words up to here that are the same as `size` words before
        for word, earlier in zip(words[size:], words):
            equal = equal + 1 if word == earlier else 0
            most = max(most, 1 + equal // size)
    return most


def faults(given, translation):
    """What is wrong with the translation of an input, in words; [] if nothing is."""
    found = []
    times, most = repeats(translation), max(MOST_REPEATS, repeats(given.text))
    if times > most:
        found.append(f"loop: repeats {times} times, at most {most}")
    size = len(translation.encode())
    longest = LENGTH_RATIO * len(given.text.encode()) + LENGTH_GRANT_BYTES
    if size > longest:
        found.append(f"length: {size} bytes, at most {longest}")
    found += [f"lost: {part}" for part in given.kept if not keeps(translation, part)]
    return found


def passed(inputs, translations):
    """{kind: how many translations have no fault}, and of every kind under "all"."""
    counts = Counter()
    for given, translation in zip(inputs, translations, strict=True):
        for name in (given.kind, "all"):
            counts[name] += not faults(given, translation)
    return counts
