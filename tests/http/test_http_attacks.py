"""One client, or a few, against all others: who is not the attacker goes on, and a server that is
told to stop stops. The long forms of the first three are in tests/bench/attack.py."""

import json
import os
import re
import resource
import select
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
import requests
from acre_server import PATIENCE, eventually, read_reply
from attack import (
    HEALTH, JSON_HEAD, TRANSLATE, Attackers, Others, ask, connect, discard, post,
    raise_descriptor_limit, send_until,
)

SECONDS = 3
TEXTS = [f"Number {i} of the texts that keep the one worker busy for a while." for i in range(40)]
CHUNKED = JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SLOW_BODY = JSON_HEAD + b"Content-Length: 100000\r\n\r\n{\"q"


def check_stops(server, within_s=2):
    start = time.monotonic()
    server.signal()
    assert server.process.wait(timeout=60 * PATIENCE) == 0
    assert time.monotonic() - start < within_s * PATIENCE


# ---- What keeps the loop busy ------------------------------------------------------------------


@pytest.mark.parametrize("head", [b"5;" + b"x" * 70000, b"5;", b"0"],
                         ids=["70000 bytes of extension", "endless extension", "endless zeros"])
def test_chunk_heads_hinder_nobody(serve, head):
    server = serve()
    filler = (b"0" if head == b"0" else b"x") * 65536

    def attack(connection, ending):
        connection.sendall(CHUNKED + head)
        send_until(ending, connection, filler)

    with Others(server) as others, Attackers(server, 10, attack):
        time.sleep(SECONDS)
        others.check()
        check_stops(server)


@pytest.mark.parametrize("start", [b"5;", b"0", b"5\r\nhello\r\n0\r\nX-A: ", b"1;a=\""],
                         ids=["extension", "zeros", "trailer", "quoted"])
def test_endless_chunk_head_is_cut_off(server, start):
    filler = (b"0" if start == b"0" else b"x") * 200000
    with server.connect() as connection:
        connection.sendall(CHUNKED + start + filler)
        status, headers, body = read_reply(connection)
        assert (status, headers["connection"]) == (400, "close")
        assert json.loads(body)["code"] == "bad_framing"


@pytest.mark.parametrize("head", [HEALTH[:-2] + b"X-A: ", HEALTH[:-2] + b"X-A: b"])
def test_endless_blanks_in_a_head_are_cut_off(server, head):
    """They are no part of the value, and so not of what is kept."""
    with server.connect() as connection:
        connection.sendall(head + b" " * 200000)
        assert read_reply(connection)[0] == 431


def test_pipelining_hinders_nobody(serve):
    server = serve()

    def attack(connection, ending):
        reader = threading.Thread(target=discard, args=(connection,))
        reader.start()
        try:
            send_until(ending, connection, 1000 * HEALTH)
        finally:
            connection.shutdown(socket.SHUT_RDWR)
            reader.join()

    with Others(server) as others, Attackers(server, 8, attack):
        time.sleep(SECONDS)
        others.check()
        check_stops(server)


def test_a_thousand_pipelined_requests_are_answered(server):
    """More than one turn of the loop takes, and than sockets hold."""
    with server.connect() as connection:
        sender = threading.Thread(target=connection.sendall, args=(20000 * HEALTH,))
        sender.start()
        data, n, tail = b"", 0, b""
        while n < 20000:
            data = connection.recv(1 << 20)
            assert data
            n += (tail + data).count(b"HTTP/1.1 200 OK\r\n") - tail.count(b"HTTP/1.1 200 OK\r\n")
            tail = data[-16:]
        sender.join()


def test_who_shuts_its_side_gets_replies_to_what_it_sent(server):
    with server.connect() as connection:
        server.signal(signal.SIGSTOP)  # so that it sees both at once
        try:
            connection.sendall(20 * HEALTH)
            connection.shutdown(socket.SHUT_WR)
        finally:
            server.signal(signal.SIGCONT)
        assert connection.makefile("rb").read().count(b"HTTP/1.1 200 OK") == 20


MULTIPART = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary="


@pytest.mark.parametrize("boundary", [b"x", b"-" * 35])
def test_multipart_of_dashes_hinders_nobody(serve, boundary):
    server = serve()
    body = b"-" * (1 << 20)
    request = MULTIPART + boundary + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def attack(connection, ending):
        while not ending.is_set():
            connection.sendall(request)
            assert read_reply(connection)[0] == 400

    with Others(server) as others, Attackers(server, 4, attack) as attackers:
        time.sleep(SECONDS)
        others.check()
        assert attackers.n_connections == 4


