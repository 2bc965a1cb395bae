#!/usr/bin/env python3
"""Latency under load against an ideal server, for several batch sizes.

    tests/bench/sharing.py --serve-model DIR [--eval DIR] [--batch-sizes 4,8,16,32,64] [--requests N]

The ideal is processor sharing: all requests that are there get equal parts of one server at every
moment, and none gets more than it would get alone. How long each sentence takes alone is measured,
and how many sentences a second 32 closed-loop clients get; then Poisson arrivals at 80 % of that
come to Acre, and in a simulation the same arrivals come to the ideal server, which has the same
rate. A class of lengths is told by words. Ratios over 1: Acre is slower than the ideal.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
from pathlib import Path
from urllib.parse import urlsplit

import hardware
import load
import material
from acre import Acre

BEAM, CLIENTS, LOAD = 4, 32, 0.8
PERCENTILES = ("p50", "p99")

# ---- The ideal server -------------------------------------------------------------------------


def shares(caps, total):
    """Equal parts of `total`, but to nobody more than his cap."""
    left, n, given = total, len(caps), {}
    for name, cap in sorted(caps.items(), key=lambda item: item[1]):
        given[name] = min(cap, left / n)
        left, n = left - given[name], n - 1
    return given


def processor_sharing(arrivals):
    """[(at, work, alone)] in order: `work` is in seconds of the whole server, `alone` how long it
    takes by itself. Returns the seconds that each takes."""
    now, waiting, took, i = 0.0, {}, [0.0] * len(arrivals), 0
    caps = {k: min(1.0, work / alone) for k, (_, work, alone) in enumerate(arrivals)}
    while i < len(arrivals) or waiting:
        speeds = shares({k: caps[k] for k in waiting}, 1.0)
        ends = {k: now + left / speeds[k] for k, left in waiting.items()}
        first = min(ends, key=ends.get) if ends else None
        at = arrivals[i][0] if i < len(arrivals) else float("inf")
        then = min(at, ends[first]) if ends else at
        for k in waiting:
            waiting[k] -= speeds[k] * (then - now)
        now = then
        if ends and ends[first] <= at:
            took[first] = now - arrivals[first][0]
            del waiting[first]
        else:
            waiting[i] = arrivals[i][1]
            i += 1
    return took


# ---- Acre -------------------------------------------------------------------------------------


async def alone(pool, payloads, rounds):
    """Seconds of each line by itself, the least of `rounds`."""
    found = [float("inf")] * len(payloads)
    for _ in range(rounds):
        for i, status, seconds in await load.closed_loop(pool, list(enumerate(payloads)), 1):
            if status != "200":
                raise SystemExit(f"a request ended with {status}")
            found[i] = min(found[i], seconds)
    return found


async def closed_rate(pool, payloads, n):
    """Sentences a second of the closed loop."""
    requests = [(i % len(payloads), payloads[i % len(payloads)]) for i in range(n)]
    await load.closed_loop(pool, requests[:CLIENTS], CLIENTS)
    began = asyncio.get_running_loop().time()
    await load.closed_loop(pool, requests, CLIENTS)
    return n / (asyncio.get_running_loop().time() - began)


async def open_trace(pool, payloads, n, rate):
    """[(due, line, seconds)] in order of arrival."""
    rng, due, arrivals, requests = random.Random(7), 0.0, [], []
    for k in range(n):
        due += rng.expovariate(rate)
        arrivals.append((due, rng.randrange(len(payloads))))
        requests.append((k, payloads[arrivals[-1][1]]))
    done = await load.open_loop(pool, requests, rate, random.Random(7), [at for at, _ in arrivals])
    bad = [status for _, status, _ in done if status != "200"]
    if bad:
        raise SystemExit(f"{len(bad)} requests failed, the first with {bad[0]}")
    took = {k: seconds for k, _, seconds in done}
    return [(at, line, took[k]) for k, (at, line) in enumerate(arrivals)]


class Server:
    """Acre with one batch size on one CPU; this program is on another."""

    def __init__(self, args, lines, batch_size):
        self.args, self.lines, self.batch_size = args, lines, batch_size
        cpus = hardware.two_cores()
        self.cpu = cpus[0] if cpus else None

    def measure(self, what, *arguments):
        served = Acre(self.args.acre.resolve()).serve(
            self.args.serve_model, self.cpu, threads=1, batch_size=self.batch_size)
        with served as server:
            url = f"{server.url}/translate/{server.models()[0]['name']}"
            payloads = list(load.payloads(url, self.lines, {"beam_size": BEAM}))
            parts = urlsplit(url)

            async def go():
                pool = load.Pool(parts.hostname, parts.port, 120)
                await load.closed_loop(pool, list(enumerate(payloads))[:32], 8)
                return await what(pool, payloads, *arguments)

            return asyncio.run(go())


# ---- The report -------------------------------------------------------------------------------


def classes_of(trace, ideal, lines):
    """{words: ([Acre's seconds], [the ideal's])}, and "all"."""
    found = {}
    for (_, line, seconds), best in zip(trace, ideal):
        for name in (load.class_of(lines[line], [10, 20, 30]), "all"):
            ours, theirs = found.setdefault(name, ([], []))
            ours.append(seconds)
            theirs.append(best)
    return found


def compare(batch_size, rate, trace, times, lines):
    """A row for each class; the server's rate at this size is that of the ideal."""
    scale = (1 / rate) / statistics.mean(times)  # alone to a part of the full server
    ideal = processor_sharing([(at, times[line] * scale, times[line]) for at, line, _ in trace])
    for words, (ours, theirs) in sorted(classes_of(trace, ideal, lines).items()):
        a, b = load.latencies(ours), load.latencies(theirs)
        cells = " | ".join(f"{a[p]:.1f} | {b[p]:.1f} | **{a[p] / b[p]:.2f}**" for p in PERCENTILES)
        yield f"| {batch_size} | {rate:.1f} | {words} | {len(ours)} | {cells} |"


