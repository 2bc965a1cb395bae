"""What the trained cells of compare.py are worth: results.json, and a table in Markdown.

Every model translates the sets in Acre, in float32, and is timed there; a translation that exists
is not made again. Of a cell that is not trained nothing is said.
"""

import json
import subprocess
import textwrap
from statistics import mean, median

import numpy as np
import sacrebleu

from ..evaluate import markdown, put_in_place
from . import bootstrap
from .compare import KINDS, SEEDS
from .distil import translate
from .evaluate import read_set
from .export import write_json
from .recipe import read_recipe

# Bytes of so short a run are compared on short sentences: on long ones they say nothing.
SETS = {
    "token": ("heldout/tatoeba", "eval/newstest2013", "eval/newstest2014-en{language}"),
    "char": ("heldout/tatoeba",),
}
METRICS = {"bleu": sacrebleu.BLEU, "chrf": sacrebleu.CHRF}
COMPUTE_TYPE = "f32"
# The steps that are timed: greedy, one sentence at a time, all translations of this many ids.
BENCH_IDS = {"token": 27, "char": 64}
BENCH_SENTENCES = 16
BENCH_ROUNDS = 5

ATTENTIONS = {"regular": "regular", "eq3": "areas, Eq. 3", "eq9": "areas, Eq. 9"}
NOTE = """\
Made by `python3 -m models.train compare`: the same data, steps ({steps:,}) and seeds for regular
attention and for areas as wide as published, from random weights and with a linear cool-down; the
last weights. These runs are short: they compare, they do not show how good a model can be. {kinds}
Trained on {machines}.
"""
SPEED_NOTE = """\
Training: target ids a second of CPU time, the median of a run's reports, and the time of an id as
a multiple of regular attention's. Step: milliseconds that Acre takes for a target id when it
translates one sentence by greedy search, encoder included, {compute_type}, one thread, measured by
turns with `acre bench --model` ({backend})."""
SCORE_NOTE = """\
BLEU and chrF of translations by Acre, beam {beam}, {compute_type}: the mean over seeds ± half the
95 % interval of {resamples:,} bootstrap resamples of the sentences, and the difference from regular
attention of the same seeds with the interval of paired resamples. In bold are differences larger
than that; in brackets those of the single seeds, which vary by chance too. sacreBLEU signatures:
{signatures}."""


# ---- Translations ----


def sets_of(data, recipe):
    """{name: (sources, references)} of the sets that the prepared folder `data` has."""
    stems = [data / name.format(language=recipe.language) for name in SETS[recipe.level]]
    return {stem.name: read_set(stem, recipe) for stem in stems
            if stem.with_name(f"{stem.name}.{recipe.source}").exists()}


def translated(run, name, sources, options):
    """The run's translations of a set, from a file if they were made before."""
    path = run / f"translations/{name}.beam-{options.beam}"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        print(f"compare: {path}", flush=True)
        lines = list(translate(options.acre, run / "model", sources, "--beam-size", options.beam,
                               "--compute-type", COMPUTE_TYPE,
                               *(("--threads", options.threads) if options.threads else ())))
        unfinished = path.with_name(f"{path.name}.part")
        unfinished.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        unfinished.rename(path)
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    if len(lines) != len(sources):
        raise ValueError(f"{path}: expected {len(sources)} translations, found {len(lines)}")
    return lines


def resampled(runs, data, recipe, options):
    """{set: {metric: {area: {seed: scores of bootstrap.py}}}}; `runs` is {area: {seed: run}}."""
    found = {}
    for name, (sources, references) in sets_of(data, recipe).items():
        counts = bootstrap.resamples(len(sources))
        found[name] = {metric: {area: {} for area in runs} for metric in METRICS}
        for area, of_area in runs.items():
            for seed, run in of_area.items():
                lines = translated(run, name, sources, options)
                for metric, kind in METRICS.items():
                    found[name][metric][area][seed] = bootstrap.scores(
                        kind(), lines, references, counts)
    return found


def difference(of_area, of_regular):
    """Of two systems' {seed: scores}: what the first has more, for the seeds that both have."""
    by_seed = [of_area[seed] - of_regular[seed] for seed in of_area if seed in of_regular]
    if not by_seed:
        return None
    seeds = [float(scores[0]) for scores in by_seed]
    return bootstrap.interval(np.mean(by_seed, axis=0)) | {"seeds": seeds}


