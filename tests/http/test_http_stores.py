"""Limits under attack: many addresses, many wrong keys; and stores that are huge, locked, damaged.

Others go on meanwhile (attack.py), and memory stays bounded.
"""

import hashlib
import os
import re
import sqlite3
import subprocess
import threading
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
import requests
from acre_server import ACRE, PATIENCE, eventually, read_reply
from attack import Attackers, Others, ask, connect, post
from test_glossaries import make
from test_http_keys import HELLO, Store, metric

N_KEYS = 100000
DETECT = b'{"q":"a"}'


def resident_kib(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1])


def key_text(i):
    return f"acre-{i:040x}"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "acre.db")


# ---- Many addresses, many guesses ----------------------------------------------------------------


def from_address(i):
    """A request that a proxy passes on, of a client in a /64 of its own."""
    head = (f"POST /detect HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            f"X-Forwarded-For: 2001:db8:{i >> 16:x}:{i & 0xffff:x}::1\r\n"
            f"Content-Length: {len(DETECT)}\r\n\r\n")
    return head.encode() + DETECT


def count_replies(connection, n):
    """How many of the next n replies are 200, and 429."""
    lines, rest = {b"HTTP/1.1 200": 0, b"HTTP/1.1 429": 0}, b""
    while sum(lines.values()) < n:
        data = rest + connection.recv(1 << 20)
        assert len(data) > len(rest)
        for line in lines:
            lines[line] += data.count(line)
        rest = data[-11:]
    return tuple(lines.values())


