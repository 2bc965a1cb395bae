#!/usr/bin/env python3
"""A load generator for `acre serve`: sends the lines of a file, one a request, and times them.

    load.py http://127.0.0.1:5000/translate/en-de-token FILE --clients 32
    load.py http://127.0.0.1:5000/translate/en-de-token FILE --rate 80 --requests 3000

With --clients the loop is closed: each client sends its next line when it has its answer. With
--rate it is open: arrivals are Poisson, whatever the server does, and the latency of a request runs
from when it was due, not from when it could be sent. Connections are kept alive.
"""

import argparse
import asyncio
import collections
import json
import math
import random
import re
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

PERCENTILES = (50, 90, 95, 99)
SPIN_SECONDS = 0.002  # the event loop may wake a millisecond late: the last bit is polled

# ---- HTTP -------------------------------------------------------------------------------------


class Reply(asyncio.Protocol):
    """One kept-alive connection with at most one request under way."""

    def __init__(self):
        self.buffer = bytearray()
        self.waiting = None
        self.is_open = False

    def connection_made(self, transport):
        self.transport = transport
        self.is_open = True

    def data_received(self, data):
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).lower()
        length = re.search(rb"\r\ncontent-length: *(\d+)", head)
        if not length:
            self.transport.abort()  # counted as a connection error: chunks are not read here
        elif len(self.buffer) >= end + 4 + int(length[1]):
            self.buffer.clear()
            if b"\r\nconnection: close" in head:
                self.is_open = False
            if self.waiting and not self.waiting.done():
                self.waiting.set_result(head[9:12].decode())

    def connection_lost(self, exc):
        self.is_open = False
        if self.waiting and not self.waiting.done():
            self.waiting.set_result("connection")

    def send(self, payload):
        """A future of the status, or of "connection" if there was none."""
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(payload)
        return self.waiting


class Pool:
    """Connections to one server; a request takes an idle one or opens one more."""

    def __init__(self, host, port, timeout):
        self.host, self.port, self.timeout = host, port, timeout
        self.idle = []

    async def take(self):
        while self.idle:
            connection = self.idle.pop()
            if connection.is_open:
                return connection
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Reply, self.host, self.port))[1]

    async def post(self, payload):
        """The status as text; "timeout" or "connection" where none came."""
        try:
            connection = await self.take()
        except OSError:
            return "connection"
        try:
            status = await asyncio.wait_for(connection.send(payload), self.timeout)
        except asyncio.TimeoutError:
            connection.transport.abort()
            return "timeout"
        self.idle.append(connection)
        return status


