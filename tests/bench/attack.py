#!/usr/bin/env python3
"""Ordinary clients of `acre serve`, without and with an attack: who loses, and how much.

    tests/bench/attack.py --seconds 600
    tests/bench/attack.py --seconds 60 --only slow

Eight clients translate and one asks for health, each in a process of its own; fifty connections
(--connections) of four other processes attack, from another address. Before each attack the
clients have a quarter of its time for themselves: its figures are compared with those, of the same
minutes of a shared machine.
Short forms of the same are tests in tests/http/test_http_attacks.py.
"""

import argparse
import json
import multiprocessing
import os
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

LONGEST = 100000  # characters of a text, max_text_chars


def document(piece, after="", kind="html"):
    """A text as long as may be, of pieces."""
    text = piece * ((LONGEST - len(after)) // len(piece)) + after
    fields = {"q": text, "source": "en", "target": "de", "format": kind}
    body = json.dumps(fields, ensure_ascii=False).encode()
    return JSON_HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def file(piece):
    """A page of a mebibyte with its form, max_body_bytes, to be translated."""
    parts = [(b'"source"', b"en"), (b'"target"', b"de")]
    head = b"".join(b"--b\r\nContent-Disposition: form-data; name=%s\r\n\r\n%s\r\n" % part
                    for part in parts)
    head += b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.html"\r\n\r\n'
    body = head + piece * ((2**20 - len(head) - 9) // len(piece)) + b"\r\n--b--\r\n"
    return (b"POST /translate_file HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n"
            b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" % len(body)) + body


# name: what a connection sends at first, what it sends then, and how often, in seconds
SHAPES = {
    "chunk heads": (CHUNKED + b"5;", 65536 * b"x", 0),
    "slow bodies": (JSON_HEAD + b"Content-Length: 100000\r\n\r\n", b"x", 1),
    "pipelining": (b"", 1000 * HEALTH, 0),
    # documents that take the longest of what may be sent, see tests/unit/test_linear_time.c
    "document: words": (b"", document("word ", kind="text"), 0),
    "document: inline tags": (b"", document("some <b>word</b> "), 0),
    "document: nested tags": (b"", document("<b>word "), 0),
    "document: blocks": (b"", document("<div>", "word"), 0),
    "document: attributes": (b"", document("<img title='some word' alt=more>"), 0),
    "document: placeholders": (b"", document("{a}{b}x"), 0),
    "document: entities": (b"", document("&amp;w &eacute; "), 0),
    "file: inline tags": (b"", file(b"some <b>word</b> "), 0),
    "file: paragraphs": (b"", file(b"<p>some word"), 0),
}
N_ATTACKERS, N_CLIENTS = 4, 8
fork = multiprocessing.get_context("fork")


# ---- Those who attack --------------------------------------------------------------------------


class Attacker:
    """One connection, and the next when that is closed."""

    def __init__(self, port, shape, selector):
        self.port, self.selector = port, selector
        self.first, self.then, self.pause_s = shape
        self.connect()

    def connect(self):
        self.socket = socket.create_connection(
            ("127.0.0.1", self.port), timeout=60, source_address=("127.0.0.2", 0))
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
    os.nice(10)  # they would have machines of their own, and not take this one's time
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


def loop_seconds(server):
    """How long the loop's thread ran, and waited for a CPU that others had."""
    pid = server.process.pid
    ran, waited, _ = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


def measure(server, shape, n, seconds):
    """(translations, health, shares of the time that the loop ran and waited), while n connections
    attack: of the first two, what each got and how long it took."""
    before = loop_seconds(server)
    ending = fork.Event()
    attackers = [start(attack, server.port, shape, len(range(i, n, N_ATTACKERS)), ending)
                 for i in range(min(n, N_ATTACKERS))]
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
    shares = [(b - a) / seconds for a, b in zip(before, loop_seconds(server))]
    return [reply for client in found[:-1] for reply in client], found[-1], shares


# ---- The report --------------------------------------------------------------------------------


def describe(translations, health, shares):
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
        "loop ran": f"{shares[0]:.0%}",
        "waited for a CPU": f"{shares[1]:.0%}",
    }


def print_row(name, row):
    cells = [f"{cell:.1f} ms" if isinstance(cell, float) else str(cell) for cell in row.values()]
    print("| " + " | ".join([name, *cells]) + " |", flush=True)


def run(server, name, n, seconds):
    """Whether nothing was lost, and the bounds were kept."""
    alone = describe(*measure(server, None, 0, seconds / 4))
    under = describe(*measure(server, SHAPES[name], n, seconds))
    print_row("none, before " + name, alone)
    print_row(name, under)
    is_work = ":" in name  # which is shared with who sends it, and takes its time
    return (under["lost"] == 0 and under["worst health"] <= 100
            and (is_work or under["p99"] <= 3 * alone["p99"]))


def stop(server):
    begin = time.monotonic()
    status = server.stop()
    print(f"SIGTERM: exit {status} after {time.monotonic() - begin:.1f} s")
    return status == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600, help="of each attack")
    parser.add_argument("--connections", type=int, default=50, help="of those who attack")
    parser.add_argument("--only", help="part of the name of an attack", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = ROOT / "tests/golden/models/tiny-token"
        (Path(folder) / "en-de-token").symlink_to(model)
        server = Server(folder)
        columns = ["attack", "requests", "lost", "p50", "p99", "health p50", "health p99",
                   "worst health", "loop ran", "waited for a CPU"]
        print("| " + " | ".join(columns) + " |\n|" + len(columns) * "---|")
        good = [run(server, name, args.connections, args.seconds)
                for name in SHAPES if args.only in name]
        good.append(stop(server))
    print("good" if all(good) else "not good: some lost, p99 over 3 times, or health over 100 ms")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
