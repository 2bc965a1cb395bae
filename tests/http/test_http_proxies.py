"""Whom a proxy speaks for: X-Forwarded-For, Forwarded, the PROXY protocol; who is believed."""

import json
import os
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest
from acre_server import ACRE, PATIENCE, eventually, read_more

HELLO = {"q": "hello", "source": "en", "target": "de"}
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


@pytest.fixture
def proxied(serve, tmp_path):
    """Behind a proxy on 127.0.0.1; clients() are the addresses in the access log."""
    path = tmp_path / "access.log"

    def make(**settings):
        server = serve(**{"trusted_proxies": "127.0.0.0/24,10.0.0.0/8,fd00::/8",
                          "log_format": "json", "access_log": path, **settings})
        server.clients = lambda: [json.loads(x)["client"] for x in path.read_text().splitlines()]
        return server

    return make


FORWARDED = [
    ({"X-Forwarded-For": "203.0.113.7"}, "203.0.113.7"),
    ({"X-Forwarded-For": "1.1.1.1, 203.0.113.7"}, "203.0.113.7"),
    ({"X-Forwarded-For": "1.1.1.1, 203.0.113.7, 10.2.3.4,127.0.0.9"}, "203.0.113.7"),
    ({"X-Forwarded-For": "10.0.0.1, 10.0.0.2"}, "10.0.0.1"),
    ({"X-Forwarded-For": "203.0.113.7:4711"}, "203.0.113.7"),
    ({"X-Forwarded-For": "2001:db8::7"}, "2001:db8::7"),
    ({"X-Forwarded-For": "[2001:db8::7]:4711"}, "2001:db8::7"),
    ({"X-Forwarded-For": "::ffff:203.0.113.7"}, "203.0.113.7"),
    ({"X-Forwarded-For": "203.0.113.7, unknown"}, "127.0.0.1"),
    ({"X-Forwarded-For": "203.0.113.7, 10.0.0.1, <script>"}, "127.0.0.1"),
    ({"X-Forwarded-For": "1.1.1.1, _hidden, 10.0.0.1"}, "10.0.0.1"),
    ({"X-Forwarded-For": "203.0.113.7,"}, "127.0.0.1"),
    ({"X-Forwarded-For": "1.2.3.4.5"}, "127.0.0.1"),
    ({"X-Forwarded-For": "[::1"}, "127.0.0.1"),
    ({"X-Forwarded-For": "9" * 8000}, "127.0.0.1"),
    ({"X-Forwarded-For": ",".join(["10.0.0.1"] * 5000)}, "10.0.0.1"),
    ({"Forwarded": "for=203.0.113.7"}, "203.0.113.7"),
    ({"Forwarded": 'for=1.1.1.1, by=10.0.0.1;FOR="[2001:db8::7]:4711" ;proto=http'}, "2001:db8::7"),
    ({"Forwarded": 'for="1.1.1.1, for=203.0.113.7;proto=https, for=10.0.0.1'}, "203.0.113.7"),
    ({"Forwarded": "proto=https"}, "127.0.0.1"),
    ({"Forwarded": "for=1.1.1.1", "X-Forwarded-For": "203.0.113.7"}, "203.0.113.7"),
    ({"X-Real-IP": "1.1.1.1"}, "127.0.0.1"),
]


def test_the_last_address_that_is_no_proxy_of_ours(proxied):
    server = proxied()
    for headers, _ in FORWARDED:
        assert server.get("/health", headers=headers).status_code == 200
    assert eventually(lambda: len(server.clients()) >= len(FORWARDED))
    for (headers, wanted), found in zip(FORWARDED, server.clients(), strict=True):
        assert found == wanted, str(headers)[:200]


def test_several_headers_are_one_list(proxied):
    server = proxied()
    with server.connect() as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\n"
                       b"X-Forwarded-For: 10.0.0.1\r\n\r\n"
                       b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        while b'"status"' not in read_more(client):
            continue
        assert eventually(lambda: len(server.clients()) == 2)
    assert server.clients() == ["203.0.113.7", "127.0.0.1"]


