"""/openapi.json: every route and only those, true limits, and what schemathesis sees."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import requests
from acre_server import ACRE, PATIENCE, ROOT, SENTENCE
from jsonschema import Draft202012Validator

HERE = Path(__file__).parent
SECONDS = int(os.environ.get("SCHEMATHESIS_SECONDS", "0"))
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"


def routes():
    """The lines of the server's own table, {name} where a path may go on. One that ends in a slash
    is another name of one that does not."""
    table = (ROOT / "server/api/routes.c").read_text()
    found = re.findall(r'^    \{"(/\S*)", "(\w+)", api_', table, re.MULTILINE)
    return {(path.replace("*", "{name}"), method.lower()) for path, method in found
            if path == "/" or not path.endswith("/")}


def test_it_has_every_route_and_no_other(server):
    paths = server.get("/openapi.json").json()["paths"]
    assert {(re.sub(r"{\w+}", "{name}", path), method)
            for path, methods in paths.items() for method in methods} == routes()
    assert len(routes()) > 20


@pytest.mark.parametrize("source, schema, others", [
    ("libre", "TranslateRequest", set()),
    ("libre", "NamedRequest", {"model"}),  # which the path has
    ("libre_file", "FileForm", set()),
    ("deepl", "DeepLRequest", set()),
    ("deepl_document", "DeepLDocumentForm", set()),
    ("attention", "AttentionRequest", set()),
    ("page", None, set()),
    ("libre_service", "Suggestion", set()),
])
def test_every_field_that_is_read_is_described(server, source, schema, others):
    """The last list of names in a file of routes is that of its fields."""
    code = (ROOT / f"server/api/{source}.c").read_text()
    names = re.findall(r"char \*const \w*field\w*\[\] = {([^}]*)NULL", code)[-1]
    document = server.get("/openapi.json").json()
    form = document["paths"]["/"]["post"]["requestBody"]["content"][FORM]["schema"]
    properties = (document["components"]["schemas"][schema] if schema else form)["properties"]
    assert set(re.findall(r'"(\w+)"', names)) - others <= set(properties)


def test_where_keys_stand_is_described(serve, tmp_path):
    """Calls whose `security` is empty look at no key; all others refuse a wrong one."""
    subprocess.run([ACRE, "keys", "add", "web", "--store", tmp_path / "acre.db"], check=True)
    server = serve(store=tmp_path / "acre.db", suggestions=tmp_path / "suggestions")
    document = server.get("/openapi.json").json()
    assert document["security"] == [{}, {"DeepLAuthKey": []}, {"Bearer": []}]
    wrong = {"Authorization": "DeepL-Auth-Key acre-" + 40 * "0"}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            reply = requests.request(method, server.url + path.replace("{", "").replace("}", ""),
                                     headers=wrong, timeout=20 * PATIENCE)
            assert (reply.status_code != 403) == (operation.get("security") == []), (method, path)


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


TSV = {"name": "mine", "source_lang": "EN", "target_lang": "DE", "entries": "a\tb",
       "entries_format": "tsv"}


@pytest.mark.parametrize("path, kinds, fields", [
    ("/translate", (JSON, FORM, MULTIPART), {"q": SENTENCE, "source": "auto", "target": "de"}),
    ("/translate", (JSON, FORM), {"q": SENTENCE, "source": "EN", "target": "DE"}),
    ("/translate", (JSON, FORM), {"q": SENTENCE, "model": "en-de-token"}),
    ("/translate", (JSON, FORM), {"q": SENTENCE, "model": "en-de-token", "glossary": "a\tb"}),
    ("/translate/{name}", (JSON, FORM), {"q": SENTENCE, "source": "en", "target": "de"}),
    ("/attention", (JSON,), {"text": "Hi.", "source": "EN", "target": "DE"}),
    ("/detect", (JSON, FORM, MULTIPART), {"q": SENTENCE}),
    ("/v2/translate", (JSON, FORM), {"text": [SENTENCE], "target_lang": "DE"}),
    ("/v2/translate", (JSON, FORM), {"text": SENTENCE, "target_lang": "de", "context": "a",
                                     "tag_handling": "xml", "ignore_tags": "x,y"}),
    ("/v2/translate", (JSON,), {"text": [SENTENCE], "target_lang": "DE", "source_lang": "EN",
                                "tag_handling": "xml", "ignore_tags": ["x"], "style_id": None}),
    ("/v2/glossaries", (JSON, FORM), TSV),
    ("/translate_file", (MULTIPART,), {"source": "auto", "target": "DE"}),
    ("/v2/document", (MULTIPART,), {"target_lang": "DE"}),
])
def test_what_clients_send_is_as_described(serve, path, kinds, fields):
    server = serve()
    document = server.get("/openapi.json").json()
    content = document["paths"][path]["post"]["requestBody"]["content"]
    url = path.replace("{name}", "en-de-token")
    for kind in kinds:
        file = {"file": SENTENCE} if kind == MULTIPART else {}
        schema = {"components": document["components"], **content[kind]["schema"]}
        Draft202012Validator(schema).validate(fields | file)
        files = {name: ("Report 1.txt", data) for name, data in file.items()}
        body = {"json": fields} if kind == JSON else {"data": fields, "files": files}
        reply = server.post(url, **body)
        assert reply.status_code in (200, 201), reply.text


def test_what_deepl_has_and_this_server_has_not_is_described(server):
    schemas = server.get("/openapi.json").json()["components"]["schemas"]
    properties = schemas["DeepLRequest"]["properties"]
    for field in ("splitting_tags", "style_id", "translation_memory_id", "custom_instructions"):
        assert properties[field]["description"].startswith("refused: ")
        reply = server.post("/v2/translate", json={"text": "Hi.", "target_lang": "DE", field: "a"})
        assert reply.status_code == 400 and field in reply.json()["message"]


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
