"""What the cells of compare.py show: kept files that are small, and a table in Markdown of them.

A model translates the sets in Acre, in float32. Of each set and metric the score is kept and those
of the bootstrap's resamples, which are the same for every model: so differences between cells have
intervals without the translations. Of a cell that is not kept nothing is said.
"""

import json
import shutil
from statistics import mean

import numpy as np
import sacrebleu

from ..markdown import markdown, put_in_place
from . import bootstrap
from .acre_command import thread_options, translate
from .card import filled
from .compare import GRID_MODELS, LOSS_PART
from .files import read_json, write_whole
from .kept import check_folders, read_cell
from .prepared import read_sources
from .recipe import read_recipe
from .sets import fingerprint, read_set

# Bytes of so short a run are compared on short sentences: on long ones they say nothing.
SETS = {
    "token": ("heldout/tatoeba", "eval/newstest2013", "eval/newstest2014-en{language}"),
    "char": ("heldout/tatoeba",),
}
METRICS = {"bleu": sacrebleu.BLEU, "chrf": sacrebleu.CHRF}
COMPUTE_TYPE = "f32"
BEAM = 4
DECIMALS = 3  # of the scores that are kept
UNKEPT_KEYS = "name", "seed", "samples"  # of a cell's recipe: they say nothing, or its name does
COMPARED_KEYS = "area", "area_start"

AREA_LABELS = {
    "regular": "regular", "eq3": "areas, Eq. 3", "eq9": "areas, Eq. 9",
    "eq9-1": "Eq. 9, divided by 1", "eq9-3": "Eq. 9, divided by 3",
    "max-sum-1": "largest key, sums, divided by 1",
    "max-sum-3": "largest key, sums, divided by 3",
    "max-max-1": "largest key and value, divided by 1",
    "max-max-3": "largest key and value, divided by 3",
    "eq3-1": "Eq. 3, divided by 1", "eq3-1.5": "Eq. 3, divided by 1.5",
    "all-2": "up to 2", "all-3": "up to 3", "all-5": "up to 5", "all-8": "up to 8",
    "first-5": "up to 5, first layers", "encoder-5": "up to 5, encoder",
    "decoder-5": "up to 5, decoder's own", "cross-5": "up to 5, encoder memory",
}
NOTE = """\
Made by `python3 -m models.train compare`: the same data, steps and seeds for regular attention and
for areas, from random weights and with a linear cool-down; the last weights. Areas are as wide as
published, or of Eq. 3 and as wide as the table says. "Divided by" says how much smaller than Xavier
the weights start that read what areas give; where it is not said, they start as usual. The text is
what people translated, mixed as for `en-de-token`. These runs are short: they compare, they do not
show how good a model can be. {models} Trained on {machines}.
"""
TRAINING_NOTE = """\
Training: target ids a second of CPU time, and the time of an id as a multiple of regular
attention's on the same machine. What areas cost in translation is measured by `acre bench
--preset`. Loss: the mean of the last {part:.0f} % of the steps, in training, and the difference
from regular attention of the same seeds, which learnt the same batches; in brackets those of the
single seeds."""
SCORE_NOTE = """\
BLEU and chrF of translations by Acre, beam {beam}, {compute_type}: the mean over seeds ± half the
95 % interval of {resamples:,} bootstrap resamples of the sentences, and the difference from regular
attention of the same seeds with the interval of paired resamples; in brackets the differences of
the single seeds. In bold are differences that every seed shows: in the same direction, and each
larger than the interval of its own. sacreBLEU signatures: {signatures}."""


# ---- What is kept ----


def described(prepared, steps):
    """The data, which the cells of one model share."""
    recipe = read_recipe(prepared / "recipe.json")
    phases = recipe.phases[: recipe.phase_at(steps - 1) + 1]
    corpora = read_sources(prepared)["corpora"]
    return {
        "languages": f"{recipe.source}-{recipe.target}",
        "pairs": sum(counts["pairs"] for counts in corpora.values()),
        "longest": max(phase.max_length for phase in phases) - 1,
        "sets": {name: [len(sides[0]), fingerprint(*sides)]
                 for name, sides in sets_of(prepared).items()},
    }


def sets_of(prepared):
    """{name: (sources, references)} of the sets that a prepared folder has."""
    recipe = read_recipe(prepared / "recipe.json")
    stems = [prepared / name.format(language=recipe.language) for name in SETS[recipe.level]]
    return {stem.name: read_set(stem, recipe) for stem in stems
            if stem.with_name(f"{stem.name}.{recipe.source}").exists()}


def scores_of(lines, references):
    """{metric: the score of a set, then those of its resamples}."""
    counts = bootstrap.resamples(len(references))
    return {name: [round(float(score), DECIMALS) for score in
                   bootstrap.scores(metric(), lines, references, counts)]
            for name, metric in METRICS.items()}


