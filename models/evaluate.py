"""How good the models are: every set, by several beams and compute types of `acre translate`.

    python3 -m models.evaluate [MODEL ...] --acre FILE --eval DIR [--corpora DIR]
    python3 -m models.evaluate [MODEL ...] --acre FILE --part robustness

`make eval` runs it. MODEL is a folder of models/ (all of them if none is named). Sets are the
line-aligned NAME.en and NAME.XX of --eval and, with --corpora, the sentences that the recipe of
the model's name held out of these corpora. The second part is what robustness.py asks. What comes
out is printed and put in place of the sections "Scores" and "Robustness" in models/README.md and
in the models' cards.
"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import sacrebleu

from . import robustness
from .markdown import markdown, merged, put_in_place, section_of, table_in
from .train import acre_command, corpus, prepare
from .train.card import held_out_in
from .train.files import read_json
from .train.recipe import find_recipe, read_recipe
from .train.sets import CHOSEN_BY, MEANS_CHOSEN_BY, evaluation_sets, fingerprint

MODELS = Path(__file__).parent
PARTS = ("scores", "robustness")
BEAMS, TYPES = (4, 1), ("int8", "f32")
BLEU, CHRF = sacrebleu.BLEU(), sacrebleu.CHRF()
NOTE = """\
Measured by `make eval` through `acre translate`: BLEU / chrF on each set, and sentences per second
over all of them on {threads} threads (–: not measured). `tatoeba` (everyday sentences) and `it`
(software documentation) were held out of the training text; the others are public test sets.
{choice}
sacreBLEU signatures: `{bleu}` and
`{chrf}`."""

CHOICE = f"{CHOSEN_BY}\n{MEANS_CHOSEN_BY}"


@dataclass
class TestSet:
    name: str
    sources: list
    references: list


@dataclass
class Row:
    """One model, searched and computed in one way."""

    model: str
    beam: int
    compute_type: str
    scores: dict  # name of the set -> "BLEU / chrF"
    speed: float  # sentences per second


def read_lines(path):
    return list(corpus.read_lines(path))


def in_order(source, english, others):
    """The two sides of a set, that of the language `source` first."""
    return (english, others) if source == "en" else (others, english)


def public_sets(folder, source, target):
    """The sets of the folder in this language pair, without the pair in their names."""
    language = source if target == "en" else target
    for name, paths in evaluation_sets(folder, language).items():
        english, others = map(read_lines, paths)
        if len(english) != len(others):
            raise ValueError(f"{paths[1]}: expected {len(english)} lines as in {paths[0].name}, "
                             f"found {len(others)}")
        yield TestSet(name.replace(f"-en{language}", ""), *in_order(source, english, others))


def held_out_sets(recipe, corpora, evaluation):
    """What `prepare` keeps out of training, chosen again: it depends on the corpora only."""
    by_origin = prepare.read_corpora(recipe, corpora, Counter())
    for name, pairs in prepare.held_out_pairs(recipe, by_origin, evaluation).items():
        yield TestSet(name, *in_order(recipe.source, [pair.english for pair in pairs],
                                      [pair.target for pair in pairs]))


def languages_of(model):
    path = model / "tokenizer_config.json"
    config = read_json(path)
    missing = [key for key in ("source_lang", "target_lang") if not config.get(key)]
    if missing:
        raise ValueError(f"{path}: expected source_lang and target_lang, found no "
                         f"{' and no '.join(missing)}")
    languages = config["source_lang"], config["target_lang"]
    if languages.count("en") != 1:
        raise ValueError(f"{path}: expected en as either source_lang or target_lang, found "
                         f"{languages[0]} and {languages[1]}")
    return languages


def sets_of(model, options):
    sets = list(public_sets(options.eval, *languages_of(model)))
    if options.corpora:
        recipe = read_recipe(find_recipe(model.name))
        sets += held_out_sets(recipe, options.corpora, options.eval)
    return sets


def warn_of_others(model, sets):
    """Says which held-out sets are not those that the model's card names: of other sentences it may
    have learnt some."""
    known = held_out_in((model / "README.md").read_text(encoding="utf-8"))
    for test in sets:
        found = fingerprint(test.sources, test.references)
        if known.get(test.name, found) != found:
            print(f"models.evaluate: {model.name}: {test.name}: what is held out of --corpora is "
                  "not what was held out when it was trained", file=sys.stderr)


def translate(options, model, beam, compute_type, sentences):
    hypotheses = list(acre_command.translate(
        options.acre, model, sentences, "--beam-size", beam, "--compute-type", compute_type,
        "--threads", options.threads, who="evaluate"))
    if len(hypotheses) != len(sentences):
        raise ValueError(f"{model.name}: expected {len(sentences)} translations, "
                         f"found {len(hypotheses)}")
    return hypotheses


def row(options, model, sets, beam, compute_type):
    scores, seconds = {}, 0.0
    for test in sets:
        start = time.monotonic()
        hypotheses = translate(options, model, beam, compute_type, test.sources)
        seconds += time.monotonic() - start
        metrics = (m.corpus_score(hypotheses, [test.references]).score for m in (BLEU, CHRF))
        scores[test.name] = " / ".join(f"{score:.1f}" for score in metrics)
        print(f"{model.name}, beam {beam}, {compute_type}, {test.name}: {scores[test.name]}",
              flush=True)
    speed = sum(len(test.sources) for test in sets) / seconds
    return Row(model.name, beam, compute_type, scores, speed)


# ---- Tables ----


def table_of(rows, sizes):
    """`sizes` has the sentences of each set."""
    names = sorted(sizes)
    titles = ["model", "beam", "type", *(f"{name} ({sizes[name]:,})" for name in names), "per s"]
    return [titles, *([r.model, str(r.beam), r.compute_type,
                       *(r.scores.get(name, "–") for name in names), f"{r.speed:.0f}"]
                      for r in rows)]


def put_in_summary(options, section, note, table):
    """Puts a table into models/README.md, after each model: hours of measuring survive an
    interruption.

    Lines of models that are not measured yet stay; so do those of models that were not asked for,
    unless all were.
    """
    path = options.folder / "README.md"
    start, end, text = section_of(path, section)
    titles, *lines = table_in(text[start:end]) or [[]]
    if options.all_models:
        lines = [line for line in lines if line[0] in [model.name for model in options.models]]
    table = merged([titles, *lines], table)
    put_in_place(path, section, f"{note}\n\n{markdown(table)}")
    return table


def evaluate_scores(options):
    rows, sizes = [], {}
    for model in options.models:
        sets = sets_of(model, options)
        warn_of_others(model, sets)
        of_model = [row(options, model, sets, beam, compute_type)
                    for beam in options.beam for compute_type in options.type]
        rows += of_model
        sizes |= {test.name: len(test.sources) for test in sets}
        note = NOTE.format(threads=options.threads, choice=CHOICE, bleu=BLEU.get_signature(),
                           chrf=CHRF.get_signature())
        card = table_of(of_model, {test.name: len(test.sources) for test in sets})
        put_in_place(model / "README.md", "Scores", f"{note}\n\n{markdown(card)}")
        summary = put_in_summary(options, "Scores", note, table_of(rows, sizes))
    print(markdown(summary))


def passed(options, model, inputs):
    """How many inputs of each kind the model passed; prints what it did with the others."""
    translations = translate(options, model, robustness.BEAM, robustness.COMPUTE_TYPE,
                             [given.text for given in inputs])
    for given, translation in zip(inputs, translations):
        faults = robustness.faults(given, translation)
        if faults:
            print(f"{model.name}, {given.kind}: {given.text!r} became {translation!r} "
                  f"({'; '.join(faults)})", flush=True)
    return robustness.passed(inputs, translations)


def robustness_table(counts, inputs):
    """`counts` has what each model passed."""
    sizes = {**Counter(given.kind for given in inputs), "all": len(inputs)}
    return [["model", *sizes], *([model, *(f"{held[kind]}/{size}" for kind, size in sizes.items())]
                                 for model, held in counts.items())]


def evaluate_robustness(options):
    inputs, counts = robustness.read_inputs(), {}
    for model in options.models:
        of_model = {model.name: passed(options, model, inputs)}
        counts |= of_model
        card = markdown(robustness_table(of_model, inputs))
        put_in_place(model / "README.md", "Robustness", f"{robustness.NOTE}\n\n{card}")
        summary = put_in_summary(options, "Robustness", robustness.NOTE,
                                 robustness_table(counts, inputs))
    print(markdown(summary))


def check(options):
    """Finds out before hours of measuring what would be an error after them."""
    for folder in (options.folder, *options.models):
        for part in options.part:
            section_of(folder / "README.md", part.capitalize())
    for model in options.models if "scores" in options.part else ():
        list(public_sets(options.eval, *languages_of(model)))
        if options.corpora:
            read_recipe(find_recipe(model.name))


def evaluate(options):
    check(options)
    if "scores" in options.part:
        evaluate_scores(options)
    if "robustness" in options.part:
        evaluate_robustness(options)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="python3 -m models.evaluate",
                                     description="Scores models and writes the scores down.")
    parser.add_argument("models", nargs="*", metavar="MODEL",
                        help="folders of models/ (default: every one); lines of others stay in "
                             "models/README.md")
    parser.add_argument("--acre", type=Path, required=True, metavar="FILE", help="the acre command")
    parser.add_argument("--part", nargs="+", default=PARTS, choices=PARTS,
                        help="what to measure (default: both)")
    parser.add_argument("--eval", type=Path, metavar="DIR",
                        help="folder of line-aligned NAME.en and NAME.XX, for the scores")
    parser.add_argument("--corpora", type=Path, metavar="DIR",
                        help="the corpora of the recipes, for the sentences held out of them")
    parser.add_argument("--beam", type=int, nargs="+", default=BEAMS, metavar="N",
                        help="beam sizes (default: 4 1)")
    parser.add_argument("--type", nargs="+", default=TYPES, metavar="TYPE",
                        help="compute types (default: int8 f32)")
    parser.add_argument("--threads", type=int, default=2, metavar="N",
                        help="threads of acre translate (default: 2)")
    parser.add_argument("--folder", type=Path, default=MODELS, metavar="DIR",
                        help="where the models are (default: models/)")
    options = parser.parse_args(arguments)
    if "scores" in options.part and not options.eval:
        parser.error("--eval: expected a folder for the scores, found none")
    options.all_models = not options.models
    names = options.models or sorted(p.parent.name for p in options.folder.glob("*/config.json"))
    options.models = [options.folder / name for name in names]
    return options


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        if not options.models:
            raise FileNotFoundError(f"{options.folder}: expected models, found none")
        for model in options.models:
            if not (model / "config.json").exists():
                raise FileNotFoundError(f"{model}: expected a model, found no config.json")
        evaluate(options)
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"models.evaluate: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
