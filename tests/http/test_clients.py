"""Clients of other servers, unchanged, and the requests that those send which are no packages of
Python. What each checks of a reply is in its own code; here it is that it is content.

test_deepl.py and test_documents.py have DeepL's own client. deepl 1.32 has no asynchronous one.
"""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError

import deepl
import pytest
import requests
from acre_server import ACRE, SENTENCE, read_more, read_reply
from deep_translator import LibreTranslator
from deep_translator.exceptions import ServerException
from libretranslatepy import LibreTranslateAPI

PAIR = {"source": "en", "target": "de"}


@pytest.fixture(scope="module")
def expected(models):
    """The translation of SENTENCE as `acre translate` gives it."""
    command = [ACRE, "translate", "--model", str(models / "en-de-token")]
    output = subprocess.run(command, input=SENTENCE, capture_output=True, text=True, check=True)
    return output.stdout.rstrip("\n")


# ---- libretranslatepy ----------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "", "any-key"])
def test_libretranslatepy(server, expected, key):
    client = LibreTranslateAPI(server.url, key)
    assert client.translate(SENTENCE, "en", "de") == expected
    assert client.translate(SENTENCE, "auto", "de", timeout=30) == expected
    assert client.detect(SENTENCE)[0]["language"] == "en"
    by_code = {each["code"]: each["targets"] for each in client.languages()}
    assert by_code == {"en": ["de", "fr"], "de": [], "fr": []}


def test_libretranslatepy_sees_errors(server):
    client = LibreTranslateAPI(server.url + "/")
    with pytest.raises(HTTPError) as caught:
        client.translate(SENTENCE, "en", "zz")
    assert caught.value.code == 400
    assert json.load(caught.value)["error"] == "zz is not supported"


# ---- deep-translator -----------------------------------------------------------------------------


def deep_translator(server, **kwargs):
    return LibreTranslator(api_key="any-key", custom_url=server.url + "/", **{**PAIR, **kwargs})


def test_deep_translator(server, expected, tmp_path):
    client = deep_translator(server)
    assert client.translate(SENTENCE) == expected
    assert client.translate_batch([SENTENCE, "100 % & more?"])[0] == expected
    (tmp_path / "a.txt").write_text(SENTENCE)
    assert client.translate_file(str(tmp_path / "a.txt")) == expected
    by_name = deep_translator(server, source="English", target="German")
    assert by_name.translate(SENTENCE) == expected


def test_deep_translator_sees_errors(server):
    with pytest.raises(ServerException):
        deep_translator(server, target="es").translate(SENTENCE)


# ---- DeepL's client, what test_deepl.py leaves out -----------------------------------------------


def test_deepl_client_of_old_with_its_name(server, expected):
    client = deepl.Translator("any-key", server_url=server.url)
    client.set_app_info("a-program", "1.0")
    assert client.translate_text(SENTENCE, source_lang="EN", target_lang="DE").text == expected
    assert client.server_url == server.url
    client.close()


def test_deepl_clients_of_many_threads(server, expected):
    def translate(_):
        client = deepl.DeepLClient("any-key", server_url=server.url)
        return client.translate_text([SENTENCE] * 3, source_lang="EN", target_lang="DE")
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(translate, range(16)))
    assert {each.text for texts in results for each in texts} == {expected}


def test_deepl_client_sees_what_is_not_served(server):
    client = deepl.DeepLClient("any-key", server_url=server.url)
    with pytest.raises(deepl.DeepLException) as caught:
        client.rephrase_text("Hello.", target_lang="DE")
    assert caught.value.http_status_code == 404 and not caught.value.should_retry


# ---- Requests of programs in other languages -----------------------------------------------------


def test_weblate(server, expected):
    """LibreTranslate's machinery of Weblate: a list of one, or of many, and a list back."""
    assert {"en", "de", "fr"} == {each["code"] for each in server.get("/languages").json()}
    reply = server.post("/translate", json={"q": [SENTENCE, "Hello."], **PAIR, "api_key": ""},
                        headers={"User-Agent": "Weblate/5.8"})
    assert reply.json()["translatedText"][0] == expected
    assert len(reply.json()["translatedText"]) == 2
    reply = server.post("/translate", json={"q": SENTENCE, "api_key": "k", **PAIR})
    assert reply.json()["translatedText"] == expected