def keep(run, kept, options):
    """Scores a run that is trained, and writes, last of all, what makes the cell done."""
    scores = {}
    for name, (sources, references) in sets_of(run / "prepared").items():
        print(f"compare: {run}: translating {name}", flush=True)
        lines = list(translate(options.acre, run / "model", sources, "--beam-size", BEAM,
                               "--beam-threshold", 0, "--compute-type", COMPUTE_TYPE,
                               *thread_options(options), who="compare"))
        scores[name] = scores_of(lines, references)
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run / "log.jsonl", kept / "log.jsonl")
    trained = read_json(run / "trained.json")
    recipe = read_json(run / "prepared" / "recipe.json")
    cell = trained | {
        "recipe": {key: value for key, value in recipe.items() if key not in UNKEPT_KEYS},
        "data": described(run / "prepared", trained["step"]), "scores": scores}
    write_whole(kept / "cell.json", json.dumps(cell) + "\n")


# ---- What the cells say ----


def kept_cells(model, folder):
    """{area: {seed: cell.json}} of the cells of a model that are done; they have the same data."""
    found = {}
    for area in GRID_MODELS[model].areas:
        for seed in GRID_MODELS[model].seeds:
            path = folder / model / area / str(seed) / "cell.json"
            if path.exists():
                cell = read_cell(path, METRICS, bootstrap.RESAMPLES + 1)
                found.setdefault(area, {})[seed] = cell
                check_alike(path, cell, next(iter(next(iter(found.values())).values())))
                check_recipe(path, cell, next(iter(found[area].values())), COMPARED_KEYS)
    return found


def check_alike(path, cell, first):
    """Cells of one model differ in areas only."""
    for key in ("step", "data"):
        check_value(path, key, cell[key], first[key])
    # What only one of the recipes has is of a time when there was no such key.
    check_recipe(path, cell, first, [key for key in cell["recipe"]
                                     if key in first["recipe"] and key not in COMPARED_KEYS])


def check_recipe(path, cell, first, keys):
    for key in keys:
        check_value(path, f"recipe: {key}", cell["recipe"].get(key), first["recipe"].get(key))


def check_value(path, key, found, expected):
    if found != expected:
        raise ValueError(f"{path}: {key}: expected {expected}, as in other cells of the model, "
                         f"found {found}")


def difference(of_area, of_regular):
    """Of two systems' {seed: scores}: what the first has more, for the seeds that both have."""
    by_seed = [of_area[seed] - of_regular[seed] for seed in of_area if seed in of_regular]
    if not by_seed:
        return None
    return bootstrap.interval(np.mean(by_seed, axis=0)) | {
        "seeds": [bootstrap.interval(scores) for scores in by_seed]}


def score(of_area, of_regular):
    """What is said of a system in one metric on one set."""
    return bootstrap.interval(np.mean(list(of_area.values()), axis=0)) | {
        "difference": difference(of_area, of_regular)}


def ids_per_second(cell):
    return cell["tokens"] / cell["seconds"]


def training_speed(cells, of_regular):
    """Of a system's {seed: cell}: ids a second, and the time of an id by regular's."""
    alike = [seed for seed in cells
             if seed in of_regular and cells[seed]["machine"] == of_regular[seed]["machine"]]
    said = {"ids_per_second": mean(map(ids_per_second, cells.values()))}
    if alike:
        said["training_ratio"] = mean(
            ids_per_second(of_regular[seed]) / ids_per_second(cells[seed]) for seed in alike)
    return said


def loss(cells, of_regular):
    """Of a system's {seed: cell}: the mean loss of the last steps, and what each seed's is more
    than regular's, which learnt the same batches."""
    return {"loss": mean(cell["loss"] for cell in cells.values()),
            "loss_differences": [cell["loss"] - of_regular[seed]["loss"]
                                 for seed, cell in cells.items() if seed in of_regular]}


def scores_in(cells, name, metric):
    """{seed: scores as an array} of one system, in one metric on one set."""
    return {seed: np.array(cell["scores"][name][metric]) for seed, cell in cells.items()}


def system(cells, regular):
    """What is said of the cells of one area."""
    names = next(iter(cells.values()))["scores"]
    sets = {name: {metric: score(scores_in(cells, name, metric), scores_in(regular, name, metric))
                   for metric in METRICS} for name in names}
    return ({"seeds": list(cells), "sets": sets}
            | training_speed(cells, regular) | loss(cells, regular))


def result(model, folder):
    """What is said of one model of the grid, or None if no cell of it is done."""
    cells = kept_cells(model, folder)
    if not cells:
        return None
    regular = cells.get("regular", {})
    every = [cell for of_area in cells.values() for cell in of_area.values()]
    return {
        "preset": GRID_MODELS[model].preset, "level": GRID_MODELS[model].level,
        "step": every[0]["step"],
        "machines": sorted({cell["machine"] for cell in every}),
        "systems": {area: system(of_area, regular) for area, of_area in cells.items()},
    } | every[0]["data"]


