"""What area attention gives: the same run with regular attention and with areas.

    FOLDER/data/LEVEL/           what the runs of a level are trained on (prepare.py)
    FOLDER/MODEL/AREA/SEED/      a run like any other (trainer.py), of a cell of the grid
        prepared/                linked to that, with the cell's recipe
        model/                   the exported weights
        trained.json             how it was trained; with it nothing is left to train
    KEPT/MODEL/AREA/SEED/        what the cell showed, small enough for the project (comparison.py)

A cell is trained on from its checkpoint, and left out when it is kept. Several processes may work
through one grid: each takes the cells that no other has. The grid is hours of work; what is kept
lets another machine go on where this one stopped.
"""

import dataclasses
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from . import checkpoint
from .device import choose_device
from .export import export
from .files import made_whole, write_json
from .interrupted import Interrupted
from .lock import alone, locked
from .log import mean_loss, read_entries
from .prepare import prepare
from .recipe import MODELS, RECIPES, read_recipe
from .rules import ATTENTIONS
from .schedule import Cooldown
from .trainer import Trainer

SEEDS = 1, 2
START_SEEDS = (1,)  # enough to choose how to begin; small differences are chance
WARMUP_PART = 0.2  # at most this part of a run, for very short ones
COOLDOWN_PART = 0.2  # whatever the recipe of the data says, so that tables can be compared
# By steps, not by the clock, so that runs can be compared.
REPORT_STEPS = 50
EVALUATION_STEPS = 1000
LOSS_PART = 0.1  # the last part of a run, of which the mean loss is compared
LOCK = "lock"  # of a cell, from its first file to its last; train.lock is the training's
# Pieces that do not depend on where the text is prepared, and text that no machine wrote.
VOCABULARY = MODELS / "en-de-token"
DATA = {"token": RECIPES / "en-de-token.json", "char": RECIPES / "en-de-char.json"}


# What ends one cell and not the grid.
FAILURES = ValueError, OSError, subprocess.CalledProcessError


def widths(encoder_self=(1, 1), decoder_self=(1, 1), decoder_cross=(1, 1)):
    """The areas of Eq. 3 of two encoder and two decoder layers."""
    given = zip(ATTENTIONS, (encoder_self, decoder_self, decoder_cross), strict=True)
    return {"area": {"key": "mean"} | {name: {"width": list(layers)} for name, layers in given}}


@dataclass(frozen=True)
class GridModel:
    """A row of the grid: a model that is trained with several areas."""

    level: str  # which data it is trained on
    preset: str
    norm: str
    steps: int
    areas: dict  # name -> keys of a recipe; regular attention is what the others are compared with
    seeds: tuple = SEEDS


def begun_with(areas, divisors):
    """Each of the areas with each divisor at its start, and regular attention."""
    return {"regular": {"area": "regular"}} | {
        f"{name}-{divisor}": {"area": area, "area_start": divisor}
        for name, area in areas.items() for divisor in divisors}


EQUATIONS = {name: {"area": name} for name in ("regular", "eq3", "eq9")}
GRID_MODELS = {
    # How large what areas give should start.
    "start": GridModel("token", "small", "pre", 500, begun_with({
        "eq9": "eq9",
        "max-sum": {"key": "max"},
        "max-max": {"key": "max", "value": "max"},
    }, (1, 3)), START_SEEDS),
    "lstm-start": GridModel("token", "lstm-256", "post", 500,
                            begun_with({"eq3": "eq3"}, (1, 1.5)), START_SEEDS),
    "token": GridModel("token", "small", "pre", 4000, EQUATIONS),
    "lstm": GridModel("token", "lstm-256", "post", 4000, EQUATIONS),
    # Fewer steps: they are judged by short sentences.
    "char": GridModel("char", "tiny", "pre", 2500, EQUATIONS),
    # Where areas help, and how wide: shorter, as there are many.
    "where": GridModel("token", "small", "pre", 1000, {
        "regular": {"area": "regular"},
        "all-5": {"area": "eq3"},
        "all-2": widths((2, 2), (2, 2), (2, 2)),
        "all-3": widths((3, 3), (3, 3), (3, 3)),
        "all-8": widths((8, 8), (8, 8), (8, 8)),
        "first-5": widths((5, 1), (5, 1), (5, 1)),
        "encoder-5": widths(encoder_self=(5, 5)),
        "decoder-5": widths(decoder_self=(5, 5)),
        "cross-5": widths(decoder_cross=(5, 5)),
    }),
}
STARTS = "start", "lstm-start"


@dataclass(frozen=True)
class Cell:
    model: str
    area: str
    seed: int

    def __str__(self):
        return f"{self.model}/{self.area}/{self.seed}"


def grid():
    """Every cell. Those of starts come first, as they tell how the others should begin; of the
    others the first seed of all, so that an early table has every row."""
    cells = [Cell(name, area, seed)
             for seed in SEEDS for name, model in GRID_MODELS.items() for area in model.areas
             if seed in model.seeds]
    return sorted(cells, key=lambda cell: cell.model not in STARTS)


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