def test_mastodon(server):
    """A status and what belongs to it, in HTML, as a list."""
    languages = server.get("/languages").json()
    assert all({"code", "targets"} <= set(each) for each in languages)
    link = '<a href="https://a.example/@b" class="u-url mention">'
    status = f"<p>Hello {link}@b</a>, how are you?</p>"
    for source in ("en", "auto"):
        reply = server.post("/translate", json={"q": [status, "Hello"], "source": source,
                                                "target": "de", "format": "html", "api_key": None})
        assert reply.status_code == 200, reply.text
        body = reply.json()
        assert len(body["translatedText"]) == 2
        assert body["translatedText"][0].count(link) == 1
        assert body["translatedText"][0].endswith("</p>")
        if source == "auto":
            assert [each["language"] for each in body["detectedLanguage"]] == ["en", "en"]


def test_discourse(server):
    """Forms, and a status of exactly 200."""
    found = server.post("/detect", data={"q": SENTENCE, "api_key": ""})
    assert (found.status_code, found.json()[0]["language"]) == (200, "en")
    reply = server.post("/translate", data={"q": "<p>Hello.</p>", "source": "en", "target": "de",
                                            "format": "html", "api_key": ""})
    assert reply.status_code == 200 and reply.json()["translatedText"].startswith("<p>")


def test_javascript(server, expected):
    """libretranslate-ts and translate: null keys, a format where there is none."""
    fetched = {"Accept": "*/*", "Accept-Language": "*", "Sec-Fetch-Mode": "cors",
               "User-Agent": "node", "Accept-Encoding": "gzip, deflate"}
    reply = server.post("/translate", headers=fetched, json={
        "q": SENTENCE, **PAIR, "format": "text", "api_key": None})
    assert reply.json()["translatedText"] == expected
    assert server.post("/detect", headers=fetched, json={
        "q": SENTENCE, "format": "text", "api_key": None}).json()[0]["language"] == "en"
    refused = server.post("/translate", headers=fetched, json={
        "q": SENTENCE, "source": "en", "target": "zz", "api_key": None})
    assert refused.json()["error"] == "zz is not supported"


def test_deepl_node(server, expected):
    """As it was captured: a form with codes in lower case."""
    body = ("target_lang=de&source_lang=en&formality=prefer_more&show_billed_characters=1&text=a"
            f"&text={SENTENCE.replace(' ', '+')}&split_sentences=nonewlines&preserve_formatting=1"
            "&model_type=quality_optimized")
    reply = server.post("/v2/translate", data=body, headers={
        "Content-Type": "application/x-www-form-urlencoded;charset=utf-8",
        "Authorization": "DeepL-Auth-Key k", "Accept-Encoding": "gzip, compress, deflate, br"})
    translations = reply.json()["translations"]
    assert [each["billed_characters"] for each in translations] == [1, len(SENTENCE)]
    assert translations[1]["text"] == expected
    assert {each["detected_source_language"] for each in translations} == {"EN"}


def test_libretranslate_s_own_health_check(server):
    """A GET with JSON in it."""
    assert server.get("/health", json={}).json() == {"status": "ok"}


def test_libretranslate_s_page_posts_form_data(server, expected):
    fields = {"q": SENTENCE, **PAIR, "format": "text", "alternatives": "3", "api_key": ""}
    reply = server.post("/translate", files={key: (None, value) for key, value in fields.items()})
    assert reply.json()["translatedText"] == expected
    assert len(reply.json()["alternatives"]) == 3


# ---- curl ----------------------------------------------------------------------------------------


