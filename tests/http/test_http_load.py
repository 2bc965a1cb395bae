"""Many clients at once, clients that leave, deadlines, a full queue, and shutting down."""

import json
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from acre_server import PATIENCE, SENTENCE, eventually, read_reply

# Distinct long sentences, decoded with a wide beam: a second of work for one fast thread, or many.
LONG = [f"{SENTENCE[:-1]} number {i}, and what will you do tomorrow evening?" for i in range(8000)]
HEAVY = {"q": LONG[:1000], "source": "en", "target": "de", "beam_size": 8}
ENDLESS = {**HEAVY, "q": LONG}  # for servers without limits
ONE_WORKER = {"threads": 1, "batch_size": 1}
NO_LIMITS = {"max_texts": len(LONG), "max_queued_tokens": 10**9}


def raw_post(fields):
    body = json.dumps(fields).encode()
    head = "POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Background:
    """A request in a thread of its own."""

    def __init__(self, server, fields=None):
        self.reply, self.error = None, None
        self.thread = threading.Thread(target=self._run, args=(server, fields or HEAVY))
        self.thread.start()

    def _run(self, server, fields):
        try:
            self.reply = server.post(json=fields)
        except requests.RequestException as error:
            self.error = error

    def result(self):
        self.thread.join(timeout=60 * PATIENCE)
        assert not self.thread.is_alive()
        assert self.error is None, self.error
        return self.reply


def is_busy(server):
    """Whether the one worker has work: a request with a short deadline does not make it."""
    return server.translate("Hi.", timeout_ms=50 * PATIENCE).status_code in (503, 504)


def test_32_clients_get_what_a_lone_one_gets(server):
    texts = [f"Text number {i} of many." for i in range(64)]
    alone = {text: server.translate(text, scores=True).text for text in texts}

    def ask(i):
        with requests.Session() as session:
            for k in range(8):
                text = texts[(7 * i + 13 * k) % len(texts)]
                fields = {"q": text, "source": "en", "target": "de", "scores": True}
                reply = session.post(server.url + "/translate", json=fields, timeout=60)
                assert reply.text == alone[text]
        return True

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(ask, range(32)))


def test_mixed_requests_at_once(server):
    """Models, ways to send and decoding options do not disturb each other."""
    requests_ = [
        lambda: server.translate(),
        lambda: server.post("/translate/en-fr-char", data={"q": SENTENCE}),
        lambda: server.translate([SENTENCE] * 5, alternatives=3),
        lambda: server.translate(beam_size=1, max_length=5),
        lambda: server.translate(beam_size=99),
        lambda: server.get("/models"),
    ]
    alone = [request().text for request in requests_]
    with ThreadPoolExecutor(24) as pool:
        for i, text in pool.map(lambda i: (i % 6, requests_[i % 6]().text), range(120)):
            assert text == alone[i]


def test_health_does_not_wait_for_translations(serve):
    server = serve(**ONE_WORKER)
    heavy = Background(server)
    with requests.Session() as session:
        for _ in range(20):
            start = time.monotonic()
            assert session.get(server.url + "/health/ready", timeout=10).status_code == 200
            assert time.monotonic() - start < 0.5 * PATIENCE
            time.sleep(0.01)
    assert heavy.thread.is_alive()
    server.signal(signal.SIGTERM)
    server.signal(signal.SIGINT)
    heavy.thread.join(timeout=30 * PATIENCE)


@pytest.mark.parametrize("texts", [["x" * 99000] * 10, [SENTENCE * 2000] * 11])
def test_health_does_not_wait_for_a_long_text_to_be_split(serve, texts):
    server = serve(**ONE_WORKER, max_queued_tokens=1_100_000)
    heavy = Background(server, {**HEAVY, "q": texts, "timeout_ms": 1000})
    with requests.Session() as session:
        while heavy.thread.is_alive():
            start = time.monotonic()
            assert session.get(server.url + "/health", timeout=10).status_code == 200
            assert time.monotonic() - start < 0.5 * PATIENCE
            time.sleep(0.01)
    assert heavy.result().status_code in (200, 504)


