"""Command line of the training recipe: `python3 -m models.train COMMAND ...`."""

import argparse
import math
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from . import interrupted
from .acre_command import thread_options
from .recipe import find_recipe, read_recipe

RUNS = Path(__file__).parent / "runs"

COMPARISONS = RUNS / "compare"
COMPARED = Path(__file__).parent / "compared"
README = Path(__file__).parents[1] / "README.md"


def positive(kind):
    """A type of options, whose numbers are of this kind."""
    def number(text):
        value = kind(text)
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"expected a positive number, found {text}")
        return value

    number.__name__ = kind.__name__  # argparse names it where the text is no number at all
    return number


def add_run(parser):
    parser.add_argument("model", help="a recipe's name, or the path of a recipe")
    parser.add_argument("--run", type=Path, metavar="DIR",
                        help="where the run lives (default: models/train/runs/MODEL)")


def add_data(parser):
    parser.add_argument("--corpora", type=Path, nargs="+", metavar="DIR",
                        help="folders of NAME.en-XX.tsv[.gz] files")
    parser.add_argument("--eval", type=Path, metavar="DIR",
                        help="folder of evaluation sets NAME.en, NAME.XX")
    parser.add_argument("--acre", type=Path, metavar="FILE",
                        help="the acre command that runs the recipe's teacher")
    parser.add_argument("--vocabulary", type=Path, metavar="DIR",
                        help="use the pieces of this prepared folder or model, so that a run goes "
                             "on with other text, or another starts from it")


def add_other_sets(parser):
    parser.add_argument("--eval", type=Path, metavar="DIR",
                        help="folder of evaluation sets NAME.en, NAME.XX (default: "
                             "RUN/prepared/eval)")


def add_training(parser):
    parser.add_argument("--hours", type=positive(float), metavar="X",
                        help="train for X hours in all, cool-down included (default: the recipe's)")
    parser.add_argument("--cooldown", type=positive(int), metavar="STEPS",
                        help="lower the rate to 0 over the next STEPS steps, then end")
    parser.add_argument("--extend", action="store_true",
                        help="undo the last cool-down and train on from where it began")


def add_out(parser):
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="where the model is written (default: RUN/model)")


def add_last(parser):
    parser.add_argument("--last", action="store_true",
                        help="of the last weights, not of those that did best on the development "
                             "sets")


# Commands on one run, each with what adds its options.
RUN_COMMANDS = {
    "prepare": ("corpora to RUN/prepared, the small folder that training needs", [add_data]),
    "overlap": ("how much of RUN/prepared repeats evaluation text, with examples",
                [add_other_sets]),
    "train": ("train, or go on training after any interruption", [add_training]),
    "evaluate": ("score every held-out and evaluation set, into RUN/scores.json", []),
    "export": ("write the model directory that Acre serves", [add_out, add_last]),
    "all": ("prepare if that was not done, train to the end, evaluate, export",
            [add_data, add_training, add_out, add_last]),
}


def add_plot_options(parser):
    parser.add_argument("runs", nargs="+", metavar="RUN",
                        help="a run by the name of its recipe, or the folder of a run")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE.svg",
                        help="the figure; .png and .pdf are also understood")


def add_back_options(parser):
    parser.add_argument("model", type=Path, metavar="MODEL",
                        help="the folder of a model into English")
    parser.add_argument("texts", type=Path, nargs="+", metavar="TEXT",
                        help="NAME.XX.txt[.gz], a sentence a line")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR",
                        help="where NAME.back.en-XX.tsv is written, or gone on with")
    parser.add_argument("--acre", type=Path, required=True, metavar="FILE",
                        help="the acre command that translates")
    parser.add_argument("--first", type=positive(int), default=1, metavar="N",
                        help="begin with the N-th sentence of each TEXT, in the order of their "
                             "hashes (default: 1)")
    parser.add_argument("--most", type=positive(int), metavar="N",
                        help="most sentences of each TEXT")
    parser.add_argument("--beam", type=positive(int), default=1, metavar="N",
                        help="beam size (default: 1)")


def part(text):
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected more than 0, at most 1, found {text}")
    return value


def add_likely_options(parser):
    parser.add_argument("model", type=Path, metavar="MODEL",
                        help="the folder of a model from English")
    parser.add_argument("corpora", type=Path, nargs="+", metavar="CORPUS",
                        help="NAME.en-XX.tsv[.gz], as `back` writes it")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR",
                        help="another folder, where what is kept is written")
    parser.add_argument("--acre", type=Path, required=True, metavar="FILE",
                        help="the acre command that scores")
    parser.add_argument("--part", type=part, default=0.75, metavar="X",
                        help="the part of each CORPUS that is kept (default: 0.75)")


