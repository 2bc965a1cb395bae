#!/usr/bin/env python3
"""Ordinary clients of `acre serve`, without and with an attack: who loses, and how much.

    tests/bench/attack.py --seconds 600
    tests/bench/attack.py --seconds 60 --only slow

Eight clients translate and one asks for health, each in a process of its own; fifty connections of
four other processes attack. Before each attack the clients have a quarter of its time for
themselves: its figures are compared with those, of the same minutes of a shared machine.
Short forms of the same are tests in tests/http/test_http_attacks.py.
"""

import argparse
import multiprocessing
import selectors
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/http"))

from acre_server import Server, read_reply  # noqa: E402

JSON_HEAD = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
BODY = b'{"q": "Hello world, how are you today my friend?", "source": "en", "target": "de"}'
TRANSLATE = JSON_HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
HEALTH = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

# name: what a connection sends at first, what it sends then, and how often, in seconds
SHAPES = {
    "chunk heads": (CHUNKED + b"5;", 65536 * b"x", 0),
    "slow bodies": (JSON_HEAD + b"Content-Length: 100000\r\n\r\n", b"x", 1),
    "pipelining": (b"", 1000 * HEALTH, 0),
}
N_CONNECTIONS, N_ATTACKERS, N_CLIENTS = 50, 4, 8
fork = multiprocessing.get_context("fork")


# ---- Those who attack --------------------------------------------------------------------------


class Attacker:
    """One connection, and the next when that is closed."""

    def __init__(self, port, shape, selector):
        self.port, self.selector = port, selector
        self.first, self.then, self.pause_s = shape
        self.connect()

    def connect(self):
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.socket.setblocking(False)
        self.rest, self.due = self.first, 0
        self.selector.register(self.socket, selectors.EVENT_READ, self)

    def reconnect(self):
        self.selector.unregister(self.socket)
        self.socket.close()
        self.connect()

    def act(self, now):
        """Reads whatever came, and sends what is due."""
        try:
            while True:
                if not self.socket.recv(1 << 20):
                    return self.reconnect()
        except BlockingIOError:
            pass
        except OSError:
            return self.reconnect()
        if not self.rest and now >= self.due:
            self.rest, self.due = self.then, now + self.pause_s
        try:
            self.rest = self.rest[self.socket.send(self.rest) :] if self.rest else b""
        except BlockingIOError:
            pass
        except OSError:
            self.reconnect()


def attack(port, shape, n, ending):
    selector = selectors.DefaultSelector()
    attackers = []
    while not ending.is_set():
        try:
            while len(attackers) < n:
                attackers.append(Attacker(port, shape, selector))
            now = time.monotonic()
            for attacker in attackers:
                attacker.act(now)
        except OSError:
            pass  # the server was full
        selector.select(0.001 if shape[2] == 0 else 0.05)


# ---- Those who are attacked --------------------------------------------------------------------


def ask(port, request, kept):
    """(status, seconds, the connection if it can be used again)."""
    start = time.monotonic()
    try:
        connection = kept or socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.sendall(request)
        status, headers, _ = read_reply(connection)
    except OSError as error:
        return repr(error), time.monotonic() - start, None
    seconds = time.monotonic() - start
    if status is None or headers.get("connection") == "close":
        connection.close()
        connection = None
    return status, seconds, connection


def use(port, request, pause_s, is_kept, ending, results):
    found, connection = [], None
    while not ending.is_set():
        status, seconds, connection = ask(port, request, connection)
        found.append((status, seconds))
        if connection and not is_kept:
            connection.close()
            connection = None
        time.sleep(pause_s)
    results.send(found)


def start(target, *args):
    process = fork.Process(target=target, args=args, daemon=True)
    process.start()
    return process


def measure(server, shape, seconds):
    """(translations, health): what each got and how long it took."""
    ending = fork.Event()
    attackers = [start(attack, server.port, shape, N_CONNECTIONS // N_ATTACKERS + (i < 2), ending)
                 for i in range(N_ATTACKERS if shape else 0)]
    pipes = []
    for client in range(N_CLIENTS + 1):
        ours, theirs = fork.Pipe(duplex=False)
        is_health = client == N_CLIENTS
        start(use, server.port, HEALTH if is_health else TRANSLATE, 0.05 if is_health else 0.02,
              not is_health, ending, theirs)
        pipes.append(ours)
    time.sleep(seconds)
    ending.set()
    found = [pipe.recv() for pipe in pipes]
    for process in attackers:
        process.join()
    return [reply for client in found[:-1] for reply in client], found[-1]


# ---- The report --------------------------------------------------------------------------------


def describe(translations, health):
    ms = sorted(1000 * seconds for _, seconds in translations)
    health_ms = sorted(1000 * seconds for _, seconds in health)
    return {
        "requests": len(ms),
        "lost": sum(status != 200 for status, _ in translations + health),
        "p50": statistics.median(ms),
        "p99": ms[int(0.99 * len(ms))],
        "health p50": statistics.median(health_ms),
        "health p99": health_ms[int(0.99 * len(health_ms))],
        "worst health": health_ms[-1],
    }


def print_row(name, row):
    cells = [f"{value:.1f} ms" if isinstance(value, float) else str(value) for value in row.values()]
    print("| " + " | ".join([name, *cells]) + " |", flush=True)


def run(server, name, seconds):
    """Whether nothing was lost, and the bounds were kept."""
    alone = describe(*measure(server, None, seconds / 4))
    under = describe(*measure(server, SHAPES[name], seconds))
    print_row("none, before " + name, alone)
    print_row(name, under)
    return under["lost"] == 0 and under["p99"] <= 3 * alone["p99"] and under["worst health"] <= 100


def stop(server):
    begin = time.monotonic()
    status = server.stop()
    print(f"SIGTERM: exit {status} after {time.monotonic() - begin:.1f} s")
    return status == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600, help="of each attack")
    parser.add_argument("--only", help="part of the name of an attack", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = ROOT / "tests/golden/models/tiny-token"
        (Path(folder) / "en-de-token").symlink_to(model)
        server = Server(folder)
        columns = ["attack", "requests", "lost", "p50", "p99", "health p50", "health p99",
                   "worst health"]
        print("| " + " | ".join(columns) + " |\n|" + len(columns) * "---|")
        good = [run(server, name, args.seconds) for name in SHAPES if args.only in name]
        good.append(stop(server))
    print("good" if all(good) else "not good: lost requests, p99 over 3 times, or health over 100 ms")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
