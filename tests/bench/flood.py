#!/usr/bin/env python3
"""A million strangers against one server: what ordinary clients get meanwhile, and what it keeps.

    tests/bench/flood.py                  a million addresses, then a million wrong keys
    tests/bench/flood.py --only keys --strangers 100000

Addresses: requests through a trusted proxy, each of another client, each of which takes a token of
its rate. Keys: likewise, each with another key that looks like one and is none. Connections: each
from another address of 127.0.0.0/8, a tenth as many. Eight clients translate and one asks for
health; before each flood they have some time for themselves. Short forms of the same are tests in
tests/http/test_http_proxies.py and test_http_keys.py.
"""

import argparse
import hashlib
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attack import HEALTH, N_CLIENTS, TRANSLATE, describe, fork, loop_seconds, start, stop, use
from hardware import in_words

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/http"))

from acre_server import ACRE, Server  # noqa: E402

N_FLOODERS, PIPELINED = 4, 100
RESET = struct.pack("ii", 1, 0)
HEAD = "POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
NO_LANGUAGE = '{"q": "x"}'  # refused, and counted all the same
WRONG_KEY = '{"q": "hello", "source": "en", "target": "de", "api_key": "acre-%040x"}'


def address(i):
    return f"{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}"


def request(kind, i):
    body = WRONG_KEY % (i * 0x9E3779B97F4A7C15F39CC0605CEDC834) if kind == "keys" else NO_LANGUAGE
    client = "" if kind == "connections" else f"X-Forwarded-For: 10.{address(i)}\r\n"
    return f"{HEAD}{client}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def pipeline(port, kind, numbers):
    """All through one connection, so many at a time. Returns how many were answered."""
    wanted = b"HTTP/1.1 403" if kind == "keys" else b"HTTP/1.1 400"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for begin in range(numbers.start, numbers.stop, PIPELINED):
            some = range(begin, min(begin + PIPELINED, numbers.stop))
            connection.sendall(b"".join(request(kind, i) for i in some))
            data = b""
            while data.count(wanted) < len(some) or not data.endswith(b"}\n"):
                piece = connection.recv(1 << 20)
                if not piece:
                    raise ConnectionError(data[-200:])
                data += piece
    return len(numbers)


def connect_each(port, numbers):
    """Each from an address of its own; a reset leaves no port waiting."""
    answered = 0
    for i in numbers:
        with socket.create_connection(("127.0.0.1", port), 60, (f"127.{address(i + 256)}", 0)) as c:
            c.sendall(request("connections", i))
            answered += c.recv(4096).startswith(b"HTTP/1.1 400")
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    return answered


def flood(port, kind, numbers, results):
    os.nice(10)  # they would have machines of their own, and not take this one's time
    results.send(connect_each(port, numbers) if kind == "connections"
                 else pipeline(port, kind, numbers))


def resident_mib(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) / 1024


def fingerprint(store):
    """Of all files of the store, its journal among them."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in store.parent.glob(store.name + "*")}


def start_flood(server, kind, n):
    """Pipes that tell how many were answered as they should be."""
    pipes, shares = [], [n * i // N_FLOODERS for i in range(N_FLOODERS + 1)]
    for numbers in map(range, shares, shares[1:]):
        ours, theirs = fork.Pipe(duplex=False)
        start(flood, server.port, kind, numbers, theirs)
        theirs.close()
        pipes.append(ours)
    return pipes


def wait_for(server, pipes, seconds):
    """(answered, most MiB meanwhile): until all have ended, or for so long if there are none."""
    answered, most, end = 0, 0, time.monotonic() + seconds
    left = list(pipes)
    while left or (not pipes and time.monotonic() < end):
        most = max(most, resident_mib(server))
        time.sleep(0.2)
        for pipe in [pipe for pipe in left if pipe.poll()]:
            left.remove(pipe)
            answered += pipe.recv()  # EOFError: it has failed, and told why
    return answered, most


def measure(server, kind, n, seconds):
    before, begin, ending, clients = loop_seconds(server), time.monotonic(), fork.Event(), []
    for client in range(N_CLIENTS + 1):
        ours, theirs = fork.Pipe(duplex=False)
        is_health = client == N_CLIENTS
        start(use, server.port, HEALTH if is_health else TRANSLATE, 0.05 if is_health else 0.02,
              not is_health, ending, theirs)
        clients.append(ours)
    answered, most = wait_for(server, start_flood(server, kind, n) if n else [], seconds)
    took = time.monotonic() - begin
    ending.set()
    found = [pipe.recv() for pipe in clients]
    shares = [(b - a) / took for a, b in zip(before, loop_seconds(server))]
    row = describe([reply for client in found[:-1] for reply in client], found[-1], shares)
    return row | {"strangers": answered, "a second": f"{answered / took:.0f}" if n else "",
                  "MiB, most": f"{most:.1f}"}


def print_row(name, row):
    cells = [f"{cell:.1f} ms" if isinstance(cell, float) else str(cell) for cell in row.values()]
    print("| " + " | ".join([name, *cells]) + " |", flush=True)


def run(server, store, kind, n):
    """Whether nothing was lost, nothing written, and memory stayed where it was."""
    alone = measure(server, kind, 0, 20)
    print_row("none, before " + kind, alone)
    held, written = resident_mib(server), fingerprint(store)
    under = measure(server, kind, n, 0)
    print_row(kind, under)
    same = fingerprint(store) == written
    print(f"<!-- {kind}: {held:.1f} MiB before, {resident_mib(server):.1f} after; the store is "
          f"{'the same to the byte' if same else 'CHANGED'} -->")
    return (same and under["lost"] == 0 and under["strangers"] == n
            and float(under["MiB, most"]) < held + 8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--strangers", type=int, default=1000000)
    parser.add_argument("--only", help="part of the name of a flood", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models, store = Path(folder) / "models", Path(folder) / "acre.db"
        models.mkdir()
        (models / "en-de-token").symlink_to(ROOT / "tests/golden/models/tiny-token")
        subprocess.run([ACRE, "keys", "add", "a", "--store", store], check=True,
                       stdout=subprocess.DEVNULL)
        server = Server(models, store=store, rate_limit=60000, trusted_proxies="127.0.0.1/32")
        columns = ["flood", "requests", "lost", "p50", "p99", "health p50", "health p99",
                   "worst health", "loop ran", "waited for a CPU", "strangers", "a second",
                   "MiB, most"]
        print(in_words() + ".\n\n| " + " | ".join(columns) + " |\n|" + len(columns) * "---|")
        sizes = {"addresses": 1, "keys": 1, "connections": 10}
        good = [run(server, store, kind, args.strangers // part) for kind, part in sizes.items()
                if args.only in kind]
        refused = re.findall(r'acre_refused_total\{.*', server.get("/metrics").text)
        print("<!-- " + "; ".join(refused) + " -->")
        good.append(stop(server))
    print("good" if all(good) else "not good: some lost, something written, or 8 MiB more")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