def test_others_are_not_believed(proxied):
    for n, trusted in enumerate(["", "127.0.1.0/24,::1", "unix"], 1):
        server = proxied(trusted_proxies=trusted)
        for headers, _ in FORWARDED[:3] + FORWARDED[16:18]:
            assert server.get("/health", headers=headers).status_code == 200
        assert eventually(lambda: server.clients() == ["127.0.0.1"] * 5 * n)


def test_rates_are_the_clients_own(proxied):
    server = proxied(rate_limit=2)

    def ask(client):
        return server.post(json=HELLO, headers={"X-Forwarded-For": client}).status_code

    assert [ask("203.0.113.7") for _ in range(3)] == [200, 200, 429]
    assert [ask("6.6.6.6, 203.0.113.7") for _ in range(2)] == [429, 429]
    assert [ask("203.0.113.8") for _ in range(3)] == [200, 200, 429]
    assert [ask(f"2001:db8:0:1::{i}") for i in range(3)] == [200, 200, 429]  # one /64
    assert ask("2001:db8:0:2::1") == 200
    assert [ask("2001:db8::1") for _ in range(3)] == [200, 200, 429]
    assert ask("32.1.13.184") == 200  # the same bytes as IPv4
    assert "refused: 429 too_many_requests to 2001:db8:0:1::2," in "".join(server.log)


def test_nobody_is_without_a_rate(proxied):
    """Not the addresses whose first 64 bits are 0, either: they are this machine's."""
    server = proxied(rate_limit=2)

    def ask(client):
        return server.post(json=HELLO, headers={"X-Forwarded-For": client}).status_code

    assert [ask("::1") for _ in range(3)] == [200, 200, 429]
    assert [ask(client) for client in ("::", "::192.0.2.1", "0.0.0.0", "10.0.0.1")] == [
        429, 429, 429, 200]
    assert server.post(json=HELLO).status_code == 429  # 127.0.0.1


def test_who_pretends_to_be_many_is_one(serve):
    server = serve(rate_limit=2)
    asked = [server.post(json=HELLO, headers={"X-Forwarded-For": f"203.0.113.{i}"}).status_code
             for i in range(4)]
    assert asked == [200, 200, 429, 429]


@pytest.mark.skipif(PATIENCE > 1, reason="sanitizers keep what is freed")
def test_memory_of_many_addresses_is_bounded(proxied):
    """More addresses than the 131,072 that have a bucket: the last ones are held to their rate, and
    who had used his up is not forgotten for them. A million: tests/bench/flood.py."""
    server = proxied(rate_limit=10, access_log="")
    greedy, last = {"X-Forwarded-For": "203.0.113.7"}, {"X-Forwarded-For": "2001:db8:2:49ef::1"}

    def ask(headers, n):
        return [server.post(json=HELLO, headers=headers).status_code for _ in range(n)]

    def flood(first, n):
        body = b'{"q": "x"}'  # refused, and counted all the same
        with server.connect() as client:
            for start in range(first, first + n, 500):
                client.sendall(b"".join(
                    b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\nX-Forwarded-For: 2001:db8:%x:%x::1\r\n\r\n%s"
                    % (len(body), i >> 16, i & 0xffff, body) for i in range(start, start + 500)))
                data = b""
                while data.count(b"HTTP/1.1 400") < 500 or not data.endswith(b"}\n"):
                    data += read_more(client, 1 << 20)

    flood(0, 1000)
    before, begin = resident(server), time.monotonic()
    assert ask(greedy, 11) == [200] * 10 + [429]
    flood(1000, 149000)
    held = ask(greedy, 10)
    refilled = (time.monotonic() - begin) / 6  # a minute gives ten
    assert held.count(200) <= refilled + 1, (held, refilled)
    assert 429 in held or refilled > 8
    assert resident(server) < before + 4e6
    assert ask(last, 10) == [200] * 9 + [429]