def report(args, lines):
    servers = {size: Server(args, lines, size) for size in args.batch_sizes}
    best = servers[args.batch_sizes[0]]
    yield (f"# Sharing\n\n{hardware.in_words()}; load average {os.getloadavg()[0]:.1f} at the start."
           f"\n\nMade by `tests/bench/sharing.py`; model {args.serve_model.name}, one thread, beam "
           f"{BEAM}, {len(lines)} sentences, {args.requests} requests each.\n")
    times = best.measure(alone, args.rounds)
    rates = {size: [] for size in servers}
    for _ in range(args.rounds):
        for size, server in servers.items():
            rates[size].append(server.measure(closed_rate, args.requests))
            material.progress(f"  batch_size {size}: {rates[size][-1]:.1f}/s")
    rates = {size: statistics.median(found) for size, found in rates.items()}
    rate = LOAD * rates.get(32, max(rates.values()))
    yield (f"A sentence takes {1e3 * statistics.mean(times):.1f} ms alone on average. Arrivals: "
           f"{rate:.1f} a second, {100 * LOAD:.0f} % of what {CLIENTS} clients get with the default"
           " batch_size. Latencies in ms.\n")
    yield "| batch_size | closed loop, /s | words | requests | p50 | ideal | ratio | p99 | ideal | ratio |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for size, server in servers.items():
        trace = server.measure(open_trace, args.requests, rate)
        yield from compare(size, rates[size], trace, times, lines)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--acre", type=Path, default=material.ROOT / "build/acre")
    parser.add_argument("--serve-model", type=Path, default=material.ROOT / "models/en-de-token")
    parser.add_argument("--eval", type=Path, help="folder with newstest2014.en; else made up")
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--requests", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3, help="of what is measured by turns (3)")
    parser.add_argument("--batch-sizes", default="4,8,16,32,64",
                        type=lambda text: [int(size) for size in text.split(",")])
    parser.add_argument("--output", type=Path)
    return parser.parse_args()


def main():
    args = parse_args()
    cpus = hardware.two_cores()
    if cpus:
        os.sched_setaffinity(0, {cpus[1]})
    found = args.eval and material.newstest(args.eval, "de")
    chosen = material.some_lines(found[0], args.sentences, "sharing.txt") if found else \
        material.made_up_text(args.sentences)
    lines = chosen.read_text().splitlines()
    text = ""
    for line in report(args, lines):
        print(line, flush=True)
        text += line + "\n"
    if args.output:
        args.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