# ---- Data ----


def recipe_of_data(level):
    """The mix of the token model at either level, in sentences as long as the level's model reads.
    """
    base = read_recipe(DATA["token"])
    return dataclasses.replace(
        base, name=f"compare {level}", level=level, phases=read_recipe(DATA[level]).phases,
        preset="small", start_from=None, pieces_from=None, teacher=None, distilled=())


def prepare_data(level, options):
    """The prepared folder of a level; made when it is missing."""
    folder = options.folder / "data" / level
    if folder.exists():
        return folder
    if not options.corpora or not options.eval:
        raise ValueError(f"{folder}: nothing is prepared; that needs --corpora DIR and --eval DIR")
    with locked(folder.parent / LOCK, wait=True):
        if not folder.exists():
            recipe = folder.with_name(f"{level}.json")
            write_json(recipe, dataclasses.asdict(recipe_of_data(level)))
            prepare(recipe, options.corpora, options.eval, folder,
                    vocabulary=VOCABULARY if level == "token" else None)
    return folder


def recipe_of(cell, base):
    """The recipe of the cell, given that of the data: from scratch, with no time limit."""
    model = GRID_MODELS[cell.model]
    return dataclasses.replace(
        base, name=f"{base.name} {cell}", preset=model.preset, norm=model.norm,
        seed=cell.seed, heads=None, hours=None,
        cooldown_part=COOLDOWN_PART, patience=0,
        report_steps=REPORT_STEPS, evaluation_steps=EVALUATION_STEPS,
        warmup_steps=max(1, min(base.warmup_steps, round(WARMUP_PART * model.steps))),
        **model.areas[cell.area])


def link(source, target):
    """Training data is large and never written to; on another file system it is copied."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def link_data(cell, data, folder):
    """Makes the cell's prepared folder, unless it is there."""
    if folder.exists():
        return
    with made_whole(folder) as unfinished:
        shutil.copytree(data, unfinished, copy_function=link, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("recipe.json"))
        recipe = recipe_of(cell, read_recipe(data / "recipe.json"))
        write_json(unfinished / "recipe.json", dataclasses.asdict(recipe))


# ---- A run ----


def train(run, steps):
    """Trains for so many steps, cool-down included."""
    trainer = Trainer(run)
    cooldown = max(1, round(steps * trainer.recipe.cooldown_part))
    trainer.cooldown = Cooldown(steps - cooldown, cooldown)  # begins when its first step comes
    if not trainer.run():
        raise Interrupted
    if trainer.development.kept["step"] != steps:  # the last weights are compared, no chosen ones
        trainer.development.kept = None
        trainer.evaluate()


def processor():
    """The CPU in words. One name may stand for several generations: family and model tell."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    pairs = [line.split(":", 1) for line in lines if ":" in line]
    said = {key.strip(): value.strip() for key, value in reversed(pairs)}  # of the first core
    if not {"model name", "cpu family", "model"} <= said.keys():
        return said.get("model name", "a CPU")
    return f"{said['model name']} (family {said['cpu family']}, model {said['model']})"


def machine(threads):
    """What a run was trained on, in words."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{processor()}, {threads} {'thread' if threads == 1 else 'threads'}"


def finish(run):
    """Exports the model and writes, last of all, that it is trained."""
    export(run, run / "model")
    best = checkpoint.load(run / "best.pt")
    _, is_bf16 = choose_device()
    write_json(run / "trained.json.part", {
        "step": best["step"], "tokens": best["tokens"], "seconds": round(best["seconds"], 1),
        "loss": mean_loss(read_entries(run / "log.jsonl"), int((1 - LOSS_PART) * best["step"])),
        "machine": machine(torch.get_num_threads()),
        "arithmetic": "bf16" if is_bf16 else "f32", "torch": torch.__version__,
    })
    (run / "trained.json.part").rename(run / "trained.json")


def train_cell(cell, run, options):
    """Trains what is left to train."""
    if (run / "trained.json").exists():
        return
    print(f"compare: {cell}", flush=True)
    model = GRID_MODELS[cell.model]
    link_data(cell, prepare_data(model.level, options), run / "prepared")
    with alone(run):
        train(run, model.steps)
        finish(run)


def do_cell(cell, options, keep):
    """Does what is left to do for the cell."""
    run, kept = options.folder / str(cell), options.kept / str(cell)
    with locked(run / LOCK) as mine:
        if not mine:
            print(f"compare: {cell}: another process is at it", flush=True)
        if not mine or (kept / "cell.json").exists():
            return
        train_cell(cell, run, options)
        if keep:
            keep(run, kept, options)


def do_all(cells, options, keep=None):
    """Trains the cells, and has `keep` keep what each shows; returns those that failed, which do
    not keep the others from it."""
    failed = []
    for cell in cells:
        try:
            do_cell(cell, options, keep)
        except FAILURES as error:
            print(f"compare: {cell}: {error}", file=sys.stderr, flush=True)
            failed.append(cell)
    return failed