def add_pack_options(parser):
    parser.add_argument("prepared", type=Path, metavar="PREPARED",
                        help="the prepared folder of a run on pieces")
    parser.add_argument("mono", type=Path, nargs="+", metavar="TEXT",
                        help="plain text in its language that is not English, a sentence a line")
    parser.add_argument("--most", type=positive(int), default=500_000, metavar="N",
                        help="most sentences of TEXT (default: 500000)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.tar.xz",
                        help="what travels")


def add_campaign_options(parser):
    parser.add_argument("folder", type=Path, metavar="DIR",
                        help="one campaign, which has a pack/; with --packs, where all are")
    parser.add_argument("--plan", default="h200", metavar="NAME",
                        help="a plan's name, or the path of one (default: h200)")
    parser.add_argument("--packs", type=Path, nargs="+", metavar="FILE.tar.xz",
                        help="run the campaigns of these at the same time")
    parser.add_argument("--minutes", type=positive(float), metavar="X",
                        help="with --packs: save and end after X minutes")
    parser.add_argument("--out", type=Path, metavar="OUT",
                        help="with --packs: where models that are new are written, in files of at "
                             "most 15 MiB")


def add_average_options(parser):
    parser.add_argument("models", nargs="+", metavar="MODEL",
                        help="an exported model as DIR or DIR:WEIGHT; weights are positive, 1 "
                             "where none is given, and divided by their sum")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR",
                        help="where the mean is written; a model that is there is replaced")


def add_compare_options(parser):
    parser.add_argument("--acre", type=Path, metavar="FILE",
                        help="the acre command that translates; without it the runs are trained "
                             "and exported, and nothing is kept of them")
    parser.add_argument("--only", nargs="+", metavar="PART",
                        help="train only these cells, MODEL[/AREA[/SEED]], as token/eq3; the table "
                             "has whatever is kept")
    parser.add_argument("--corpora", type=Path, nargs="+", metavar="DIR",
                        help="folders of NAME.en-XX.tsv[.gz] files, until the data are prepared")
    parser.add_argument("--eval", type=Path, metavar="DIR",
                        help="folder of evaluation sets NAME.en, NAME.XX, likewise")
    parser.add_argument("--folder", type=Path, default=COMPARISONS, metavar="DIR",
                        help="where data and runs live (default: models/train/runs/compare)")
    parser.add_argument("--kept", type=Path, default=COMPARED, metavar="DIR",
                        help="what each cell showed: its scores and its log; whatever is here is "
                             "not trained again (default: models/train/compared)")
    parser.add_argument("--table", type=Path, default=README, metavar="FILE",
                        help="the Markdown file whose section \"What area attention gives\" is "
                             "replaced (default: models/README.md)")


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="python3 -m models.train",
                                     description="Trains the models that Acre ships.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND",
                                     help="--help after it lists its options")

    def add(name, what, *adders):
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument("--threads", type=positive(int), metavar="N",
                             help="threads (default: all cores)")
        for add_options in adders:
            add_options(command)

    for name, (what, adders) in RUN_COMMANDS.items():
        add(name, what, add_run, *adders)
    add("back", "translate plain text into English, as a corpus for models from English",
        add_back_options)
    add("likely", "of a corpus that a machine wrote, keep what a model finds likely",
        add_likely_options)
    add("pack", "write what a campaign on another machine needs into one file", add_pack_options)
    add("campaign", "train everything of a pair, in the order and time of a plan",
        add_campaign_options)
    add("average", "write the weighted mean of exported models", add_average_options)
    add("plot", "draw the learning curves of runs", add_plot_options)
    add("compare", "train with regular attention and with areas, and make a table of what each "
        "gives", add_compare_options)
    return parser.parse_args(arguments)


def prepare(options, run):
    from .prepare import prepare as prepare_run

    recipe = find_recipe(options.model)
    if not options.corpora or not options.eval:
        raise ValueError("prepare needs --corpora DIR and --eval DIR")
    prepare_run(recipe, options.corpora, options.eval, run / "prepared", options.acre,
                options.vocabulary, thread_options(options))


def require_prepared(run):
    if not (run / "prepared").exists():
        raise FileNotFoundError(f"{run}: nothing is prepared; run the prepare command first")


def overlap(options, run):
    from .overlap import check

    require_prepared(run)
    check(run / "prepared", options.eval)


def require(run, name, when):
    require_prepared(run)
    if not (run / name).exists():
        raise FileNotFoundError(f"{run}: no {name}; it is written {when}")


def require_best(run):
    require(run, "best.pt", "by the first evaluation")


