"""The model card: what a model was made of, how good it is, where it fails."""

import re
import textwrap
from fnmatch import fnmatch
from pathlib import Path

from .corpus import DISTILLED_SUFFIX
from .files import read_json
from .rules import COMBINED_KEYS
from .sets import CHOSEN_BY, fingerprint
from .shape import LstmShape

LICENCES = Path(__file__).parent / "licences.json"
LANGUAGES = {"en": "English", "de": "German", "fr": "French"}
ATTENTION_NAMES = {"encoder_self": "the encoder", "decoder_self": "the decoder",
                   "decoder_cross": "the decoder's attention to the encoder"}

CARD = """\
# {name}: {source} to {target}, {level} level

{origin}

{training}

## Scores

{scores}

## Robustness

Not yet measured.

## Limits

{limits}

## Data and licences

{data}

Pairs are counted as they were learnt: again for each variant that is made of one, as in lower case
or with other numbers.

{kept_out}
Attribution and share-alike terms of these sources stay with their text; whoever redistributes
the model should keep this list with it.
"""

KEPT_OUT = """\
Sentences of the evaluation sets, and the held-out sentences, are not in the training data{of_pair}.
Held out were {held_out}."""

ORIGIN = """\
A small {model} with {attention}, trained for the Acre translation server from {start}. {size}"""

TRAINING = """\
Trained for {steps:,} steps on {tokens:.1f} million target {ids} ({hours:.1f} hours). Muon and Adam,
label smoothing {smoothing}, dropout {dropout}; the weights are an exponential moving average."""

PIECE_LIMITS = """\
The model is small and was trained on little text for a short time. It is meant for short
everyday sentences and for software documentation. News, literature, idioms, names it has not met,
and long sentences come out wrong often: words are left out, invented or repeated, and negations
and numbers can be lost. It translates one sentence at a time, mixes formal and informal address,
and repeats the biases of its sources. Do not rely on it where a mistake matters."""

BYTE_LIMITS = """\
The model is small, reads and writes UTF-8 bytes and was trained on little text for a short time, at
most {longest} bytes a side. It is meant for everyday sentences. Longer sentences, news and names it
has not met come out wrong often: words are left out, invented, repeated or misspelt, and the end of
a sentence may say its beginning again. The token model of the same languages is better. It
translates one sentence at a time, mixes formal and informal address, and repeats the biases of its
sources. Do not rely on it where a mistake matters."""


def licence_of(origin, licences):
    """What is known of a corpus; other people's corpora may not be listed."""
    known = (entry for pattern, entry in licences.items() if fnmatch(origin, pattern))
    return next(known, {"text": "not recorded", "licence": "not recorded"})


def filled(text):
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False,
                         break_long_words=False)


def described(origin, licences, teacher):
    """(what the corpus is, its licence)."""
    known = licence_of(origin.removesuffix(DISTILLED_SUFFIX), licences)
    if origin.endswith(DISTILLED_SUFFIX):
        translator = f"`{teacher}`" if teacher else "a larger model of this recipe"
        return f"{known['text']}: the English, translated by {translator}", known["licence"]
    return known["text"], known["licence"]


def data_table(corpora, teacher):
    licences = read_json(LICENCES)
    rows = ["| corpus | what it is | licence | pairs |", "|---|---|---|---|"]
    for origin, counts in sorted(corpora.items(), key=lambda item: -item[1]["pairs"]):
        if counts["pairs"]:
            text, licence = described(origin, licences, teacher)
            rows.append(f"| {origin} | {text} | {licence} | {counts['pairs']:,} |")
    return "\n".join(rows)


def scores_table(scores, step):
    """Of scores.json, or None, if these are the scores of the weights of this step."""
    if not scores or scores.get("step") != step:
        return "Not yet scored."
    rows = ["sacreBLEU, greedy search in PyTorch.", "", "| set | sentences | BLEU | chrF |",
            "|---|---|---|---|"]
    rows += [f"| {name} | {entry['sentences']:,} | {entry['bleu']:.1f} | {entry['chrf']:.1f} |"
             for name, entry in scores["sets"].items()]
    rows += ["", "`tatoeba` (everyday sentences) and `it` (software documentation) were held out "
             "of the training sources; the others are public test sets. " + CHOSEN_BY]
    return "\n".join(rows)


