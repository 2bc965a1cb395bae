"""Glossaries made to be slow, large or wrong: the loop answers all the while, and nothing grows."""

import json
import os
import threading
import time

import pytest
import requests
from acre_server import PATIENCE, Server

MIB = 1 << 20


@pytest.fixture(scope="module")
def large(models):
    """A server that takes large bodies and long texts."""
    server = Server(models, max_body_bytes=32 * MIB, max_text_chars=1000000, threads=1,
                    max_queued_tokens=1000)
    yield server
    assert server.stop() == 0, "".join(server.log)


def make(server, entries, **fields):
    return server.post("/v2/glossaries", json={
        "name": "n", "source_lang": "en", "target_lang": "de", "entries_format": "tsv",
        "entries": entries, **fields})


def worked_s(server):
    """Seconds of processors that the server has had."""
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Asks for /health all the while; how long the slowest answer took."""

    def __init__(self, server):
        self.server, self.slowest, self.is_over = server, 0.0, False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with requests.Session() as session:
            while not self.is_over:
                begin = time.monotonic()
                assert session.get(self.server.url + "/health", timeout=60).status_code == 200
                self.slowest = max(self.slowest, time.monotonic() - begin)
                time.sleep(0.01)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()


def lines(pairs):
    return "\n".join(f"{source}\t{target}" for source, target in pairs)


# each as terms, and as a text that is full of them
HUNDRED_THOUSAND = lines((f"term {i} of many", f"Wort {i}") for i in range(100000))
DEEP = lines((" ".join(["a"] * n), f"{n}") for n in range(1, 513))  # prefixes of each other
DEEP_ENDS = lines((" ".join(["a"] * n + ["b"]), f"{n}") for n in range(1, 511))


@pytest.mark.parametrize("entries, text", [
    (HUNDRED_THOUSAND, "term 5 of many " * 2000), (DEEP, "a " * 20000), (DEEP_ENDS, "a " * 20000),
    (lines([("a a a a a b", "x"), ("a", "y")]), "a " * 20000), ("again\tx", "again " * 100000),
], ids=["many", "deep", "deep ends", "almost", "one term"])
def test_slow_ones(large, entries, text):
    """Searching takes no longer than the text is long, whatever the terms are."""
    with Watch(large) as watch:
        made = make(large, entries)
        assert made.status_code == 201, made.text
        identity = made.json()["glossary_id"]
        begin = worked_s(large)
        reply = large.translate([text, text], glossary_id=identity)  # which the queue never takes
        assert reply.status_code == 413, reply.text
        taken = worked_s(large) - begin
        assert requests.delete(f"{large.url}/v2/glossaries/{identity}",
                               timeout=60).status_code == 204
    assert taken < 2 * PATIENCE
    assert watch.slowest < 5 * PATIENCE  # on a machine that does other things as well


def test_ten_megabytes(large):
    entries = lines((f"{'x' * 500} {i}", "y" * 500) for i in range(10000))
    assert len(entries) > 10000000
    with Watch(large) as watch:
        made = make(large, entries)
        assert made.status_code == 201, made.text
        identity = made.json()["glossary_id"]
        shown = large.get(f"/v2/glossaries/{identity}/entries", timeout=60)
        assert shown.content == entries.encode()
        shown = large.get(f"/v3/glossaries/{identity}/entries?source_lang=en&target_lang=de",
                          timeout=60).json()
        assert shown["dictionaries"][0]["entries"] == entries
        more = lines((f"z{i}", "z" * 1000) for i in range(1000))
        part = {"source_lang": "en", "target_lang": "de", "entries": more, "entries_format": "tsv"}
        refused = requests.patch(f"{large.url}/v3/glossaries/{identity}", timeout=60,
                                 json={"dictionaries": [part]})
        assert refused.status_code == 413 and refused.json()["code"] == "glossary_too_large"
        assert requests.delete(f"{large.url}/v2/glossaries/{identity}",
                               timeout=60).status_code == 204
    assert make(large, entries + "\n" + lines([("a", "b" * 1000)] * 600)).status_code == 413
    assert watch.slowest < 5 * PATIENCE


# each is a tree of many times its bytes
TREES = {"no dictionaries": b'{"name":"n","dictionaries":[%s]}' % (b"[]," * 80000 + b"{}"),
         "no text": b'{"name":[%s]}' % (b"[]," * 80000 + b"{}"),
         "unknown": b'{"name":"n","dictionaries":[{"a":[%s]}]}' % (b"[]," * 80000 + b"{}"),
         "no entries": b'{"name":"n","dictionaries":[{"entries":[%s]}]}' % (b"[]," * 80000 + b"{}")}


def most_memory(server):
    """That it ever had."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024


