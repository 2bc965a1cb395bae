#!/usr/bin/env python3
"""What the server's front does without a model's help, and how soon a stream begins.

    tests/bench/front.py [--seconds 5] [--rounds 3] [--idle 10000] [--serve-model DIR]

HTTP: `wrk` asks for /health with 64 connections from one CPU, the server is on another. Idle: so
many connections are open, and health is asked for 200 times. Stream: when the first sentence of a
text of 50 comes, by how long a single sentence takes; beam 4, one worker.
"""

import argparse
import json
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import hardware
import material
from acre import Acre, pinned

CONNECTIONS = 64
HEALTH = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
SENTENCE = "Yesterday the town council said that the new bridge over the river will open in May."
N_SENTENCES = 50


def address(server):
    host, port = server.url.removeprefix("http://").split(":")
    return host, int(port)


def cpu_seconds(server):
    ticks = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def wrk(server, cpu, seconds):
    """(requests a second, requests a second of the server's own CPU time, failures)"""
    before = cpu_seconds(server)
    command = [*pinned(cpu), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s",
               server.url + "/health"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = cpu_seconds(server) - before
    n = int(re.search(r"(\d+) requests in", out)[1])
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])
    failed = re.findall(r"(?:Socket errors|Non-2xx).*", out)
    return rate, n / used, failed


def ask(connection, request=HEALTH):
    """Seconds until the whole reply is here."""
    began = time.perf_counter()
    connection.sendall(request)
    data = b""
    while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < int(
            re.search(rb"(?i)content-length: (\d+)", data)[1]):
        data += connection.recv(65536)
    if not data.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"a request was answered with {data[:40]!r}")
    return time.perf_counter() - began


def with_idle(server, n):
    """Milliseconds of 200 requests for health, each on a new connection, while n others idle."""
    opened = time.perf_counter()
    idle = [socket.create_connection(address(server)) for _ in range(n)]
    opened = time.perf_counter() - opened
    for connection in idle[:: max(1, n // 100)]:
        ask(connection)
    found = []
    for _ in range(200):
        with socket.create_connection(address(server)) as connection:
            found.append(1e3 * ask(connection))
    kib = int(re.search(r"VmRSS:\s+(\d+)",
                        Path(f"/proc/{server.process.pid}/status").read_text())[1])
    for connection in idle:
        connection.close()
    return opened, found, kib


def post(server, fields):
    """(seconds until the first byte of the body, until the last) """
    url = f"{server.url}/translate/{server.models()[0]['name']}"
    data = json.dumps({"beam_size": 4, **fields}).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=120) as reply:
        reply.read(1)
        first = time.perf_counter() - began
        reply.read()
    return first, time.perf_counter() - began


def stream_ratio(server):
    text = " ".join(f"{SENTENCE[:-1]} {1900 + i}." for i in range(N_SENTENCES))
    single = statistics.median(post(server, {"q": f"{SENTENCE[:-1]} 1900."})[1] for _ in range(9))
    first, last = zip(*(post(server, {"q": text, "stream": True}) for _ in range(5)))
    return 1e3 * single, 1e3 * statistics.median(first), 1e3 * statistics.median(last)


def report(args):
    cpus = hardware.two_cores() or (None, None)
    acre = Acre(args.acre.resolve())
    yield (f"# The front\n\n{hardware.in_words()}; load average {os.getloadavg()[0]:.1f} at the "
           f"start, nice {os.nice(0)}.\n\nMade by `tests/bench/front.py`; the server on one CPU, "
           "clients on another.\n")
    yield "| what | found | range |\n|---|---|---|"
    with acre.serve(args.serve_model, cpus[0], threads=1, max_connections=12000) as server:
        rates, own, failed = zip(*(wrk(server, cpus[1], args.seconds) for _ in range(args.rounds)))
        for what, found in (("GET /health a second", rates),
                            ("GET /health a second of the server's CPU time", own)):
            yield (f"| {what} | **{statistics.median(found):.0f}** "
                   f"| {min(found):.0f} to {max(found):.0f} |")
        yield f"| failures | {sum(failed, []) or 'none'} | |"
        opened, found, kib = with_idle(server, args.idle)
        yield (f"| {args.idle} connections opened in | {opened:.1f} s "
               f"| {kib / 1024:.0f} MiB resident |")
        yield (f"| health meanwhile, on a new connection | **{statistics.median(found):.2f} ms** "
               f"| {min(found):.2f} to {max(found):.2f} |")
    with acre.serve(args.serve_model, cpus[0], threads=1) as server:
        ratios = [stream_ratio(server) for _ in range(args.rounds)]
        single, first, last = (statistics.median(column) for column in zip(*ratios))
        found = [b / a for a, b, _ in ratios]
        yield (f"| first of {N_SENTENCES} streamed sentences by a single one "
               f"| **{statistics.median(found):.2f}** | {min(found):.2f} to {max(found):.2f} |")
        yield f"| in ms: single, first, all | {single:.1f}, {first:.1f}, {last:.1f} | |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--acre", type=Path, default=material.ROOT / "build/acre")
    parser.add_argument("--serve-model", type=Path, default=material.ROOT / "models/en-de-token")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=int, default=10000)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    text = ""
    for line in report(args):
        print(line, flush=True)
        text += line + "\n"
    if args.output:
        args.output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