def large_json(value=b"1"):
    """A body of 1 MB. Many small values cost most to parse, in time and in memory."""
    start = b'{"q":"Hi.","source":"en","target":"de","x":['
    return start + (value + b",") * ((1000000 - len(start)) // (len(value) + 1)) + b"1]}"


def send_at_once(server, n, request):
    """The statuses, each of a connection of its own, of one of two addresses."""
    statuses = []

    def send(source):
        statuses.append(ask(server.port, request, source)[0])

    threads = [threading.Thread(target=send, args=(f"127.0.0.{1 + i % 2}",)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def test_large_bodies_at_once_hinder_nobody(serve):
    server = serve()
    with Others(server) as others:
        assert send_at_once(server, 50, post(large_json(value=b'"%s"' % (20 * b"x")))) == [200] * 50
        others.check()


def many(value, n):
    return b"[" + b",".join([value] * n) + b"]"


LONG_LIST = b'{"source":"en","target":"de","q":%s}' % many(b"[]", 20_000)


@pytest.mark.parametrize("asked, status", [
    (post({"q": 2 * [690 * "word "], "source": "en", "target": "de"}), 413),
    (post(LONG_LIST), 400),
], ids=["texts", "bodies"])
def test_what_the_pool_refuses_comes_in_turn(serve, asked, status):
    """Who sends a hundred waits for himself, and who comes later for a few of them. The answer
    about health, asked for last, comes when the loop has read what is short."""
    server = serve(max_queued_tokens=100)

    def n_answered():
        return len(select.select(all_his, [], [], 0)[0])

    server.signal(signal.SIGSTOP)  # so that it sees all at once
    try:
        all_his = open_many(server, 100, asked, source="127.0.0.2")
        mine, health = open_many(server, 1, asked) + open_many(server, 1, HEALTH)
    finally:
        server.signal(signal.SIGCONT)
    try:
        assert read_reply(health)[0] == 200
        before = n_answered()
        assert read_reply(mine)[0] == status
        assert n_answered() - before < 50
        assert {read_reply(connection)[0] for connection in all_his} == {status}
    finally:
        close_all([*all_his, mine, health])


def loop_ms(server):
    """What the loop's thread has run; other threads are none of it."""
    pid = server.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e6


@pytest.mark.parametrize("path, field, value, code, message", [
    ("/translate", b"q", many(b'"a"', 260_000), "too_many_texts", "request (260000) exceeds"),
    ("/translate", b"q", many(b"{}", 340_000), "too_many_texts", "request (340000) exceeds"),
    ("/translate", b"q", b"[" + many(b"[]", 340_000) + b"]", "invalid_parameter",
     "expected a string, found an array"),
    ("/translate", b"source", b'{"a":' + many(b"{}", 340_000) + b"}", "invalid_parameter",
     "source: expected a string, found an object"),
    ("/translate", b"glossary", many(b"[]", 340_000), "invalid_entries", "entry 1: expected"),
    ("/translate", b"glossary", many(b"{}", 340_000), "invalid_entries", "entry 1: expected"),
    ("/v2/translate", b"text", many(b'"a"', 260_000), "too_many_texts", "request (260000)"),
    ("/v2/translate", b"glossary_ids", many(b'"a"', 260_000), "invalid_parameter", "at most 5"),
    ("/v2/translate", b"glossary_ids", b'"' + b"a," * 500_000 + b'"', "invalid_parameter",
     "at most 5"),
    ("/v2/translate", b"ignore_tags", b'"' + b"a," * 500_000 + b'"', "invalid_parameter",
     "at most 100 names"),
    ("/v2/translate", b"ignore_tags", b'"' + b"," * 1_000_000 + b'"', None, "translations"),
])
def test_long_lists_cost_the_loop_nothing(server, path, field, value, code, message):
    """Neither to look at nor to free, which comes after the reply. A million bytes are read all the
    same, as those of a field that nobody knows are."""
    fields = {b"q": b'"Hi"', b"source": b'"en"', b"target": b'"de"'}
    if path == "/v2/translate":
        fields = {b"text": b'"Hi"', b"source_lang": b'"EN"', b"target_lang": b'"DE"',
                  b"tag_handling": b'"xml"'}

    def least_ms(field, value):
        """The reply, and the least that such a request cost the loop."""
        body = b",".join(b'"%s":%s' % pair for pair in {**fields, field: value}.items())
        spent = []
        for _ in range(4):
            before = loop_ms(server)
            reply = server.post(path, data=b"{" + body + b"}",
                                headers={"Content-Type": "application/json"})
            time.sleep(0.1)
            spent.append(loop_ms(server) - before)
        return reply, min(spent)

    _, plain = least_ms(b"unknown", b'"' + b"a" * 1_000_000 + b'"')
    reply, spent = least_ms(field, value)
    assert reply.json().get("code") == code and message in reply.text
    assert spent < 2.5 * plain, (spent, plain)


def test_text_of_no_language_costs_the_loop_little(server):
    """Looked at three times to see that it is none: at its beginning."""
    words = " ".join(f"{a}{b}{c}qx{d}"
                     for a in "qxzw" for b in "vkjh" for c in "zbnp" for d in "df")
    text = 15 * (words + " ")

    def least_ms(text):
        spent = []
        for _ in range(3):
            before = loop_ms(server)
            for _ in range(20):
                assert server.post("/detect", json={"q": text}).status_code == 200
            spent.append(loop_ms(server) - before)
        return min(spent) / 20

    plain, spent = least_ms(text[:2000]), least_ms(text)
    assert len(text) > 13000 and spent < 2.5 * plain, (spent, plain)  # 4 to 6 if all is looked at


# ---- What takes places -------------------------------------------------------------------------


def open_many(server, n, start, **kwargs):
    connections = []
    for _ in range(n):
        connections.append(connect(server.port, **kwargs))
        connections[-1].sendall(start)
    return connections


def close_all(connections):
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("start", [SLOW_BODY, HEALTH[:20]], ids=["bodies", "heads"])
def test_slow_requests_over_all_places_shut_nobody_out(serve, start):
    raise_descriptor_limit()
    server = serve(max_connections=500)  # up to 1,032 have a place
    slow = open_many(server, 1100, start)
    try:
        with Others(server) as others:
            time.sleep(SECONDS)
            others.check(worst_s=2)
        check_stops(server, within_s=4)
    finally:
        close_all(slow)


def open_slow_reader(server, requests):
    """Sends them, and never reads a reply: neither side's buffers are let grow."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    connection.settimeout(0.03 * PATIENCE)
    connection.connect(("127.0.0.1", server.port))
    try:
        connection.sendall(requests)
    except TimeoutError:
        pass  # the server stopped reading
    return connection


GLOSSARIES = b"GET /v2/glossaries HTTP/1.1\r\nHost: a\r\n\r\n"
BLANKS = post({"q": " " * 300000, "source": "en", "target": "de"})


@pytest.mark.parametrize("requests", [BLANKS, BLANKS + HEALTH, 50000 * HEALTH],
                         ids=["large reply", "large reply before another", "many replies"])
def test_slow_readers_shut_nobody_out(serve, requests):
    server = serve(max_connections=40, max_text_chars=1 << 20)
    slow = [open_slow_reader(server, requests) for _ in range(120)]
    try:
        with Others(server) as others:
            time.sleep(SECONDS)
            others.check(worst_s=3)
        check_stops(server, within_s=4)
    finally:
        close_all(slow)


REPLY_BYTES = 8 << 20


def blanks(server):
    return post({"q": " " * REPLY_BYTES, "source": "en", "target": "de"})


def stream_of_a_comment(server):
    """Its first object has all of it before the first sentence."""
    return post({"q": f"<!--{REPLY_BYTES * 'x'}--><p>Hello", "source": "en", "target": "de",
                 "format": "html", "stream": True})


def document_once(server):
    """What is fetched is the server's no more: the connection has the last of it."""
    made = requests.post(f"{server.url}/v2/document", timeout=20,
                         data={"source_lang": "EN", "target_lang": "DE"},
                         files={"file": ("a.html", f"<!--{REPLY_BYTES * 'x'}--><p>")}).json()
    key = {"document_key": made["document_key"]}
    url = f"{server.url}/v2/document/{made['document_id']}"
    assert eventually(lambda: requests.post(url, json=key, timeout=20).json()["status"] == "done")
    return post(key, path=f"/v2/document/{made['document_id']}/result")


@pytest.mark.skipif(PATIENCE > 1, reason="sanitizers take memory of their own")
@pytest.mark.parametrize("make_request, most", [  # documents are copied on their way
    (blanks, 4 * REPLY_BYTES), (stream_of_a_comment, 6 * REPLY_BYTES),
    (document_once, 6 * REPLY_BYTES)])
def test_slow_readers_hold_no_replies(serve, make_request, most):
    """Beyond what all bodies may take, who has not read his for a second leaves."""
    server = serve(max_text_chars=9 << 20, max_body_bytes=10 << 20, max_bodies_bytes=16 << 20,
                   max_files_bytes=10 << 20)
    assert ask(server.port, make_request(server))[0] == 200
    before, slow = resident_bytes(server), []
    try:
        for _ in range(20):
            request = make_request(server)
            slow.append(open_slow_reader(server, b""))
            slow[-1].settimeout(20)
            slow[-1].sendall(request)
            assert slow[-1].recv(1) == b"H"
        assert eventually(lambda: resident_bytes(server) < before + most, 10)
        assert eventually(lambda: ask(server.port, make_request(server))[0] == 200, 10)
    finally:
        close_all(slow)


def test_slow_readers_hold_no_bodies(serve):
    server = serve(max_text_chars=1 << 20, max_bodies_bytes=1 << 20)
    slow = []
    try:
        for _ in range(6):
            slow.append(open_slow_reader(server, BLANKS))
            time.sleep(0.2 * PATIENCE)
        assert ask(server.port, BLANKS)[0] == 200
    finally:
        close_all(slow)


def test_translations_in_all_places_shut_nobody_out(serve):
    """Beyond twice as many as there are places they are refused, and health has its own."""
    server = serve(max_connections=10, threads=1, batch_size=1, drain_timeout_s=0,
                   max_queued_tokens=10**9, request_timeout_ms=3600000)
    heavy = post({"q": TEXTS * 20, "source": "en", "target": "de", "beam_size": 8})
    many = open_many(server, 30, heavy, source="127.0.0.2") + open_many(server, 30, heavy)
    try:
        health = [ask(server.port, HEALTH) for _ in range(20)]
        assert {status for status, _ in health} == {200}
        assert max(seconds for _, seconds in health) <= PATIENCE
        status, headers, body = read_reply(many[-1])
        assert (status, json.loads(body)["code"]) == (503, "server_busy")
        assert int(headers["retry-after"]) >= 1
        server.stop()
        statuses = [read_reply(connection)[0] for connection in many[:-1]]
        assert set(statuses) <= {200, 503}
    finally:
        close_all(many)


def test_one_address_leaves_places_to_others(serve):
    server = serve(max_connections=10, threads=1, batch_size=1, drain_timeout_s=0,
                   max_queued_tokens=10**9, request_timeout_ms=3600000)
    heavy = post({"q": TEXTS * 20, "source": "en", "target": "de", "beam_size": 8})
    many = open_many(server, 11, heavy, source="127.0.0.2")
    try:
        status, _, body = read_reply(many[-1])
        assert (status, json.loads(body)["code"]) == (503, "server_busy")
        many += open_many(server, 9, heavy, source="127.0.0.2")
        assert ask(server.port, TRANSLATE)[0] == 200
        many += open_many(server, 1, GLOSSARIES, source="127.0.0.2")
        status, _, body = read_reply(many[-1])
        assert (status, "translation" in json.loads(body)["message"]) == (503, False)
    finally:
        close_all(many)


def test_the_first_of_the_address_with_most_connections_leaves(serve):
    """Not who has idled longest of all."""
    server = serve(max_connections=4)
    others = open_many(server, 1, b"", source="127.0.0.2")
    many = open_many(server, 3, b"", source="127.0.0.3")
    try:
        time.sleep(1.1)  # who idles shorter is no slow one
        others += open_many(server, 1, b"", source="127.0.0.4")
        assert many[0].recv(10) == b""
        for connection in others + many[1:]:
            connection.sendall(HEALTH)
            assert read_reply(connection)[0] == 200
    finally:
        close_all(others + many)


def test_burst_over_all_places_loses_nobody(serve):
    raise_descriptor_limit()
    server = serve(max_connections=1000)
    with Others(server) as others:
        burst = open_many(server, 1500, TRANSLATE)
        statuses = [read_reply(connection)[0] for connection in burst]
        close_all(burst)
        others.check(worst_s=3)
    assert statuses == [200] * 1500


def test_sigterm_loses_nobody_in_the_queue_of_the_kernel(serve):
    server = serve(max_connections=4, threads=1, batch_size=1, drain_timeout_s=600,
                   request_timeout_ms=600000)
    heavy = post({"q": TEXTS, "source": "en", "target": "de", "beam_size": 4})
    busy = open_many(server, 4, heavy, source="127.0.0.2") + open_many(server, 4, heavy)
    busy += open_many(server, 32, HEALTH[:10])
    time.sleep(0.3)
    queued = open_many(server, 10, TRANSLATE)
    server.signal()
    assert [read_reply(connection)[0] for connection in busy[:8]] == [200] * 8
    statuses = {read_reply(connection)[0] for connection in queued}
    assert statuses <= {200, 503}  # 503: there was time enough to take and refuse some of them
    close_all(queued + busy)
    assert server.process.wait(timeout=10 * PATIENCE) == 0


def test_one_address_has_its_share(serve):
    server = serve(max_connections_per_address=10)
    many = open_many(server, 10, HEALTH[:10], source="127.0.0.2")
    try:
        with connect(server.port, "127.0.0.2") as connection:
            connection.sendall(HEALTH)
            status, headers, body = read_reply(connection)
        assert (status, headers["connection"]) == (503, "close")
        assert json.loads(body)["code"] == "too_many_connections"
        assert ask(server.port, TRANSLATE, "127.0.0.3")[0] == 200
        assert server.translate().status_code == 200
        time.sleep(1.1)  # those are slow now: they leave for others of their address
        assert ask(server.port, HEALTH, "127.0.0.2")[0] == 200
        many[0].settimeout(5 * PATIENCE)
        assert read_reply(many[0])[0] == 408
    finally:
        close_all(many)


def n_descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def cpu_seconds(server):
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("start", [b"", HEALTH[:10], TRANSLATE[:-5]],
                         ids=["idle", "heads", "bodies"])
def test_no_descriptors_left(serve, start):
    """The server says so once, waits, and goes on; it does not wait for clients to leave."""
    server = serve()
    pid = server.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (n_descriptors(server) + 4, limits[1]))
    held = open_many(server, 8, start)
    spent = cpu_seconds(server)
    time.sleep(1)
    assert cpu_seconds(server) - spent < 0.1 * PATIENCE
    assert [ask(server.port, HEALTH)[0] for _ in range(5)] == [200] * 5
    assert server.translate().status_code == 200
    complaints = [line for line in server.log if "no connection can be accepted" in line]
    assert len(complaints) == 1
    assert "Too many open files" in complaints[0]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    close_all(held)
    with Others(server) as others:
        time.sleep(0.5)
        others.check()


# ---- Memory ------------------------------------------------------------------------------------


def resident_bytes(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)[1])


@pytest.mark.skipif(PATIENCE > 1, reason="sanitizers take memory of their own")
def test_a_burst_of_large_bodies_leaves_no_memory_behind(serve):
    server = serve()
    assert server.translate().status_code == 200
    before = resident_bytes(server)
    assert send_at_once(server, 12, post(large_json())) == [200] * 12
    assert eventually(lambda: resident_bytes(server) < before + (32 << 20), 20)


def peak_bytes(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1])