def curl(server, *arguments, path="/translate", status="200"):
    done = subprocess.run(["curl", "-sS", "-w", "\n%{http_code}", *arguments, server.url + path],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    body, _, code = done.stdout.rpartition("\n")
    assert code == status, done.stdout
    return json.loads(body)


FORM = [f"{key}={value}" for key, value in {"q": SENTENCE, **PAIR}.items()]
JSON = json.dumps({"q": SENTENCE, **PAIR})
TYPE = "Content-Type: application/json"


def each(option, values):
    return [argument for value in values for argument in (option, value)]


@pytest.mark.parametrize("arguments", [
    each("-d", FORM),
    each("--data-urlencode", FORM),
    each("-F", FORM),
    each("--form-string", FORM),
    ["-G", "-X", "POST", *each("--data-urlencode", FORM)],
    ["-H", TYPE, "-d", JSON],
    ["--json", JSON],
    ["-H", TYPE, "--data-binary", JSON],
    ["-H", TYPE, "-H", "Transfer-Encoding: chunked", "-d", JSON],
    ["-H", "Transfer-Encoding: chunked", *each("-F", FORM)],
    ["-H", TYPE, "-H", "Expect: 100-continue", "-d", JSON],
    ["-H", "Expect: 100-continue", "-H", "Transfer-Encoding: chunked", "-H", TYPE, "-d", JSON],
    ["--http1.0", "-H", TYPE, "-d", JSON],
    ["--http1.0", *each("-F", FORM)],
    ["--http2", "-H", TYPE, "-d", JSON],
    ["--http2", *each("--data-urlencode", FORM)],
    ["--compressed", "--tcp-nodelay", "-H", TYPE, "-d", JSON],
    ["-u", "name:password", "-b", "a=b", "-e", "http://a/", "-A", "", "-H", TYPE, "-d", JSON],
    ["-H", "Connection: close", "-H", TYPE, "-d", JSON],
    ["--request-target", "/translate?format=text", "-H", TYPE, "-d", JSON],
    ["-r", "0-3", "-H", TYPE, "-d", JSON],
])
def test_curl(server, expected, arguments):
    assert curl(server, *arguments) == {"translatedText": expected}


def test_curl_without_a_type_is_a_form_without_q(server):
    """As LibreTranslate answers -d '{...}'."""
    assert curl(server, "-d", JSON, status="400")["error"] == \
        "Invalid request: missing q parameter"


def test_curl_on_every_method(server):
    for method in ("GET", "DELETE", "PUT", "PATCH", "OPTIONS"):
        command = ["curl", "-sS", "-X", method, "-H", TYPE, "-d", JSON, "-w", "\n%{http_code}\n",
                   server.url + "/languages", server.url + "/translate"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert [line for line in done.stdout.split("\n") if line.isdigit()] == \
            {"GET": ["200", "405"], "OPTIONS": ["200", "200"]}.get(method, ["405", "405"]), method


def test_curl_uploads_and_downloads(server, tmp_path, expected):
    (tmp_path / "a.txt").write_text(SENTENCE)
    reply = curl(server, "-F", f"file=@{tmp_path}/a.txt;type=text/plain", *each("-F", FORM[1:]),
                 path="/translate_file")
    subprocess.run(["curl", "-sSf", "-OJ", reply["translatedFileUrl"]], cwd=tmp_path, check=True,
                   timeout=60)
    assert (tmp_path / "a_de.txt").read_text() == expected
    curl(server, "-T", str(tmp_path / "a.txt"), status="405")


def test_curl_in_http_2_at_once_is_told_so(server):
    done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", server.url + "/health"],
                          capture_output=True, check=False, timeout=60)
    assert done.returncode != 0
    assert server.is_alive()


def test_an_upgrade_is_ignored(server):
    """To HTTP/2, or to anything: the reply is HTTP/1.1, and the connection goes on."""
    with server.connect() as connection:
        for what in ("h2c", "websocket", "TLS/1.0, HTTP/1.1"):
            connection.sendall((
                "POST /translate HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                f"Upgrade: {what}\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n{TYPE}\r\n"
                f"Content-Length: {len(JSON)}\r\n\r\n{JSON}").encode())
            status, headers, body = read_reply(connection)
            assert status == 200 and b"translatedText" in body
            assert "upgrade" not in headers


# ---- Bodies where nobody reads them --------------------------------------------------------------


def get_routes(server):
    """{path: whether it needs parameters}"""
    paths = server.get("/openapi.json").json()["paths"]
    return {path: any(each.get("required") for each in methods["get"].get("parameters", []))
            for path, methods in paths.items() if "get" in methods and "{" not in path}


@pytest.mark.parametrize("kind, body", [
    ("application/x-www-form-urlencoded", "type=target"),
    ("application/x-www-form-urlencoded", "api_key=k"),
    ("application/json", "{}"), ("application/json", ""), ("text/plain", "{}"),
])
def test_every_get_takes_a_body(server, kind, body):
    """And its connection goes on: what follows is read as the next request."""
    paths = get_routes(server)
    assert len(paths) > 15
    headers = f"Host: a\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}"
    with server.connect() as connection:
        for path, needs in paths.items():
            for method in ("GET", "HEAD"):
                connection.sendall(f"{method} {path} HTTP/1.1\r\n{headers}\r\n\r\n{body}".encode())
                if method == "GET":
                    status, got, _ = read_reply(connection)
                else:
                    status, got = read_head(connection)
                assert status == (400 if needs else 200), (path, status)
                assert got.get("connection", "") != "close", path


def read_head(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        data += read_more(connection, 1)
    lines = data.decode().split("\r\n")
    return int(lines[0].split()[1]), {k.lower(): v.strip() for k, v in
                                      (line.split(":", 1) for line in lines[1:] if line)}


def test_type_in_the_body_of_a_get(server):
    """As DeepL's client for Python asks for target languages."""
    reply = requests.get(server.url + "/v2/languages", data={"type": "target"}, timeout=10)
    assert [each["language"] for each in reply.json()] == ["DE", "FR"]
