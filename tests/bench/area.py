"""Area attention of width 5 in every attention against width 1: the same weights, in turn."""

import statistics
from functools import partial

import material
from race import Entry, Race

# preset, tokens, beam, sentences
SHAPES = [
    ("small", 27, 4, 64),
    ("small", 27, 1, 128),
    ("small", 100, 4, 32),
    ("base", 27, 4, 32),
    ("base", 100, 4, 16),
]


def decode(settings, compute_type, width, shape, repeat):
    preset, length, beam, sentences = shape
    return settings.acre.bench(
        material.random_model(preset, width), material.token_file(length, sentences),
        compute_type=compute_type, threads=1, repeat=repeat, beam_size=beam, batch_size=32,
        min_length=length, max_length=length,
    )


def row(settings, compute_type, shape, title):
    entries = [Entry(f"width {width}", {"": partial(decode, settings, compute_type, width, shape)})
               for width in (1, 5)]
    race = Race(title, entries, settings.rounds, settings.min_seconds)
    times = [one / five for one, five in zip(race.rates["width 1"], race.rates["width 5"])]
    return (f"| {title} | {race.rate('width 1')} | **{statistics.median(times):.3f}** "
            f"| {min(times):.3f} to {max(times):.3f} |")


def report(settings):
    yield (f"{settings.acre.levels()[0]}, one thread, batches of 32, random weights, forced "
           "length.\n")
    yield "| case | tokens/s, width 1 | range | time of width 5 / width 1 | range |"
    yield "|---|---|---|---|---|"
    for shape in SHAPES:
        preset, length, beam, _ = shape
        for compute_type in ("f32", "int8"):
            title = f"{preset.title()} {compute_type}, {length} tokens, beam {beam}"
            if settings.wants(title):
                yield row(settings, compute_type, shape, title)