def resident(server):
    lines = server.get("/metrics").text.splitlines()
    return float(next(x for x in lines if x.startswith("process_resident_memory_bytes")).split()[1])


def test_connections_count_for_the_client_of_a_request(proxied):
    server = proxied(max_connections_per_address=2)
    sentence = "Hello world, how are you today my friend? " * 200

    def begin(client):
        body = json.dumps({**HELLO, "q": sentence}).encode()
        connection = server.connect()
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json"
                           b"\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n"
                           % (client, len(body)))
        time.sleep(0.05)
        return connection, body

    busy = [begin(b"203.0.113.7") for _ in range(2)]
    assert server.get("/health", headers={"X-Forwarded-For": "203.0.113.7"}).status_code == 503
    assert server.get("/health", headers={"X-Forwarded-For": "203.0.113.8"}).status_code == 200
    for connection, body in busy:
        connection.sendall(body)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        connection.close()
    assert eventually(lambda: server.get("/health", headers={
        "X-Forwarded-For": "203.0.113.7"}).status_code == 200)


def cpu_seconds(server):
    times = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


# ---- PROXY protocol ------------------------------------------------------------------------------


def v2(command, family, payload, version=2, length=None):
    return (SIGNATURE + bytes([version << 4 | command, family])
            + struct.pack("!H", len(payload) if length is None else length) + payload)


V4 = socket.inet_aton("203.0.113.7") + socket.inet_aton("10.0.0.1") + struct.pack("!HH", 4711, 80)
V6 = (socket.inet_pton(socket.AF_INET6, "2001:db8::7") + socket.inet_pton(socket.AF_INET6, "::1")
      + struct.pack("!HH", 4711, 80))
