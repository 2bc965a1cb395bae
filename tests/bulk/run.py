#!/usr/bin/env python3
"""`make bulk-test`: the examples for Spark and Ray, on local clusters, beside `acre translate`.

The two take turns, on the same number of CPUs. In one more run of the cluster a process that
translates is killed in the middle. Afterwards every sentence must be there once, with the
translation that the command gives it. The cluster is up before the clock starts, fresh in every
round; starting what translates and loading the model count for both. A job of one sentence for each
CPU, before the others, says how much of a job that is.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))
sys.path.insert(0, str(ROOT / "engine/python/examples"))
from cpu_time import CpuTime  # noqa: E402
from hardware import in_words  # noqa: E402

SUBJECTS = ("The cat", "My friend", "The old teacher", "A small dog", "The new engineer")
VERBS = ("sees", "likes", "paints", "has", "wants", "buys")
OBJECTS = ("the house", "a red car", "the long letter", "an apple", "your book", "the green door")
PLACES = ("in the garden", "near the station", "at home", "in Berlin", "behind the school")


def made_up(n):
    """Sentences that are all different."""
    kinds = [f"{s} {v} {o} {p}" for p in PLACES for o in OBJECTS for v in VERBS for s in SUBJECTS]
    return [f"{kinds[i % len(kinds)]}, {i // len(kinds) + 2} times." for i in range(n)]


class Killer:
    """Kills one process that has the library loaded, some time after it has appeared."""

    def __init__(self, after_s):
        self.after_s, self.killed, self.is_over = after_s, None, False
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    @staticmethod
    def translating():
        for process in Path("/proc").glob("[0-9]*"):
            try:
                maps = (process / "maps").read_text()
            except OSError:
                continue
            if "/acre/libacre.so" in maps and int(process.name) != os.getpid():
                yield int(process.name)

    def work(self):
        while not self.is_over:
            found = sorted(self.translating())
            if found:
                time.sleep(self.after_s)
                self.killed = found[0]
                os.kill(found[0], signal.SIGKILL)
                return
            time.sleep(0.1)

    def stop(self):
        self.is_over = True
        self.thread.join()
        assert self.killed, "no worker was killed"


def command(options, lines):
    begin = time.monotonic()
    done = subprocess.run(
        [options.acre, "translate", "--model", options.model, "--beam-size", "1", "--threads",
         str(options.cpus)], input="".join(line + "\n" for line in lines), text=True,
        stdout=subprocess.PIPE, check=True)
    return time.monotonic() - begin, done.stdout.splitlines()


def on_spark(options, source, target):
    import spark
    spark.translate(options.spark, str(options.model), str(source), str(target))


def on_ray(options, source, target):
    import ray_data
    ray_data.translate(str(options.model), str(source), str(target), options.cpus)


@contextmanager
def ray_cluster(options):
    import ray
    os.environ["RAY_AUTH_MODE"] = "disabled"
    os.environ["RAY_worker_niceness"] = "0"  # the command is not nice to others either
    ray.init(num_cpus=options.cpus + 1,  # one to read and to write
             include_dashboard=False, log_to_driver=False, logging_level="error",
             object_store_memory=1 << 28)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@contextmanager
def spark_cluster(options):
    from pyspark.sql import SparkSession
    options.spark = (SparkSession.builder.master(f"local[{options.cpus},4]")
                     .config("spark.ui.enabled", "false")
                     .config("spark.ui.showConsoleProgress", "false")
                     .config("spark.driver.host", "127.0.0.1").getOrCreate())
    options.spark.sparkContext.setLogLevel("ERROR")
    yield
    options.spark.stop()


CLUSTERS = {"spark": (spark_cluster, on_spark), "ray": (ray_cluster, on_ray)}


def check(target, lines, expected):
    """No sentence is lost, doubled, or translated otherwise."""
    rows = parquet.read_table(target).to_pylist()
    assert sorted(row["id"] for row in rows) == list(range(len(lines))), "lost or doubled"
    wrong = [row for row in rows if row["translation"] != expected[row["id"]]]
    assert not wrong, f"{len(wrong)} are translated otherwise, e.g. {wrong[0]}"


def write_corpus(options, lines):
    source = options.folder / f"corpus-{len(lines)}.parquet"
    parquet.write_table(pyarrow.table({"id": range(len(lines)), "text": lines}), source)
    return source


def on_cluster(options, name, lines, expected, kill=False):
    """Seconds that it took, and processor time by kind."""
    source, target = write_corpus(options, lines), options.folder / name
    shutil.rmtree(target, ignore_errors=True)
    cluster, work = CLUSTERS[name]
    with cluster(options):
        killer = Killer(options.kill_after) if kill else None
        begin = time.monotonic()
        with CpuTime() as cpu:
            work(options, source, target)
            took = time.monotonic() - begin
        if killer:
            killer.stop()
    check(target, lines, expected)
    return took, cpu.seconds


def turn(options, name, lines):
    """One after the other, the same lines."""
    cpu_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ours, expected = command(options, lines)
    cpu_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    theirs, cpu = on_cluster(options, name, lines, expected)
    found = {"command_s": round(ours, 2), f"{name}_s": round(theirs, 2),
             "ratio": round(ours / theirs, 3),
             "cpu_s": {"command": round(cpu_after.ru_utime + cpu_after.ru_stime
                                        - cpu_before.ru_utime - cpu_before.ru_stime, 1)} | cpu}
    print(f"{name}: {len(lines)} sentences: {json.dumps(found)}", flush=True)
    return found, expected


def rounds(options, name, lines):
    """The cluster and the command by turns, then the cluster with a killed process."""
    start, _ = turn(options, name, lines[:options.cpus])
    turns = []
    for _ in range(options.rounds):
        found, expected = turn(options, name, lines)
        turns.append(found)
    killed, _ = on_cluster(options, name, lines, expected, kill=True)
    ratio = statistics.median(found["ratio"] for found in turns)
    whole = statistics.median(found[f"{name}_s"] for found in turns)
    share = start[f"{name}_s"] / whole
    print(f"{name}: {len(lines)} sentences, {ratio:.2f} of the command's speed, {share:.1%} of it "
          f"to start and to end; with a process killed {killed:.1f} s, none lost or doubled",
          flush=True)
    return {"start": start, "rounds": turns, "ratio": ratio, "start_share": round(share, 3),
            "killed_s": round(killed, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--acre", default=ROOT / "build/acre", type=Path)
    parser.add_argument("--package", default=ROOT / "build/bulk/site", type=Path,
                        help="folder that the wheel is installed in")
    parser.add_argument("--model", default=ROOT / "models/en-de-token", type=Path)
    parser.add_argument("--input", type=Path, help="sentences, one a line (default: made up)")
    parser.add_argument("--only", default="spark,ray", help="which cluster")
    parser.add_argument("--sentences", default=500, type=int)
    parser.add_argument("--cpus", default=len(os.sched_getaffinity(0)), type=int)
    parser.add_argument("--rounds", default=1, type=int)
    parser.add_argument("--kill-after", default=0.3, type=float, metavar="SECONDS")
    parser.add_argument("--write", type=Path, metavar="FILE", help="JSON with what was measured")
    options = parser.parse_args()
    examples = ROOT / "engine/python/examples"  # workers import them by name
    os.environ["PYTHONPATH"] = f"{options.package.resolve()}:{examples}"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    sys.path.insert(0, str(options.package))
    options.folder = ROOT / "build/bulk/data"
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    lines = (options.input.read_text().splitlines() if options.input else
             made_up(options.sentences))[:options.sentences]
    found = {"hardware": in_words(), "sentences": len(lines), "cpus": options.cpus,
             "words": sum(len(line.split()) for line in lines),
             "input": options.input.name if options.input else "made up"}
    for name in options.only.split(","):
        found[name] = rounds(options, name, lines)
    if options.write:
        options.write.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
