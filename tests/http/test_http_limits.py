"""What the network may throw at the server: broken, huge, slow and endless requests."""

import json
import re
import select
import socket
import time

import pytest
from acre_server import PATIENCE, eventually, pass_time, read_more, read_reply

GOOD = json.dumps({"q": "Hello.", "source": "en", "target": "de"}).encode()
HEAD = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
GET = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"


def post(body):
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*chunks):
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"


def test_many_requests_on_one_connection(server):
    with server.connect() as connection:
        for request, status in (
            (post(GOOD), 200), (GET, 200), (post(b"{"), 400), (post(b""), 400), (post(GOOD), 200),
            (chunked(GOOD), 200), (b"GET /nope HTTP/1.1\r\nHost: a\r\n\r\n", 404),
            (b"DELETE /health HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 405),
            (post(GOOD), 200),
        ):
            connection.sendall(request)
            assert read_reply(connection)[0] == status


def test_pipelined_requests_are_answered_in_order(server):
    with server.connect() as connection:
        connection.sendall(post(GOOD) + GET + post(b"[]"))
        data = b""
        while data.count(b"HTTP/1.1") < 3 or not data.endswith(b"\n"):
            piece = connection.recv(65536)
            assert piece, data
            data += piece
        assert data.index(b"translatedText") < data.index(b'"status"') < data.index(b"invalid_json")


def test_body_in_small_pieces(server):
    with server.connect() as connection:
        request = post(GOOD)
        for i in range(0, len(request), 7):
            connection.sendall(request[i : i + 7])
            time.sleep(0.001)
        assert read_reply(connection)[0] == 200


def test_chunked_body(server):
    with server.connect() as connection:
        connection.sendall(chunked(*(GOOD[i : i + 1] for i in range(len(GOOD)))))
        status, _, body = read_reply(connection)
        assert status == 200
        assert b"translatedText" in body


def test_old_clients_without_keep_alive(server):
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert read_reply(connection)[0] == 200
        assert connection.recv(10) == b""


def check_too_large(status, body, limit):
    text = f"The request body is larger than {limit} bytes"
    assert status == 413
    assert json.loads(body) == {"code": "body_too_large", "error": text, "message": text}


def test_body_just_at_the_limit(serve):
    server = serve(max_body_bytes=2000)
    for length, status in ((2000, 200), (2001, 413)):
        body = GOOD + b" " * (length - len(GOOD))
        for request in (post(body), chunked(body[:1500], body[1500:])):
            with server.connect() as connection:
                connection.sendall(request)
                got, _, reply = read_reply(connection)
                assert got == status
                if status == 413:
                    check_too_large(got, reply, 2000)


def test_large_body_leaves_the_connection_usable(serve):
    server = serve(max_body_bytes=2000)
    with server.connect() as connection:
        for request in (post(b"x" * 10000), chunked(*[b"x" * 1000] * 10)):
            connection.sendall(request)
            status, _, body = read_reply(connection)
            check_too_large(status, body, 2000)
            connection.sendall(GET)
            assert read_reply(connection)[0] == 200


@pytest.mark.parametrize("length", [b"1000000000", b"99999999999999999999999999"])
def test_announced_body_is_refused_before_it_comes(server, length):
    with server.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: " + length + b"\r\n\r\n")
        status, headers, _ = read_reply(connection)
        assert status in (400, 413)
        assert headers["connection"] == "close"


def test_client_that_asks_first_sends_nothing(server):
    with server.connect() as connection:
        connection.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n")
        assert read_reply(connection)[0] == 413
    with server.connect() as connection:
        connection.sendall(
            HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(GOOD))
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        connection.sendall(GOOD)
        assert read_reply(connection)[0] == 200


def test_endless_chunks_are_cut_off(serve):
    server = serve(max_body_bytes=2000)
    with server.connect() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(OSError):
            for _ in range(100000):
                connection.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
    assert server.is_alive()


LENGTH = b"Content-Length: %d\r\n" % len(GOOD)
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    "headers, status",
    [
        (LENGTH + LENGTH, 400),
        (LENGTH + b"content-length: 5\r\n", 400),
        (LENGTH.replace(b"\r\n", b", 5\r\n"), 400),
        (LENGTH.replace(b": ", b": +"), 400),
        (LENGTH.replace(b":", b" :"), 400),
        (LENGTH.replace(b": ", b":\r\n "), 400),
        (LENGTH + CHUNKED, 400),
        (CHUNKED + b"Content-Length: 0\r\n", 400),
        (CHUNKED + CHUNKED, 400),
        (CHUNKED + b"Transfer-Encoding: identity\r\n", 400),
        (CHUNKED.replace(b":", b"\t:"), 400),
        (b"Transfer-Encoding: identity\r\n", 501),
        (b"Transfer-Encoding: gzip, chunked\r\n", 501),
        (b"Transfer-Encoding: xchunked\r\n", 501),
    ],
)
def test_ambiguous_framing_ends_the_connection(server, headers, status):
    """What follows may be a body or a request: it must never be taken for one (smuggling)."""
    with server.connect() as connection:
        connection.sendall(HEAD + headers + b"\r\n" + GET + GET)
        got, reply_headers, body = read_reply(connection)
        assert (got, reply_headers["connection"].lower()) == (status, "close")
        assert json.loads(body)["code"] in (
            "bad_framing", "bad_request", "transfer_coding_not_supported")
        assert connection.recv(10) == b""


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\r\n\r\n\r\n",
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET /health HTTP/9.9\r\nHost: a\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: abc\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx",
        b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"X-A: b\r\n" * 20000 + b"\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\nX-A: " + b"b" * 200000 + b"\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_or_closed(server, request_bytes):
    with server.connect() as connection:
        try:
            connection.sendall(request_bytes)
            connection.shutdown(1)
            status, _, _ = read_reply(connection)
        except ConnectionError:
            status = None
        assert status is None or 400 <= status < 500 or status == 505


