"""The access log of a server that is told to open it anew."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request

import pytest


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def serve(acre_path, token_model, tmp_path):
    """A server whose configuration is conf.json and whose log is log, in tmp_path."""
    running = []

    def start(**settings):
        config, log = tmp_path / "conf.json", tmp_path / "log"
        config.write_text(json.dumps({"listen": "127.0.0.1:0", "models": str(token_model),
                                      "threads": 1} | settings))
        with log.open("w") as errors:
            running.append(subprocess.Popen([acre_path, "serve", "--config", config],
                                            stderr=errors))
        wait_for(lambda: re.search(r"listening on (\S+),", log.read_text()))
        return running[0], re.search(r"listening on (\S+),", log.read_text())[1]

    yield start
    for process in running:
        process.terminate()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("is_good", [True, False])
def test_a_moved_log_is_opened_anew_whether_the_reload_is_good(serve, tmp_path, is_good):
    access, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    process, url = serve(access_log=str(access))
    urllib.request.urlopen(url + "/health", timeout=30).close()
    wait_for(lambda: os.path.exists(access) and "/health" in access.read_text())
    access.rename(moved)
    if not is_good:
        (tmp_path / "conf.json").write_text("{")
    process.send_signal(signal.SIGHUP)
    told = "reloaded: " if is_good else "not reloaded"
    wait_for(lambda: told in (tmp_path / "log").read_text())
    urllib.request.urlopen(url + "/languages", timeout=30).close()
    wait_for(lambda: os.path.exists(access) and "/languages" in access.read_text())
    assert "/languages" not in moved.read_text()
