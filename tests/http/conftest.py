"""Servers for the HTTP tests: a shared one, and makers of those with other settings."""

import shutil
import subprocess

import pytest
from acre_server import PATIENCE, ROOT, Server, stop_all

# two languages and both levels: en-de token by token, en-fr by characters
MODELS = {"en-de-token": "tiny-token", "en-fr-char": "tiny-char"}


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, golden in MODELS.items():
        shutil.copytree(ROOT / "tests/golden/models" / golden, folder / name)
    (folder / "not-a-model").mkdir()
    return folder


@pytest.fixture(scope="session")
def shared_server(models):
    server = Server(models)
    yield server
    assert server.stop() == 0, "".join(server.log)


@pytest.fixture
def server(shared_server):
    """The shared server, which every test must leave alive."""
    yield shared_server
    assert shared_server.is_alive(), "".join(shared_server.log)


@pytest.fixture
def serve(models):
    """Makes servers with other settings; they must end well."""
    servers = []

    def make(models=models, **overrides):
        servers.append(Server(models, **overrides))
        return servers[-1]

    yield make
    stop_all(servers)


@pytest.fixture
def serve_late(serve, tmp_path, monkeypatch):
    """Makes servers whose clock `pass_time` moves."""
    if PATIENCE > 1:
        pytest.skip("a sanitizer wants to be the first library that is loaded")
    library, source = tmp_path / "late_clock.so", ROOT / "tests/http/late_clock.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)

    def make(**overrides):
        with monkeypatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(library))
            return serve(**overrides)

    return make
