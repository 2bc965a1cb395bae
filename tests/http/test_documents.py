"""Documents, as DeepL's official client and its command line have them translated, unchanged."""

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import deepl
import pytest
import requests
from acre_server import PATIENCE, ROOT, SENTENCE, Server, eventually
from deepl import http_client
from test_http_reload import RELOADED, put

ENGLISH = {"source_lang": "EN", "target_lang": "DE"}
HANDLE = re.compile("ID: [0-9A-F]{32}, key: [0-9A-F]{64}")


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """The client asks every five seconds."""
    sleep = time.sleep
    monkeypatch.setattr(deepl.translator.time, "sleep", lambda s: sleep(min(s, 0.05)))


@pytest.fixture
def client(server):
    with_key = deepl.DeepLClient("any-key", server_url=server.url)
    yield with_key
    with_key.close()


@pytest.fixture
def expected(client):
    return client.translate_text(SENTENCE, **ENGLISH).text


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "document.txt"
    path.write_text(SENTENCE)
    return path


def wait(client, handle):
    status = client.translate_document_get_status(handle)
    while status.ok and not status.done:
        time.sleep(0.02)
        status = client.translate_document_get_status(handle)
    return status


def upload(server, name="a.txt", data=SENTENCE, **fields):
    return server.post("/v2/document", files={"file": (name, data)}, data={**ENGLISH, **fields})


def ask(server, handle, what="", **kwargs):
    if not kwargs:
        kwargs = {"json": {"document_key": handle["document_key"]}}
    return server.post(f"/v2/document/{handle['document_id']}{what}", **kwargs)


def result(server, handle):
    assert eventually(lambda: ask(server, handle).json()["status"] != "translating", 30 * PATIENCE)
    return ask(server, handle, "/result")


# ---- The client ----------------------------------------------------------------------------------


def test_from_filepath(client, document, expected):
    output = document.with_name("output.txt")
    status = client.translate_document_from_filepath(document, output, **ENGLISH)
    assert status.done and status.billed_characters == len(SENTENCE)
    assert output.read_text() == expected


def test_from_streams(client, document, expected):
    output = io.BytesIO()
    with document.open("rb") as source:
        client.translate_document(source, output, **ENGLISH)
    assert output.getvalue().decode() == expected
    output = io.BytesIO()
    client.translate_document(SENTENCE.encode(), output, filename="a.txt", target_lang="DE")
    assert output.getvalue().decode() == expected


@pytest.mark.parametrize("kwargs", [
    {"formality": "prefer_less"}, {"formality": "default"}, {"output_format": "txt"},
    {"extra_body_parameters": {"enable_document_minification": True}},
])
def test_options_that_change_nothing(client, expected, kwargs):
    output = io.BytesIO()
    client.translate_document(SENTENCE, output, filename="a.txt", **ENGLISH, **kwargs)
    assert output.getvalue().decode() == expected


def test_low_level(client, expected):
    handle = client.translate_document_upload(SENTENCE, filename="a.txt", **ENGLISH)
    assert re.fullmatch("[0-9A-F]{32}", handle.document_id)
    assert re.fullmatch("[0-9A-F]{64}", handle.document_key)
    handle = deepl.DocumentHandle(handle.document_id, handle.document_key)
    assert client.translate_document_wait_until_done(handle, timeout_s=30).done
    response = client.translate_document_download(handle)
    assert b"".join(response.iter_content(chunk_size=7)).decode() == expected


def test_a_download_is_the_last(client):
    handle = client.translate_document_upload(SENTENCE, filename="a.txt", **ENGLISH)
    assert wait(client, handle).done
    assert wait(client, handle).done
    client.translate_document_download(handle, io.BytesIO())
    for call in (client.translate_document_download, client.translate_document_get_status):
        with pytest.raises(deepl.DeepLException, match="Not found") as caught:
            call(handle)
        assert caught.value.http_status_code == 404


