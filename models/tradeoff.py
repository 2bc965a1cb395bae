"""BLEU against speed: what shapes of models are worth, with beams of several sizes.

    python3 -m models.tradeoff SHAPE=DIR ... --acre FILE --eval DIR --out FILE.svg

Translates newstest2014 with each model in int8, and writes a line per beam into FILE.tsv, next to
the figure. Lines of that file that are not measured again stay, so that models can be measured one
after the other; but speeds of different machines, or of a busy one, are not to be compared.
"""

import argparse
import csv
import io
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from .evaluate import BLEU, languages_of, public_sets
from .train.acre_command import translate
from .train.files import write_whole
from .train.plot import COLOURS

SET = "newstest2014"
COMPUTE_TYPE = "int8"
BEAMS = 1, 2, 4, 8
MARKED = 4  # the beam by which models are compared
TITLES = ["languages", "shape", "beam", "bleu", "per_second"]


def measured(options, shape, model):
    """The lines of one model."""
    languages = languages_of(model)
    sets = {test.name: test for test in public_sets(options.eval, *languages)}
    if SET not in sets:
        raise ValueError(f"{options.eval}: expected {SET} of {' and '.join(languages)}, found "
                         f"{', '.join(sets) or 'no set'}")
    for beam in options.beam:
        start = time.monotonic()
        found = list(translate(options.acre, model, sets[SET].sources, "--beam-size", beam,
                               "--compute-type", COMPUTE_TYPE, "--threads", options.threads,
                               who="tradeoff"))
        speed = len(found) / (time.monotonic() - start)
        bleu = BLEU.corpus_score(found, [sets[SET].references]).score
        print(f"{shape}, beam {beam}: BLEU {bleu:.1f}, {speed:.0f} sentences/s", flush=True)
        yield ["-".join(languages), shape, str(beam), f"{bleu:.2f}", f"{speed:.0f}"]


def read_lines(path):
    """{(languages, shape, beam): line} of a table, in its order."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, delimiter="\t"))
    if lines[:1] != [TITLES]:
        raise ValueError(f"{path}:1: expected {' '.join(TITLES)}, found "
                         f"{' '.join(lines[0]) if lines else 'an empty file'}")
    return {tuple(line[:3]): line for line in lines[1:]}


def write_lines(path, lines):
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n").writerows([TITLES, *lines.values()])
    write_whole(path, text.getvalue())


def draw_languages(axes, languages, lines, colours):
    """The curve of each shape, over its beams."""
    for shape, colour in colours.items():
        points = sorted((int(beam), float(speed), float(bleu))
                        for pair, name, beam, bleu, speed in lines
                        if (pair, name) == (languages, shape))
        axes.plot([speed for _, speed, _ in points], [bleu for _, _, bleu in points],
                  color=colour, marker=".", label=shape)
        marked = [(speed, bleu) for beam, speed, bleu in points if beam == MARKED]
        if marked:
            axes.scatter(*zip(*marked), color=colour, s=60)
    axes.set_title(languages.replace("-", " to "))
    axes.set_xlabel("sentences per second")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.grid(alpha=0.3, which="both")


def draw(path, lines):
    languages = list(dict.fromkeys(line[0] for line in lines))
    colours = dict(zip(dict.fromkeys(line[1] for line in lines), cycle(COLOURS)))
    figure = Figure(figsize=(11, 5.5), layout="constrained")
    axes = figure.subplots(1, len(languages), squeeze=False)[0]
    for one, pair in zip(axes, languages):
        draw_languages(one, pair, lines, colours)
    axes[0].set_ylabel(f"BLEU of {SET}; a large dot: beam {MARKED}")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    with matplotlib.rc_context({"svg.hashsalt": "acre"}):  # the same lines give the same file
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def shape_and_model(text):
    shape, found, directory = text.partition("=")
    if not found or not shape or not (Path(directory) / "config.json").exists():
        raise argparse.ArgumentTypeError(f"expected SHAPE=DIR with a model in DIR, found {text}")
    return shape, Path(directory)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="python3 -m models.tradeoff",
                                     description="Draws BLEU against speed.")
    parser.add_argument("models", nargs="*", type=shape_and_model, metavar="SHAPE=DIR",
                        help="a model, and what its shape is called in the figure; none: only draw")
    parser.add_argument("--acre", type=Path, required=True, metavar="FILE", help="the acre command")
    parser.add_argument("--eval", type=Path, required=True, metavar="DIR",
                        help="folder of line-aligned NAME.en and NAME.XX")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.svg",
                        help="the figure; its numbers are in FILE.tsv")
    parser.add_argument("--beam", type=int, nargs="+", default=BEAMS, metavar="N",
                        help="beam sizes (default: 1 2 4 8)")
    parser.add_argument("--threads", type=int, default=2, metavar="N",
                        help="threads of acre translate (default: 2)")
    return parser.parse_args(arguments)


def tradeoff(options):
    table = options.out.with_suffix(".tsv")
    lines = read_lines(table)
    for shape, model in options.models:
        for line in measured(options, shape, model):
            lines[tuple(line[:3])] = line
            write_lines(table, lines)
    if not lines:
        raise ValueError(f"{table}: expected lines, or models to measure, found neither")
    draw(options.out, list(lines.values()))


def main(arguments=None):
    try:
        tradeoff(parse_arguments(arguments))
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"models.tradeoff: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
