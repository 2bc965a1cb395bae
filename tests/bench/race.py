"""A race: several entries do the same work in turn, round after round, in one run.

Ratios are the median over rounds, each of neighbours in time, so that a machine whose speed drifts
drifts for all of them.
"""

import math
import statistics
from dataclasses import dataclass

from material import progress

MAX_REPEAT = 100


@dataclass
class Entry:
    """`ways` maps a description to a function of `repeat` that returns what was measured: a dict
    with at least `seconds`, of one pass, and `tokens_per_second`."""

    name: str
    ways: dict


class Race:
    """Tries every way once, keeps the fastest of each entry, then runs `rounds` rounds."""

    def __init__(self, title, entries, rounds, min_seconds):
        self.title, self.min_seconds = title, min_seconds
        self.best = {entry.name: self.fastest(entry) for entry in entries}
        self.rates = {entry.name: [] for entry in entries}
        for number in range(rounds):
            for entry in entries:
                self.measure(entry, f"{number + 1}/{rounds}")

    def fastest(self, entry):
        """(description, passes to measure for, what was measured)."""
        tries = {way: run(1) for way, run in entry.ways.items()}
        for way, result in tries.items():
            self.tell(entry, f"trial {way}".strip(), result)
        way = max(tries, key=lambda name: tries[name]["tokens_per_second"])
        repeat = math.ceil(self.min_seconds / tries[way]["seconds"])
        return way, min(repeat, MAX_REPEAT), tries[way]

    def measure(self, entry, label):
        way, repeat, _ = self.best[entry.name]
        result = entry.ways[way](repeat)
        self.rates[entry.name].append(result["tokens_per_second"])
        self.tell(entry, label, result)

    def tell(self, entry, label, result):
        progress(f"  {self.title}: {entry.name}, {label}: {result['tokens_per_second']:.0f}/s")

    def way(self, name):
        return self.best[name][0]

    def rate(self, name):
        """The median and the range of an entry's tokens per second, for a table."""
        rates = self.rates[name]
        return f"{statistics.median(rates):.0f} | {min(rates):.0f} to {max(rates):.0f}"

    def ratio(self, name, other):
        """The same of how much faster `name` is than `other`."""
        ratios = [a / b for a, b in zip(self.rates[name], self.rates[other])]
        median = statistics.median(ratios)
        return f"**{median:.2f}** | {min(ratios):.2f} to {max(ratios):.2f}"
