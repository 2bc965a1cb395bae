"""/openapi.json: every route and only those, true limits, and what schemathesis sees."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from acre_server import PATIENCE, ROOT

HERE = Path(__file__).parent
SECONDS = int(os.environ.get("SCHEMATHESIS_SECONDS", "0"))


def routes():
    """The lines of the server's own table, {name} where a path may go on."""
    table = (ROOT / "server/api/routes.c").read_text()
    found = re.findall(r'^    \{"(/\S*)", "(\w+)", api_', table, re.MULTILINE)
    return {(path.replace("*", "{name}"), method.lower()) for path, method in found}


def test_it_has_every_route_and_no_other(server):
    paths = server.get("/openapi.json").json()["paths"]
    assert {(re.sub(r"{\w+}", "{name}", path), method)
            for path, methods in paths.items() for method in methods} == routes()
    assert len(routes()) > 20


def test_limits_and_names_are_the_server_s_own(serve):
    server = serve(max_text_chars=77, max_texts=3, max_beam_size=5)
    first = server.get("/openapi.json")
    fields = first.json()["components"]["schemas"]["TranslateRequest"]["properties"]
    assert fields["q"]["anyOf"][0]["maxLength"] == 77
    assert fields["q"]["anyOf"][1]["maxItems"] == 3
    assert fields["beam_size"]["maximum"] == 5 and fields["alternatives"]["maximum"] == 4
    assert "x-acre" not in first.text
    name = first.json()["paths"]["/translate/{name}"]["post"]["parameters"][0]["schema"]
    assert name["enum"] == ["en-de-token", "en-fr-char"]


def test_what_the_page_asks_for_is_there(server):
    schemas = server.get("/openapi.json").json()["components"]["schemas"]
    offered = set(schemas["TranslateRequest"]["properties"])
    for field in ("alignments", "stream"):
        assert field in offered
        reply = server.translate(**{field: True})
        assert reply.status_code == 200, (field, reply.text)


@pytest.mark.skipif(PATIENCE > 1 and not SECONDS, reason="too slow with a sanitizer")
def test_schemathesis_finds_no_difference(server, tmp_path):
    for name in ("schemathesis.toml", "openapi_hooks.py"):  # it leaves files where it runs
        shutil.copy(HERE / name, tmp_path)
    command = [ROOT / "build/venv-test/bin/schemathesis", "run", server.url + "/openapi.json",
               "--checks", "all", "--exclude-checks",
               "positive_data_acceptance",
               "--request-timeout", str(10 * PATIENCE),
               "--phases", "coverage,fuzzing", "--no-color", "--continue-on-failure",
               "--warnings", "off", "--seed", os.environ.get("SCHEMATHESIS_SEED", "1"),
               *(["--max-time", str(SECONDS)] if SECONDS else ["-n", "3"])]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False,
                          timeout=2 * SECONDS + 540)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    generated = re.search(r"(\d+) generated", done.stdout)
    assert generated and int(generated[1]) > 50, done.stdout[-2000:]
