#!/usr/bin/env python3
"""`make bulk-test`: the examples for Spark and Ray, on local clusters, beside `acre translate`.

The two take turns, on the same number of CPUs. In one more run of the cluster a process that
translates is killed in the middle. Afterwards every sentence must be there once, with the
translation that the command gives it. The cluster is up before the clock starts; loading the model
counts for both.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))
sys.path.insert(0, str(ROOT / "engine/python/examples"))
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


def start_ray(options):
    import ray
    os.environ["RAY_AUTH_MODE"] = "disabled"
    ray.init(num_cpus=options.cpus + 1,  # one to read and to write
             include_dashboard=False, log_to_driver=False, logging_level="error",
             object_store_memory=1 << 28)
    ray.data.DataContext.get_current().enable_progress_bars = False


def start_spark(options):
    from pyspark.sql import SparkSession
    options.spark = (SparkSession.builder.master(f"local[{options.cpus},4]")
                     .config("spark.ui.enabled", "false")
                     .config("spark.driver.host", "127.0.0.1")
                     .config("spark.sql.files.maxPartitionBytes", "16k")
                     .config("spark.sql.files.openCostInBytes", "0").getOrCreate())
    options.spark.sparkContext.setLogLevel("ERROR")


def check(target, lines, expected):
    """No sentence is lost, doubled, or translated otherwise."""
    rows = parquet.read_table(target).to_pylist()
    assert sorted(row["id"] for row in rows) == list(range(len(lines))), "lost or doubled"
    wrong = [row for row in rows if row["translation"] != expected[row["id"]]]
    assert not wrong, f"{len(wrong)} are translated otherwise, e.g. {wrong[0]}"


def measure(options, name, work, lines, source, expected, kill):
    target = options.folder / f"{name}-{'killed' if kill else 'plain'}"
    killer = Killer(options.kill_after) if kill else None
    begin = time.monotonic()
    work(options, source, target)
    seconds = time.monotonic() - begin
    if killer:
        killer.stop()
    check(target, lines, expected)
    return seconds


def rounds(options, name, work, lines, source):
    """Seconds of the command and of the cluster by turns, then of the cluster with a killed one."""
    pairs = []
    for i in range(options.rounds):
        ours, expected = command(options, lines)
        shutil.rmtree(options.folder / f"{name}-plain", ignore_errors=True)
        pairs.append((ours, measure(options, name, work, lines, source, expected, False)))
        print(f"{name}: round {i + 1}: command {pairs[-1][0]:.1f} s, {name} {pairs[-1][1]:.1f} s",
              flush=True)
    killed = measure(options, name, work, lines, source, expected, True)
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    print(f"{name}: {len(lines)} sentences, {ratios[len(ratios) // 2]:.2f} of the command's speed; "
          f"with a worker killed {killed:.1f} s, none lost or doubled", flush=True)
    return {"rounds": [{"command_s": a, f"{name}_s": b} for a, b in pairs],
            "ratio": ratios[len(ratios) // 2], "killed_s": killed}


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
    source = options.folder / "corpus.parquet"
    table = pyarrow.table({"id": range(len(lines)), "text": lines})
    parquet.write_table(table, source, row_group_size=max(1, len(lines) // (4 * options.cpus)))
    found = {"hardware": in_words(), "command": " ".join(sys.argv), "sentences": len(lines),
             "cpus": options.cpus}
    for name, start, work in (("spark", start_spark, on_spark), ("ray", start_ray, on_ray)):
        if name in options.only:
            start(options)
            found[name] = rounds(options, name, work, lines, source)
    if options.write:
        options.write.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
