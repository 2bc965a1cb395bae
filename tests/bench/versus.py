"""Against CTranslate2: same weights, same sentences, same search, in turn."""

import json
import os
import subprocess
from dataclasses import dataclass
from functools import partial

import hardware
import material
from acre import level_of
from race import Entry, Race

LENGTH = 27  # source tokens, and target tokens, forced
PEER_TYPES = {"f32": "float32", "int8": "int8"}
MIN_AGREEMENT = 0.97
AGREEMENT_SENTENCES = 16


@dataclass
class Case:
    preset: str
    type: str
    beam: int
    batch: int
    sentences: int
    threads: int = 1
    also: str = ""  # a type to race against our own `type`

    @property
    def title(self):
        search = "greedy" if self.beam == 1 else f"beam {self.beam}"
        threads = "" if self.threads == 1 else f", {self.threads} threads"
        return f"{self.preset.title()} {self.type}, {search}, batch {self.batch}{threads}"


CASES = [
    Case("base", "int8", 4, 32, 32),
    Case("base", "f32", 4, 32, 32, also="bf16"),
    Case("base", "int8", 1, 1, 16),
    Case("base", "int8", 1, 32, 64),
    Case("small", "int8", 4, 32, 128),
    Case("small", "f32", 4, 32, 128),
    Case("small", "f32", 1, 32, 256),
    # two batches for each thread
    Case("base", "int8", 4, 32, 128, threads=2),
]

# ---- The two engines --------------------------------------------------------------------------


def ours(settings, case, compute_type, level, threads, repeat):
    result = settings.acre.bench(
        material.random_model(case.preset), material.token_file(LENGTH, case.sentences),
        compute_type=compute_type, level=level, threads=threads, repeat=repeat,
        beam_size=case.beam, batch_size=case.batch, min_length=LENGTH, max_length=LENGTH,
    )
    used = (result["compute_type"], level_of(result))
    if used != (compute_type, level):
        raise SystemExit(f"acre bench: expected {compute_type} {level}, found {' '.join(used)}")
    return result


def theirs(case, environment, inter_threads, intra_threads, repeat):
    command = [
        material.PEER_PYTHON, material.HERE / "peer.py", "bench", material.peer_model(case.preset),
        material.token_file(LENGTH, case.sentences), "--length", LENGTH,
        "--compute-type", PEER_TYPES[case.type], "--beam-size", case.beam,
        "--batch-size", case.batch, "--inter-threads", inter_threads,
        "--intra-threads", intra_threads, "--repeat", repeat,
    ]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                            env={**os.environ, **environment}, check=False)
    if result.returncode:
        raise SystemExit(f"peer.py: {result.stderr.strip()}")
    return json.loads(result.stdout)


def peer_ways(case):
    """Every setting that may be the peer's best here: its product library and its threads."""
    other = "0" if hardware.is_intel() else "1"
    libraries = {"its default library": {}, f"CT2_USE_MKL={other}": {"CT2_USE_MKL": other}}
    threads = {"": (1, 1)}
    if case.threads > 1:
        threads = {f", inter_threads={case.threads}": (case.threads, 1),
                   f", intra_threads={case.threads}": (1, case.threads)}
    return {
        library + words: partial(theirs, case, environment, *counts)
        for library, environment in libraries.items()
        for words, counts in threads.items()
    }


# ---- Do they run the same model? --------------------------------------------------------------


def agreement(ours_tokens, theirs_tokens):
    """The share of target tokens that are equal, place by place."""
    pairs = [
        (a, b)
        for mine, other in zip(ours_tokens.splitlines(), theirs_tokens.splitlines(), strict=True)
        for a, b in zip(mine.split(), other.split(), strict=True)
    ]
    return sum(a == b for a, b in pairs) / len(pairs)


def check_agreement(settings, preset):
    """Greedy search in f32 must give the same tokens, or the comparison is of different models."""
    source = material.token_file(LENGTH, AGREEMENT_SENTENCES)
    mine = settings.acre.translate(
        material.random_model(preset), source, tokens=True, compute_type="f32", threads=1,
        beam_size=1, min_length=LENGTH, max_length=LENGTH,
    )
    command = [material.PEER_PYTHON, material.HERE / "peer.py", "translate",
               material.peer_model(preset), source, "--length", str(LENGTH)]
    other = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    share = agreement(mine, other)
    material.progress(f"  {preset}: {100 * share:.1f} % of tokens as the peer's")
    if share < MIN_AGREEMENT:
        raise SystemExit(f"{preset}: only {100 * share:.1f} % of the greedy f32 tokens are the "
                         f"peer's, expected {100 * MIN_AGREEMENT:.0f} %: not the same model")
    return share


# ---- The table --------------------------------------------------------------------------------


def label(case, compute_type, level, threads):
    words = f"ours {compute_type} {level}"
    return words if case.threads == 1 else f"{words}, {threads} thread{'s' * (threads > 1)}"


def run_case(settings, case):
    levels = settings.acre.levels()
    # f32 has nothing of its own in the levels above AVX-512
    wanted = [(case.type, level) for level in (levels[-1:] if case.type == "f32" else levels)]
    wanted += [(case.also, level) for level in levels if case.also]
    counts = sorted({1, case.threads})
    entries = [
        Entry(label(case, kind, level, threads),
              {"": partial(ours, settings, case, kind, level, threads)})
        for kind, level in wanted for threads in counts
    ]
    entries.append(Entry("CTranslate2", peer_ways(case)))
    race = Race(case.title, entries, settings.rounds, settings.min_seconds)
    own = label(case, case.type, levels[-1], case.threads)
    for kind, level in wanted:
        mine = label(case, kind, level, case.threads)
        yield row(case, race, mine, own if kind == case.also else "CTranslate2")
        if case.threads > 1:
            yield row(case, race, mine, label(case, kind, level, 1))


def row(case, race, mine, other):
    way = race.way(other)
    return (f"| {case.title} | {mine} | {race.rate(mine)} | {other}{', ' + way if way else ''} "
            f"| {race.rate(other)} | {race.ratio(mine, other)} |")


def report(settings):
    cases = [case for case in CASES if settings.wants(case.title)]
    shares = {preset: check_agreement(settings, preset)
              for preset in dict.fromkeys(case.preset for case in cases)}
    yield (f"{LENGTH} source tokens, {LENGTH} target tokens forced, random weights, one thread "
           "unless said. Of the settings of the peer that were tried, the fastest is named.")
    yield ("Greedy search in f32 gives the peer's tokens: "
           + ", ".join(f"{preset} {100 * share:.1f} %" for preset, share in shares.items()) + ".\n")
    yield "| case | ours | tokens/s | range | against | tokens/s | range | ratio | range |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for case in cases:
        if case.threads <= len(os.sched_getaffinity(0)):
            yield from run_case(settings, case)
        else:
            yield f"| {case.title} | skipped: not enough CPUs | | | | | | | |"
