"""What area attention gives: the same short run with regular attention and with areas.

    FOLDER/MODEL/AREA/SEED/      a run like any other (trainer.py), of a cell of the grid
        prepared/                linked to what the runs of MODEL are trained on, with a recipe
        model/                   the exported weights
        trained.json             how fast it was trained; with it the cell is done

A cell is trained on from its checkpoint, and left out when it is done. Several processes may work
through one grid: each takes the cells that no other has. comparison.py makes the table.
"""

import dataclasses
import fcntl
import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from . import checkpoint
from .export import export, write_json
from .recipe import read_recipe
from .schedule import Cooldown
from .trainer import Trainer

SEEDS = 1, 2
WARMUP_PART = 0.2  # at most this part of a run, for very short ones
COOLDOWN_PART = 0.2  # whatever the recipe of the data says, so that tables can be compared


@dataclass(frozen=True)
class Kind:
    """A model of the grid."""

    level: str  # which prepared folder it is trained on
    preset: str
    norm: str
    areas: tuple  # as in a recipe; the first is what the others are compared with


KINDS = {
    "token": Kind("token", "small", "pre", ("regular", "eq3", "eq9")),
    "char": Kind("char", "tiny", "pre", ("regular", "eq3", "eq9")),
    "lstm": Kind("token", "lstm-256", "post", ("regular", "eq3")),
}


@dataclass(frozen=True)
class Cell:
    kind: str
    area: str
    seed: int

    def __str__(self):
        return f"{self.kind}/{self.area}/{self.seed}"


def grid():
    """Every cell; the first seed of all comes first, so that an early table has every row."""
    return [Cell(kind, area, seed)
            for seed in SEEDS for kind in KINDS for area in KINDS[kind].areas]


def chosen(parts):
    """The cells of the parts, each MODEL, MODEL/AREA or MODEL/AREA/SEED; None: all."""
    if parts is None:
        return grid()
    cells = []
    for part in parts:
        found = [cell for cell in grid() if f"{cell}/".startswith(f"{part}/")]
        if not found:
            known = ", ".join(str(cell) for cell in grid())
            raise ValueError(f"--only {part}: expected the beginning of one of {known}")
        cells += found
    return [cell for cell in grid() if cell in cells]


# ---- The prepared folder of a cell ----


def recipe_of(cell, base, steps):
    """The recipe of the cell, given that of the data: from scratch, with no time limit."""
    return dataclasses.replace(
        base, name=f"{base.name} {cell}", preset=KINDS[cell.kind].preset,
        norm=KINDS[cell.kind].norm, area=cell.area, seed=cell.seed, start_from=None,
        pieces_from=None, heads=None, hours=None, cooldown_part=COOLDOWN_PART,
        warmup_steps=max(1, min(base.warmup_steps, round(WARMUP_PART * steps))))


def link(source, target):
    """Training data is large and never written to; on another file system it is copied."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def prepare(cell, steps, data, folder):
    """Makes the cell's prepared folder, unless it is there."""
    if folder.exists():
        return
    if not (data / "recipe.json").exists():
        raise FileNotFoundError(f"{data}: expected a prepared folder, found no recipe.json")
    unfinished = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(data, unfinished, copy_function=link,
                    ignore=shutil.ignore_patterns("recipe.json"))
    recipe = recipe_of(cell, read_recipe(data / "recipe.json"), steps)
    write_json(unfinished / "recipe.json", dataclasses.asdict(recipe))
    unfinished.rename(folder)


# ---- A run ----


@contextmanager
def held(run):
    """Whether this process may work on the run; false while another does."""
    run.mkdir(parents=True, exist_ok=True)
    with open(run / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        except BlockingIOError:
            mine = False
        yield mine


def train(run, steps):
    """Trains for so many steps, cool-down included; whether that was not interrupted."""
    trainer = Trainer(run)
    cooldown = max(1, round(steps * trainer.recipe.cooldown_part))
    trainer.cooldown = Cooldown(steps - cooldown, cooldown)  # begins when its first step comes
    if not trainer.run():
        return False
    if trainer.kept["step"] != steps:  # compared are the last weights, chosen by no score
        trainer.kept = None
        trainer.evaluate()
    return True


def machine(threads):
    """What a run was trained on, in words."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else 'a CPU'}, {threads} {'thread' if threads == 1 else 'threads'}"


def ids_per_second(run, best):
    """The median of the reports; of a run too short for one, the mean."""
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    speeds = [json.loads(line).get("tokens_per_second") for line in lines]
    return median(filter(None, speeds)) if any(speeds) else best["tokens"] / best["seconds"]


def finish(run):
    """Exports the model and writes, last of all, that the cell is done."""
    export(run, run / "model")
    best = checkpoint.load(run / "best.pt")
    write_json(run / "trained.json.part", {
        "step": best["step"], "tokens": best["tokens"],
        "ids_per_second": round(ids_per_second(run, best)),
        "machine": machine(torch.get_num_threads()),
    })
    (run / "trained.json.part").rename(run / "trained.json")


def train_cell(cell, run, steps, data):
    """Does what is left to do for the cell; whether that was not interrupted."""
    with held(run) as mine:
        if not mine:
            print(f"compare: {cell}: another process is at it", flush=True)
        if not mine or (run / "trained.json").exists():
            return True
        print(f"compare: {cell}", flush=True)
        prepare(cell, steps, data, run / "prepared")
        if not train(run, steps):
            return False
        finish(run)
        return True


def train_all(cells, folder, steps, data):
    """Trains the cells, each in its folder; `data` has the prepared folder of each level.

    Whether that was not interrupted.
    """
    for cell in cells:
        if not train_cell(cell, folder / str(cell), steps, data[KINDS[cell.kind].level]):
            print("compare: interrupted; the same command goes on", flush=True)
            return False
    return True