def score(of_area, of_regular):
    """What is said of a system in one metric on one set."""
    said = bootstrap.interval(np.mean(list(of_area.values()), axis=0))
    said["seeds"] = {seed: float(scores[0]) for seed, scores in of_area.items()}
    return said | ({"difference": difference(of_area, of_regular)} if of_regular else {})


# ---- Speed ----


def bench(model, text, ids, options):
    """What `acre bench` says of a model that translates each line to so many ids."""
    command = [options.acre, "bench", "--model", model, "--input", text, "--beam-size", 1,
               "--batch-size", 1, "--min-length", ids, "--max-length", ids,
               "--compute-type", COMPUTE_TYPE, "--threads", 1, "--json"]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def step_times(runs, data, recipe, options):
    """({area: {"step_ms", "step_ratio"}}, what they were measured on).

    The models take turns, so that what else the machine does falls on all of them.
    """
    models = {area: next(iter(of_area.values())) / "model" for area, of_area in runs.items()}
    (sources, _), *_ = sets_of(data, recipe).values()
    text = options.folder / "bench.txt"
    text.write_text("".join(line + "\n" for line in sources[:BENCH_SENTENCES]), encoding="utf-8")
    times, backend = {area: [] for area in models}, None
    for _ in range(BENCH_ROUNDS):
        for area, model in models.items():
            report = bench(model, text, BENCH_IDS[recipe.level], options)
            backend = report["backend"]
            times[area].append(1000 * report["seconds"] / report["target_tokens"])
    return {area: {"step_ms": median(of_area)} | ratio(of_area, times.get("regular"))
            for area, of_area in times.items()}, backend


def ratio(of_area, of_regular):
    if of_regular is None:
        return {}
    return {"step_ratio": median(a / b for a, b in zip(of_area, of_regular))}


def training_speed(reports, of_regular):
    """Of a system's {seed: trained.json}: ids a second, and the time of an id by regular's."""
    alike = [seed for seed in reports
             if seed in of_regular and reports[seed]["machine"] == of_regular[seed]["machine"]]
    said = {"ids_per_second": mean(report["ids_per_second"] for report in reports.values())}
    if alike:
        said["training_ratio"] = mean(
            of_regular[seed]["ids_per_second"] / reports[seed]["ids_per_second"] for seed in alike)
    return said


# ---- Results ----


def trained_runs(kind, folder):
    """{area: {seed: run}} of the cells that are done."""
    found = {area: {seed: folder / kind / area / str(seed) for seed in SEEDS}
             for area in KINDS[kind].areas}
    done = {area: {seed: run for seed, run in runs.items() if (run / "trained.json").exists()}
            for area, runs in found.items()}
    return {area: runs for area, runs in done.items() if runs}


def result(kind, options):
    """What is said of one kind of model, or None if no run of it is done."""
    runs = trained_runs(kind, options.folder)
    if not runs:
        return None
    data = options.data[KINDS[kind].level]
    recipe = read_recipe(data / "recipe.json")
    reports = {area: {seed: json.loads((run / "trained.json").read_text(encoding="utf-8"))
                      for seed, run in of_area.items()} for area, of_area in runs.items()}
    scores = resampled(runs, data, recipe, options)
    steps, backend = step_times(runs, data, recipe, options)
    systems = {}
    for area in runs:
        of_sets = {name: {metric: score(by_area[area], by_area.get("regular", {}))
                          for metric, by_area in metrics.items()}
                   for name, metrics in scores.items()}
        systems[area] = {"seeds": list(runs[area]), "sets": of_sets} | steps[area]
        systems[area] |= training_speed(reports[area], reports.get("regular", {}))
    machines = {report["machine"] for of_area in reports.values() for report in of_area.values()}
    return described(kind, recipe, data, options.steps) | {
        "machines": sorted(machines), "bench": backend, "systems": systems}


