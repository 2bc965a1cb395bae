"""Without their worst part, pairs of which a machine wrote one side.

What a small reverse model writes has now and then little to do with its text: "The notion was
guilty of cutting the gates." A model into the other language finds the text unlikely as the
translation of that. Scores are of a token, since longer text is less likely; each corpus loses the
same part, since some are harder than others.
"""

import json
import math
import tempfile
from itertools import compress
from pathlib import Path

from . import corpus
from .acre_command import translate
from .files import read_json, write_whole


LONG_BYTES = 500  # a model of 512 positions takes what is shorter; training drops most of the rest


def check_languages(path, model):
    language = corpus.language_of(path)
    if not language:
        raise ValueError(f"{path}: expected a file called NAME.en-XX.tsv or .tsv.gz")
    config = read_json(Path(model) / "tokenizer_config.json")
    found = config.get("source_lang"), config.get("target_lang")
    if found != ("en", language):
        raise ValueError(f"{model}: tokenizer_config.json: expected a model from en to {language}, "
                         f"as in {path.name}, found {found[0]} to {found[1]}")


def scores(acre, model, pairs, options):
    """Of each pair (English, target), the mean log-probability of a token of its target."""
    is_short = [all(len(side.encode()) <= LONG_BYTES for side in pair) for pair in pairs]
    found = iter(scores_of_short(acre, model, compress(pairs, is_short), options))
    return [next(found) if short else -math.inf for short in is_short]


def scores_of_short(acre, model, pairs, options):
    pairs = list(pairs)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as targets:
        targets.writelines(target + "\n" for _, target in pairs)
        targets.flush()
        lines = translate(acre, model, [english for english, _ in pairs],
                          "--score", targets.name, "--json", *options, who="likely")
        found = [json.loads(line)["normalized_score"] for line in lines]
    return [-math.inf if score is None else score for score in found]  # null: not finite


def keep_likely(acre, model, path, part, out, options=()):
    """Writes `out`/NAME.en-XX.tsv: of a corpus the `part` that `model` finds most likely."""
    check_languages(path, model)
    made = out / path.name.removesuffix(".gz")
    if made.exists():
        raise FileExistsError(f"{made}: expected no such file")
    pairs = list(corpus.read_columns(path))
    if not pairs:
        raise ValueError(f"{path}: expected pairs, found none")
    of_pairs = scores(acre, model, pairs, options)
    worst_first = sorted(range(len(pairs)), key=of_pairs.__getitem__)
    kept = sorted(worst_first[round(len(pairs) * (1 - part)):])
    out.mkdir(parents=True, exist_ok=True)
    write_whole(made, "".join("\t".join(pairs[i]) + "\n" for i in kept))
    print(f"likely: {len(kept)} of {len(pairs)} pairs are in {made}", flush=True)
