"""The corpus: parallel text read from `NAME.en-XX.tsv(.gz)` files, cleaned, and split.

A pair is dropped rather than repaired whenever it looks wrong: the recipe has more text than
time. Nothing here depends on a random seed: held-out sentences are chosen by a hash of their
English side, the smallest ones, so that a corpus that grows a little keeps most of them. The order
of files decides only which of several translations of a sentence, or corpora of a pair, counts.
"""

import gzip
import hashlib
import re
import unicodedata
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# multi30k may not be used commercially; weights that ship must not have seen it.
NEVER_USED = ("multi30k",)

# So ends the name of a corpus whose English a machine wrote. A tag before it says so, lest a model
# learn to take people for machines (Caswell et al., WMT 2019).
BACK_SUFFIX = ".back"
# And of one whose other side a machine wrote, after the name of the corpus of the English.
DISTILLED_SUFFIX = ".distilled"

LONGEST_CHARACTERS = 800
LONGEST_WORDS = 100
# Lengths in characters may differ by this factor, once a few characters are granted to both.
LENGTH_RATIO = 2.0
LENGTH_GRANT = 12
MOST_TARGETS_PER_SOURCE = 4

CONTROL = re.compile(r"[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\ufeff\ufffd]")
MARKUP = re.compile(
    r"</?[a-zA-Z!][^>]*>|&[a-z]{2,6};|&#\d+;|\]\(|\{\{|\}\}|\$\{|https?://\S+\s*$|^[#*|]|\\[a-z]"
)
PUNCTUATION = re.compile(r"[^\w\s]|_")
DIGITS = re.compile(r"\d+")
SPACES = re.compile(r"\s+")
# What reading a file of another encoding, or one that is cut off, ends with.
DAMAGE = UnicodeDecodeError, gzip.BadGzipFile, zlib.error, EOFError


@dataclass(frozen=True)
class Pair:
    origin: str  # name of the corpus the pair comes from
    english: str
    target: str


def normalised(english):
    """The sentence without case and punctuation: what counts as the same sentence."""
    return " ".join(PUNCTUATION.sub("", english.lower()).split())


def stable_hash(text):
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def tidy(text):
    return SPACES.sub(" ", unicodedata.normalize("NFC", text)).strip()


def fault(english, target):
    """The name of the first rule that a pair breaks, or None for a pair worth training on."""
    if not english or not target:
        return "empty"
    if CONTROL.search(english) or CONTROL.search(target):
        return "control character"
    if max(len(english), len(target)) > LONGEST_CHARACTERS:
        return "too long"
    if max(english.count(" "), target.count(" ")) >= LONGEST_WORDS:
        return "too long"
    longer, shorter = sorted((len(english), len(target)), reverse=True)
    if longer > LENGTH_RATIO * shorter + LENGTH_GRANT:
        return "length ratio"
    if english.lower() == target.lower():
        return "untranslated"
    if not any(c.isalpha() for c in english) or not any(c.isalpha() for c in target):
        return "no letters"
    if MARKUP.search(english) or MARKUP.search(target):
        return "markup"
    if Counter(DIGITS.findall(english)) != Counter(DIGITS.findall(target)):
        return "digits"
    return None


def files_in(folders):
    """Every file in a folder or in several, sorted by name in each."""
    folders = [Path(folders)] if isinstance(folders, str | Path) else [*map(Path, folders)]
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: no such folder of corpora")
    return [path for folder in folders for path in sorted(folder.rglob("*"))]


def language_of(path):
    """The target language of a corpus by the name of its file; None: it is not called so."""
    named = re.search(r"\.en-(\w+)\.tsv(\.gz)?$", path.name)
    return named.group(1) if named else None


def languages(folders):
    """The target languages of the corpora in some folders, sorted."""
    return sorted({language_of(path) for path in files_in(folders)} - {None})


def corpus_files(folders, language):
    """{corpus name: path} of every file of this language pair, whatever its folder is called."""
    suffixes = (f".en-{language}.tsv", f".en-{language}.tsv.gz")
    found = {}
    for path in files_in(folders):
        suffix = next((s for s in suffixes if path.name.endswith(s)), None)
        name = path.name.removesuffix(suffix) if suffix else ""
        if not name or any(banned in str(path) for banned in NEVER_USED):
            continue
        if name in found and not path.samefile(found[name]):  # folders may be given twice
            raise ValueError(f"{path}: expected one file of the corpus {name}, found "
                             f"{found[name]}, too; one of them needs another name")
        found[name] = path
    if not found:
        where = folders if isinstance(folders, str | Path) else ", ".join(map(str, folders))
        raise FileNotFoundError(f"{where}: no *.en-{language}.tsv or *.en-{language}.tsv.gz file")
    return found


def read_lines(path):
    """Without their ends, "\\n" or "\\r\\n", as `acre translate` reads them: what else Python ends
    a line at stands in texts."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.removesuffix("\n").removesuffix("\r")
    except DAMAGE as error:
        raise ValueError(f"{path}: {error}") from error


def read_columns(path):
    """The English and the target of each line, as they are."""
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise ValueError(f"{path}:{number}: expected 2 columns, found {len(columns)}")
        yield columns


def read_pairs(origin, path, dropped):
    """Clean pairs of one file; `dropped` counts the others by reason."""
    seen = set()
    targets = Counter()
    for columns in read_columns(path):
        english, target = map(tidy, columns)
        reason = fault(english, target)
        if reason is None and (english, target) in seen:
            reason = "duplicate"
        if reason is None and targets[english] >= MOST_TARGETS_PER_SOURCE:
            reason = "too many targets"
        if reason:
            dropped[reason] += 1
            continue
        seen.add((english, target))
        targets[english] += 1
        yield Pair(origin, english, target)


def unseen(pairs, seen):
    """The pairs whose two sides are not in the set `seen`; adds them to it."""
    for pair in pairs:
        key = (pair.english, pair.target)
        if key not in seen:
            seen.add(key)
            yield pair


def capped(items, most, text=lambda pair: pair.english + pair.target):
    """At most `most` pairs, or other items with a text, chosen by its hash: a stable choice."""
    if most is None or len(items) <= most:
        return items
    return sorted(items, key=lambda item: stable_hash(text(item)))[:most]


def held_out(pairs, count):
    """`count` pairs with different English sentences of 3 words or more, by smallest hash."""
    by_sentence = {}
    for pair in pairs:
        sentence = normalised(pair.english)
        if sentence.count(" ") >= 2:
            by_sentence.setdefault(sentence, pair)
    chosen = sorted(by_sentence, key=stable_hash)[:count]
    return [by_sentence[sentence] for sentence in chosen]


def without_sentences(pairs, sentences):
    """The pairs whose English, normalised, is not among `sentences`."""
    return [pair for pair in pairs if normalised(pair.english) not in sentences]