def payloads(url, lines, extra):
    """The whole request for each line, ready to be sent."""
    parts = urlsplit(url)
    for line in lines:
        body = json.dumps({"q": line, **extra}).encode()
        head = (f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")
        yield head.encode() + body


# ---- Two ways to send -------------------------------------------------------------------------
# Both return [(index of the line, status, seconds)].


async def closed_loop(pool, requests, clients):
    pending, done = iter(requests), []

    async def client():
        for i, payload in pending:
            began = time.perf_counter()
            status = await pool.post(payload)
            done.append((i, status, time.perf_counter() - began))

    await asyncio.gather(*(client() for _ in range(clients)))
    return done


async def wait_until(due):
    left = due - time.perf_counter()
    if left > SPIN_SECONDS:
        await asyncio.sleep(left - SPIN_SECONDS)
    while time.perf_counter() < due:
        await asyncio.sleep(0)


async def open_loop(pool, requests, rate, rng, times=None):
    """At Poisson times, or so many seconds from now each."""
    done, tasks = [], []

    async def request(i, payload, due):
        status = await pool.post(payload)
        done.append((i, status, time.perf_counter() - due))

    start = due = time.perf_counter()
    for k, (i, payload) in enumerate(requests):
        due = start + times[k] if times else due + rng.expovariate(rate)
        await wait_until(due)
        tasks.append(asyncio.create_task(request(i, payload, due)))
    await asyncio.gather(*tasks)
    return done


# ---- Reporting --------------------------------------------------------------------------------


def latencies(seconds):
    """Percentiles by nearest rank, in ms."""
    ordered = sorted(seconds)
    found = {f"p{p}": ordered[max(0, math.ceil(len(ordered) * p / 100) - 1)] for p in PERCENTILES}
    found["max"] = ordered[-1]
    return {name: 1e3 * value for name, value in found.items()}


def class_of(line, edges):
    """"11-20" for a line of 11 to 20 words, given edges 10 and 20."""
    words, low = len(line.split()), 1
    for edge in edges:
        if words <= edge:
            return f"{low}-{edge}"
        low = edge + 1
    return f"{low}+"


def report(done, lines, edges, seconds):
    errors = collections.Counter(status for _, status, _ in done if status != "200")
    good = [(i, took) for i, status, took in done if status == "200"]
    classes = collections.defaultdict(list)
    for i, took in good:
        classes[class_of(lines[i], edges)].append(took)
    return {
        "requests": len(done),
        "seconds": seconds,
        "sentences_per_second": len(good) / seconds,
        "errors": dict(errors),
        "latency_ms": latencies([took for _, took in good]) if good else {},
        "words": {
            name: {"requests": len(classes[name]), "latency_ms": latencies(classes[name])}
            for name in sorted(classes, key=lambda name: int(re.match(r"\d+", name)[0]))
        },
    }


def print_report(result):
    print(f"{result['requests']} requests in {result['seconds']:.2f} s, "
          f"{result['sentences_per_second']:.1f} sentences/s, "
          f"errors: {result['errors'] or 'none'}")
    names = [f"p{p}" for p in PERCENTILES] + ["max"]
    print(f"{'latency, ms':16}{'requests':>10}" + "".join(f"{name:>10}" for name in names))
    rows = {name + " words": row for name, row in result["words"].items()}
    if result["latency_ms"]:
        rows["all"] = {"requests": result["requests"], "latency_ms": result["latency_ms"]}
    for name, row in rows.items():
        print(f"{name:16}{row['requests']:>10}"
              + "".join(f"{row['latency_ms'][p]:>10.1f}" for p in names))


async def run(args, lines):
    rng = random.Random(args.seed)
    order = list(range(len(lines)))
    rng.shuffle(order)
    ready = list(payloads(args.url, lines, args.body))
    n = args.requests or len(lines)
    requests = [(order[i % len(order)], ready[order[i % len(order)]]) for i in range(n)]
    parts = urlsplit(args.url)
    pool = Pool(parts.hostname, parts.port or 80, args.timeout)
    await closed_loop(pool, requests[: args.warm_up], args.clients or 8)
    began = time.perf_counter()
    if args.rate:
        done = await open_loop(pool, requests, args.rate, rng)
    else:
        done = await closed_loop(pool, requests, args.clients)
    return report(done, lines, args.edges, time.perf_counter() - began)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="of POST /translate or /translate/NAME")
    parser.add_argument("file", type=Path, help="a text a line; sent in a shuffled order")
    loop = parser.add_mutually_exclusive_group(required=True)
    loop.add_argument("--clients", type=int, help="closed loop: how many wait for answers")
    loop.add_argument("--rate", type=float, help="open loop: Poisson arrivals a second")
    parser.add_argument("--requests", type=int, help="how many (default: each line once)")
    parser.add_argument("--warm-up", type=int, default=32, help="requests not counted (32)")
    parser.add_argument("--body", type=json.loads, default={}, metavar="JSON",
                        help='further fields of every request, e.g. \'{"beam_size": 1}\'')
    parser.add_argument("--timeout", type=float, default=120, help="seconds a request may take")
    parser.add_argument("--edges", default="10,20,30", metavar="N,N",
                        type=lambda text: [int(n) for n in text.split(",")],
                        help="words that end a length class (10,20,30)")
    parser.add_argument("--seed", type=int, default=1, help="of order and arrivals (1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def main():
    args = parse_args()
    lines = [line for line in args.file.read_text().splitlines() if line.strip()]
    if not lines:
        raise SystemExit(f"{args.file}: expected at least one line of text, found none")
    result = asyncio.run(run(args, lines))
    if args.json:
        print(json.dumps(result))
    else:
        print_report(result)
    return 1 if result["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
