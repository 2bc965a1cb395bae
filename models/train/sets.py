"""Sets of sentences that models are judged by, held out or given, and what is asked of them."""

import hashlib
from pathlib import Path

from . import corpus
from .shape import source_multiple

# What chooses the weights while a run goes on.
DEVELOPMENT_SETS = ("heldout/tatoeba", "eval/newstest2013")
DEVELOPMENT_SENTENCES = 300
CHOSEN_BY = (f"The first {DEVELOPMENT_SENTENCES} sentences of `tatoeba` and `newstest2013` chose "
             "the weights of a run.")
# What the table of shipped models says besides; how they were chosen is told in models/README.md.
MEANS_CHOSEN_BY = """\
`tatoeba`, `it`, more of `newstest2013` and, of characters, the inputs of *Robustness* chose means
and beam thresholds: these are development scores. newstest2014 chose the mean of the second run of
`en-fr-token`, and nothing else; flores-dev chose nothing."""
# Ids a translation may have at most; those of the exported models are set in export.py.
LONGEST_TRANSLATION = {"token": 128, "char": 384}


def evaluation_sets(folder, language):
    """{name: (English path, target path)} of the line-aligned sets found in `folder`."""
    sets = {}
    for english in sorted(Path(folder).glob("*.en")):
        target = english.with_suffix(f".{language}")
        if target.exists():
            sets[english.stem] = (english, target)
    if not sets:
        raise FileNotFoundError(f"{folder}: no evaluation set NAME.en with NAME.{language}")
    return sets


def evaluation_sentences(folder):
    """Every English sentence of every evaluation set, normalised, whatever its pair."""
    return {
        corpus.normalised(line)
        for path in Path(folder).glob("*.en")
        for line in corpus.read_lines(path)
    }


def read_set(stem, recipe):
    """(source lines, reference lines) of the line-aligned set `stem`.{en,XX}."""
    sides = []
    for language in (recipe.source, recipe.target):
        sides.append(list(corpus.read_lines(stem.with_name(f"{stem.name}.{language}"))))
    if len(sides[0]) != len(sides[1]):
        raise ValueError(f"{stem}: {len(sides[0])} source and {len(sides[1])} reference lines")
    return sides


def fingerprint(*sides):
    """Of the sentences of sets: runs that are compared, or go on, must have the same."""
    lines = "".join(f"{line}\n" for side in sides for line in side)
    return hashlib.blake2b(lines.encode(), digest_size=4).hexdigest()


def held_out_sets(prepared, recipe):
    """{name: (sources, references)} of what is kept out of training."""
    stems = sorted(path.with_suffix("") for path in prepared.glob("heldout/*.en"))
    return {stem.name: read_set(stem, recipe) for stem in stems}


def whole_rows(sides, vocabulary, recipe):
    """The line-aligned sides, sources first, of the sentences that fill whole rows of a grid: all,
    unless the model attends to its source as one."""
    multiple = source_multiple(recipe.shape())
    kept = [i for i, sentence in enumerate(sides[0])
            if (len(vocabulary.encode(sentence)) + 1) % multiple == 0]
    return [[side[i] for i in kept] for side in sides]


def bleu(hypotheses, references):
    import sacrebleu

    return sacrebleu.corpus_bleu(hypotheses, [references]).score if hypotheses else 0.0


def chrf(hypotheses, references):
    import sacrebleu

    return sacrebleu.corpus_chrf(hypotheses, [references]).score if hypotheses else 0.0