def say_what_is_ignored(options, trainer):
    """The end of a run that cools down is settled, whatever is asked for now."""
    asked = [f"--{name} {getattr(options, name):g}" for name in ("hours", "cooldown")
             if getattr(options, name) is not None]
    if asked and trainer.cooldown:
        state = "has cooled down" if trainer.finished() else "is cooling down"
        hint = "" if options.extend else "; --extend undoes that"
        print(f"train: {' and '.join(asked)} ignored: the run {state}, from step "
              f"{trainer.cooldown.start} to {trainer.cooldown.ends_at()}{hint}", flush=True)


def train(options, run):
    from .lock import alone
    from .trainer import Trainer, extend

    require_prepared(run)
    with alone(run):  # before anything is read that another process may be changing
        if options.extend:
            recipe = read_recipe(run / "prepared" / "recipe.json")
            hours = recipe.hours if options.hours is None else options.hours
            extend(run, recipe, None if options.cooldown else hours, options.cooldown)
        trainer = Trainer(run, options.hours)
        say_what_is_ignored(options, trainer)
        if not trainer.run(options.cooldown):
            raise interrupted.Interrupted


def evaluate(options, run):
    from .evaluate import evaluate as evaluate_run

    require_best(run)
    evaluate_run(run, read_recipe(run / "prepared" / "recipe.json"))


def export(options, run):
    from .export import export as export_run

    if options.last:
        require(run, "checkpoint.pt", "every few minutes of training and at its end")
    else:
        require_best(run)
    export_run(run, options.out or run / "model", options.last)


def everything(options, run):
    if not (run / "prepared").exists():
        prepare(options, run)
    train(options, run)
    evaluate(options, run)
    export(options, run)


def average(options):
    from .average import average as average_models, weighted

    average_models([weighted(model) for model in options.models], options.out)


def back(options):
    from .back import back_translate

    for text in options.texts:
        back_translate(options.acre, options.model, text, options.out, options.first,
                       options.most, ("--beam-size", options.beam, *thread_options(options)))


def likely(options):
    from .likely import keep_likely

    for path in options.corpora:
        keep_likely(options.acre, options.model, path, options.part, options.out,
                    thread_options(options))


def pack(options):
    from .pack import pack as pack_run

    pack_run(options.prepared, options.mono, options.most, options.out)


def campaign(options):
    if not options.packs:
        from .campaign import Campaign

        if not Campaign(options.folder, options.plan).run():
            raise interrupted.Interrupted
        return
    if not options.minutes or not options.out:
        raise ValueError("campaign needs --minutes X and --out OUT with --packs")
    from .lent import run_for

    run_for(options.minutes, options.packs, options.folder, options.plan, options.out,
            options.threads)


def plot(options):
    """Every run is in the legend under the name it was asked for by."""
    if not find_spec("matplotlib"):
        raise ValueError("plot needs matplotlib; pip install -r models/train/requirements.txt")
    from .plot import plot as plot_runs

    runs = {}
    for name in options.runs:
        short = Path(name).stem if name.endswith(".json") else name
        is_folder = (Path(name) / "log.jsonl").exists()
        runs[short] = Path(name) if is_folder else RUNS / short
    plot_runs(runs, options.out)


def compare(options):
    from .compare import chosen, do_all

    comparison = None
    if options.acre:  # a machine that only trains has a copy of models/train
        from . import comparison

        comparison.check_folders(options.kept, comparison.GRID_MODELS)
    failed = do_all(chosen(options.only), options, comparison and comparison.keep)
    if comparison:
        comparison.compare(options)
    if failed:
        raise ValueError(f"compare: {', '.join(map(str, failed))} failed; what is done is kept")


def run_command(options):
    commands = {"prepare": prepare, "overlap": overlap, "train": train, "evaluate": evaluate,
                "export": export, "all": everything}
    run = options.run or RUNS / Path(options.model).stem
    if not options.run and not run.exists():
        find_recipe(options.model)  # a name that is misspelt is no run that lacks something
    commands[options.command](options, run)


def main(arguments=None):
    options = parse_arguments(arguments)
    if options.threads and options.command not in ("prepare", "plot", "back", "likely"):
        import torch

        torch.set_num_threads(options.threads)
    try:
        own = {"average": average, "plot": plot, "compare": compare, "back": back,
               "likely": likely, "pack": pack, "campaign": campaign}
        own.get(options.command, run_command)(options)
    except interrupted.Interrupted:
        print(f"{options.command}: interrupted; the same command goes on", flush=True)
        return interrupted.STATUS
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"models.train: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    # As an exit, so that what is half written is taken away; training has its own way to stop.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
