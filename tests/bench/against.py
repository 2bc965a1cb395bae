"""Against another build of Acre, an older one: every case of the other sections, by turns.

Both decode the same tokens or lines on one thread. What is compared is the median over rounds of
how much faster this build is.
"""

from dataclasses import dataclass
from functools import partial

import area
import material
import versus
from acre import Acre
from race import Entry, Race

TYPES = ("f32", "bf16", "int8")
LINES = 120


@dataclass
class Case:
    title: str
    model: str
    source: str
    options: dict

    def run(self, acre, repeat):
        return acre.bench(self.model, self.source, threads=1, repeat=repeat, **self.options)


def random_cases():
    """The shapes of `versus` and of `area`, in every type, and the widths of `area`."""
    shapes = {(case.preset, versus.LENGTH, case.beam, case.batch): case.sentences
              for case in versus.CASES}
    shapes |= {(preset, length, beam, 32): n for preset, length, beam, n in area.SHAPES}
    for (preset, length, beam, batch), n in shapes.items():
        for width in (1, 5):
            for compute_type in TYPES:
                yield Case(f"{preset} w{width} {length} tokens {compute_type} beam {beam} batch "
                           f"{batch}", material.random_model(preset, width),
                           material.token_file(length, n),
                           {"compute_type": compute_type, "beam_size": beam, "batch_size": batch,
                            "min_length": length, "max_length": length})


def shipped_cases(settings):
    text = material.english(settings.eval, LINES, "news.txt")
    for model in settings.models():
        for compute_type in TYPES:
            for beam in (1, 4):
                yield Case(f"{model.name} {compute_type} beam {beam}", model, text,
                           {"tokens": False, "compute_type": compute_type, "beam_size": beam})


def row(settings, case):
    entries = [Entry("new", {"": partial(case.run, settings.acre)}),
               Entry("old", {"": partial(case.run, Acre(settings.against))})]
    race = Race(case.title, entries, settings.rounds, settings.min_seconds)
    return f"| {case.title} | {race.ratio('new', 'old')} |"


def report(settings):
    yield "One thread, `tokens` a second of this build over the other's.\n"
    yield "| case | new / old | range |\n|---|---|---|"
    for case in [*shipped_cases(settings), *random_cases()]:
        if settings.wants(case.title):
            yield row(settings, case)