def held_out_in_words(sets):
    """`sets` is {name: (sources, references)}; see `held_out_in`."""
    return " and ".join(f"`{name}` ({len(sides[0]):,} sentences, `{fingerprint(*sides)}`)"
                        for name, sides in sets.items())


def held_out_in(card):
    """{name: fingerprint} of the held-out sets that a card names; older ones name none."""
    return dict(re.findall(r"`(\w+)`\s\([\d,]+\ssentences,\s`(\w+)`\)", card))


def kept_out_in_words(recipe, held_out):
    # What another model learnt before is not known here.
    of_pair = " of this language pair" if recipe.start_from else ""
    return KEPT_OUT.format(of_pair=of_pair, held_out=held_out_in_words(held_out))


def model_in_words(shape):
    return "LSTM sequence-to-sequence model" if isinstance(shape, LstmShape) else "Transformer"


def size_in_words(recipe, state):
    count = sum(weight.numel() for weight in state["average"].values())
    shape = recipe.shape()
    heads = f"{shape.heads} heads" if shape.heads > 1 else "1 head"
    name = f"Preset {recipe.preset}: " if isinstance(recipe.preset, str) else ""
    return (f"{name}{shape.encoder_layers} encoder and {shape.decoder_layers} decoder layers, "
            f"{heads}, {count / 1e6:.1f} million parameters.")


def start_in_words(recipe):
    if recipe.start_from == recipe.name:
        return "the weights that it had before"
    if not recipe.start_from:
        return "scratch"
    pieces = f" and embeddings of `{recipe.pieces_from}`" if recipe.pieces_from else ""
    return f"the weights of `{recipe.start_from}`{pieces}"


def largest_area(rule):
    return f"{rule.height} by {rule.width}" if rule.height > 1 else str(rule.width)


def areas_in_words(shape):
    """How large the areas of which layers are."""
    layers = {place: [largest_area(rule) for rule in getattr(shape, name)]
              for name, place in ATTENTION_NAMES.items() if hasattr(shape, name)}
    sizes = {size for place in layers.values() for size in place}
    if len(sizes) == 1:
        return f"areas of up to {sizes.pop()} in every layer"
    by_layer = (f"{', '.join(place_sizes)} in {place}" for place, place_sizes in layers.items())
    return f"areas of up to, layer by layer, {'; '.join(by_layer)}"


def attention_in_words(shape):
    if not shape.area:
        return "regular attention"
    keys = {rule.key for rule in shape.rules}
    equation = "keys of several features, Eq. 9" if keys & set(COMBINED_KEYS) else "Eq. 3"
    return ("area attention (Li et al., *Area Attention*, ICML 2019; "
            f"{equation}; {areas_in_words(shape)})")


def model_card(recipe, state, corpora, scores, held_out):
    """The text of README.md; `state` is the exported checkpoint, `scores` scores.json or None,
    `held_out` {name: (sources, references)}."""
    shape, is_char = recipe.shape(), recipe.level == "char"
    origin = ORIGIN.format(
        model=model_in_words(shape),
        attention=attention_in_words(shape),
        start=start_in_words(recipe),
        size=size_in_words(recipe, state),
    )
    training = TRAINING.format(
        steps=state["step"],
        tokens=state["tokens"] / 1e6,
        ids="bytes" if is_char else "pieces",
        hours=state["seconds"] / 3600,
        smoothing=recipe.label_smoothing,
        dropout=recipe.dropout,
    )
    return CARD.format(
        name=recipe.name,
        source=LANGUAGES.get(recipe.source, recipe.source),
        target=LANGUAGES.get(recipe.target, recipe.target),
        level="character" if is_char else "token",
        origin=filled(origin),
        training=filled(training),
        scores=scores_table(scores, state["step"]),
        limits=filled(BYTE_LIMITS.format(longest=recipe.longest - 1) if is_char else PIECE_LIMITS),
        data=data_table(corpora, recipe.teacher),
        kept_out=filled(kept_out_in_words(recipe, held_out)),
    )
