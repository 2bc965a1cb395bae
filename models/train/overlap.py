"""Overlap: training text that repeats evaluation text, word for word or nearly.

A sentence repeats another exactly if only case and punctuation tell them apart. It repeats it
nearly if only digits do besides, or if it has at least half of the other's runs of five words and
the other has eight words or more. Shorter sentences are not compared by parts: half of "Tom likes
tea." is in a thousand others that are no copies of it.
"""

from collections import Counter, defaultdict

from . import corpus
from .recipe import read_recipe

REPEATS = ("exact", "near", "target")
EXAMPLES = 3  # of each kind from each corpus

RUN_WORDS = 5
FEWEST_WORDS = 8


def words_of(plain):
    """The words of a normalised sentence, without digits."""
    return corpus.DIGITS.sub("", plain).split()


def runs_of(words):
    return set(zip(*(words[start:] for start in range(RUN_WORDS))))


class RepeatIndex:
    """Evaluation sentences of one language, found again by what other sentences share with them."""

    def __init__(self, sentences):
        self.exact, self.without_digits = {}, {}
        self.holders = defaultdict(list)  # run of words -> the long sentences that have it
        self.runs = {}  # long sentence -> how many runs it has
        for sentence in dict.fromkeys(sentences):
            self.add(sentence)

    def add(self, sentence):
        plain = corpus.normalised(sentence)
        words = words_of(plain)
        self.exact[plain] = self.without_digits[" ".join(words)] = sentence
        if len(words) >= FEWEST_WORDS:
            runs = runs_of(words)
            self.runs[sentence] = len(runs)
            for run in runs:
                self.holders[run].append(sentence)

    def half_in(self, words):
        """The evaluation sentence of which `words` have the most, at least half, or None."""
        shared = runs_of(words) & self.holders.keys()
        counts = Counter(sentence for run in shared for sentence in self.holders[run])
        parts = ((count / self.runs[sentence], sentence) for sentence, count in counts.items())
        part, sentence = max(parts, default=(0, None))
        return sentence if part >= 0.5 else None

    def find(self, sentence):
        """("exact" or "near", the evaluation sentence that `sentence` repeats), or None."""
        plain = corpus.normalised(sentence)
        if plain in self.exact:
            return "exact", self.exact[plain]
        words = words_of(plain)
        repeated = self.without_digits.get(" ".join(words)) or self.half_in(words)
        return ("near", repeated) if repeated else None


class Evaluated:
    """Both sides of every evaluation and held-out set in some folders."""

    def __init__(self, folders, recipe):
        self.english, self.targets = (
            RepeatIndex(line for folder in folders for line in lines_of(folder, language))
            for language in ("en", recipe.language))

    def find(self, pair):
        """(kind, the evaluation sentence that a training pair repeats), or None.

        "target" is the kind of a pair whose target alone repeats one: the answer is known, though
        to another question.
        """
        english = self.english.find(pair.english)
        if english:
            return english
        target = self.targets.find(pair.target)
        return ("target", target[1]) if target else None


def lines_of(folder, language):
    paths = sorted(folder.glob(f"*.{language}"))
    if not paths:
        raise FileNotFoundError(f"{folder}: no evaluation set NAME.{language}")
    return [line for path in paths for line in corpus.read_lines(path)]


def without_repeats(by_origin, evaluated):
    """The corpora without pairs that repeat evaluation text; how many of each kind those were."""
    kept, counts = {}, {}
    for origin, pairs in by_origin.items():
        found = [evaluated.find(pair) for pair in pairs]
        kept[origin] = [pair for pair, repeated in zip(pairs, found) if not repeated]
        counts[origin] = Counter(repeated[0] for repeated in found if repeated)
    return kept, counts


def table(counts, sizes):
    """Text: of each corpus that repeats something, its size and how many pairs of each kind do."""
    lines = [("corpus", "pairs", *REPEATS)]
    lines += [(origin, sizes[origin], *(found[kind] for kind in REPEATS))
              for origin, found in counts.items() if found]
    return "\n".join(f"{line[0]:24}" + "".join(f"{cell:>9}" for cell in line[1:])
                     for line in lines)


def prepared_pairs(prepared, recipe):
    """The pairs that a prepared run trains on, variants among them, as text again."""
    from .batches import Pairs
    from .vocabulary import open_vocabulary

    pairs, decode = Pairs(prepared, recipe), open_vocabulary(recipe.level, prepared).decode
    sides = (pairs.source, pairs.target) if recipe.source == "en" else (pairs.target, pairs.source)
    for index, origin in enumerate(pairs.origin):
        english, target = (decode(ids(index).tolist()) for ids in sides)
        yield corpus.Pair(pairs.origins[origin], english, target)


def check(prepared, evaluation=None):
    """Prints how much of a prepared run repeats its evaluation sets, or others, and examples."""
    recipe = read_recipe(prepared / "recipe.json")
    evaluated = Evaluated((evaluation or prepared / "eval", prepared / "heldout"), recipe)
    sizes, counts = Counter(), defaultdict(Counter)
    for pair in prepared_pairs(prepared, recipe):
        sizes[pair.origin] += 1
        kind, sentence = evaluated.find(pair) or (None, None)
        if kind:
            counts[pair.origin][kind] += 1
            if counts[pair.origin][kind] <= EXAMPLES:
                print(f"{pair.origin}, {kind}: {pair.english!r} / {pair.target!r} repeats "
                      f"{sentence!r}")
    print(table(counts, sizes))
