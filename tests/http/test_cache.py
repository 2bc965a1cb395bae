"""`cache_bytes`: sentences that come again are not decoded again, and nobody can tell."""

import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from acre_server import PATIENCE, SENTENCE, eventually
from attack import connect, post

MENU = ["Home", "About us", "Where is the train station?", "Contact", "Log in", "Help and support"]


def metric(server, start):
    lines = [x for x in server.get("/metrics").text.splitlines() if x.startswith(start)]
    return sum(float(line.split()[-1]) for line in lines)


def known(server):
    return metric(server, "acre_cached_sentences_total")


def decoded(server):
    return metric(server, "acre_sentences_total")


def test_it_is_off_by_default(server):
    for _ in range(2):
        assert server.translate(MENU).status_code == 200
    assert known(server) == 0


def test_same_bytes_as_without(server, serve):
    cached = serve(cache_bytes=1_000_000)
    asked = [{}, {"alternatives": 3}, {"scores": True}, {"beam_size": 2}, {"max_length": 3},
             {"length_penalty": 0.5}, {"target": "fr"}]
    for repeat in range(3):
        for fields in asked:
            for q in (MENU, " ".join(MENU), f"{SENTENCE}\n {SENTENCE} New: {len(fields)}."):
                assert cached.translate(q, **fields).text == server.translate(q, **fields).text
        if repeat == 0:
            before = decoded(cached)
    assert decoded(cached) == before and known(cached) > before


def test_what_is_asked_for_differently_is_another_sentence(serve):
    server = serve(cache_bytes=1_000_000)
    for n, fields in enumerate([{}, {"alternatives": 1}, {"beam_size": 1}, {"max_length": 4},
                                {"length_penalty": 2}, {"beam_threshold": 0.5},
                                {"target": "fr"}]):
        assert decoded(server) == n
        assert server.translate(SENTENCE, **fields).status_code == 200
    assert known(server) == 0


def test_memory_is_bounded_and_the_oldest_goes(serve):
    server = serve(cache_bytes=4000)
    for i in range(100):
        server.translate(f"{SENTENCE} {i}")
        server.translate(SENTENCE)  # stays, as it is asked for all the time
    assert known(server) >= 150
    before = decoded(server)
    server.translate(f"{SENTENCE} 1")
    assert decoded(server) > before


def test_a_cache_too_small_for_anything_is_none(serve):
    server = serve(cache_bytes=1)
    for _ in range(3):
        assert server.translate(SENTENCE).status_code == 200
    assert known(server) == 0


def test_what_it_knows_needs_no_room_in_the_queue(serve):
    server = serve(cache_bytes=1_000_000, max_queued_tokens=20)
    texts = [f"{SENTENCE} {i}" for i in range(20)]
    assert server.translate(texts).status_code == 413
    assert {server.translate(text).status_code for text in texts} == {200}
    assert server.translate(texts).status_code == 200


def test_under_load(serve, server):
    """Many clients, few texts, little room: entries come and go, and each reply is right."""
    cached = serve(cache_bytes=3000, threads=2)
    texts = MENU + [f"{a} {b}." for a in MENU for b in MENU]
    expected = {text: server.translate(text).text for text in texts}

    def ask(seed):
        rng = random.Random(seed)
        return all(cached.translate(text).text == expected[text]
                   for text in rng.choices(texts, k=40))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))
    assert known(cached) > 0
    assert eventually(lambda: metric(cached, "acre_running_sentences") == 0)


def test_a_stream_takes_from_it(serve):
    server = serve(cache_bytes=100_000)
    text = "Hello there. How are you? Fine."
    replies = [server.translate(text, stream=True).text for _ in range(2)]
    assert replies[0] == replies[1] and known(server) == 3
    mixed = server.translate("Hello there. This one is new. Fine.", stream=True).text.splitlines()
    assert len(mixed) == 4 and known(server) == 5


# ---- What requests hold that need not be translated ----------------------------------------------

SHORT = {"source": "en", "target": "de", "beam_size": 1, "max_length": 1}
LINES = 40000 * "A\n"


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def counted(server):
    return metric(server, "acre_http_body_bytes")


def open_stalled_stream(server):
    """Its client takes the first bytes and no more; neither side's buffers are let grow."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    connection.settimeout(20 * PATIENCE)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(post({"q": LINES, "stream": True, **SHORT}))
    assert connection.recv(15) == b"HTTP/1.1 200 OK"
    return connection


@pytest.mark.skipif(PATIENCE > 1, reason="sanitizers take memory of their own")
def test_what_a_stream_holds_counts(serve):
    """Nearly all of its memory; and who does not read leaves for others."""
    server = serve(cache_bytes=1_000_000, max_bodies_bytes=30_000_000)
    assert server.translate("A", **SHORT).status_code == 200
    before, stalled = resident_bytes(server), []
    try:
        stalled.append(open_stalled_stream(server))
        grown = resident_bytes(server) - before
        assert 0.6 * grown < counted(server) < 30_000_000
        time.sleep(1.2 * PATIENCE)
        stalled.append(open_stalled_stream(server))
        assert metric(server, "acre_http_connections_evicted_total") == 1
        assert counted(server) < 30_000_000
    finally:
        for connection in stalled:
            connection.close()
    assert eventually(lambda: counted(server) == 0)


def test_what_waits_for_one_sentence_counts(serve):
    """Who finds no memory is refused, but for short texts."""
    server = serve(cache_bytes=1_000_000, max_bodies_bytes=30_000_000, threads=1, batch_size=1)
    assert server.translate("A", **SHORT).status_code == 200
    busy_for_long = {"q": 200 * [SENTENCE], "source": "en", "target": "de", "beam_size": 8}
    with connect(server.port) as busy, connect(server.port) as waiting:
        busy.sendall(post(busy_for_long))
        assert eventually(lambda: metric(server, "acre_running_sentences") == 1)
        waiting.sendall(post({**SHORT, "q": [LINES, SENTENCE]}))
        assert eventually(lambda: counted(server) > 15_000_000)
        assert server.translate(LINES, **SHORT).status_code == 503
        assert server.translate("A", **SHORT).status_code == 200
