"""Which processes of a cluster take the processors: seconds of each kind, while something runs.

Looks at this process, where the clusters have their schedulers, and at all that it has started,
once a second. What a process took between the last look and its end is not seen.
"""

import os
import threading
from collections import Counter
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
LIBRARY = "/acre/libacre.so"
LOOK_EVERY_S = 1


def loads_library(process):
    try:
        return LIBRARY in (process / "maps").read_text()
    except OSError:
        return False


def fields(path):
    """Of a stat file, those after the name, which may have spaces: the state is the first."""
    return path.read_text().rpartition(")")[2].split()


def seconds(stat):
    return (int(stat[11]) + int(stat[12])) / TICKS


def family():
    """(folder in /proc, stat) of this process, of all that it has started, or those of it."""
    found, children = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            stat = fields(process / "stat")
        except OSError:
            continue
        found[int(process.name)] = (process, stat)
        children.setdefault(int(stat[1]), []).append(int(process.name))
    known = [os.getpid()]
    for pid in known:  # grows
        known += children.get(pid, [])
    return [found[pid] for pid in known]


def parts(process, stat):
    """What a process took, by kind: of those with the library, the thread that takes most is the
    engine's, the others are Python's."""
    if int(process.name) == os.getpid() or not loads_library(process):
        return {"cluster": seconds(stat)}
    threads = []
    for thread in process.glob("task/*/stat"):
        try:
            threads.append(seconds(fields(thread)))
        except OSError:
            continue
    engine = max(threads, default=0.0)
    return {"engine": engine, "python": max(0.0, seconds(stat) - engine)}


class CpuTime:
    """`with CpuTime() as cpu: ...`; afterwards cpu.seconds has those of each kind."""

    def __enter__(self):
        self.before, self.now = {}, {}
        self.look(self.before)
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()
        return self

    @staticmethod
    def look(into):
        for process, stat in family():
            into[process.name, stat[19]] = parts(process, stat)  # a number may come again

    def work(self):
        while not self.is_over.wait(LOOK_EVERY_S):
            self.look(self.now)

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        self.look(self.now)
        total = Counter()
        for name, taken in self.now.items():
            before = self.before.get(name, {})
            if before and before.keys() != taken.keys():  # it has loaded the library since
                before = {"python": sum(before.values())}
            total.update(taken)
            total.subtract(before)
        self.seconds = {kind: round(total[kind], 1) for kind in ("engine", "python", "cluster")}
