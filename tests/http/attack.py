"""What tests of attacks share: other clients that go on meanwhile, and those who attack.

The others run in a process of their own, so that the attack does not take the interpreter from
them. Times are of this client, machine and all: where an attack worked, they were seconds.
"""

import json
import multiprocessing
import resource
import socket
import statistics
import threading
import time

from acre_server import PATIENCE, read_reply

HEALTH = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
JSON_HEAD = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


def post(fields, path="/translate"):
    body = json.dumps(fields).encode() if isinstance(fields, dict) else fields
    head = JSON_HEAD.replace(b"/translate", path.encode(), 1)
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


TRANSLATE = post({"q": "Hello.", "source": "en", "target": "de"})


def raise_descriptor_limit():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))


def connect(port, source="127.0.0.1", timeout=20 * PATIENCE):
    connection = socket.create_connection(("127.0.0.1", port), timeout, (source, 0))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(port, request, source="127.0.0.1"):
    """(status or what went wrong, seconds) of one request on a connection of its own."""
    start = time.monotonic()
    try:
        with connect(port, source) as connection:
            connection.sendall(request)
            status = read_reply(connection)[0]
    except OSError as error:
        status = repr(error)
    return status, time.monotonic() - start


def _go_on(port, request, pause_s, ending, replies):
    found = []
    while not ending.is_set():
        found.append(ask(port, request))
        ending.wait(pause_s)
    replies.send(found)


class Others:
    """Clients who ask for health and for translations all the while."""

    def __init__(self, server, n_translating=2):
        fork = multiprocessing.get_context("fork")
        self.ending = fork.Event()
        self.clients = []
        for request, pause_s in [(HEALTH, 0.02)] + n_translating * [(TRANSLATE, 0.02)]:
            ours, theirs = fork.Pipe(duplex=False)
            process = fork.Process(
                target=_go_on, args=(server.port, request, pause_s, self.ending, theirs))
            process.start()
            self.clients.append((process, ours))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """(health, translations): what each of these requests got, and how long it took."""
        self.ending.set()
        found = []
        while self.clients:
            process, pipe = self.clients.pop(0)
            found.append(pipe.recv())
            process.join()
        return found[0] if found else [], [reply for client in found[1:] for reply in client]

    def check(self, worst_s=1):
        """All were served, health in time; the worst may wait for this machine's other work."""
        health, translations = self.stop()
        assert {status for status, _ in health + translations} == {200}
        seconds = [second for _, second in health]
        assert statistics.median(seconds) <= 0.1 * PATIENCE, seconds
        assert max(seconds) <= worst_s * PATIENCE, max(seconds)
        assert translations


class Attackers:
    """Threads that each do `attack(connection)` again and again until the end."""

    def __init__(self, server, n, attack):
        self.server, self.attack = server, attack
        self.ending = threading.Event()
        self.n_connections = 0
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(n)]
        for thread in self.threads:
            thread.start()

    def _run(self):
        while not self.ending.is_set():
            try:
                with connect(self.server.port) as connection:
                    self.n_connections += 1
                    self.attack(connection, self.ending)
            except OSError:
                self.ending.wait(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join(timeout=30 * PATIENCE)


def send_until(ending, connection, piece):
    """Also where the other side does not read, the end is noticed."""
    connection.settimeout(0.2)
    while not ending.is_set():
        try:
            connection.sendall(piece)
        except TimeoutError:
            continue


def discard(connection):
    """Reads whatever comes."""
    try:
        while connection.recv(1 << 20):
            continue
    except OSError:
        return
