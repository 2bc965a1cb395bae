"""What calls itself Redis and is none: it hangs, answers slowly, wrongly, unasked or without end.

Requests are served all the same, each replica keeps the limits alone, and nothing grows.
"""

import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from acre_server import ACRE, PATIENCE, ROOT, eventually
from test_http_replicas import HELLO, Store, ask, metric, up

PONG = b"+PONG\r\n"
RIGHT = b"*2\r\n:0\r\n:0\r\n"
READ_ONLY = b"-READONLY You can't write against a read only replica.\r\n"


class Fake:
    """Greets, unless `greeting` is something else, then gives `answer` to each command: bytes, or a
    function of the connection."""

    def __init__(self, answer, greeting=PONG, address=("127.0.0.1", 0)):
        self.answer, self.greeting = answer, greeting
        self.listener = socket.create_server(address)
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        self.n_connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.n_connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            with connection:
                self._talk(connection)
        except OSError:
            return

    def _talk(self, connection):
        data, has_greeted = b"", False
        while piece := connection.recv(65536):
            data += piece
            if not has_greeted and b"PING\r\n" in data:
                has_greeted, data = True, data.partition(b"PING\r\n")[2]
                connection.sendall(self.greeting)
            while len(commands := data.split(b"$4\r\nEVAL\r\n", 1)) == 2:
                data = commands[1]
                if callable(self.answer):
                    self.answer(connection)
                else:
                    connection.sendall(self.answer)

    def close(self):
        self.listener.close()


