"""Command line of the training recipe: `python3 -m models.train COMMAND MODEL`."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from .recipe import find_recipe, read_recipe

RUNS = Path(__file__).parent / "runs"

COMMANDS = """commands:
  prepare    corpora to RUN/prepared, the small folder that training needs
  train      train, or go on training after any interruption
  evaluate   score every held-out and evaluation set, into RUN/scores.json
  export     write the model directory that Acre serves
  all        prepare if that was not done, train to the end, evaluate, export"""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="python3 -m models.train",
        description="Trains the models that Acre ships.",
        epilog=COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("prepare", "train", "evaluate", "export", "all"))
    parser.add_argument("model", help="a recipe's name, or the path of a recipe")
    parser.add_argument("--corpora", type=Path, metavar="DIR",
                        help="folder of NAME.en-XX.tsv[.gz] files (for prepare)")
    parser.add_argument("--eval", type=Path, metavar="DIR",
                        help="folder of evaluation sets NAME.en, NAME.XX (for prepare)")
    parser.add_argument("--run", type=Path, metavar="DIR",
                        help="where the run lives (default: models/train/runs/MODEL)")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="where export writes the model (default: RUN/model)")
    parser.add_argument("--hours", type=float, metavar="X",
                        help="train for X hours in all, cool-down included (default: the recipe's)")
    parser.add_argument("--cooldown", type=int, metavar="STEPS",
                        help="lower the rate to 0 over the next STEPS steps, then end")
    parser.add_argument("--extend", action="store_true",
                        help="undo the last cool-down and train on from where it began")
    parser.add_argument("--threads", type=int, metavar="N", help="threads (default: all cores)")
    parser.add_argument("--acre", type=Path, metavar="FILE",
                        help="the acre command that runs the recipe's teacher (for prepare)")
    return parser.parse_args(arguments)


def prepare(options, run):
    from .prepare import prepare as prepare_run

    recipe = find_recipe(options.model)
    if not options.corpora or not options.eval:
        raise ValueError("prepare needs --corpora DIR and --eval DIR")
    prepare_run(recipe, options.corpora, options.eval, run / "prepared", options.acre)


def require_prepared(run):
    if not (run / "prepared").exists():
        raise FileNotFoundError(f"{run}: nothing is prepared; run the prepare command first")


def require_best(run):
    require_prepared(run)
    if not (run / "best.pt").exists():
        raise FileNotFoundError(f"{run}: no best.pt; it is written by the first evaluation")


def train(options, run):
    """Whether the run is finished, rather than interrupted."""
    from .trainer import Trainer

    require_prepared(run)
    if options.extend:
        if not (run / "before-cooldown.pt").exists():
            raise FileNotFoundError(f"{run}: no before-cooldown.pt; the run never cooled down")
        shutil.copyfile(run / "before-cooldown.pt", run / "checkpoint.pt")
    return Trainer(run, options.hours).run(options.cooldown)


def evaluate(options, run):
    from .evaluate import evaluate as evaluate_run

    require_best(run)
    evaluate_run(run, read_recipe(run / "prepared" / "recipe.json"))


def export(options, run):
    from .export import export as export_run

    require_best(run)
    export_run(run, options.out or run / "model")


def everything(options, run):
    if not (run / "prepared").exists():
        prepare(options, run)
    finished = train(options, run)
    if finished:
        evaluate(options, run)
        export(options, run)
    return finished


def main(arguments=None):
    options = parse_arguments(arguments)
    run = options.run or RUNS / Path(options.model).stem
    if options.threads and options.command != "prepare":
        import torch

        torch.set_num_threads(options.threads)
    commands = {"prepare": prepare, "train": train, "evaluate": evaluate, "export": export,
                "all": everything}
    try:
        commands[options.command](options, run)
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"models.train: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
