"""A real `acre serve` on a free port of the loopback address, for one test or many."""

import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import requests

ROOT = Path(__file__).resolve().parents[2]
ACRE = os.environ.get("ACRE", str(ROOT / "build/acre"))
# how much longer things may take, e.g. with sanitizers
PATIENCE = 10 if Path(ACRE).parent.name in ("address", "thread", "undefined") else 1
SENTENCE = "Hello world, how are you today my friend?"


class Server:
    """Starts at once, with `env` in its environment; `overrides` are keys of the configuration."""

    def __init__(self, models, env=None, **overrides):
        listen, config = overrides.pop("listen", "127.0.0.1:0"), overrides.pop("config", None)
        command = [ACRE, "serve", "--models", str(models)]
        if listen:
            command += ["--listen", listen]
        if config:
            command += ["--config", str(config)]
        for key, value in overrides.items():
            command += ["--set", f"{key}={value}"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                        env=os.environ | (env or {}))
        self.log = []
        self.port = None
        patience = threading.Timer(60 * PATIENCE, self.process.kill)
        patience.start()
        for line in self.process.stderr:
            self.log.append(line)
            listening = re.search(r"listening on https?://\S*:(\d+)", line)
            if listening:
                self.port = int(listening[1])
                break
        patience.cancel()
        assert self.port, "".join(self.log)
        self.url = f"http://127.0.0.1:{self.port}"
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def request(self, method, path, **kwargs):
        kwargs.setdefault("timeout", 60 * PATIENCE)
        return requests.request(method, self.url + path, **kwargs)

    def post(self, path="/translate", **kwargs):
        return self.request("POST", path, **kwargs)

    def get(self, path, **kwargs):
        return self.request("GET", path, **{"timeout": 10, **kwargs})

    def translate(self, q=SENTENCE, **fields):
        return self.post(json={"q": q, "source": "en", "target": "de", **fields})

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20 * PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def stop(self):
        """The exit status after SIGTERM; a server that does not stop is killed and fails."""
        if self.process.poll() is None:
            self.signal()
        try:
            status = self.process.wait(timeout=20 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.reader.join(timeout=5)
        return status

    def is_alive(self):
        return self.process.poll() is None and self.get("/health").status_code == 200


def pass_time(server, seconds):
    """A server of `serve_late` takes it to be so much later, and its loop comes round."""
    assert server.get("/health", headers={"Late": str(seconds)}).status_code == 200
    time.sleep(1.2)


def stop_all(servers):
    """Each must end well, and all are stopped before that is said."""
    statuses = [server.stop() for server in servers]
    for server, status in zip(servers, statuses, strict=True):
        assert status == 0, "".join(server.log)


def read_more(connection, most=1 << 16):
    """What comes next; the other side must not have closed."""
    data = connection.recv(most)
    assert data, "the connection was closed"
    return data


def read_reply(connection):
    """(status, headers, body) of one reply on a raw socket; status None if it was closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None, {}, data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
    while len(body) < int(headers.get("content-length", 0)):
        piece = connection.recv(65536)
        if not piece:
            break
        body += piece
    return int(lines[0].split()[1]), headers, body


def eventually(condition, seconds=10):
    """Waits until `condition` is true; whether it became so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())
