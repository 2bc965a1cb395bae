#!/usr/bin/env python3
"""Latency under load against an ideal server, for several batch sizes.

    tests/bench/sharing.py --serve-model DIR [--eval DIR] [--batch-sizes 4,8,16,32,64]

The ideal is processor sharing: all requests that are there get equal parts of the server at every
moment, however many they are. What it has to share is measured: how long each sentence takes alone,
and how many sentences a second 1, 2, 4 ... closed-loop clients get, since the more are decoded
together, the less each costs. Poisson arrivals at 80 % of the rate of 32 clients come to Acre, and
in a simulation the same ones come to the ideal server. Ratios over 1: Acre is slower.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import hardware
import load
import material
from acre import Acre

BEAM, CLIENTS, LOAD = 4, 32, 0.8
IDEAL_BATCH, POINTS = 64, (1, 2, 4, 8, 16, 32, 64)  # where the ideal server's rates are measured
PERCENTILES = ("p50", "p99")

# ---- The ideal server -------------------------------------------------------------------------


class Rates:
    """What a server gets done with k requests at once, by what it gets done with one."""

    def __init__(self, measured):
        self.points = sorted(measured.items())  # [(k, sentences a second)]

    def speedup(self, k):
        """Between the measured points on lines, beyond the last as there."""
        found = self.points[-1][1]
        for (k0, rate0), (k1, rate1) in zip(self.points, self.points[1:]):
            if k <= k1:
                found = rate0 + (rate1 - rate0) * (k - k0) / (k1 - k0)
                break
        return found / self.points[0][1]


def processor_sharing(arrivals, rates):
    """[(at, seconds alone)] in order. Returns the seconds that each takes."""
    now, left, took, i = 0.0, {}, [0.0] * len(arrivals), 0
    while i < len(arrivals) or left:
        speed = rates.speedup(len(left)) / len(left) if left else 0.0
        first = min(left, key=left.get) if left else None
        end = now + left[first] / speed if left else float("inf")
        at = arrivals[i][0] if i < len(arrivals) else float("inf")
        for k in left:
            left[k] -= speed * (min(at, end) - now)
        now = min(at, end)
        if end <= at:
            took[first] = now - arrivals[first][0]
            del left[first]
        else:
            left[i] = arrivals[i][1]
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


async def closed_rate(pool, payloads, n, clients):
    """Sentences a second of the closed loop, while all clients are there."""
    requests = [(i % len(payloads), payloads[i % len(payloads)]) for i in range(n)]
    random.Random(5).shuffle(requests)
    await load.closed_loop(pool, requests[:clients], clients)
    began, pending, done = time.perf_counter(), iter(requests), []

    async def client():
        for _, payload in pending:
            await pool.post(payload)
            done.append(time.perf_counter())

    await asyncio.gather(*(client() for _ in range(clients)))
    return (n - clients) / (done[n - clients - 1] - began)


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

    def __init__(self, args, lines, cpu, batch_size):
        self.args, self.lines, self.cpu, self.batch_size = args, lines, cpu, batch_size

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


class Round:
    """What one round has measured: rates, then for each batch size a trace; and the ideal's."""

    def __init__(self, args, servers, times, number):
        n, self.closed, self.ratios = args.requests // 3, {}, {}
        points = [(IDEAL_BATCH, k) for k in POINTS] + [(size, CLIENTS) for size in args.batch_sizes]
        for size, clients in points:
            rate = servers[size].measure(closed_rate, max(n, 8 * clients), clients)
            self.closed[size, clients] = rate
            material.progress(f"  {number}: batch_size {size}, {clients} clients: {rate:.1f}/s")
        self.rates = Rates({k: self.closed[IDEAL_BATCH, k] for k in POINTS})
        self.arriving = LOAD * self.closed[IDEAL_BATCH, CLIENTS]
        # as long as one client says that they take on average, in this round
        scale = 1 / self.closed[IDEAL_BATCH, 1] / statistics.mean(times)
        for size in args.batch_sizes:
            trace = servers[size].measure(open_trace, args.requests, self.arriving)
            ideal = processor_sharing([(at, scale * times[i]) for at, i, _ in trace], self.rates)
            self.ratios[size] = classes_of(trace, ideal, servers[size].lines)
            material.progress(f"  {number}: batch_size {size}, {self.arriving:.1f} arrivals/s")


def rows(size, rounds):
    """For each class the medians over the rounds of what was measured in one."""
    closed = statistics.median(each.closed[size, CLIENTS] for each in rounds)
    for words in sorted(rounds[0].ratios[size]):
        cells = ""
        for p in PERCENTILES:
            both = [[load.latencies(side)[p] for side in each.ratios[size][words]]
                    for each in rounds]
            ratios = [ours / ideal for ours, ideal in both]
            ours, ideal = (statistics.median(column) for column in zip(*both))
            cells += (f" {ours:.1f} | {ideal:.1f} | **{statistics.median(ratios):.2f}** "
                      f"({min(ratios):.2f} to {max(ratios):.2f}) |")
        n = len(rounds[0].ratios[size][words][0])
        yield f"| {size} | {closed:.0f} | {words} | {n} |{cells}"


def report(args, lines, cpu, where):
    servers = {size: Server(args, lines, cpu, size) for size in (*args.batch_sizes, IDEAL_BATCH)}
    yield (f"# Sharing\n\n{where}; load average {os.getloadavg()[0]:.1f} at the start, nice "
           f"{os.nice(0)}.\n\nMade by `tests/bench/sharing.py`; model {args.serve_model.name}, one "
           f"thread, beam {BEAM}, {len(lines)} sentences, {args.requests} requests each, "
           f"{args.rounds} rounds.\n")
    times = servers[IDEAL_BATCH].measure(alone, 3)
    rounds = [Round(args, servers, times, i + 1) for i in range(args.rounds)]
    for each in rounds:
        found = ", ".join(f"{k}: {rate:.0f}" for k, rate in each.rates.points)
        yield (f"Sentences a second by closed-loop clients: {found}; then {each.arriving:.0f} "
               "arrivals a second.  ")
    yield ("\nLatencies in ms, medians of the rounds; the ratio is the median of those of the "
           "rounds. The closed loop is of 32 clients, sentences a second.\n")
    yield ("| batch_size | closed loop | words | requests | p50 | ideal | ratio "
           "| p99 | ideal | ratio |")
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for size in args.batch_sizes:
        yield from rows(size, rounds)


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
    where, cpus = hardware.in_words(), hardware.two_cores()
    if cpus:
        os.sched_setaffinity(0, {cpus[1]})
    chosen = material.english(args.eval, args.sentences, "sharing.txt")
    lines = chosen.read_text().splitlines()
    text = ""
    for line in report(args, lines, cpus[0] if cpus else None, where):
        print(line, flush=True)
        text += line + "\n"
    if args.output:
        args.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