def test_requests_take_turns_in_being_split(serve, monkeypatch):
    """The vocabulary knows no letter of the long texts: they are all splitting, no translating."""
    monkeypatch.setenv("UV_THREADPOOL_SIZE", "1")
    server = serve(max_body_bytes=10**7, max_queued_tokens=10**9)
    long = {"q": ["\u4eca\u65e5" * 16000] * 60, "source": "en", "target": "de"}
    body = json.dumps(long, ensure_ascii=False).encode()
    header = {"Content-Type": "application/json"}
    with ThreadPoolExecutor(3) as pool:
        replies = [pool.submit(server.post, data=body, headers=header) for _ in range(3)]
        time.sleep(0.1)
        assert not any(reply.done() for reply in replies)
        assert server.translate([SENTENCE] * 15).status_code == 200
        assert not any(reply.done() for reply in replies)
        for reply in replies:
            assert reply.result().json() == {"translatedText": long["q"]}


def test_deadline(serve):
    server = serve(**ONE_WORKER)
    start = time.monotonic()
    reply = server.post(json={**HEAVY, "timeout_ms": 100})
    assert 0.09 < time.monotonic() - start < 1.5 * PATIENCE
    text = "The translation was not finished within 100 ms"
    assert reply.status_code == 504
    assert reply.json() == {"code": "deadline_exceeded", "error": text, "message": text}
    start = time.monotonic()
    assert server.translate().status_code == 200  # the rest of the work was given up
    assert time.monotonic() - start < 1.5 * PATIENCE


def test_deadline_of_the_server(serve):
    for fields in ({}, {"timeout_ms": 60000}):
        server = serve(**ONE_WORKER, request_timeout_ms=100)  # which does not know its speed yet
        reply = server.post(json={**HEAVY, **fields})
        assert reply.status_code == 504
        assert reply.json()["error"].endswith("within 100 ms")


def test_connection_is_usable_after_a_deadline(serve):
    server = serve(**ONE_WORKER)
    with server.connect() as connection:
        for fields, status in (({**HEAVY, "timeout_ms": 50}, 504), ({**HEAVY, "q": "Hi."}, 200)):
            connection.sendall(raw_post(fields))
            assert read_reply(connection)[0] == status


def reset(connection):
    """RST instead of FIN: linger 0."""
    connection.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")
    connection.close()


def half_close(connection):
    """TCP does not tell who waits on from who is gone."""
    connection.shutdown(1)


@pytest.mark.parametrize(
    "n_clients, texts, pause_s, leave",
    [(5, LONG, 0.1, socket.socket.close), (5, LONG, 0.1, reset), (5, LONG, 0.1, half_close),
     (200, LONG[:100], 0, socket.socket.close)],
    ids=["close", "reset", "half close", "close_with_the_request"],
)
def test_work_of_clients_that_left_is_given_up(serve, n_clients, texts, pause_s, leave):
    """A server that stops finishes the work of its clients: here it has none left."""
    server = serve(**ONE_WORKER, **NO_LIMITS, drain_timeout_s=600)
    connections = [server.connect() for _ in range(n_clients)]
    for connection in connections:
        connection.sendall(raw_post({**HEAVY, "q": texts}))
        time.sleep(pause_s)
        leave(connection)
    start = time.monotonic()
    server.signal(signal.SIGTERM)
    assert server.process.wait(timeout=60 * PATIENCE) == 0
    assert time.monotonic() - start < 2 * PATIENCE


def test_others_are_served_while_clients_vanish(server):
    want = server.translate().text

    def vanish(_):
        with server.connect() as connection:
            connection.sendall(raw_post({**HEAVY, "q": LONG[:30]}))
            time.sleep(0.005)

    with ThreadPoolExecutor(8) as vanishing, ThreadPoolExecutor(8) as staying:
        gone = vanishing.map(vanish, range(80))
        assert all(reply.text == want for reply in
                   staying.map(lambda _: server.translate(), range(40)))
        list(gone)


