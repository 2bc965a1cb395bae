"""To which replica HAProxy and nginx send what, how often, and with which word on the client.

The replicas are stand-ins that note what comes; those that fail take a request and close. Files
come from real ones.
"""

import http.client
import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
import scenarios
import traffic
from balancers import NAMES, SYSTEM_PATH, open_balancer
from fleet import Fleet, wait_until

UPLOADS = (("POST", "/translate_file"), ("POST", "/v2/document"))
FILE_CALLS = (*UPLOADS, ("GET", "/download_file/0123.txt"), ("POST", "/v2/document/0123"),
              ("POST", "/v2/document/0123/result"), ("POST", "/v2/%64ocument/0123"))
MAKING = (*UPLOADS, ("POST", "/v2/glossaries"), ("POST", "/v3/glossaries"), ("POST", "/suggest"),
          ("PATCH", "/v3/glossaries/0123"))
GLOSSARY_CALLS = (("POST", "/v2/glossaries"), ("GET", "/v3/glossaries"),
                  ("GET", "/v2/glossaries/0123/entries"), ("PATCH", "/v3/glossaries/0123"),
                  ("PUT", "/v3/glossaries/0123/dictionaries"), ("DELETE", "/v2/glossaries/0123"),
                  ("DELETE", "/v3/%67lossaries/0123/dictionaries"))
CLIENTS = tuple(f"127.0.0.{n}" for n in range(2, 18))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_health = self.path == "/health/ready"
        if not is_health:
            self.server.got.append((self.command, self.path, self.headers))
        status = 200 if is_health else self.server.status
        if "Host" not in self.headers and self.request_version == "HTTP/1.1":
            status = 400  # as Acre has it
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    def log_message(self, *_):
        pass


