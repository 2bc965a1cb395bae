#!/usr/bin/env python3
"""Whom admission by work refuses, at loads below and above what can be served: both of its errors.

    tests/bench/admission.py [--serve-model DIR] [--eval DIR] [--seconds 20] [--timeout-ms 2000]

Poisson arrivals of single sentences with a deadline. Who is refused with 503 is told at once; of
these one in ten comes again at once without a deadline, and shows whether it would have been done
by the first one: that is the one error. The other is who was accepted and got 504. While more comes
than can be served, what waits is always just as much as is sure to be done in time, so many of
those refused would have been done a little before their time was up: hence the last columns.
"""

import argparse
import asyncio
import os
import random
import sys
from pathlib import Path
from urllib.parse import urlsplit

import hardware
import load
import material
import sharing
from acre import Acre

PROBES, LOADS = 0.1, (0.8, 1.2, 1.5, 2.0)


class Outcome:
    def __init__(self):
        self.done = self.late = self.refused = self.other = 0
        self.probes = self.in_time = self.tenth = self.fifth = 0


async def ask(pool, payloads, timeout, rng, found):
    """One request, and what becomes of it."""
    with_deadline, without = payloads
    loop = asyncio.get_running_loop()
    began = loop.time()
    status = await pool.post(with_deadline)
    if status == "200":
        found.done += 1
    elif status == "504":
        found.late += 1
    elif status == "503":
        found.refused += 1
        if rng.random() < PROBES:
            status = await pool.post(without)
            found.probes += 1
            seconds = loop.time() - began
            found.in_time += status == "200" and seconds <= timeout
            found.tenth += status == "200" and seconds <= 0.9 * timeout
            found.fifth += status == "200" and seconds <= 0.8 * timeout
    else:
        found.other += 1


async def arrivals(pool, lines, url, args, rate):
    rng, found, tasks = random.Random(3), Outcome(), []
    hasty = list(load.payloads(url, lines, {"beam_size": 4, "timeout_ms": args.timeout_ms}))
    patient = list(load.payloads(url, lines, {"beam_size": 4}))
    due = asyncio.get_running_loop().time()
    end = due + args.seconds
    while due < end:
        due += rng.expovariate(rate)
        i = rng.randrange(len(lines))
        await asyncio.sleep(max(0, due - asyncio.get_running_loop().time()))
        tasks.append(asyncio.create_task(
            ask(pool, (hasty[i], patient[i]), 1e-3 * args.timeout_ms, rng, found)))
    await asyncio.gather(*tasks)
    return found


def report(args, lines, cpu, where):
    settings = {"threads": 1, "max_connections": 10000, "max_queued_tokens": 10**8}
    with Acre(args.acre.resolve()).serve(args.serve_model, cpu, **settings) as server:
        url = f"{server.url}/translate/{server.models()[0]['name']}"
        pool_of = urlsplit(url)

        def run(what, *arguments):
            async def go():
                return await what(load.Pool(pool_of.hostname, pool_of.port, 120), *arguments)
            return asyncio.run(go())

        yield (f"# Admission\n\n{where}; load average {os.getloadavg()[0]:.1f} at the start, nice "
               f"{os.nice(0)}.\n\nMade by `tests/bench/admission.py`; model "
               f"{args.serve_model.name}, one thread, beam 4; {args.seconds} s of each load, "
               f"deadlines of {args.timeout_ms} ms. A load of 1 is what 32 closed-loop clients "
               "got just before.\n")
        yield ("| load | a second | in time | 504 | refused at once | of so many probes "
               "| in time after all | with a tenth to spare | with a fifth |")
        yield "|---|---|---|---|---|---|---|---|---|"
        for factor in LOADS:
            payloads = list(load.payloads(url, lines, {"beam_size": 4}))
            rate = factor * run(sharing.closed_rate, payloads, 1000, 32)
            found = run(arrivals, lines, url, args, rate)
            if found.other:
                raise SystemExit(f"{found.other} requests had another end")
            yield (f"| {factor} | {rate:.0f} | {found.done} | {found.late} | {found.refused} "
                   f"| {found.probes} | {found.in_time} | {found.tenth} | **{found.fifth}** |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--acre", type=Path, default=material.ROOT / "build/acre")
    parser.add_argument("--serve-model", type=Path, default=material.ROOT / "models/en-de-token")
    parser.add_argument("--eval", type=Path, help="folder with newstest2014.en; else made up")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--timeout-ms", type=int, default=2000)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    where, cpus = hardware.in_words(), hardware.two_cores()
    if cpus:
        os.sched_setaffinity(0, {cpus[1]})
    chosen = material.english(args.eval, 300, "sharing.txt")
    text = ""
    for line in report(args, chosen.read_text().splitlines(), cpus[0] if cpus else None, where):
        print(line, flush=True)
        text += line + "\n"
    if args.output:
        args.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