@pytest.fixture
def fake():
    made = []

    def make(*args, **kwargs):
        made.append(Fake(*args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.close()


def timed(server, key=None):
    begun = time.monotonic()
    return ask(server, key), time.monotonic() - begun


def resident_kib(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1])


def endless(connection):
    connection.sendall(b"$500000000\r\n")
    while True:
        connection.sendall(b"x" * 65536)


def hang(_connection):
    return


def be_slow(connection):
    time.sleep(0.2)
    connection.sendall(RIGHT)


ANSWERS = {
    "rubbish": b"\0\xff\x80 no redis\r\n",
    "an error": b"-ERR broken\r\n",
    "a word": b"+OK\r\n",
    "nil": b"$-1\r\n",
    "an empty array": b"*0\r\n",
    "words": b"*2\r\n+a\r\n+b\r\n",
    "below zero": b"*2\r\n:-9223372036854775808\r\n:-9223372036854775808\r\n",
    "too large": b"*2\r\n:9223372036854775807\r\n:9223372036854775807\r\n",
    "an array of all memory": b"*2147483647\r\n",
    "an array of -2": b"*-2\r\n",
    "arrays in arrays": b"*1\r\n" * 100,
    "a part": b"*2\r\n:0\r\n",
    "twice": b"*2\r\n:0\r\n:0\r\n*2\r\n:0\r\n:0\r\n",
    "without end": endless,
    "nothing": hang,
    "late": be_slow,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_wrong_answer_is_none(serve, tmp_path, fake, answer):
    """Two limits are kept alone: 30 requests a minute of the key, and its quota."""
    store = Store(tmp_path / "acre.db")
    key = store.add("app", rate=30, quota=100000)
    server = serve(store=store.path, shared_limits=fake(answer).url)
    assert eventually(lambda: up(server))
    before = resident_kib(server)
    begun = time.monotonic()
    found = []
    while (one := timed(server, key))[0] == 200 and len(found) < 100:
        found.append(one[1])
    assert 30 <= len(found) <= 31 + (time.monotonic() - begun) / 2 and one[0] == 429
    seconds = sorted(found)
    assert seconds[15] < 0.1 * PATIENCE and seconds[-1] < 1 * PATIENCE, seconds
    time.sleep(1.2)  # what it has not answered by now is given up
    assert server.get("/v2/usage", params={"auth_key": key}).json()["character_count"] == \
        5 * len(found)
    assert resident_kib(server) - before < 20000 * PATIENCE
    assert server.is_alive()


@pytest.mark.parametrize("greeting", [
    b"", b"-NOAUTH no\r\n", b"HTTP/1.1 400 Bad\r\n\r\n", b"*0\r\n", b"+PONG\r\n+PONG\r\n",
    b"$1000000000\r\n"])
def test_what_does_not_greet_is_away(serve, fake, greeting):
    none = fake(hang, greeting)
    server = serve(shared_limits=none.url, rate_limit=5)
    found = [timed(server) for _ in range(6)]
    assert [status for status, _ in found] == [200] * 5 + [429]
    assert max(second for _, second in found) < 1 * PATIENCE
    assert eventually(lambda: none.n_connections >= 2)  # it is tried again
    assert "limits are this replica's own until it is back" in "".join(server.log)
    assert sum("until it is back" in line for line in server.log) <= 3
    assert none.n_connections < 20


def test_one_that_takes_no_writes_is_left_and_tried_again(serve, fake):
    """As a node that has become another's replica: it greets, and refuses all else."""
    one = fake(READ_ONLY)
    server = serve(shared_limits=one.url, rate_limit=100)
    assert eventually(lambda: up(server))
    assert [ask(server) for _ in range(3)] == [200] * 3
    assert not up(server)
    assert metric(server, 'acre_shared_limits_asked_total{outcome="wrong"}') == 3
    assert eventually(lambda: one.n_connections == 2)
    time.sleep(0.5)
    assert not up(server)
    one.answer = RIGHT
    assert ask(server) == 200
    assert up(server)
    log = "".join(server.log)
    said = ("READONLY", "its answers are wrong", "counts for all")
    assert [log.count(text) for text in said] == [1, 1, 2]


def test_what_was_wrong_is_found_right_without_being_asked(serve, fake):
    one = fake(b"-MISCONF no\r\n")
    server = serve(shared_limits=one.url, rate_limit=100)
    assert eventually(lambda: up(server))
    assert ask(server) == 200 and not up(server)
    one.answer = RIGHT
    assert eventually(lambda: up(server))
    assert one.n_connections == 2


def test_what_speaks_unasked_is_away(serve, fake):
    """Also where nobody has asked for anything for long."""

    def shout(connection):
        connection.sendall(b"*2\r\n:0\r\n:7\r\n" * 1000)

    one = fake(shout)
    server = serve(shared_limits=one.url, rate_limit=100)
    assert eventually(lambda: up(server))
    assert ask(server) == 200
    assert eventually(lambda: "it answers what nobody asked" in "".join(server.log))
    assert [ask(server) for _ in range(5)] == [200] * 5
    assert eventually(lambda: up(server))
    assert metric(server, "acre_shared_limits_up") == 1
    assert server.post(json=HELLO).status_code == 200


@pytest.fixture
def serve_two(serve, tmp_path, monkeypatch):
    """Makes servers that find Redis at 127.0.0.2, and then where `fake` is."""
    library = tmp_path / "two_addresses.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, ROOT / "tests/http/two_addresses.c",
                    "-ldl"], check=True)

    def make(fake, **settings):
        with monkeypatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(library))
            return serve(shared_limits=fake.url.replace("127.0.0.1", "two.test"), **settings)

    return make


@pytest.mark.skipif(PATIENCE > 1, reason="a sanitizer wants to be the first library that is loaded")
def test_the_next_address_of_its_name_is_tried(serve_two, fake):
    server = serve_two(fake(hang))
    assert eventually(lambda: up(server))


@pytest.mark.skipif(PATIENCE > 1, reason="a sanitizer wants to be the first library that is loaded")
def test_the_next_address_is_tried_where_one_takes_no_writes(serve_two, fake):
    good = fake(RIGHT)
    fake(READ_ONLY, address=("127.0.0.2", good.listener.getsockname()[1]))
    server = serve_two(good, rate_limit=100)
    assert eventually(lambda: up(server))
    assert ask(server) == 200 and good.n_connections == 0
    assert eventually(lambda: good.n_connections == 1 and up(server))


def test_a_password_is_not_told(models):
    """Not even of an address that is none: this one has no port."""
    url = "redis://:s3cret@valkey"
    done = subprocess.run([ACRE, "serve", "--models", models, "--set", f"shared_limits={url}"],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "shared_limits: expected redis://" in done.stderr
    assert ", found something else" in done.stderr and "s3cret" not in done.stderr


def test_the_log_says_why_it_is_away(serve):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"redis://127.0.0.1:{listener.getsockname()[1]}"
    server = serve(shared_limits=nobody)
    assert eventually(lambda: "127.0.0.1: Connection refused; limits" in "".join(server.log))
