"""The log, the log of replies, and what requests are called in them."""

import json
import re
import signal
import socket
import subprocess
import time

import pytest
import requests
from acre_server import ACRE, PATIENCE, eventually, read_more, read_reply

HEALTH = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def lines_of(path):
    return path.read_text().splitlines() if path.exists() else []


def test_lines_are_json_objects(serve, tmp_path):
    access = tmp_path / "access.log"
    server = serve(log_format="json", access_log=access, max_body_bytes=2000)
    name = 'a"\\b\u00e4'
    server.get("/nope/" + name, headers={"X-Request-ID": "one", "traceparent": PARENT})
    server.post(data="x" * 3000)
    with server.connect() as connection:
        connection.sendall(b"GET /%ff%fe HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_reply(connection)[0] == 404
    assert eventually(lambda: len(lines_of(access)) == 3)
    first, second, third = map(json.loads, lines_of(access))
    assert (first["path"], first["status"], first["method"]) == ("/nope/" + name, 404, "GET")
    assert (first["client"], first["request_id"], first["trace_id"]) == ("127.0.0.1", "one", TRACE)
    assert first["code"] == "not_found" and first["bytes"] > 50 and 0 <= first["seconds"] < 10
    assert (second["status"], second["code"]) == (413, "body_too_large")
    assert third["path"] == "/??"
    assert server.stop() == 0
    levels = [json.loads(line)["level"] for line in server.log[1:]]
    assert set(levels) <= {"info", "warning"} and "warning" in levels  # the 413
    assert any("listening on" in json.loads(line)["message"] for line in server.log)


def test_lines_are_words(serve, tmp_path):
    access = tmp_path / "access.log"
    server = serve(access_log=access)
    server.get("/no such \u00e4/path?q=secret", headers={"X-Request-ID": "a-b.c"})
    server.translate("secret")
    assert eventually(lambda: len(lines_of(access)) == 2)
    first, second = lines_of(access)
    assert re.fullmatch(r"\S+T\S+Z 127\.0\.0\.1 GET /no\?such\?\?\?/path 404 \d+ \d\.\d{6} "
                        r"a-b\.c - not_found", first)
    assert re.fullmatch(r"\S+Z 127\.0\.0\.1 POST /translate 200 \d+ \d+\.\d{6} [0-9a-f]{32} - -",
                        second)
    assert "secret" not in access.read_text()


def test_what_gets_a_file_is_in_no_log(serve, tmp_path):
    """Whatever becomes of the request."""
    access = tmp_path / "access.log"
    server = serve(access_log=access)
    reply = server.post("/translate_file", files={"file": ("a.txt", b"hello")},
                        data={"source": "en", "target": "de"})
    url = reply.json()["translatedFileUrl"]
    assert requests.get(url, timeout=10).status_code == 200
    assert requests.post(url, timeout=10).status_code == 405
    assert requests.get(url + "/x", timeout=10).status_code == 404
    assert eventually(lambda: len(lines_of(access)) == 4)
    assert [line.split()[3] for line in lines_of(access)[1:]] == ["/download_file/*"] * 3
    assert url.rpartition("/")[2][:96] not in access.read_text() + "".join(server.log)


def test_sizes_are_of_what_was_sent(serve, tmp_path):
    """Not of a body that is left out."""
    access = tmp_path / "access.log"
    server = serve(log_format="json", access_log=access)
    size, tag = len(server.get("/docs").content), server.get("/docs").headers["ETag"]
    assert server.get("/docs", headers={"If-None-Match": tag}).status_code == 304
    reply = requests.head(server.url + "/docs", timeout=10)
    assert int(reply.headers["Content-Length"]) > 1000
    server.get("/no/such")
    assert eventually(lambda: len(lines_of(access)) == 5)
    bytes_of = [json.loads(line)["bytes"] for line in lines_of(access)]
    assert bytes_of[:4] == [size, size, 0, 0] and bytes_of[4] > 50


def test_a_log_that_was_moved_away_is_opened_anew(serve, tmp_path):
    access, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    server = serve(access_log=access)
    server.get("/one")
    assert eventually(lambda: len(lines_of(access)) == 1)
    access.rename(moved)
    server.signal(signal.SIGHUP)
    assert eventually(lambda: any("reloaded" in line for line in server.log), 30 * PATIENCE)
    server.get("/two")
    assert eventually(lambda: len(lines_of(access)) == 1)
    assert "/one" in moved.read_text() and "/two" in access.read_text()


def test_a_log_that_cannot_be_written_is_refused(tmp_path):
    done = subprocess.run([ACRE, "serve", "--set", f"access_log={tmp_path}/no/such"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == ("acre: access_log: expected a file that can be written, found "
                           f"{tmp_path}/no/such: No such file or directory\n")


def get_many(server, n):
    """Seconds that it took."""
    start = time.monotonic()
    with server.connect() as connection:
        for _ in range(n // 100):
            connection.sendall(100 * HEALTH)
            data = b""
            while data.count(b"HTTP/1.1 200") < 100 or not data.endswith(b"}\n"):
                data += read_more(connection)
    return time.monotonic() - start


def test_a_full_disk_holds_up_nobody(serve):
    server = serve(access_log="/dev/full")
    assert get_many(server, 500) < 20 * PATIENCE
    assert server.translate().status_code == 200
    assert eventually(lambda: server.get("/health").ok and any(
        re.search(r"warning [1-9]\d* lines of the access log were lost", line)
        for line in server.log))


def test_a_log_that_cannot_be_opened_is_tried_again(serve, tmp_path):
    """And what was lost is told with its number, not with each reply."""
    folder, away = tmp_path / "logs", tmp_path / "away"
    folder.mkdir()
    server = serve(access_log=folder / "access.log")
    folder.rename(away)
    server.signal(signal.SIGHUP)
    assert eventually(lambda: any("reloaded" in line for line in server.log), 30 * PATIENCE)
    for _ in range(20):
        server.get("/lost")
        time.sleep(0.02)
    told = [line for line in server.log if "lines of the access log were lost" in line]
    assert len(told) <= 1 + (PATIENCE > 1)
    away.rename(folder)

    def is_there():
        server.get("/there")
        return any("/there" in line for line in lines_of(folder / "access.log"))

    assert eventually(is_there, 10 * PATIENCE)


def test_pipes_that_nobody_reads_hold_up_nobody(models):
    """Neither the log's nor that of replies."""
    process = subprocess.Popen([ACRE, "serve", "--listen", "127.0.0.1:0", "--models", models,
                                "--set", "access_log=-"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    try:
        line = b"..."
        while line and b"listening" not in line:
            line = process.stderr.readline()
        port = int(re.search(rb":(\d+),", line)[1])

        class Server:
            @staticmethod
            def connect():
                return socket.create_connection(("127.0.0.1", port), timeout=60)

        get_many(Server, 100)
        assert get_many(Server, 6000) < 30 * PATIENCE  # 600 kB of lines
        for _ in range(200):  # of the log itself
            process.send_signal(signal.SIGUSR1)
    finally:
        process.terminate()
        start = time.monotonic()
        assert process.wait(timeout=60) == 0
        assert time.monotonic() - start < 10 * PATIENCE
    lines = process.stdout.read().splitlines()
    assert 100 < len(lines) < 6000  # what the pipe holds


def test_refusals_are_told_but_not_without_end(serve):
    server = serve(max_body_bytes=1024)
    for i in range(35):
        headers = {"X-Request-ID": f"r{i}"}
        assert server.post("/translate/confidential", data=b"x" * 2000,
                           headers=headers).status_code == 413
    assert server.translate(timeout_ms=1, q=["Hello."] * 60).status_code == 504
    assert server.stop() == 0
    told = [line for line in server.log if "refused: 413 body_too_large" in line]
    assert len(told) == 10 or PATIENCE > 1
    assert re.search(r"refused: 413 body_too_large to 127\.0\.0\.1, POST \S+, request r0$", told[0])
    assert any("refused 25 more like these: 413 body_too_large" in line for line in server.log) or (
        len(told) > 10)
    assert any("refused: 504 deadline_exceeded" in line for line in server.log)
    assert "confidential" not in "".join(server.log)


def test_deepl_s_replies_tell_the_id_by_its_name_too(server):
    for path, status in (("/v2/languages", 200), ("/v2/usage", 200), ("/v2/glossaries/x", 404)):
        reply = server.get(path, headers={"X-Request-ID": "a-b.c"})
        assert (reply.status_code, reply.headers["X-Trace-ID"]) == (status, "a-b.c")
    assert "X-Trace-ID" not in server.get("/health").headers


def test_deepl_s_refusals_tell_it_too(server):
    """Whoever refuses: the table of routes, the reader of bodies, that of heads."""
    for asked, status in (
            (("GET", "/v2/nothing", {}), 404), (("PUT", "/v2/translate", {}), 405),
            (("POST", "/v2/translate", {"data": b"x" * 2_000_000}), 413),
            (("POST", "/v3/glossaries", {"headers": {"Content-Encoding": "gzip"}}), 415)):
        method, path, kwargs = asked
        reply = requests.request(method, server.url + path, timeout=30, **kwargs)
        assert reply.status_code == status
        assert reply.headers["X-Trace-ID"] == reply.headers["X-Request-ID"]
    assert "X-Trace-ID" not in server.get("/v2").headers


@pytest.mark.parametrize("given", ["a", "7f3c-11.x_y~z:/+=@", "a" * 128])
def test_a_good_request_id_comes_back(server, given):
    assert server.get("/health", headers={"X-Request-ID": given}).headers["X-Request-ID"] == given


@pytest.mark.parametrize("given", [None, "", "a b", "a" * 129, 'x"y', "caf\u00e9", "a;b", "<a>"])
def test_others_get_one_of_ours(server, given):
    headers = {} if given is None else {"X-Request-ID": given.encode()}
    made = {server.get("/nope", headers=headers).headers["X-Request-ID"] for _ in range(3)}
    assert len(made) == 3 and all(re.fullmatch("[0-9a-f]{32}", text) for text in made)


def test_what_is_malformed_has_an_id_too(server):
    for request in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nX-Request-ID: mine\r\n\r\n"):
        with server.connect() as connection:
            connection.sendall(request)
            status, headers, _ = read_reply(connection)
            assert status == 400 and re.fullmatch("[0-9a-f]{32}", headers["x-request-id"])


@pytest.mark.parametrize("parent", [PARENT, PARENT[:-2] + "00", "01" + PARENT[2:] + "-more"])
def test_a_trace_goes_on(server, parent):
    got = [server.get("/health", headers={"traceparent": parent}).headers["traceparent"]
           for _ in range(2)]
    assert got[0] != got[1]
    for text in got:
        match = re.fullmatch(f"00-{TRACE}-([0-9a-f]{{16}})-({parent[53:55]})", text)
        assert match and match[1] not in (parent[36:52], "0" * 16)


@pytest.mark.parametrize("parent", [
    None, "", PARENT.upper(), PARENT + "-x", PARENT[:-1], "ff" + PARENT[2:],
    PARENT.replace("-", "_"),
    f"00-{'0' * 32}-00f067aa0ba902b7-01", f"00-{TRACE}-{'0' * 16}-01", "01" + PARENT[2:] + "x",
    f"00-{TRACE[:-1]}g-00f067aa0ba902b7-01",
])
def test_a_bad_trace_does_not(server, parent):
    headers = {} if parent is None else {"traceparent": parent}
    assert "traceparent" not in server.get("/health", headers=headers).headers
