"""curl, as people use it: smoke.sh against a server, and against none; what the README shows."""

import re
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


def test_what_the_readme_shows_is_what_comes(serve):
    """Calls after a $, and below each what it answers."""
    readme = (ROOT / "README.md").read_text()
    calls = re.findall(r"^ +\$ (curl (?:.*\\\n)*.*)\n((?: +\S.*\n)+)", readme, re.MULTILINE)
    assert len(calls) == readme.count("$ curl") == 2
    server = serve(ROOT / "models")
    for command, shown in calls:
        command = command.replace("localhost:5000", server.url.removeprefix("http://"))
        found = subprocess.check_output(command, shell=True, text=True, timeout=60)
        assert found.split() == shown.split()