GOOD = [
    (b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 80\r\n", "203.0.113.7"),
    (b"PROXY TCP6 2001:db8::7 ::1 4711 80\r\n", "2001:db8::7"),
    (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
    (b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", "127.0.0.1"),
    (v2(1, 0x11, V4), "203.0.113.7"),
    (v2(1, 0x21, V6), "2001:db8::7"),
    (v2(1, 0x11, V4 + b"\x04\x00\x05abcde"), "203.0.113.7"),
    (v2(1, 0x11, V4 + b"\x04\xff\x00" + b"x" * 65000), "203.0.113.7"),
    (v2(0, 0x00, b""), "127.0.0.1"),
    (v2(0, 0x11, V4), "127.0.0.1"),
    (v2(1, 0x00, b""), "127.0.0.1"),
    (v2(1, 0x31, b"\0" * 216), "127.0.0.1"),
]
BAD = [
    b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PROXY TCP4 203.0.113.7 10.0.0.1 4711\r\n",
    b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 80 \r\n",
    b"PROXY TCP4  203.0.113.7 10.0.0.1 4711 80\r\n",
    b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 65536\r\n",
    b"PROXY TCP4 203.0.113.7 10.0.0.1 04711 80\r\n",
    b"PROXY TCP4 2001:db8::7 ::1 4711 80\r\n",
    b"PROXY TCP6 203.0.113.7 10.0.0.1 4711 80\r\n",
    b"PROXY TCP4 203.0.113.7\x00 10.0.0.1 4711 80\r\n",
    b"PROXY UDP4 203.0.113.7 10.0.0.1 4711 80\r\n",
    b"PROXY UNKNOWNS\r\n",
    b"PROXY TCP4 " + b"1" * 200,
    b"proxy TCP4 203.0.113.7 10.0.0.1 4711 80\r\n",
    v2(1, 0x11, V4, version=1),
    v2(2, 0x11, V4),
    v2(1, 0x11, V4[:11]),
    v2(1, 0x21, V4),
    v2(1, 0x41, V4),
    v2(1, 0x13, V4),
    SIGNATURE[:11] + b"X" + b"\x21\x11\x00\x0c" + V4,
]
REQUEST = b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def read_all(client):
    data = b""
    try:
        while piece := client.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def test_headers_of_both_versions(proxied):
    server = proxied(proxy_protocol="true", trusted_proxies="")
    for i, (header, _) in enumerate(GOOD):
        with server.connect() as client:
            if i % 2:
                client.sendall(header + REQUEST)
            else:  # in pieces
                pieces = [header[at:at + 5] for at in range(0, min(len(header), 60), 5)]
                for piece in pieces:
                    client.sendall(piece)
                    time.sleep(0.001)
                client.sendall(header[60:] + REQUEST)
            assert read_all(client).startswith(b"HTTP/1.1 200"), header[:100]
    assert eventually(lambda: len(server.clients()) == len(GOOD))
    assert server.clients() == [client for _, client in GOOD]


def test_what_is_no_header_ends_the_connection(proxied):
    server = proxied(proxy_protocol="true", trusted_proxies="")
    for header in BAD:
        with server.connect() as client:
            client.sendall(header + REQUEST)
            assert read_all(client) == b"", header
    told = "closed 1 connections, the last from 127.0.0.1: expected a PROXY header"
    assert eventually(lambda: told in "".join(server.log))
    assert server.clients() == []


def test_a_header_that_never_ends_costs_no_time_and_its_connection(proxied):
    server = proxied(proxy_protocol="true", trusted_proxies="", idle_timeout_s=1)
    with server.connect() as client:
        client.sendall(b"PROXY TCP4 ")
        before, begun = cpu_seconds(server), time.monotonic()
        assert read_all(client) == b""
        assert 0.5 < time.monotonic() - begun < 10
        assert cpu_seconds(server) - before < 0.3


def test_only_proxies_send_headers_where_they_are_named(proxied):
    server = proxied(proxy_protocol="true", trusted_proxies="127.0.0.2")
    assert server.get("/health").status_code == 200  # 127.0.0.1, a plain client
    with server.connect() as client:
        client.sendall(GOOD[0][0] + REQUEST)
        assert read_all(client).startswith(b"HTTP/1.1 400")
    proxy = socket.create_connection(("127.0.0.1", server.port), 10, ("127.0.0.2", 0))
    with proxy:
        proxy.sendall(GOOD[0][0] + REQUEST[:-2] + b"X-Forwarded-For: 1.1.1.1\r\n\r\n")
        assert read_all(proxy).startswith(b"HTTP/1.1 200")
    assert eventually(lambda: "203.0.113.7" in server.clients())  # who is no proxy of ours
    assert "1.1.1.1" not in server.clients()


def test_shares_are_those_of_the_clients(proxied):
    server = proxied(proxy_protocol="true", trusted_proxies="", max_connections_per_address=2)
    kept = []
    for _ in range(3):
        kept.append(server.connect())
        kept[-1].sendall(GOOD[0][0] + REQUEST.replace(b"Connection: close\r\n", b"")[:-4])
        time.sleep(0.05)
    assert kept[-1].recv(100).startswith(b"HTTP/1.1 503")
    with server.connect() as other:
        other.sendall(GOOD[1][0] + REQUEST)
        assert read_all(other).startswith(b"HTTP/1.1 200")
    for client in kept:
        client.close()


@pytest.mark.parametrize("setting, text", [
    ("trusted_proxies=10.0.0.0/33", "expected addresses or blocks"),
    ("trusted_proxies=example.org", "expected addresses or blocks"),
    ("trusted_proxies=::1,", "expected addresses or blocks"),
    ("trusted_proxies=::/129", "expected addresses or blocks"),
    ("trusted_proxies=1.2.3.4/", "expected addresses or blocks"),
    ("proxy_protocol=v2", "expected true or false"),
])
def test_wrong_settings(setting, text):
    done = subprocess.run([ACRE, "serve", "--set", setting], capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 2
    assert setting.split("=")[0] in done.stderr and text in done.stderr
