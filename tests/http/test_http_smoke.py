"""curl, as people use it: smoke.sh against a server, and against none."""

import subprocess

from acre_server import ROOT

SMOKE = str(ROOT / "tests/http/smoke.sh")


def test_smoke_script(server):
    done = subprocess.run([SMOKE, server.url], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") == 14


def test_smoke_script_can_fail():
    done = subprocess.run([SMOKE, "http://127.0.0.1:9"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "FAILED  health" in done.stdout
