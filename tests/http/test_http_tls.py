"""TLS: whoever speaks it is served, whoever does not, or slowly, or wrongly, is not waited for."""

import json
import os
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import threading
import time
from pathlib import Path

import pytest
import requests
from acre_server import ACRE, PATIENCE, SENTENCE, Server, eventually, read_more, read_reply

HEALTH = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
KINDS = {"rsa": ["rsa:2048"], "p256": ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]}


def make_certificate(folder, name, kind="p256", *more):
    subprocess.run(["openssl", "req", "-x509", "-newkey", *KINDS[kind], "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem", *more],
                   check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    for kind in KINDS:
        make_certificate(folder, kind, kind)
    make_certificate(folder, "other")
    return folder


def tls(certificates, name="p256"):
    return {"tls_certificate": certificates / f"{name}.pem",
            "tls_key": certificates / f"{name}.key"}


@pytest.fixture(params=["rsa", "p256"])
def secure(request, serve, certificates):
    return with_session(serve(**tls(certificates, request.param)), certificates, request.param)


def with_session(server, certificates, name):
    server.url = server.url.replace("http:", "https:")
    server.session = requests.Session()
    server.session.trust_env = False  # nor what its variables say of certificates
    server.session.verify = str(certificates / f"{name}.pem")
    return server


def context(**fields):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def connect(server, made=None):
    return (made or context()).wrap_socket(server.connect())


def subject(server):
    with connect(server, context()) as connection:
        der = connection.getpeercert(binary_form=True)
    done = subprocess.run(["openssl", "x509", "-inform", "DER", "-noout", "-subject"], input=der,
                          capture_output=True, check=True)
    return done.stdout.decode().strip().rpartition("= ")[2]


def test_requests_of_all_sizes(secure):
    """Bodies and replies of many records, several on one connection, and several at once."""
    for n in (1, 100, 2000, 20000):
        texts = [f"{SENTENCE} {i}" if i % 50 == 0 else " " * 40 for i in range(n // 25 + 1)]
        reply = secure.session.post(secure.url + "/translate", timeout=60 * PATIENCE,
                                    json={"q": texts, "source": "en", "target": "de"})
        assert reply.status_code == 200
        got = reply.json()["translatedText"]
        assert len(got) == len(texts) and all(g == t for g, t in zip(got, texts) if t.isspace())
    reply = secure.session.post(secure.url + "/translate", data=b"x" * 2000000, timeout=60)
    assert reply.status_code == 413
    with connect(secure) as connection:
        connection.sendall(200 * HEALTH)
        data = b""
        while data.count(b"HTTP/1.1 200") < 200 or not data.endswith(b"}\n"):
            data += read_more(connection)


def test_a_large_reply_to_a_slow_reader(serve, certificates):
    server = serve(**tls(certificates), max_text_chars=1 << 20)
    body = json.dumps({"q": " " * 900000, "source": "en", "target": "de"}).encode()
    with connect(server) as connection:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\n"
                           b"Content-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        time.sleep(0.5)
        status, _, reply = read_reply(connection)
        assert status == 200 and json.loads(reply) == {"translatedText": " " * 900000}


def test_a_body_in_tiny_records(secure):
    body = json.dumps({"q": "Hi.", "source": "en", "target": "de"}).encode()
    request = (b"POST /translate HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
               b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
    with connect(secure) as connection:
        for i in range(len(request)):
            connection.sendall(request[i:i + 1])
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        for i in range(len(body)):
            connection.sendall(body[i:i + 1])
        assert read_reply(connection)[0] == 200


def test_versions_and_protocols(secure):
    made = context()
    made.set_alpn_protocols(["h2", "http/1.1"])
    with connect(secure, made) as connection:
        assert connection.selected_alpn_protocol() == "http/1.1"
        assert connection.version() == "TLSv1.3"
    with connect(secure, context(maximum_version=ssl.TLSVersion.TLSv1_2)) as connection:
        assert connection.version() == "TLSv1.2"
        assert "ECDHE" in connection.cipher()[0]
        connection.sendall(HEALTH)
        assert read_reply(connection)[0] == 200
    made = context()
    made.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError):
        connect(secure, made)
    old = context()
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        connect(secure, old)


def test_the_last_reply_ends_well(secure):
    with connect(secure) as connection:
        connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        data = b""
        while piece := connection.recv(1000):  # with close_notify, else an error
            data += piece
        assert data.startswith(b"HTTP/1.1 200")


def test_renegotiation_is_not_begun(secure):
    address = f"127.0.0.1:{secure.port}"
    done = subprocess.run(["openssl", "s_client", "-connect", address, "-tls1_2"], input=b"R\n",
                          capture_output=True, timeout=60, check=False)
    assert b"no renegotiation" in done.stderr or b"handshake failure" in done.stderr, done.stderr
    assert secure.session.get(secure.url + "/health", timeout=60).status_code == 200


HELLO = bytes.fromhex("1603010100010000fc0303") + bytes(250)


@pytest.mark.parametrize("data", [
    HEALTH, b"\0" * 1000, b"\x16\x03\x01\xff\xff" + b"x" * 70000,
    b"\x80\x2e\x01\x00\x02" + b"\0" * 44,
    HELLO, b"\x17\x03\x03\x00\x10" + b"x" * 16, b"\x15\x03\x03\x00\x02\x02\x28", b"\x16" * 100000,
])
def test_what_is_no_handshake_is_closed(secure, data):
    with secure.connect() as connection:
        try:
            connection.sendall(data)
            got = b""
            while piece := connection.recv(1000):
                got += piece
            assert got[:1] in (b"", b"\x15") and len(got) < 100  # at most an alert
        except ConnectionError:
            pass
    assert secure.session.get(secure.url + "/health", timeout=60).status_code == 200


def test_garbage_after_the_handshake_is_closed(secure):
    raw = secure.connect()
    with connect(secure) as connection:
        connection.sendall(HEALTH)
        assert read_reply(connection)[0] == 200
        plain = socket.socket(fileno=connection.detach())
    with plain:
        plain.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        plain.settimeout(20 * PATIENCE)
        try:
            while plain.recv(1000):
                continue
        except ConnectionError:
            pass
    raw.close()


@pytest.mark.parametrize("start, drip", [(b"", b""), (HELLO[:20], b""), (HELLO[:5], b"\0")])
def test_slow_handshakes_are_closed(serve, certificates, start, drip):
    server = serve(**tls(certificates), idle_timeout_s=1)
    with server.connect() as connection:
        connection.sendall(start)
        connection.settimeout(0.1)
        begin = time.monotonic()
        while time.monotonic() - begin < 10 * PATIENCE:
            try:
                connection.sendall(drip)
                if not connection.recv(100):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - begin < 5 * PATIENCE


def test_stalled_handshakes_shut_nobody_out(serve, certificates):
    server = with_session(serve(**tls(certificates), max_connections=20), certificates, "p256")
    stalled = [server.connect() for _ in range(60)]
    for connection in stalled:
        connection.sendall(HELLO[:50])
    for _ in range(5):
        with connect(server) as connection:
            connection.sendall(HEALTH)
            assert read_reply(connection)[0] == 200
    for connection in stalled:
        connection.close()


def cpu_seconds(server):
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("header, client, settings", [
    (b"", "127.0.0.1", {}),
    (b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 80\r\n", "203.0.113.7", {"proxy_protocol": "true"}),
])
def test_silent_connections_beyond_a_share_cost_nothing(serve, certificates, header, client,
                                                        settings):
    """They are closed: before a handshake nobody can be told why. The log tells."""
    server = serve(**tls(certificates), max_connections_per_address=1, **settings)
    with server.connect() as first, server.connect() as second:
        first.sendall(header)
        time.sleep(0.2)
        second.sendall(header)
        spent = cpu_seconds(server)
        time.sleep(2)
        assert cpu_seconds(server) - spent < 0.1 * PATIENCE
        assert second.recv(100) == b""
        with context().wrap_socket(first) as kept:
            kept.sendall(HEALTH)
            assert read_reply(kept)[0] == 200
    assert sum(f"503 too_many_connections to {client}," in line for line in server.log) == 1


def test_many_handshakes_at_once_hold_up_nobody(serve, certificates):
    """RSA: a millisecond of the loop each."""
    server = serve(**tls(certificates, "rsa"))
    stopped, counts = threading.Event(), []

    def shake():
        made, n = context(maximum_version=ssl.TLSVersion.TLSv1_2), 0
        while not stopped.is_set():
            connect(server, made).close()
            n += 1
        counts.append(n)

    with connect(server) as kept:
        threads = [threading.Thread(target=shake) for _ in range(8)]
        for thread in threads:
            thread.start()
        seconds = []
        end = time.monotonic() + 2
        while time.monotonic() < end:
            begin = time.monotonic()
            kept.sendall(HEALTH)
            assert read_reply(kept)[0] == 200
            seconds.append(time.monotonic() - begin)
            time.sleep(0.01)
        stopped.set()
        for thread in threads:
            thread.join()
    assert sum(counts) > 20
    assert statistics.median(seconds) < 0.2 * PATIENCE, seconds


def reloaded(server, text):
    n = sum(text in line for line in server.log)
    server.signal(signal.SIGHUP)
    assert eventually(lambda: sum(text in line for line in server.log) > n,
                      30 * PATIENCE), server.log


def test_certificates_are_reloaded(serve, certificates, tmp_path):
    certificate, key = tmp_path / "acre.pem", tmp_path / "acre.key"
    for name, suffix in ((certificate, "pem"), (key, "key")):
        shutil.copy(certificates / f"p256.{suffix}", name)
    server = serve(tls_certificate=certificate, tls_key=key)
    assert subject(server) == "p256"
    with connect(server) as kept:
        shutil.copy(certificates / "other.pem", certificate)
        reloaded(server, "not reloaded, nothing has changed: tls_key: ")  # of the old one
        certificate.write_text("nonsense")
        reloaded(server, f"nothing has changed: tls_certificate: {certificate}: expected certif")
        certificate.unlink()
        reloaded(server, f"{certificate}: expected certificates in PEM, found: No such file")
        assert subject(server) == "p256"
        shutil.copy(certificates / "rsa.pem", certificate)
        shutil.copy(certificates / "rsa.key", key)
        reloaded(server, " reloaded: ")
        assert subject(server) == "rsa"
        kept.sendall(HEALTH)
        assert read_reply(kept)[0] == 200


def test_what_cannot_be_used_is_told(certificates, tmp_path):
    locked = tmp_path / "locked.key"
    subprocess.run(["openssl", "pkey", "-in", certificates / "p256.key", "-out", locked, "-aes128",
                    "-passout", "pass:secret"], check=True, capture_output=True)
    for certificate, key, text in (
        (certificates / "p256.pem", "", "tls_key: expected a file, as tls_certificate is given"),
        ("", certificates / "p256.key", "tls_certificate: expected a file, as tls_key is given"),
        (certificates / "p256.pem", certificates / "rsa.key", "tls_key: "),
        (certificates / "p256.pem", locked, "tls_key: "),
        (certificates / "p256.pem", "/no/such", "/no/such: expected the certificate's key in PEM, "
         "without a password, found: No such file or directory"),
    ):
        done = subprocess.run([ACRE, "serve", "--check-config", "--set",
                               f"tls_certificate={certificate}", "--set", f"tls_key={key}"],
                              capture_output=True, text=True, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)
        assert done.returncode == 1 and text in done.stderr, done.stderr


def test_a_socket_file_is_plain(models, certificates, tmp_path):
    file = tmp_path / "acre.sock"
    server = Server(models, listen=f"127.0.0.1:0,unix:{file}", **tls(certificates))
    try:
        for url in (f"unix:{file}", f"https://127.0.0.1:{server.port}"):
            done = subprocess.run([ACRE, "health", url], capture_output=True, timeout=60,
                                  check=False)
            assert (done.returncode, done.stderr) == (0, b"")
        done = subprocess.run([ACRE, "health", f"http://127.0.0.1:{server.port}"],
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and "acre: 127.0.0.1" in done.stderr
    finally:
        assert server.stop() == 0, server.log


def test_a_stream(secure):
    texts = [f"{SENTENCE} {i}" for i in range(30)]
    reply = secure.session.post(secure.url + "/translate", timeout=60 * PATIENCE, json={
        "q": texts, "source": "en", "target": "de", "stream": True})
    lines = [json.loads(line) for line in reply.text.splitlines()]
    assert reply.status_code == 200 and lines[-1] == {"done": True}
    assert {line["index"] for line in lines[:-1]} == set(range(30))