def described(kind, recipe, data, steps):
    """What the runs of one kind, of so many steps, share."""
    phases = recipe.phases[: recipe.phase_at(steps - 1) + 1]
    corpora = json.loads((data / "sources.json").read_text(encoding="utf-8"))["corpora"]
    return {
        "preset": KINDS[kind].preset, "level": recipe.level, "data": recipe.name,
        "languages": f"{recipe.source}-{recipe.target}",
        "pairs": sum(counts["pairs"] for counts in corpora.values()),
        "longest": max(phase.max_length for phase in phases) - 1,
    }


def results(options):
    """Everything, as it stands in results.json."""
    kinds = {kind: result(kind, options) for kind in KINDS}
    kinds = {kind: said for kind, said in kinds.items() if said}
    if not kinds:
        raise ValueError(f"{options.folder}: expected a trained cell, found none")
    signatures = []
    for kind in METRICS.values():
        metric = kind()
        metric.corpus_score(["-"], [["-"]])  # it knows its signature once it has seen references
        signatures.append(str(metric.get_signature()))
    return {"steps": options.steps, "beam": options.beam, "resamples": bootstrap.RESAMPLES,
            "signatures": signatures, "kinds": kinds}


# ---- Markdown ----


def filled(text):
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False,
                         break_long_words=False)


def times(value):
    return "–" if value is None else f"{value:.2f}"


def difference_in_words(said):
    """As +0.4 ± 0.3 (+0.6, +0.2), or nothing for the regular system and without one."""
    if said is None:
        return "–"
    words = f"{said['score']:+.1f} ± {said['ci']:.1f}"
    if abs(said["score"]) > said["ci"]:
        words = f"**{words}**"
    seeds = ", ".join(f"{value:+.1f}" for value in said["seeds"])
    return f"{words} ({seeds})" if len(said["seeds"]) > 1 else words


def systems_of(found):
    """(what the first columns say, area, system) of every row."""
    for said in found["kinds"].values():
        for area, system in said["systems"].items():
            words = [f"{said['preset']}, {said['level']}", ATTENTIONS[area]]
            yield words, area, system


def speed_table(found):
    titles = ["model", "attention", "seeds", "training, ids/s", "× time", "step, ms", "× time"]
    lines = [titles]
    for words, _, system in systems_of(found):
        lines.append([*words, str(len(system["seeds"])), f"{system['ids_per_second']:,.0f}",
                      times(system.get("training_ratio")), f"{system['step_ms']:.3f}",
                      times(system.get("step_ratio"))])
    return markdown(lines)


def score_table(found):
    titles = ["model", "attention", "set", "BLEU", "against regular", "chrF", "against regular"]
    lines = [titles]
    for words, area, system in systems_of(found):
        for name, metrics in system["sets"].items():
            line = [*words, name]
            for said in metrics.values():
                line.append(f"{said['score']:.1f} ± {said['ci']:.1f}")
                line.append("–" if area == "regular"
                            else difference_in_words(said.get("difference")))
            lines.append(line)
    return markdown(lines)


def kind_in_words(said):
    ids = "bytes" if said["level"] == "char" else "pieces"
    return (f"{said['preset'].capitalize()} at {said['level']} level learns "
            f"{said['languages'].upper()} from the text of `{said['data']}` ({said['pairs']:,} "
            f"pairs), as far as it has at most {said['longest']} {ids} a side.")


def table(found):
    """The section of models/README.md."""
    kinds = found["kinds"].values()
    machines = sorted({machine for said in kinds for machine in said["machines"]})
    notes = [
        NOTE.format(steps=found["steps"], kinds=" ".join(map(kind_in_words, kinds)),
                    machines="; ".join(machines)),
        SPEED_NOTE.format(compute_type=COMPUTE_TYPE,
                          backend=", ".join(sorted({said["bench"] for said in kinds}))),
        SCORE_NOTE.format(beam=found["beam"], compute_type=COMPUTE_TYPE,
                          resamples=found["resamples"],
                          signatures=" and ".join(f"`{s}`" for s in found["signatures"])),
    ]
    note, speed_note, score_note = map(filled, notes)
    return "\n\n".join([note, speed_note, speed_table(found), score_note, score_table(found)])


def compare(options):
    """Measures what is trained; writes results.json and the table."""
    found = results(options)
    write_json(options.folder / "results.json", found)
    text = table(found)
    print(text)
    put_in_place(options.table, "What area attention gives", text)