def test_full_queue_is_429_and_recovers(serve):
    server = serve(**ONE_WORKER, max_queued_tokens=60000)
    connection = server.connect()
    connection.sendall(raw_post(HEAVY))
    assert eventually(lambda: is_busy(server))
    replies = [server.post(json={**HEAVY, "timeout_ms": 300}) for _ in range(4)]
    refused = [reply for reply in replies if reply.status_code == 429]
    assert refused, [reply.status_code for reply in replies]
    assert refused[0].json()["code"] == "queue_full"
    assert int(refused[0].headers["Retry-After"]) >= 1
    assert server.get("/health/ready").status_code == 200
    connection.close()
    assert eventually(lambda: server.translate().status_code == 200)


def test_short_text_is_429_behind_a_long_one(serve):
    server = serve(**ONE_WORKER, max_queued_tokens=1)
    heavy = Background(server, {**HEAVY, "q": " ".join(LONG[:1000])})
    # one that waits would keep the long one out
    assert eventually(lambda: "acre_queued_tokens 0\n" not in server.get("/metrics").text)
    assert server.translate("Hi.").status_code == 429
    assert heavy.result().status_code == 200
    assert server.translate("Hi.").status_code == 200


def test_those_refused_together_do_not_come_back_together(serve):
    server = serve(**ONE_WORKER, max_queued_tokens=1)
    with server.connect() as heavy:
        heavy.sendall(raw_post({**HEAVY, "q": " ".join(LONG[:1000])}))
        assert eventually(lambda: "acre_queued_tokens 0\n" not in server.get("/metrics").text)
        replies = [server.translate("Hi.") for _ in range(60)]
    assert {reply.status_code for reply in replies} == {429}
    assert {reply.headers["Retry-After"] for reply in replies} == {"1", "2", "3"}


def test_request_that_never_fits_is_413(serve):
    server = serve(**ONE_WORKER, max_queued_tokens=50)
    reply = server.translate(LONG[:50])
    assert reply.status_code == 413
    assert reply.json()["code"] == "request_too_large"
    assert "Retry-After" not in reply.headers
    assert eventually(lambda: server.translate("Hello.").status_code == 200)


def test_request_that_fits_alone_is_never_413(serve):
    """Whoever else fills the queue: another attempt may succeed, so the answer is 429, or 503 if it
    would take too long."""
    server = serve(**ONE_WORKER, max_queued_tokens=30000)
    fields = {**HEAVY, "q": LONG[:600], "timeout_ms": 1000}
    assert server.post(json=fields).status_code in (200, 504)
    with ThreadPoolExecutor(4) as clients:
        for _ in range(3):
            replies = clients.map(lambda _: server.post(json=fields).status_code, range(4))
            statuses = list(replies)
            assert set(statuses) <= {200, 429, 503, 504}
            assert {429, 503} & set(statuses)


def test_sigterm_finishes_what_was_accepted(serve):
    server = serve(**ONE_WORKER, drain_timeout_s=600, request_timeout_ms=600000)
    want = server.translate(LONG[0]).json()["translatedText"]
    texts = LONG[:1000]
    heavy = Background(server, {**HEAVY, "q": texts})
    kept = server.connect()
    kept.sendall(b"GET /health/ready HTTP/1.1\r\nHost: a\r\n\r\n")
    assert read_reply(kept)[0] == 200
    assert eventually(lambda: is_busy(server))
    unread = server.connect()  # connected, its request is still on the way
    server.signal()
    time.sleep(0.1)
    assert heavy.thread.is_alive()
    unread.sendall(raw_post({"q": LONG[0], "source": "en", "target": "de"}))
    kept.sendall(b"GET /health/ready HTTP/1.1\r\nHost: a\r\n\r\n")
    status, headers, body = read_reply(kept)
    assert (status, headers["connection"]) == (503, "close")
    assert json.loads(body)["code"] == "draining"
    with pytest.raises(requests.ConnectionError):
        server.get("/health")
    status, _, body = read_reply(unread)
    assert status == 200
    assert json.loads(body)["translatedText"] == want
    reply = heavy.result()
    assert reply.status_code == 200
    assert len(reply.json()["translatedText"]) == len(texts)
    assert server.process.wait(timeout=20 * PATIENCE) == 0