class StandIn(ThreadingHTTPServer):
    """Answers with a status, or closes where that is None."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.port, self.status, self.got = self.server_port, 200, []
        self.connections = []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def process_request(self, request, client_address):
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request, client_address):
        pass  # a connection that was closed

    def close(self):
        """As a process ends: nothing listens, and all connections close."""
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the balancer was first


class Stage:
    """Two stand-ins behind a balancer."""

    def __init__(self, name, folder):
        folder.chmod(0o755)
        self.folder = folder
        self.replicas = [StandIn(), StandIn()]
        self.balancer = open_balancer(name, self.replicas, folder)

    def behave(self, status):
        for replica in self.replicas:
            replica.status = status
            replica.got.clear()

    def ask(self, method, path, client=CLIENTS[0], headers=None):
        """The status, and how many requests each replica got."""
        before = [len(replica.got) for replica in self.replicas]
        connection = http.client.HTTPConnection("127.0.0.1", self.balancer.port, timeout=10,
                                                source_address=(client, 0))
        try:
            connection.request(method, path, b"x" if method == "POST" else None, headers or {})
            status = connection.getresponse().status
        finally:
            connection.close()
        return status, [len(replica.got) - n for replica, n in zip(self.replicas, before)]

    def close(self):
        self.balancer.close()
        for replica in self.replicas:
            replica.close()


@pytest.fixture(scope="module", params=NAMES)
def stage(request, tmp_path_factory):
    if not shutil.which(request.param, path=SYSTEM_PATH):
        pytest.skip(f"{request.param} is not installed")
    made = Stage(request.param, tmp_path_factory.mktemp(request.param))
    yield made
    made.close()


@pytest.mark.parametrize("calls", [FILE_CALLS, GLOSSARY_CALLS], ids=["files", "glossaries"])
def test_what_a_client_keeps_is_of_one_replica(stage, calls):
    stage.behave(200)
    used = set()
    for client in CLIENTS:
        replies = [stage.ask(*call, client) for call in calls]
        assert all(reply == replies[0] for reply in replies) and replies[0][0] == 200
        used.add(tuple(replies[0][1]))
    assert used == {(1, 0), (0, 1)}


def test_translations_of_a_client_are_spread(stage):
    stage.behave(200)
    assert {tuple(stage.ask("POST", "/translate")[1]) for _ in range(8)} == {(1, 0), (0, 1)}


@pytest.mark.parametrize("status", [None, 503])
def test_translations_are_sent_again(stage, status):
    stage.behave(status)
    answer, n_each = stage.ask("POST", "/translate")
    assert min(n_each) >= 1 and answer in (502, 503)


@pytest.mark.parametrize("status, answer", [(None, 502), (503, 503)])
def test_what_makes_something_is_sent_once(stage, status, answer):
    stage.behave(status)
    for call in MAKING:
        told, n_each = stage.ask(*call)
        assert told == answer and sum(n_each) == 1, call


def test_a_client_is_who_connects(stage):
    stage.behave(200)
    claims = {"X-Forwarded-For": "203.0.113.9, 10.0.0.1", "Forwarded": "for=203.0.113.9"}
    for call in (("POST", "/translate"), UPLOADS[0]):
        assert stage.ask(*call, CLIENTS[1], claims)[0] == 200
    seen = [headers for replica in stage.replicas for *_, headers in replica.got]
    assert [headers.get_all("X-Forwarded-For") for headers in seen] == [[CLIENTS[1]]] * 2
    assert not any("Forwarded" in headers for headers in seen)


@pytest.mark.parametrize("status", [200, None])
def test_logs_have_no_texts_and_no_keys(stage, status):
    stage.behave(status)

    def told():
        return "".join(path.read_text() for path in stage.folder.iterdir()
                       if path.suffix in (".log", ".err"))

    for method, path in (("GET", "/v2/translate?auth_key=hidden&text=hidden"),
                         ("POST", "/v2/document?auth_key=hidden"),
                         ("GET", "/download_file/hidden.txt"),
                         ("GET", "/%64ownload_file/hidden.txt"), ("GET", f"/last-{status}")):
        stage.ask(method, path)
    wait_until(lambda: f"/last-{status}" in told(), "the last line")
    for line in ('"GET /v2/translate HTTP/1.1"', '"POST /v2/document HTTP/1.1"',
                 '"GET /download_file/* HTTP/1.1"'):
        assert line in told()
    assert "hidden" not in told()


def test_http_1_0_needs_no_host(stage):
    stage.behave(200)
    with socket.create_connection(("127.0.0.1", stage.balancer.port), timeout=10) as client:
        client.sendall(b"GET /languages HTTP/1.0\r\n\r\n")
        assert b" 200 " in client.recv(100)
    told = [headers for replica in stage.replicas for *_, headers in replica.got]
    assert told[0]["Host"] in (None, f"127.0.0.1:{stage.balancer.port}")


@pytest.mark.parametrize("path", ["/metrics", "/metrics?x", "/m%65trics", "http://acre/metrics"])
def test_metrics_of_a_replica_are_not_shown(stage, path):
    stage.behave(200)
    assert stage.ask("GET", path) == (404, [0, 0])


@pytest.mark.parametrize("name", NAMES)
def test_files_go_elsewhere_without_their_replica(name, tmp_path):
    if not shutil.which(name, path=SYSTEM_PATH):
        pytest.skip(f"{name} is not installed")
    stage = Stage(name, tmp_path)
    try:
        homes = [stage.ask(*UPLOADS[0], client)[1] for client in CLIENTS]
        assert [1, 0] in homes and [0, 1] in homes
        stage.replicas[0].close()
        for client in CLIENTS:
            assert stage.ask(*UPLOADS[0], client) == (200, [0, 1])
    finally:
        stage.close()


@pytest.mark.parametrize("name", NAMES)
def test_the_address_of_a_file_is_the_balancer_s(name, tmp_path):
    """Its port, too: the replica tells what the client called it; and its scheme, whatever the
    client says."""
    if not shutil.which(name, path=SYSTEM_PATH):
        pytest.skip(f"{name} is not installed")
    tmp_path.chmod(0o755)
    fleet, balancer = Fleet(tmp_path, traffic.make_models(tmp_path, scenarios.TINY[0]), 2), None
    try:
        fleet.start()
        balancer = open_balancer(name, fleet, tmp_path)
        here = f"http://127.0.0.1:{balancer.port}/"
        for host in (None, "translate.example:8443"):
            told = requests.post(f"{here}translate_file", {"source": "en", "target": "de"},
                                 files={"file": ("a.txt", "Hello.")}, timeout=30,
                                 headers={"Host": host, "X-Forwarded-Proto": "https"}
                                 ).json()["translatedFileUrl"]
            assert told.startswith(f"http://{host}/" if host else here)
            file = told.split("/", 3)[3]
            assert requests.get(here + file, timeout=30).status_code == 200
    finally:
        if balancer:
            balancer.close()
        fleet.close()
