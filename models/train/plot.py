"""Learning curves from the logs of runs: loss, development BLEU and speed, as one figure.

On the left against the target tokens a run has seen, on the right against its hours of training,
which leave out pauses and evaluations.
"""

from dataclasses import dataclass

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .log import read_entries

DASHES = "-", "--", ":"  # of the development sets, in the order of their names


@dataclass
class Curve:
    """What the log of one run says; every list of x, y pairs is in the order of training."""

    name: str
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


def read_curve(name, run):
    """The Curve of the run in the folder `run`; `name` stands in the legend."""
    path = run / "log.jsonl"
    if not path.exists():
        raise FileNotFoundError(f"{run}: no log.jsonl; it is written by the train command")
    entries = read_entries(path)
    curve = Curve(name, {}, {})
    for entry, hours in zip(entries, hours_of(entries)):
        for key, value in values_of(entry).items():
            curve.tokens.setdefault(key, []).append((entry["tokens"] / 1e6, value))
            curve.hours.setdefault(key, []).append((hours, value))
    return curve


def draw_row(axes, curves, names, label, marker=""):
    """One quantity of every run; a run has a colour, a name a line style."""
    for colour, curve in enumerate(curves):
        for ax, points in zip(axes, (curve.tokens, curve.hours)):
            for dash, name in zip(DASHES, names):
                x, y = zip(*points[name]) if name in points else ((), ())
                ax.plot(x, y, dash, color=f"C{colour}", marker=marker)
    axes[0].set_ylabel(label)
    for ax in axes:
        ax.grid(alpha=0.3)


def legend(figure, axes, curves, sets):
    runs = [Line2D([], [], color=f"C{i}", label=curve.name) for i, curve in enumerate(curves)]
    figure.legend(handles=runs, loc="outside upper center", ncols=3)
    styles = [Line2D([], [], color="grey", linestyle=dash, label=name.removeprefix("BLEU "))
              for dash, name in zip(DASHES, sets)]
    if styles:
        axes.legend(handles=styles)


def plot(runs, path):
    """Draws the runs {name: folder} into the file `path`."""
    curves = [read_curve(name, run) for name, run in runs.items()]
    sets = sorted({key for curve in curves for key in curve.tokens if key.startswith("BLEU")})
    figure = Figure(figsize=(11, 9), layout="constrained")
    axes = figure.subplots(3, 2, sharex="col", sharey="row")
    draw_row(axes[0], curves, ["loss"], "loss")
    draw_row(axes[1], curves, sets, "development BLEU", marker=".")
    draw_row(axes[2], curves, ["ids per second"], "target ids per second")
    axes[2][0].set_xlabel("target ids seen, millions")
    axes[2][1].set_xlabel("hours of training")
    legend(figure, axes[1][0], curves, sets)
    with matplotlib.rc_context({"svg.hashsalt": "acre"}):  # the same logs give the same file
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    print(f"plot: {path}: {', '.join(runs)}")