def test_pages_and_subtitles(client):
    page = "<p>The <b>dog</b> sleeps.</p>\n"
    subtitles = "1\n00:00:01,000 --> 00:00:02,000\n- Good\n  morning!\n- You!\n"
    for name, data in (("a.html", page), ("a.HTM", page), ("a.srt", subtitles)):
        output = io.BytesIO()
        status = client.translate_document(data, output, filename=name, **ENGLISH)
        assert status.billed_characters == len(data)
        found = output.getvalue().decode()
        assert re.findall("<[^>]*>|^1$|.*-->.*", found) == re.findall("<[^>]*>|^1$|.*-->.*", data)


def test_usage_counts_documents(client):
    before = client.get_usage().character.count
    client.translate_document(SENTENCE, io.BytesIO(), filename="a.txt", **ENGLISH)
    assert client.get_usage().character.count == before + len(SENTENCE)


@pytest.mark.parametrize("name, data, kwargs, message", [
    ("document.invalid", SENTENCE, {}, "Invalid file"),
    ("noextension", SENTENCE, {}, "Invalid file.*one without extension"),
    ("a.docx", b"PK\x03\x04", {}, "Invalid file"),
    ("a.txt", "Grüße".encode("latin-1"), {}, "Invalid file.*0xFC"),
    ("a.srt", "no cue", {}, "Invalid file.*subtitles"),
    ("a.txt", SENTENCE, {"target_lang": "XX"}, "target_lang.*not supported"),
    ("a.txt", SENTENCE, {"source_lang": "DE"}, "target_lang.*not supported"),
    ("a.txt", SENTENCE, {"formality": "more"}, "Target language.*formality"),
    ("a.txt", SENTENCE, {"output_format": "pdf"}, "output_format.*not supported"),
    ("a.txt", SENTENCE, {"style_rule": "a-style"}, "style_id.*not supported"),
])
def test_refused(client, name, data, kwargs, message):
    with pytest.raises(deepl.DeepLException, match=message) as caught:
        client.translate_document_upload(data, filename=name, **{**ENGLISH, **kwargs})
    assert caught.value.http_status_code == 400 and not caught.value.should_retry


def test_undetected_language_names_the_field(client):
    with pytest.raises(deepl.DeepLException, match="source_lang"):
        client.translate_document_upload("漢", filename="a.txt", target_lang="DE")


def test_not_ready_is_tried_again(serve, monkeypatch):
    monkeypatch.setattr(http_client, "max_network_retries", 1)
    monkeypatch.setattr(http_client._BackoffTimer, "BACKOFF_INITIAL", 0.05)
    server = serve(threads=1)
    client = deepl.DeepLClient("any-key", server_url=server.url)
    handle = client.translate_document_upload(f"{SENTENCE}\n" * 2000, filename="a.txt", **ENGLISH)
    status = client.translate_document_get_status(handle)
    assert status.ok and not status.done and status.billed_characters is None
    with pytest.raises(deepl.DocumentNotReadyException, match="Document not ready"):
        client.translate_document_download(handle, io.BytesIO())


def test_a_full_queue_is_tried_again(serve, monkeypatch):
    monkeypatch.setattr(http_client, "max_network_retries", 2)
    monkeypatch.setattr(http_client._BackoffTimer, "BACKOFF_INITIAL", 0.05)
    server = serve(threads=1, max_queued_tokens=1000)
    client = deepl.DeepLClient("any-key", server_url=server.url)
    client.translate_document_upload(f"{SENTENCE}\n" * 3000, filename="a.txt", **ENGLISH)
    with pytest.raises(deepl.TooManyRequestsException) as caught:
        client.translate_document_upload(f"{SENTENCE}\n" * 3000, filename="a.txt", **ENGLISH)
    assert caught.value.should_retry
    assert 'route="/v2/document",method="POST",dialect="deepl",status="429"} 3' in \
        server.get("/metrics").text


# ---- Its command line ----------------------------------------------------------------------------


def run_cli(server, *arguments):
    environment = {**os.environ, "DEEPL_AUTH_KEY": "any-key", "DEEPL_SERVER_URL": server.url}
    return subprocess.run([sys.executable, "-m", "deepl", *arguments], env=environment,
                          capture_output=True, text=True, check=False, timeout=120)