@pytest.mark.parametrize("clock, start, drips, status", [
    ("idle_timeout_s", b"", [b""], None),
    ("idle_timeout_s", HEAD + b"X: ", [b"", b"a"], 408),
    ("read_timeout_s", HEAD + b"Content-Length: 1000\r\n\r\n", [b"", b"a"], 408),
], ids=["silent", "headers", "body"])
def test_slow_clients_are_closed(serve, clock, start, drips, status):
    """Also those that send a byte now and then, which must not start the clock anew; each by its
    own clock, and not before its time."""
    server = serve(**{"idle_timeout_s": 60, "read_timeout_s": 60, clock: 2})
    for drip in drips:
        begun = time.monotonic()
        with server.connect() as connection:
            connection.sendall(start)
            while not select.select([connection], [], [], 0.1)[0]:
                connection.sendall(drip)
                assert time.monotonic() - begun < 20 * PATIENCE
            assert time.monotonic() - begun > 1.9
            assert read_reply(connection)[0] == status
    assert server.is_alive()


def sending(server):
    """How many replies are not taken yet."""
    return int(re.search(r'by_state{state="sending"} (\d+)', server.get("/metrics").text)[1])


def take(connection, n_bytes):
    while n_bytes > 0:
        n_bytes -= len(read_more(connection, min(n_bytes, 1 << 16)))


def test_a_reply_has_time_for_its_size(serve_late):
    """A second more for every 16 kB of all of it, however much of it is taken already."""
    size, taken = 8_000_000, 1_500_000  # of 501 seconds; the kernel keeps 4 MB of it at most
    server = serve_late(send_timeout_s=1, max_text_chars=size, max_body_bytes=2 * size)
    body = json.dumps({"q": " " * size, "source": "en", "target": "de"}).encode()
    with socket.socket() as steady, socket.socket() as stuck:
        for reader in (steady, stuck):
            reader.settimeout(20)
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(post(body))
        take(steady, taken)
        assert eventually(lambda: sending(server) == 2)
        pass_time(server, 420)
        assert sending(server) == 2
        take(steady, size - taken)
        assert sending(server) == 1
        pass_time(server, 100)
        assert sending(server) == 0


def test_slow_clients_do_not_hinder_others(server):
    slow = [server.connect() for _ in range(50)]
    try:
        for i, connection in enumerate(slow):
            connection.sendall((HEAD + b"Content-Length: 1000\r\n\r\nx")[: 20 + 3 * i])
        assert server.translate().status_code == 200
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.parametrize("start", [b"", GET, HEAD], ids=["silent", "kept alive", "headers"])
def test_idle_connections_shut_nobody_out(serve, start):
    server = serve(max_connections=20, threads=1)
    idle = []
    for _ in range(30):
        idle.append(server.connect())
        idle[-1].sendall(start)
        if start == GET:
            assert read_reply(idle[-1])[0] == 200
    begin = time.monotonic()
    for _ in range(5):
        assert server.get("/health", timeout=10).status_code == 200
    assert time.monotonic() - begin < 3 * PATIENCE
    left = idle[0] if start != GET else idle[-1]  # idle longest; told to leave with its reply
    left.settimeout(5)
    assert left.recv(1000)[:12] in (b"", b"HTTP/1.1 408")
    for connection in idle:
        connection.close()


def test_connections_in_a_request_are_not_closed_for_others(serve):
    server = serve(max_connections=4, threads=1)
    busy = [server.connect() for _ in range(4)]
    for connection in busy:
        connection.sendall(post(GOOD)[:-1])
    time.sleep(0.2)
    silent = server.connect()  # takes the one place beyond the limit, for a while
    for _ in range(3):
        reply = server.get("/health", timeout=10)
        assert (reply.status_code, reply.headers["Connection"]) == (200, "close")
    silent.close()
    for connection in busy:
        connection.sendall(GOOD[-1:])
        assert read_reply(connection)[0] == 200
        connection.close()
    assert eventually(lambda: "Connection" not in server.get("/health").headers)


def test_a_thousand_connections_come_and_go(server):
    for _ in range(10):
        connections = [server.connect() for _ in range(100)]
        for connection in connections[::2]:
            connection.sendall(GET)
        for connection in connections[1::4]:
            connection.sendall(post(GOOD)[:50])
        for connection in connections:
            connection.close()
    assert server.translate().status_code == 200
