"""SIGHUP: configuration and models anew, all or nothing, while requests are served."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import requests
from acre_server import ACRE, PATIENCE, ROOT, SENTENCE, Server, eventually, stop_all

GOLDEN = ROOT / "tests/golden/models"
RELOADED = re.compile(r"reloaded: (\d+) models, (\d+) of them new, (\d+) left")
REFUSED = "not reloaded, nothing has changed: "


def put(folder, name, golden):
    """A model in the place of another one, as a package manager would put it there."""
    place, fresh = folder / name, folder / f".{name}"
    shutil.copytree(GOLDEN / golden, fresh)
    shutil.rmtree(place, ignore_errors=True)
    fresh.rename(place)


@pytest.fixture
def folder(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    put(models, "en-de-token", "tiny-token")
    put(models, "en-fr-char", "tiny-char")
    return models


@pytest.fixture
def start(folder, tmp_path):
    servers = []
    config = tmp_path / "acre.json"
    config.write_text("{}")

    def make(**overrides):
        servers.append(Server(folder, config=config, **overrides))
        return servers[-1]

    yield make
    stop_all(servers)


def outcomes(server):
    return [line for line in server.log if RELOADED.search(line) or REFUSED in line]


def reload(server):
    """The line of the log that says what came of it."""
    n = len(outcomes(server))
    server.signal(signal.SIGHUP)
    assert eventually(lambda: len(outcomes(server)) > n, 60 * PATIENCE), "".join(server.log)
    return outcomes(server)[n]


def names(server):
    return [model["name"] for model in server.get("/models").json()["models"]]


def counts(line):
    return tuple(map(int, RELOADED.search(line).groups()))


def test_models_are_added_replaced_and_removed(start, folder):
    server = start()
    first = server.translate(scores=True).json()
    assert counts(reload(server)) == (2, 0, 0)
    put(folder, "en-es-token", "tiny-area-mean")
    assert counts(reload(server)) == (3, 1, 0)
    assert names(server) == ["en-de-token", "en-es-token", "en-fr-char"]
    put(folder, "en-de-token", "tiny-area")
    assert counts(reload(server)) == (3, 1, 1)
    assert server.translate(scores=True).json() != first
    shutil.rmtree(folder / "en-fr-char")
    shutil.rmtree(folder / "en-es-token")
    assert counts(reload(server)) == (1, 0, 2)
    assert server.post("/translate/en-fr-char", json={"q": "Hi."}).status_code == 404
    put(folder, "en-de-token", "tiny-token")
    assert counts(reload(server)) == (1, 1, 1)
    assert server.translate(scores=True).json() == first


def test_links_to_one_directory_are_models_of_their_own(start, folder):
    """The way one version is made the current one: whichever goes, the other is still there."""
    (folder / "current").symlink_to("en-de-token")
    server = start()
    first = server.translate(scores=True).json()
    assert counts(reload(server)) == (3, 0, 0)
    os.utime(folder / "en-de-token/config.json", (1, 1))
    assert counts(reload(server)) == (3, 2, 2)
    (folder / "current").unlink()
    assert counts(reload(server)) == (2, 0, 1)
    assert server.translate(scores=True).json() == first


def test_settings_count_from_then_on(start, tmp_path):
    server = start()
    config = tmp_path / "acre.json"
    config.write_text(json.dumps({"max_text_chars": 5, "cors_origin": "https://a.example",
                                  "max_body_bytes": 2000, "threads": 7}))
    assert counts(reload(server)) == (2, 0, 0)
    assert server.translate("123456").status_code == 400
    assert server.post(data=b"x" * 2001).status_code == 413
    reply = server.get("/health")
    assert reply.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert any("reload: threads: a change takes a restart" in line for line in server.log)
    config.write_text("{}")
    reload(server)
    assert server.translate("123456").status_code == 200


@pytest.mark.parametrize("text, why", [
    ("{", "acre.json:1: expected valid JSON"),
    ('{"max_texts": 0}', "max_texts: expected an integer from 1 to 1000000, found 0"),
    ('{"max_textz": 1}', "max_textz: expected a known key"),
    (None, "acre.json: expected a readable JSON file"),
])
def test_a_bad_configuration_changes_nothing(start, folder, tmp_path, text, why):
    server = start()
    before = server.translate().json()
    config = tmp_path / "acre.json"
    config.write_text(text) if text else config.unlink()
    put(folder, "en-de-token", "tiny-area")
    assert why in reload(server)
    assert server.translate().json() == before
    config.write_text("{}")
    assert counts(reload(server)) == (2, 1, 1)


def test_a_bad_model_changes_nothing(start, folder, tmp_path):
    server = start()
    before = server.translate().json()
    put(folder, "en-de-token", "tiny-area")
    put(folder, "en-es-token", "tiny-token")
    (folder / "en-es-token/config.json").write_text('{"model_type": "other"}')
    (tmp_path / "acre.json").write_text('{"max_text_chars": 5}')
    assert "en-es-token/config.json: model_type: " in reload(server)
    assert server.translate().json() == before
    assert names(server) == ["en-de-token", "en-fr-char"]
    shutil.rmtree(folder)
    assert REFUSED in reload(server)
    assert server.translate().json() == before


def test_what_runs_ends_on_the_old_model(start, folder):
    server = start(threads=1, batch_size=1)
    fields = {"q": [f"{SENTENCE} {i}" for i in range(300)], "source": "en", "target": "de",
              "beam_size": 8}
    before = server.post(json=fields).json()
    with ThreadPoolExecutor(1) as pool:
        old = pool.submit(server.post, json=fields)
        assert eventually(lambda: " 0\n" not in re.search(
            r"acre_queued_tokens .*\n", server.get("/metrics").text)[0])
        put(folder, "en-de-token", "tiny-area")
        assert counts(reload(server)) == (2, 1, 1)
        assert not old.done()
        assert old.result().json() == before
    assert server.post(json=fields).json() != before


def test_stopping_while_it_reloads(start, folder):
    server = start()
    for _ in range(3):
        put(folder, "en-de-token", "tiny-area")
        server.signal(signal.SIGHUP)
    assert server.stop() == 0


def test_stopping_does_not_wait_for_a_reload(start, tmp_path):
    """Of a configuration that nobody writes, as of a large model; what keys have used is kept."""
    store, config = tmp_path / "acre.db", tmp_path / "acre.json"
    key = subprocess.run([ACRE, "keys", "add", "ann", "--store", store], check=True, text=True,
                         capture_output=True).stdout.split()[-1]
    server = start(store=store)
    config.unlink()
    os.mkfifo(config)
    server.signal(signal.SIGHUP)
    assert eventually(lambda: any("reloading" in line for line in server.log))
    assert server.translate("Hello.", api_key=key).status_code == 200
    assert server.stop() == 0
    assert "stopped" in server.log[-1]
    with closing(sqlite3.connect(store)) as db:
        assert db.execute("SELECT sum(characters) FROM usage").fetchone() == (6,)


def has_open(pid, path):
    folder = Path(f"/proc/{pid}/fd")
    return any(os.path.realpath(fd) == str(path) for fd in folder.iterdir())


def test_stopping_while_it_starts(folder, tmp_path):
    """While it waits for whoever has its store, five seconds."""
    store = tmp_path / "acre.db"
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with subprocess.Popen([ACRE, "serve", "--listen", "127.0.0.1:0", "--models", folder,
                               "--set", f"store={store}"], stderr=subprocess.PIPE) as process:
            assert eventually(lambda: has_open(process.pid, store))
            process.send_signal(signal.SIGHUP)
            process.terminate()
            assert process.wait(timeout=20 * PATIENCE) == 0  # 1 if it waits for the store
            assert process.stderr.read() == b""


class Load:
    """Clients that translate all the time, and what they were answered."""

    def __init__(self, server, n):
        self.failed, self.n_good, self.texts, self.stopped = [], 0, set(), threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(server, i)) for i in range(n)]
        for thread in self.threads:
            thread.start()

    def _run(self, server, i):
        path, fields = (("/translate", {"source": "en", "target": "de"}),
                        ("/translate/en-fr-char", {}))[i % 2]
        with requests.Session() as session:
            while not self.stopped.is_set():
                q = SENTENCE if i % 4 < 2 else [SENTENCE] * 20
                try:
                    reply = session.post(server.url + path, json={"q": q, **fields},
                                         timeout=60 * PATIENCE)
                except requests.RequestException as error:
                    self.failed.append(str(error))
                    continue
                if reply.status_code == 200:
                    self.n_good += 1
                    self.texts.add(str(reply.json()["translatedText"]))
                else:
                    self.failed.append(reply.text)

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


def resident_kib(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1])


def test_a_hundred_reloads_under_load(start, folder):
    server = start(threads=2)
    load = Load(server, 8)
    kinds, held = ["tiny-token", "tiny-area"], []
    for i in range(100):
        put(folder, "en-de-token", kinds[i % 2])
        if i % 3 == 0:
            put(folder, "en-es-token", "tiny-area-mean")
        elif i % 3 == 1:
            shutil.rmtree(folder / "en-es-token")
        line = reload(server)
        assert counts(line)[1] >= 1 and counts(line)[2] >= 1 or i == 0, line
        held.append(resident_kib(server))
    load.stop()
    assert load.failed == []
    assert load.n_good >= (100 if PATIENCE == 1 else 20)
    assert len(load.texts) == 6  # of both models that were exchanged, and of the other one
    if PATIENCE == 1:
        assert max(held[80:]) <= max(held[20:40]) + 8192, held
