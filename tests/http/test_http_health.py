"""`acre health`: what a container runtime asks instead of curl."""

import json
import socket
import subprocess
import threading

import pytest
from acre_server import ACRE


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


@pytest.mark.parametrize("url", ["nonsense", "http://", "https://a:1", "http://a", "http://a:b"])
def test_what_is_no_url(url):
    fails(health(url), 2, "URL: expected http://HOST:PORT[/PATH]")
