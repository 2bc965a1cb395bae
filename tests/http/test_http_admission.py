"""Requests that would be late are refused at once, and one client's work does not delay another's.

Clients are told apart by their addresses: all of 127.0.0.0/8 are this machine's.
"""

import json
import re
import threading
import time

import pytest
from acre_server import PATIENCE, SENTENCE, eventually, read_reply
from attack import connect, post

TEXTS = [f"{SENTENCE[:-1]} number {i}, and what will you do tomorrow evening?" for i in range(1000)]
PAIR = {"source": "en", "target": "de"}
BULK = {"q": TEXTS, **PAIR, "beam_size": 8}
ONE_WORKER = {"threads": 1, "batch_size": 4, "max_queued_tokens": 10**9,
              "request_timeout_ms": 60000 * PATIENCE}


def ask(server, fields, source):
    """(status, headers, body, seconds) from another address."""
    start = time.monotonic()
    with connect(server.port, source) as connection:
        connection.sendall(post(fields))
        status, headers, body = read_reply(connection)
    return status, headers, json.loads(body), time.monotonic() - start


@pytest.fixture
def bulk(serve):
    """A server whose only worker has a long time's work of 127.0.0.2, and knows how fast it is."""
    server = serve(**ONE_WORKER)
    connection = connect(server.port, "127.0.0.2")
    connection.sendall(post(BULK))
    assert eventually(lambda: "acre_sentences_total{model=\"en-de-token\"} 0\n"
                      not in server.get("/metrics").text)
    yield server
    connection.close()


def late_texts(server):
    for line in server.get("/metrics").text.splitlines():
        if line.startswith('acre_late_texts_total{model="en-de-token"}'):
            return int(line.split()[1])
    raise AssertionError("no such figure")


def test_what_would_be_late_is_refused_at_once(bulk):
    fields = {**BULK, "timeout_ms": 300 * PATIENCE}
    assert eventually(lambda: ask(bulk, fields, "127.0.0.2")[0] == 503)
    status, headers, body, seconds = ask(bulk, fields, "127.0.0.2")
    assert (status, body["code"]) == (503, "deadline_unreachable")
    assert body["error"].startswith("it would take") and body["error"].endswith("s are left")
    assert int(headers["retry-after"]) >= 1
    assert min(seconds, *(ask(bulk, fields, "127.0.0.2")[3] for _ in range(4))) < 0.25 * PATIENCE
    assert late_texts(bulk) >= 2 * len(TEXTS)
    assert re.search(r'^acre_http_replies_total{route="/translate",.*,code="deadline_unreachable",'
                     r'status="503"} [1-9]', bulk.get("/metrics").text, re.MULTILINE)
    assert bulk.get("/health/ready").status_code == 200
    assert ask(bulk, {"q": SENTENCE, **PAIR}, "127.0.0.2")[0] == 200


def test_a_deadline_that_can_be_met_is_not_refused(bulk):
    fields = {"q": SENTENCE, **PAIR, "timeout_ms": 60000 * PATIENCE}
    for source in ("127.0.0.2", "127.0.0.3"):
        assert ask(bulk, fields, source)[0] == 200


def test_nobody_is_refused_before_the_speed_is_known(serve):
    server = serve(**ONE_WORKER)
    status, _, body, _ = ask(server, {**BULK, "timeout_ms": 1}, "127.0.0.2")
    assert (status, body["code"]) == (504, "deadline_exceeded")


def test_bulk_does_not_delay_others(serve):
    """Many clients of one address keep hundreds of texts waiting: a single sentence of another one
    waits for a place in the batch, one of theirs for the texts before it."""
    server = serve(**ONE_WORKER, max_texts=10)
    ending = threading.Event()

    def attack():
        while not ending.is_set():
            try:
                ask(server, {**BULK, "q": TEXTS[:10]}, "127.0.0.2")
            except OSError:
                return

    attackers = [threading.Thread(target=attack) for _ in range(50)]
    for attacker in attackers:
        attacker.start()
    assert eventually(lambda: server.get("/metrics").text.count("acre_queued_tokens 0\n") == 0)
    medians = [sorted(ask(server, {"q": SENTENCE, **PAIR}, source)[3] for _ in range(9))[4]
               for source in ("127.0.0.3", "127.0.0.2")]
    ending.set()
    for attacker in attackers:
        attacker.join()
    assert medians[0] < medians[1] / 2, medians


def test_one_address_cannot_fill_the_queue_for_others(serve):
    server = serve(**{**ONE_WORKER, "max_queued_tokens": 20000})
    small = {"q": TEXTS[:100], **PAIR, "beam_size": 8}
    connections = []
    for _ in range(20):
        connections.append(connect(server.port, "127.0.0.2"))
        connections[-1].sendall(post(small))
    assert eventually(lambda: ask(server, small, "127.0.0.2")[0] == 429)
    assert ask(server, {"q": SENTENCE, **PAIR}, "127.0.0.3")[0] == 200
    for connection in connections:
        connection.close()
