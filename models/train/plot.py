"""Learning curves from the logs of runs: loss, development BLEU and speed, as one figure.

On the left against the target tokens a run has seen, on the right against its hours of training,
which leave out pauses and evaluations. Runs of a comparison, ARM/SEED, have a colour of their arm
and a line style of their seed.
"""

from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .log import read_entries

DASHES = "-", "--", ":", "-."  # of seeds, in their order
MARKERS = ".", "x", "+"  # of the development sets, in the order of their names
COLOURS = matplotlib.colormaps["tab10"].colors + matplotlib.colormaps["tab20b"].colors  # of arms


@dataclass
class Curve:
    """What the log of one run says; every list of x, y pairs is in the order of training."""

    arm: str  # what the seeds of a comparison are runs of; otherwise the run
    seed: str
    tokens: dict  # "loss", "ids per second" or "BLEU SET" -> [(millions of target tokens, y)]
    hours: dict  # likewise -> [(hours, y)]


def hours_of(entries):
    """The hours of training up to each entry; of older ones, by the speed that the next report
    tells."""
    speeds, speed = [], None
    for entry in reversed(entries):
        speed = entry.get("tokens_per_second", speed)
        speeds.append(speed)
    last = next(speed for speed in speeds if speed)  # for what comes after the last report
    hours, total, tokens = [], 0.0, 0
    for entry, speed in zip(entries, reversed(speeds)):
        total += (entry["tokens"] - tokens) / (speed or last) / 3600
        total = entry["seconds"] / 3600 if "seconds" in entry else total
        tokens = entry["tokens"]
        hours.append(total)
    return hours


def values_of(entry):
    """{name of a curve: value} of one entry."""
    if "loss" in entry:
        return {"loss": entry["loss"], "ids per second": entry["tokens_per_second"]}
    return {f"BLEU {name}": score for name, score in entry.get("bleu", {}).items()}


def check_speeds(path, entries):
    """Every report says how fast it was, and one at least that anything was learnt."""
    speeds = [entry.get("tokens_per_second") for entry in entries if "loss" in entry]
    wrong = [speed for speed in speeds if type(speed) not in (int, float) or speed < 0]
    if wrong or not any(speeds):
        raise ValueError(f"{path}: tokens_per_second: expected a number in every report, and one "
                         f"above 0, found {wrong[0] if wrong else 0!r}")


def arm_and_seed(name):
    """Of a run: one of a comparison is called ARM/SEED."""
    path = Path(name)
    return (str(path.parent), path.name) if path.name.isdigit() else (name, "")


def read_curve(name, run):
    """The Curve of the run in the folder `run`; its arm stands in the legend."""
    path = run / "log.jsonl"
    if not path.exists():
        raise FileNotFoundError(f"{run}: no log.jsonl; it is written by the train command")
    entries = read_entries(path)
    check_speeds(path, entries)
    curve = Curve(*arm_and_seed(name), {}, {})
    for entry, hours in zip(entries, hours_of(entries)):
        for key, value in values_of(entry).items():
            curve.tokens.setdefault(key, []).append((entry["tokens"] / 1e6, value))
            curve.hours.setdefault(key, []).append((hours, value))
    return curve


def styled(names, styles):
    """{name: its style}, the same for the same names."""
    return dict(zip(sorted(set(names)), cycle(styles)))


class Looks:
    """Of curves: an arm has a colour, a seed a line style."""

    def __init__(self, curves):
        self.colours = dict(zip(dict.fromkeys(curve.arm for curve in curves), cycle(COLOURS)))
        self.dashes = styled([curve.seed for curve in curves], DASHES)

    def of(self, curve):
        return {"color": self.colours[curve.arm], "linestyle": self.dashes[curve.seed]}


def draw_row(axes, curves, markers, looks, label):
    """One quantity of every run, or several, {name: marker}."""
    for curve in curves:
        for ax, points in zip(axes, (curve.tokens, curve.hours)):
            for name, marker in markers.items():
                x, y = zip(*points[name]) if name in points else ((), ())
                ax.plot(x, y, marker=marker, **looks.of(curve))
    axes[0].set_ylabel(label)
    for ax in axes:
        ax.grid(alpha=0.3)


def legend(figure, axes, looks, markers):
    arms = [Line2D([], [], color=colour, label=arm) for arm, colour in looks.colours.items()]
    figure.legend(handles=arms, loc="outside upper center", ncols=3)
    seeds = [Line2D([], [], color="grey", linestyle=dash, label=f"seed {seed}")
             for seed, dash in looks.dashes.items() if seed]
    sets = [Line2D([], [], color="grey", marker=marker, linestyle="",
                   label=name.removeprefix("BLEU ")) for name, marker in markers.items()]
    if seeds + sets:
        axes.legend(handles=seeds + sets)


def plot(runs, path):
    """Draws the runs {name: folder} into the file `path`."""
    curves = [read_curve(name, run) for name, run in runs.items()]
    looks = Looks(curves)
    sets = styled([key for curve in curves for key in curve.tokens if key.startswith("BLEU")],
                  MARKERS)
    figure = Figure(figsize=(11, 9), layout="constrained")
    axes = figure.subplots(3, 2, sharex="col", sharey="row")
    draw_row(axes[0], curves, {"loss": ""}, looks, "loss")
    draw_row(axes[1], curves, sets, looks, "development BLEU")
    draw_row(axes[2], curves, {"ids per second": ""}, looks, "target ids per second")
    axes[2][0].set_xlabel("target ids seen, millions")
    axes[2][1].set_xlabel("hours of training")
    legend(figure, axes[1][0], looks, sets)
    with matplotlib.rc_context({"svg.hashsalt": "acre"}):  # the same logs give the same file
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    print(f"plot: {path}: {', '.join(runs)}")
