"""`acre health`: what a container runtime asks instead of curl."""

import json
import re
import socket
import subprocess
import threading
import time

import pytest
from acre_server import ACRE, read_reply


def health(*args):
    return subprocess.run([ACRE, "health", *map(str, args)], capture_output=True, text=True,
                          timeout=60, check=False)


def fails(done, status, text):
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("acre: ") and done.stderr.count("\n") == 1
    assert text in done.stderr


def test_a_ready_server_is_healthy(server):
    for url in (server.url, server.url + "/", server.url + "/health", f"127.0.0.1:{server.port}"):
        done = health(url)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), url


def test_the_address_may_come_from_the_configuration(server, tmp_path):
    path = tmp_path / "acre.json"
    path.write_text(json.dumps({"listen": f"127.0.0.1:{server.port}"}))
    assert health("--config", path).returncode == 0
    path.write_text("{")
    fails(health("--config", path), 1, str(path))


def test_another_status_is_not_healthy(server):
    fails(health(server.url + "/nope"), 1, "/nope: expected status 200, found 404: {")


def test_no_server_is_not_healthy():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    fails(health(f"http://127.0.0.1:{port}"), 1, f"127.0.0.1:{port}: expected a server")


@pytest.mark.parametrize("answer, text", [
    (None, "none in time"), (b"", "expected an HTTP reply"), (b"220 ready\r\n", "HTTP reply"),
])
def test_what_is_no_server_of_ours(answer, text):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def talk():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                if answer is None:
                    connection.recv(1000)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=talk)
        thread.start()
        port = listener.getsockname()[1]
        fails(health(f"http://127.0.0.1:{port}", "--timeout", 1), 1, text)
        thread.join()


@pytest.mark.parametrize("url", ["nonsense", "http://", "http://a", "http://a:b"])
def test_what_is_no_url(url):
    fails(health(url), 2, "URL: expected http[s]://HOST:PORT[/PATH] or unix:/PATH")


def test_a_loop_that_hangs_is_not_live(serve_late):
    server = serve_late()
    with server.connect() as connection:
        for late_s, status in ((0, 200), (4, 200), (8, 503), (0, 200)):
            time.sleep(1.2)  # the loop comes round
            connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: a\r\nLate: %d\r\n\r\n" % late_s)
            got, _, body = read_reply(connection)
            assert got == status, late_s
            if status == 503:
                text = json.loads(body)["error"]
                lag_ms = int(re.fullmatch(r"stalled: the event loop is (\d+) ms behind", text)[1])
                assert 7000 <= lag_ms <= 9000
    metrics = server.get("/metrics").text  # which is made when the loop has come round
    lag_s = float(re.search(r"^acre_loop_lag_seconds (\S+)", metrics, re.MULTILINE)[1])
    assert 7 <= lag_s <= 9