def test_many_addresses_take_no_memory_and_nobody_s_time(serve):
    """More than have a bucket, each asks twice of one request a minute: those who come again soon
    are refused, those who have been forgotten are not."""
    server = serve(trusted_proxies="127.0.0.1", rate_limit=1, keys_required="false",
                   max_connections_per_address=1000)
    batch, n = 200, 150000
    with Others(server, n_translating=0) as others, connect(server.port) as connection:
        before = None
        for first in range(0, n, batch):
            pieces = [from_address(i) for i in range(first, first + batch)]
            sender = threading.Thread(target=connection.sendall, args=(b"".join(pieces + pieces),))
            sender.start()
            assert count_replies(connection, 2 * batch) == (batch, batch)
            sender.join()
            before = before or resident_kib(server)
        if PATIENCE == 1:  # a sanitizer keeps what is freed for a while
            assert resident_kib(server) - before < 6000  # the table of buckets is 2 MiB
        health, _ = others.stop()
        assert {status for status, _ in health} == {200}
        assert sorted(s for _, s in health)[len(health) // 2] < 0.1 * PATIENCE
    refused = metric(server, 'acre_refused_total{reason="address_rate"}')
    assert refused == n
    assert len(server.log) < 100 + n / 1000  # ten lines of a kind in ten seconds


def test_guessing_keys_costs_others_nothing(serve, store):
    key = store.add("app")
    server = serve(store=store.path)
    guess = post({"q": "Hello.", "source": "en", "target": "de", "api_key": key_text(1)})

    def flood(connection):
        with suppress(OSError):  # closed when its replies have come
            connection.sendall(guess * 1000)

    def attack(connection, ending):
        connection.settimeout(0.2)
        sender = threading.Thread(target=flood, args=(connection,))
        sender.start()
        while not ending.is_set() and connection.recv(1 << 20):
            pass

    before = resident_kib(server)
    with Others(server) as others, Attackers(server, 20, attack):
        time.sleep(3)
        others.check()
    assert metric(server, 'acre_refused_total{reason="bad_key"}') > 1000
    assert server.post(json={**HELLO, "api_key": key}).status_code == 200
    assert resident_kib(server) - before < 20000 * PATIENCE
    assert len(server.log) < 100


# ---- Huge ----------------------------------------------------------------------------------------


def fill(path, n):
    Store(path).add("first")
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany(
            "INSERT INTO keys (hash, name, characters_per_month, requests_per_minute, created, "
            "changed) VALUES (?, ?, 0, 0, '2026-01-01T00:00:00Z', 1)",
            ((hashlib.sha256(key_text(i).encode()).digest(), f"key-{i}") for i in range(n)))
        db.execute("INSERT INTO usage SELECT id, 24313, 1000, 10 FROM keys")


def test_a_store_of_many_keys(serve, store):
    """All begin and end while others are served."""
    fill(store.path, N_KEYS)
    begun = time.monotonic()
    server = serve(store=store.path, keys_required="true")
    assert time.monotonic() - begun < 10 * PATIENCE
    assert metric(server, "acre_keys") == N_KEYS + 1
    assert resident_kib(server) < 120000 * PATIENCE
    for i in (0, N_KEYS // 2, N_KEYS - 1):
        assert server.post(json={**HELLO, "api_key": key_text(i)}).status_code == 200
    assert server.post(json={**HELLO, "api_key": key_text(N_KEYS)}).status_code == 403
    with Others(server, n_translating=0) as others:
        with closing(sqlite3.connect(store.path)) as db, db:
            db.execute("UPDATE facts SET value = value + 1 WHERE name = 'keys'")
            db.execute("UPDATE keys SET revoked = '2026-01-02T00:00:00Z', changed = "
                       "(SELECT value FROM facts WHERE name = 'keys') WHERE name LIKE 'key-%'")
        assert eventually(lambda: metric(server, "acre_keys") == 1, 20 * PATIENCE)
        health, _ = others.stop()
    assert max(seconds for _, seconds in health) < 1 * PATIENCE
    assert server.post(json={**HELLO, "api_key": key_text(0)}).status_code == 403


# ---- Locked --------------------------------------------------------------------------------------


def test_a_locked_store_is_waited_for_once(serve, store):
    """Ten changes of glossaries do not wait one after the other; what is used is counted, and
    stored when the lock is gone."""
    key = store.add("app", quota=1000)
    server = serve(store=store.path)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db, \
            Others(server) as others:
        db.execute("BEGIN IMMEDIATE")
        found = []

        def change():
            start = time.monotonic()
            found.append((make(server).status_code, time.monotonic() - start))

        changes = [threading.Thread(target=change) for _ in range(10)]
        for thread in changes:
            thread.start()
        assert server.post(json={**HELLO, "api_key": key}).status_code == 200
        for thread in changes:
            thread.join()
        assert {status for status, _ in found} == {503}
        assert max(seconds for _, seconds in found) < 18 * PATIENCE  # SQLite waits for 5 s
        db.execute("ROLLBACK")
        others.check()
    assert eventually(lambda: store.row("app")["characters"] == 5, 20 * PATIENCE)
    assert make(server).status_code == 201


def test_no_more_changes_wait_than_memory_has_room_for(serve, store):
    key = store.add("app")
    server = serve(store=store.path)
    url = f"{server.url}/v2/glossaries"
    body = {"name": "n", "source_lang": "en", "target_lang": "de", "entries": "a\tb",
            "entries_format": "tsv"}
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        with ExitStack() as leaving:
            for _ in range(64):
                connection = leaving.enter_context(server.connect())
                connection.sendall(post(body, "/v2/glossaries"))
            time.sleep(0.2)
        reply = requests.post(url, json=body, timeout=20 * PATIENCE)
        assert (reply.status_code, reply.json()["code"]) == (503, "server_busy")
        assert reply.headers["retry-after"] == "1"
        with server.connect() as another:  # who has a key, and has changed nothing so far
            another.sendall(post({**body, "auth_key": key}, "/v2/glossaries"))
            time.sleep(0.2)
            db.execute("ROLLBACK")
            assert read_reply(another)[0] == 201
    assert eventually(lambda: requests.post(url, json=body, timeout=60).status_code == 201, 30)


# ---- Damaged, read-only --------------------------------------------------------------------------


def refused_at_the_start(models, path):
    done = subprocess.run([ACRE, "serve", "--models", models, "--set", f"store={path}"],
                          capture_output=True, text=True, check=False, timeout=20 * PATIENCE)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def damage(path):
    """Every page but the first, where SQLite would see that it is none."""
    data = bytearray(path.read_bytes())
    for i in range(4096, len(data)):
        data[i] ^= 0x5a
    path.write_bytes(data)


def test_a_damaged_store_ends_the_start(models, store):
    store.add("app")
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(store.path)
    line = refused_at_the_start(models, store.path)
    assert line.startswith(f"acre: store: {store.path}: ")
    assert re.search("malformed|expected a sound database", line), line


def test_a_store_that_is_damaged_later_stops_nothing(serve, store):
    key = store.add("app", quota=1000)
    server = serve(store=store.path)
    assert server.post(json={**HELLO, "api_key": key}).status_code == 200
    assert eventually(lambda: store.row("app")["requests"] == 1)
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(store.path)
    with Others(server) as others:
        assert make(server).status_code in (201, 503)
        for _ in range(3):
            assert server.post(json={**HELLO, "api_key": key}).status_code == 200
            time.sleep(1)
        others.check()
    assert server.post(json={**HELLO, "api_key": key_text(1)}).status_code == 403


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root")
def test_root_makes_a_store_for_the_owner_of_its_folder(tmp_path):
    """`acre keys add` by root, of a server that is not: it is to open the file, too."""
    try:
        os.chown(tmp_path, 65534, 65534)
    except OSError:
        pytest.skip("this root may not give files away")
    store = Store(tmp_path / "acre.db")
    store.add("app")
    owners = {(file.stat().st_uid, file.stat().st_gid) for file in tmp_path.iterdir()}
    assert owners == {(65534, 65534)}
    store.path.unlink()
    store.path.touch()
    store.add("app")  # what is there keeps its owner
    assert store.path.stat().st_uid == 0


def test_a_read_only_store_ends_the_start(models, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "none", place]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount a file system")
    try:
        Store(place / "acre.db").add("app")
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        line = refused_at_the_start(models, place / "acre.db")
        assert f"store: {place}/acre.db: expected a file that can be written" in line
        assert "Read-only file system" in line
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_store_that_takes_nothing_more_stops_nothing(serve, store):
    key = store.add("app", rate=3)
    server = serve(store=store.path)
    assert server.post(json={**HELLO, "api_key": key}).status_code == 200
    assert eventually(lambda: store.row("app")["requests"] == 1)
    with sqlite3.connect(store.path) as db:
        db.execute("CREATE TRIGGER t BEFORE INSERT ON usage "
                   "BEGIN SELECT raise(ABORT, 'no room'); END")
    assert [server.post(json={**HELLO, "api_key": key}).status_code
            for _ in range(3)] == [200, 200, 429]
    says = "what keys use is counted in memory alone"
    assert eventually(lambda: says in "".join(server.log))
    assert ask(server.port, post({**HELLO, "api_key": key_text(3)}))[0] == 403
    with sqlite3.connect(store.path) as db:
        db.execute("DROP TRIGGER t")
    assert eventually(lambda: store.row("app")["requests"] == 3)