def test_command_line(server, document, expected, tmp_path):
    (tmp_path / "out").mkdir()
    done = run_cli(server, "document", "--to", "DE", "--from", "EN", str(document),
                   str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/document.txt").read_text() == expected
    wrong = tmp_path / "document.invalid"
    wrong.write_text(SENTENCE)
    failed = run_cli(server, "document", "--to", "DE", str(wrong), str(tmp_path / "out"))
    assert failed.returncode != 0 and "Invalid file" in failed.stderr


# ---- Other shapes --------------------------------------------------------------------------------


def test_the_key_in_every_form(server, expected):
    handle = upload(server).json()
    key = {"document_key": handle["document_key"]}
    assert result(server, upload(server).json()).content.decode() == expected
    for kwargs in ({"json": key}, {"data": key}, {"params": key},
                   {"files": {"document_key": (None, handle["document_key"])}}):
        reply = ask(server, handle, **kwargs)
        assert reply.status_code == 200 and reply.json()["document_id"] == handle["document_id"]
    found = ask(server, handle, "/result", data=key)
    assert found.headers["Content-Disposition"].startswith('attachment; filename="a_DE.txt"')


def test_a_result_is_given_whatever_the_client_has(server, expected):
    """304 is for GET and HEAD; this one is given once, so that nothing would be left of it."""
    handle = upload(server).json()
    assert eventually(lambda: ask(server, handle).json()["status"] == "done", 30)
    found = ask(server, handle, "/result", json={"document_key": handle["document_key"]},
                headers={"If-None-Match": "*"})
    assert found.status_code == 200 and found.content.decode() == expected


def test_a_name_may_be_a_field(server, expected):
    for kwargs in ({"files": {"file": ("", SENTENCE)}, "data": {**ENGLISH, "filename": "b.txt"}},
                   {"data": {**ENGLISH, "filename": "b.txt", "file": SENTENCE}}):
        handle = server.post("/v2/document", **kwargs)
        assert handle.status_code == 200, handle.text
        assert result(server, handle.json()).content.decode() == expected


def test_a_slash_at_the_end(server, expected):
    """As the clients for Java and .NET have it."""
    handle = server.post("/v2/document/", files={"file": ("a.txt", SENTENCE)}, data=ENGLISH)
    assert result(server, handle.json()).content.decode() == expected


@pytest.mark.parametrize("fields, message", [
    ({"target_lang": ""}, "Parameter 'target_lang' not specified"),
    ({"glossary_id": "x"}, "Glossary not found"),
])
def test_errors(server, fields, message):
    reply = upload(server, **fields)
    assert reply.status_code in (400, 404)
    assert reply.json()["message"].startswith(message)
    none = server.post("/v2/document", data=ENGLISH)
    assert none.status_code == 400 and none.json()["message"] == "Parameter 'file' not specified"


def test_only_id_and_key_together_open_anything(server):
    one, other = upload(server).json(), upload(server).json()
    wrong = [
        ({"document_id": one["document_id"], "document_key": other["document_key"]}, 404),
        ({"document_id": other["document_id"][:-1], "document_key": other["document_key"]}, 404),
        ({"document_id": one["document_id"], "document_key": one["document_key"][:-1]}, 404),
        ({"document_id": one["document_id"], "document_key": "\x7f" * 64}, 404),
        ({"document_id": "..", "document_key": "0" * 64}, 404),
        ({"document_id": one["document_id"], "document_key": ""}, 400),
        ({"document_id": one["document_id"], "document_key": 5}, 400),
        ({"document_id": one["document_id"], "document_key": "0" * 5000}, 413),
    ]
    for handle, status in wrong:
        for what in ("", "/result"):
            reply = ask(server, handle, what)
            assert reply.status_code == status, (handle, reply.text)
            assert isinstance(reply.json()["message"], str)
    for what in ("/other", "/", "/other/result", "//result"):
        assert ask(server, one, what).status_code == 404
    name = f"/download_file/{one['document_id']}{other['document_key']}"
    assert server.get(name).status_code == 404
    for handle in (one, other):
        assert result(server, handle).status_code == 200
    for method in ("get", "delete", "put"):
        reply = requests.request(method, f"{server.url}/v2/document/{one['document_id']}",
                                 timeout=10)
        assert reply.status_code == 405


# ---- Bounds --------------------------------------------------------------------------------------


def metric(server, name):
    return float(re.search(rf"^{name} (\S+)$", server.get("/metrics").text, re.MULTILINE)[1])


def test_documents_in_translation_leave_for_nobody(serve):
    """One client has half of the places, so that there are some for others, until all are taken."""
    server = serve(threads=1, max_files=3, max_queued_tokens=10**9)

    def upload_from(address):
        with requests.Session() as session:
            session.get_adapter("http://").init_poolmanager(1, 1, source_address=(address, 0))
            return session.post(f"{server.url}/v2/document", data=ENGLISH, timeout=20,
                                files={"file": ("a.txt", f"{SENTENCE}\n" * 5000)})

    replies = [upload_from(f"127.0.0.{i}") for i in (1, 1, 1, 2, 3)]
    assert [reply.status_code for reply in replies] == [200, 200, 503, 200, 503]
    for full in (replies[2], replies[4]):
        assert full.json()["code"] == "files_full"
        assert int(full.headers["Retry-After"]) > 0
    assert server.get("/health/live").status_code == 200
    handles = [reply.json() for reply in replies if reply.status_code == 200]
    assert [ask(server, handle).json()["status"] for handle in handles] == ["translating"] * 3


def test_what_a_document_holds_counts(serve):
    """A thousand lines of a letter are 2 kB, and their sentences half a megabyte."""
    server = serve(threads=1, max_files_bytes=1_000_000, max_queued_tokens=10**9)
    assert upload(server, data=f"{SENTENCE}\n" * 5000).status_code == 413
    handle = upload(server, data="A\n" * 1000).json()
    assert metric(server, "acre_kept_files_bytes") > 300_000
    assert result(server, handle).status_code == 200
    assert metric(server, "acre_kept_files_bytes") < 100_000


def test_a_document_has_its_time(serve):
    server = serve(threads=1, file_lifetime_s=2)
    handle = upload(server, data=f"{SENTENCE}\n" * 5000).json()
    assert ask(server, handle).json()["status"] == "translating"
    assert eventually(lambda: ask(server, handle).status_code == 404, 10 * PATIENCE)
    assert eventually(lambda: metric(server, "acre_queued_tokens") == 0, 10 * PATIENCE)
    assert metric(server, "acre_kept_files") == 0
    assert result(server, upload(server).json()).status_code == 200


def test_documents_end_with_the_server(serve):
    server = serve(threads=1, drain_timeout_s=5)
    upload(server, data=f"{SENTENCE}\n" * 5000)
    begin = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begin < 5 * PATIENCE


def test_a_document_outlives_a_reload_of_its_model(serve, models, tmp_path):
    """Also where another is in its model's place by then: it ends as it began."""
    folder = shutil.copytree(models, tmp_path / "models")
    server = serve(folder, threads=1)
    first = server.translate().json()["translatedText"]
    handle = upload(server, data=f"{SENTENCE}\n" * 2000).json()
    put(folder, "en-de-token", "tiny-area")
    server.signal(signal.SIGHUP)
    assert eventually(lambda: RELOADED.search("".join(server.log)))
    assert ask(server, handle).json()["status"] == "translating"
    assert server.translate().json()["translatedText"] != first
    assert result(server, handle).text == f"{first}\n" * 2000


@pytest.fixture(scope="module")
def shipped():
    server = Server(ROOT / "models")
    yield server
    assert server.stop() == 0, "".join(server.log)


def test_a_document_is_the_translation_of_its_text(shipped):
    """Of a few pages, the same bits as in parts."""
    lines = [f"The {animal} {verb} in the green house." for animal in ("dog", "cat", "horse")
             for verb in ("sleeps", "eats", "works")]
    text = "\n".join(lines * 3)
    parts = shipped.translate(lines).json()["translatedText"]
    assert result(shipped, upload(shipped, data=text).json()).content.decode() == \
        "\n".join(parts * 3)