def test_sigterm_right_after_connecting_loses_nothing(serve):
    """A connection the kernel accepted is served, though the server has not seen it yet."""
    server = serve()
    connections = [server.connect() for _ in range(20)]
    for connection in connections:
        connection.sendall(raw_post({"q": SENTENCE, "source": "en", "target": "de"}))
    server.signal()
    assert [read_reply(connection)[0] for connection in connections] == [200] * 20
    assert server.process.wait(timeout=10 * PATIENCE) == 0


def test_idle_server_stops_at_once(serve):
    server = serve()
    idle = [server.connect() for _ in range(3)]
    idle[0].sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
    assert read_reply(idle[0])[0] == 200
    start = time.monotonic()
    server.signal(signal.SIGINT)
    assert server.process.wait(timeout=10 * PATIENCE) == 0
    assert time.monotonic() - start < 2 * PATIENCE


def check_cancelled(server, heavy, start):
    reply = heavy.result()
    assert reply.status_code == 503
    assert reply.json()["code"] == "shutting_down"
    assert server.process.wait(timeout=10 * PATIENCE) == 0
    assert time.monotonic() - start < 4 * PATIENCE
    assert any("cancelled 1 unfinished" in line for line in server.log)


def test_second_signal_cancels_the_rest(serve):
    server = serve(**ONE_WORKER, **NO_LIMITS)
    heavy = Background(server, ENDLESS)
    assert eventually(lambda: is_busy(server))
    start = time.monotonic()
    server.signal(signal.SIGTERM)
    time.sleep(0.2)
    assert heavy.thread.is_alive()
    server.signal(signal.SIGTERM)
    check_cancelled(server, heavy, start)


def test_drain_timeout_cancels_the_rest(serve):
    server = serve(**ONE_WORKER, **NO_LIMITS, drain_timeout_s=1)
    heavy = Background(server, ENDLESS)
    assert eventually(lambda: is_busy(server))
    start = time.monotonic()
    server.signal(signal.SIGTERM)
    check_cancelled(server, heavy, start)


def test_grace_before_closing(serve):
    """A load balancer sees that it is not ready; who comes till then is served."""
    server = serve(drain_grace_s=2 * PATIENCE)
    with server.connect() as kept:
        kept.sendall(b"GET /health/ready HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(kept)[0] == 200
        start = time.monotonic()
        server.signal(signal.SIGTERM)
        assert eventually(lambda: server.get("/health/ready").status_code == 503)
        assert server.get("/health/ready").json()["code"] == "draining"
        assert server.get("/health/live").status_code == 200
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        status, headers, _ = read_reply(kept)
        assert (status, headers["connection"]) == (200, "close")
        n = 0
        while time.monotonic() - start < 1.5 * PATIENCE:
            assert server.translate().status_code == 200
            n += 1
        assert n > 0
    assert server.process.wait(timeout=10 * PATIENCE) == 0
    assert time.monotonic() - start >= 2 * PATIENCE


def test_second_signal_ends_the_grace(serve):
    server = serve(drain_grace_s=600)
    server.signal(signal.SIGTERM)
    assert eventually(lambda: server.get("/health/ready").status_code == 503)
    server.signal(signal.SIGTERM)
    assert server.process.wait(timeout=10 * PATIENCE) == 0


def test_log_has_no_request_text(serve):
    server = serve(request_timeout_ms=50, **ONE_WORKER)
    server.translate("confidential words")
    server.post(json={**HEAVY, "q": ["confidential words"] * 500})
    server.post("/translate/confidential", data="confidential words")
    server.stop()
    log = "".join(server.log)
    assert "stopped" in log
    assert "confidential" not in log


def test_requests_that_fit_one_after_the_other_do_not_keep_each_other_out(serve):
    """A request is admitted as a whole: of several at once, one at least is translated."""
    server = serve(**ONE_WORKER, max_queued_tokens=20000)
    fields = {"q": LONG[:300], "source": "en", "target": "de", "beam_size": 1}
    assert server.post(json=fields).status_code == 200
    with ThreadPoolExecutor(2) as clients:
        for _ in range(5):
            replies = list(clients.map(lambda _: server.post(json=fields), range(2)))
            statuses = sorted(reply.status_code for reply in replies)
            assert statuses in ([200, 200], [200, 429])
            assert all(1 <= int(reply.headers["Retry-After"]) <= 3 for reply in replies
                       if reply.status_code == 429)