@pytest.mark.parametrize("tree", TREES)
def test_what_waits_takes_no_more_than_it_counts(serve, tree):
    """Those before it are read, for long enough that all are waiting."""
    server = serve(max_body_bytes=4 * MIB)
    slow = {"name": "n", "entries": HUNDRED_THOUSAND, "entries_format": "tsv",
            "source_lang": "en", "target_lang": "en"}
    bodies = [("/v2/glossaries", json.dumps(slow).encode())] * 4
    bodies += [("/v3/glossaries", TREES[tree])] * 30

    def send(path, body):
        reply = server.post(path, data=body, headers={"Content-Type": "application/json"})
        assert reply.status_code == 400, reply.text
    server.post("/v2/glossaries", json=slow)
    before = most_memory(server)
    threads = []
    for path, body in bodies:
        threads.append(threading.Thread(target=send, args=(path, body)))
        threads[-1].start()
        time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert most_memory(server) - before < 150 * MIB * PATIENCE  # a sanitizer keeps what is freed


def test_a_body_beyond_the_limit(server):
    assert make(server, "a\t" + "b" * MIB).status_code == 413


def test_words_that_nobody_has_seen_take_bounded_memory(serve):
    """What the automaton takes counts, not only what was sent."""
    server = serve(max_body_bytes=32 * MIB, max_glossary_bytes=8 * MIB)
    entries = lines((" ".join(f"{i:x}{k:x}" for k in range(128)), "y") for i in range(1500))
    refused = make(server, entries)
    assert refused.status_code == 413 and "memory" in refused.json()["message"], refused.text
    assert make(server, entries[:MIB // 8].rsplit("\n", 1)[0]).status_code == 201


def test_short_words_that_are_called_something_long(serve):
    """A reply would be five hundred times its request."""
    server = serve()
    long_names = {"glossary": {"a": "b" * 1000}}
    reply = server.translate("a " * 50000, **long_names)
    assert reply.status_code == 413 and "glossary" in reply.json()["error"]
    reply = server.translate(["a " * 10000] * 5, **long_names)
    assert reply.status_code == 413
    assert server.translate("a " * 60, **long_names).status_code == 200


def test_clients_that_leave(large):
    """Before their glossary is read, and while it is."""
    body = json.dumps({"name": "n", "source_lang": "en", "target_lang": "de",
                       "entries_format": "tsv", "entries": HUNDRED_THOUSAND}).encode()
    head = (b"POST /v2/glossaries HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body))
    for sent in (len(body) // 2, len(body), len(body)):
        with large.connect() as connection:
            connection.sendall(head + body[:sent])
    assert large.get("/health").status_code == 200
    for glossary in large.get("/v2/glossaries").json()["glossaries"]:
        assert glossary["entry_count"] == 100000


def test_stopping_while_a_glossary_is_read(serve):
    server = serve(max_body_bytes=32 * MIB, drain_timeout_s=1)
    replies = []

    def send():
        try:
            replies.append(make(server, HUNDRED_THOUSAND).status_code)
        except requests.ConnectionError:
            replies.append(None)  # it had stopped before
    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    assert server.stop() == 0
    for thread in threads:
        thread.join()
    assert set(replies) <= {201, 503, None}