@pytest.mark.skipif(PATIENCE > 1, reason="sanitizers take memory of their own")
def test_sentences_of_a_letter_take_memory_in_turn(serve):
    """Each takes two hundred times its bytes, and the loop a while to free, where it does that."""
    server = serve(max_queued_tokens=10000)
    body = {"q": ["A\n" * 25000] * 4, "source": "en", "target": "de"}
    assert server.translate().status_code == 200
    before, spent = peak_bytes(server), loop_ms(server)
    assert send_at_once(server, 6, post(body)) == [413] * 6
    assert loop_ms(server) - spent < 20
    assert peak_bytes(server) < before + (48 << 20)


@pytest.mark.skipif(PATIENCE > 1, reason="sanitizers take memory of their own")
@pytest.mark.parametrize("value", [b"[]", b'{"a":1}'])
def test_trees_are_there_only_while_they_are_read(serve, value):
    """Four at once, in the pool's threads: each takes forty times its bytes."""
    server = serve()
    before = peak_bytes(server)
    body = b'{"source":"en","target":"de","q":%s}' % many(value, 1_000_000 // (len(value) + 1))
    assert send_at_once(server, 24, post(body)) == [400] * 24
    assert peak_bytes(server) < before + (320 << 20)


@pytest.mark.skipif(PATIENCE > 1, reason="sanitizers take memory of their own")
def test_names_of_files_leave_no_memory_behind(serve):
    """A part whose name goes on behind a NUL byte is no file."""
    server = serve()
    part = b'--x\r\nContent-Disposition: form-data; name="file%s"; filename="%s"\r\n\r\nHello\r\n'
    body = part % (b"\0", b"a" * 900000) + part % (b"", b"b.txt") + b"--x--"
    request = (b"POST /translate_file HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; "
               b"boundary=x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    assert ask(server.port, request)[0] == 400
    before = resident_bytes(server)
    assert [ask(server.port, request)[0] for _ in range(80)] == [400] * 80
    assert resident_bytes(server) < before + (16 << 20)


def test_bodies_have_a_limit_together(serve):
    server = serve(max_bodies_bytes=2000020)
    slow = open_many(server, 2, JSON_HEAD + b"Content-Length: 1000000\r\n\r\n" + b"x" * 999000)
    large = post(large_json())
    try:
        status = ask(server.port, large)[0]
        assert status in (200, 503)  # 200: they were slow already
        assert server.translate().status_code == 200  # small ones have room
        time.sleep(1.1)
        assert ask(server.port, large)[0] == 200
        assert any(is_refused(connection) for connection in slow)
    finally:
        close_all(slow)


def metric(server, name):
    return sum(float(value) for value in re.findall(rf"^{name}\S* (\S+)$",
                                                    server.get("/metrics").text, re.MULTILINE))


@pytest.mark.parametrize("fields, counted", [
    ({"q": TEXTS * 8, "pad": "x" * 900_000}, (1, 300_000)),
    ({"q": [" " * 900_000, *TEXTS * 8]}, (900_000, 1_500_000)),
], ids=["no field", "text"])
def test_bodies_count_as_what_is_kept_of_them(serve, fields, counted):
    """While they are translated: texts do, and what nobody reads leaves its room to others."""
    server = serve(threads=1, batch_size=1, max_bodies_bytes=1_500_000, max_text_chars=1_000_000,
                   max_texts=1000, max_queued_tokens=10**9)
    pair = {"source": "en", "target": "de"}
    busy = open_many(server, 1, post({**fields, **pair, "beam_size": 8}))
    try:
        assert eventually(lambda: metric(server, "acre_queued_sentences") > 0)
        assert counted[0] <= metric(server, "acre_http_body_bytes") <= counted[1]
        status = ask(server.port, post({"q": "Hi." + " " * 900_000, **pair}))[0]
        assert status == (200 if counted[1] < 600_000 else 503)
    finally:
        close_all(busy)


def test_long_heads_count_as_bodies_do(serve):
    server = serve(max_body_bytes=100_000, max_bodies_bytes=300_000)
    head = b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"A: %s\r\n" % (b"a" * 7000) * 9
    slow = open_many(server, 3, head)
    try:
        assert eventually(lambda: metric(server, "acre_http_body_bytes") > 190_000)
        assert ask(server.port, head + b"\r\n")[0] == 503
        assert server.translate().status_code == 200  # short ones have room
        time.sleep(1.1)
        assert ask(server.port, head + b"\r\n")[0] == 200
        assert any(is_refused(connection) for connection in slow)
    finally:
        close_all(slow)
    assert eventually(lambda: metric(server, "acre_http_body_bytes") == 0)


def test_a_long_head_counts_until_its_reply(serve):
    """One request alone may have a body and a head of full size."""
    server = serve(max_body_bytes=1_000_000, max_bodies_bytes=1_000_000, max_text_chars=1_000_000)
    body = b'{"q":"<code>%s</code>","format":"html","source":"en","target":"de"}' % (b"a" * 999_900)
    head = b"A: %s\r\n" % (b"a" * 7000) * 8 + b"Content-Length: %d\r\n\r\n" % len(body)
    slow = open_slow_reader(server, b"POST /translate HTTP/1.1\r\nHost: a\r\n"
                                    b"Content-Type: application/json\r\n")
    slow.settimeout(10 * PATIENCE)
    try:
        slow.sendall(head + body)
        assert slow.recv(15) == b"HTTP/1.1 200 OK"
        assert metric(server, "acre_http_body_bytes") == 0
    finally:
        slow.close()


def test_one_address_leaves_memory_to_others(serve):
    server = serve(threads=1, batch_size=1, max_bodies_bytes=5_000_000, max_text_chars=1_000_000,
                   max_texts=1000, max_queued_tokens=10**9, drain_timeout_s=0)
    pair = {"source": "en", "target": "de"}
    large = post({"q": [" " * 400_000, *TEXTS * 24], **pair, "beam_size": 8})
    many = []
    try:
        for least in (1_000_000, 2_000_000, 3_000_000):  # their texts, and what became of them
            many += open_many(server, 1, large, source="127.0.0.2")
            assert eventually(lambda n=least: metric(server, "acre_http_body_bytes") > n)
        many += open_many(server, 2, large, source="127.0.0.2")
        assert [read_reply(connection)[0] for connection in many[3:]] == [503, 503]
        assert ask(server.port, post({"q": "Hi." + " " * 400_000, **pair}))[0] == 200
    finally:
        close_all(many)


def open_stalled_stream(server):
    """Of 900 kB, whose client takes the first objects and no more."""
    connection = open_slow_reader(server, b"")
    connection.settimeout(20 * PATIENCE)
    connection.sendall(post({"q": 900 * [" " * 100] + 9 * ["<b>" * 30000 + "a"], "format": "html",
                             "stream": True, "source": "en", "target": "de"}))
    assert connection.recv(15) == b"HTTP/1.1 200 OK"
    return connection


def test_a_stream_counts_to_its_end(serve):
    """One that its client holds up leaves for others, like a body that does not come."""
    server = serve(max_bodies_bytes=1_100_000)
    large = post({"q": "Hi." + " " * 900_000, "source": "en", "target": "de"})
    stalled = [open_stalled_stream(server)]
    try:
        assert metric(server, "acre_http_body_bytes") >= 800_000
        assert ask(server.port, large)[0] == 503
        time.sleep(1.2)
        assert metric(server, "acre_http_body_bytes") >= 800_000
        stalled.append(open_stalled_stream(server))
        assert metric(server, "acre_http_connections_evicted_total") == 1
        assert metric(server, 'acre_http_connections_by_state{state="streaming"') == 1
        time.sleep(1.2)
        check_stops(server, within_s=4)
    finally:
        close_all(stalled)


def test_a_stream_that_was_read_counts_no_more(serve):
    server = serve()
    body = {"q": [" " * 100_000, "Hi."], "stream": True, "source": "en", "target": "de"}
    with connect(server.port) as connection:
        for _ in range(2):
            connection.sendall(post(body) + HEALTH)
            data = b""
            while b"}\n\r\n0\r\n\r\n" not in data or not data.endswith(b"}\n"):
                data += connection.recv(1 << 20)
            assert metric(server, "acre_http_body_bytes") == 0


def is_refused(connection):
    connection.settimeout(0.2)
    try:
        return read_reply(connection)[0] in (408, 503)
    except TimeoutError:
        return False


# ---- Signals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_signals_that_do_not_stop(serve, number):
    server = serve()
    server.signal(number)
    assert server.translate().status_code == 200
    assert eventually(lambda: any(number.name in line for line in server.log))


def test_sigquit_drains(serve):
    server = serve(threads=1, batch_size=1, drain_timeout_s=600, request_timeout_ms=600000)
    busy = open_many(server, 5, post({"q": TEXTS, "source": "en", "target": "de"}))
    time.sleep(0.1)
    server.signal(signal.SIGQUIT)
    assert [read_reply(connection)[0] for connection in busy] == [200] * 5
    close_all(busy)
    assert server.process.wait(timeout=20 * PATIENCE) == 0


# ---- Clocks ------------------------------------------------------------------------------------


def test_empty_lines_begin_no_request(serve):
    """Old clients send one after a body; a 408 later would pass for the next request's reply."""
    server = serve(idle_timeout_s=1)
    with server.connect() as connection:
        connection.sendall(TRANSLATE + b"\r\n")
        assert read_reply(connection)[0] == 200
        assert connection.recv(100) == b""