def results(folder):
    """{model: what is said of it}."""
    check_folders(folder, GRID_MODELS)
    found = {model: result(model, folder) for model in GRID_MODELS}
    return {model: said for model, said in found.items() if said}


def signatures():
    """sacreBLEU's, of the metrics; they know them once they have seen references."""
    metrics = [metric() for metric in METRICS.values()]
    for metric in metrics:
        metric.corpus_score(["-"], [["-"]])
    return [str(metric.get_signature()) for metric in metrics]


# ---- Markdown ----


def times(value):
    return "–" if value is None else f"{value:.2f}"


def is_plain(difference):
    """Whether each seed shows it alone: all the same way, and by more than their intervals."""
    seeds = difference["seeds"]
    return (all(abs(seed["score"]) > seed["ci"] for seed in seeds)
            and len({seed["score"] > 0 for seed in seeds}) == 1)


def difference_in_words(said):
    """As +0.4 ± 0.3 (+0.6, +0.2), or nothing for the regular system and without one."""
    if said is None:
        return "–"
    words = f"{said['score']:+.1f} ± {said['ci']:.1f}"
    if is_plain(said):
        words = f"**{words}**"
    return with_seeds(words, [f"{seed['score']:+.1f}" for seed in said["seeds"]])


def with_seeds(words, values):
    """The words, and in brackets the values of several seeds."""
    return f"{words} ({', '.join(values)})" if len(values) > 1 else words


def loss_in_words(differences):
    """As -0.03 (-0.02, -0.04)."""
    if not differences:
        return "–"
    return with_seeds(f"{mean(differences):+.3f}", [f"{value:+.3f}" for value in differences])


def systems_of(found):
    """(what the first columns say, area, system) of every row."""
    for said in found.values():
        for area, of_area in said["systems"].items():
            model = f"{said['preset']}, {said['level']}, {said['step']:,}"
            yield [model, AREA_LABELS[area]], area, of_area


def training_table(found):
    lines = [["model, steps", "attention", "seeds", "training, ids/s", "× time", "loss",
              "against regular"]]
    for words, area, of_area in systems_of(found):
        lines.append([*words, str(len(of_area["seeds"])), f"{of_area['ids_per_second']:,.0f}",
                      times(of_area.get("training_ratio")), f"{of_area['loss']:.3f}",
                      "–" if area == "regular" else loss_in_words(of_area["loss_differences"])])
    return markdown(lines)


def score_table(found):
    lines = [["model, steps", "attention", "set", "BLEU", "against regular", "chrF",
              "against regular"]]
    for words, area, of_area in systems_of(found):
        for name, metrics in of_area["sets"].items():
            line = [*words, name]
            for said in metrics.values():
                line.append(f"{said['score']:.1f} ± {said['ci']:.1f}")
                line.append("–" if area == "regular" else difference_in_words(said["difference"]))
            lines.append(line)
    return markdown(lines)


def data_in_words(level, languages, pairs, longest, steps):
    """What the data of some models are, and for how many steps each preset learns them."""
    ids = "bytes" if level == "char" else "pieces"
    presets = [f"by {preset.capitalize()} for {' and '.join(f'{n:,}' for n in counts)} steps"
               for preset, counts in steps.items()]
    return (f"At {level} level {languages.upper()} is learnt from {pairs:,} pairs, as far as they "
            f"have at most {longest} {ids} a side: {', '.join(presets)}.")


def models_in_words(found):
    """Of models that have the same data this is said once."""
    by_data = {}
    for said in found.values():
        data = tuple(said[key] for key in ("level", "languages", "pairs", "longest"))
        counts = by_data.setdefault(data, {}).setdefault(said["preset"], {})
        counts[said["step"]] = None  # two may have as many
    return " ".join(data_in_words(*data, steps) for data, steps in by_data.items())


def table(found):
    """The section of models/README.md."""
    machines = sorted({machine for said in found.values() for machine in said["machines"]})
    notes = [
        NOTE.format(models=models_in_words(found), machines="; ".join(machines)),
        TRAINING_NOTE.format(part=100 * LOSS_PART),
        SCORE_NOTE.format(beam=BEAM, compute_type=COMPUTE_TYPE, resamples=bootstrap.RESAMPLES,
                          signatures=" and ".join(f"`{s}`" for s in signatures())),
    ]
    note, training_note, score_note = map(filled, notes)
    return "\n\n".join([note, training_note, training_table(found), score_note, score_table(found)])


def says_something(found):
    """Whether there is a model of which regular attention and another can be compared."""
    return any("regular" in said["systems"] and len(said["systems"]) > 1 for said in found.values())


def compare(options):
    """Makes the table of what is kept, once it says something: a first cell replaces no table."""
    found = results(options.kept)
    if not says_something(found):
        print(f"compare: no table yet: {options.kept} has no model with regular attention and with "
              "areas", flush=True)
        return
    text = table(found)
    print(text)
    put_in_place(options.table, "What area attention gives", text)
