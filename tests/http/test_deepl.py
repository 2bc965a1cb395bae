"""DeepL's API, as its official Python client and its command line use it, unchanged."""

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import deepl
import pytest
from acre_server import ACRE, SENTENCE, Server, eventually
from deepl import http_client

ENGLISH = {"source_lang": "EN", "target_lang": "DE"}


def metric(server, start):
    lines = [x for x in server.get("/metrics").text.splitlines() if x.startswith(start)]
    return float(lines[0].split()[-1])


@pytest.fixture
def client(server):
    with_key = deepl.DeepLClient("any-key", server_url=server.url)
    yield with_key
    with_key.close()


@pytest.fixture(scope="module")
def expected(models):
    """The translation of SENTENCE as `acre translate` gives it."""
    command = [ACRE, "translate", "--model", str(models / "en-de-token")]
    output = subprocess.run(command, input=SENTENCE, capture_output=True, text=True, check=True)
    return output.stdout.rstrip("\n")


# ---- The client ----------------------------------------------------------------------------------


def test_client_translates_one_text(client, expected):
    result = client.translate_text(SENTENCE, **ENGLISH)
    assert result.text == expected
    assert result.detected_source_lang == "EN"
    assert result.billed_characters == len(SENTENCE)
    assert result.model_type_used is None


def test_client_translates_several_in_order(client, expected):
    texts = ["Hello.", SENTENCE, " ", "Grüße 🙂", ""]
    results = client.translate_text(texts, **ENGLISH)
    assert [r.billed_characters for r in results] == [len(text) for text in texts]
    assert results[1].text == expected
    assert results[2].text == " " and results[4].text == ""
    assert results[0].text == client.translate_text("Hello.", **ENGLISH).text


@pytest.mark.parametrize("kwargs", [
    {"source_lang": "en", "target_lang": "de"},
    {"context": "A letter to a friend."},
    {"preserve_formatting": True},
    {"preserve_formatting": False},
    {"formality": "default"},
    {"formality": deepl.Formality.PREFER_LESS},
    {"formality": deepl.Formality.PREFER_MORE},
    {"split_sentences": deepl.SplitSentences.ALL},
    {"split_sentences": deepl.SplitSentences.OFF},
    {"split_sentences": deepl.SplitSentences.NO_NEWLINES},
    {"outline_detection": False},
    {"extra_body_parameters": {"enable_beta_languages": True, "no_such_field": [1]}},
])
def test_client_options_that_change_nothing_here(client, expected, kwargs):
    assert client.translate_text(SENTENCE, **{**ENGLISH, **kwargs}).text == expected


@pytest.mark.parametrize("asked, used", [
    ("quality_optimized", "quality_optimized"),
    ("prefer_quality_optimized", "quality_optimized"),
    ("latency_optimized", "latency_optimized"),
])
def test_client_model_types(client, asked, used):
    assert client.translate_text(SENTENCE, model_type=asked, **ENGLISH).model_type_used == used


@pytest.mark.parametrize("kwargs, message", [
    ({"target_lang": "XX"}, "target_lang.*not supported"),
    ({"target_lang": "X" * 100}, "target_lang.*not supported"),
    ({"target_lang": "EN-US"}, "target_lang.*not supported"),
    ({"target_lang": "DE-AT"}, "target_lang.*not supported"),
    ({"source_lang": "XX"}, "source_lang.*not supported"),
    ({"source_lang": "DE"}, "target_lang.*not supported"),
    ({"split_sentences": "2"}, "split_sentences.*not supported"),
    ({"split_sentences": "0 1"}, "split_sentences.*not supported"),
    ({"formality": "invalid"}, "formality.*not supported"),
    ({"formality": "more"}, "Target language.*formality"),
    ({"formality": "less"}, "Target language.*formality"),
    ({"tag_handling": "invalid"}, "tag_handling.*not supported"),
    ({"tag_handling": "xml", "splitting_tags": ["p"]}, "splitting_tags.*not supported"),
    ({"tag_handling_version": "v3"}, "tag_handling_version.*not supported"),
    ({"model_type": "invalid"}, "model_type.*not supported"),
    ({"style_rule": "a-style"}, "style_id.*not supported"),
    ({"translation_memory": "a-memory"}, "translation_memory_id.*not supported"),
    ({"custom_instructions": ["Be brief."]}, "custom_instructions.*not supported"),
])
def test_client_sees_what_is_refused(client, kwargs, message):
    with pytest.raises(deepl.DeepLException, match=message) as caught:
        client.translate_text(SENTENCE, **{**ENGLISH, **kwargs})
    assert caught.value.http_status_code == 400
    assert not caught.value.should_retry


def test_client_lets_the_server_find_the_language(client):
    found = client.translate_text("Where is the train station, please? I am looking for it.",
                                  target_lang="DE")
    assert found.detected_source_lang == "EN"
    german = "Wo ist denn bitte der Bahnhof? Ich suche ihn schon lange."
    kept = client.translate_text(german, target_lang="DE")
    assert (kept.text, kept.detected_source_lang) == (german, "DE")
    with pytest.raises(deepl.DeepLException) as caught:
        client.translate_text(german, target_lang="FR")
    assert caught.value.http_status_code == 400


def test_client_translates_markup(client):
    """Tags come out as they went in, and what is ignored word by word."""
    html = '<p>Where is <b class="x">my train</b>?</p>\n<ul><li>Hello.</li></ul>'
    result = client.translate_text(html, tag_handling="html", **ENGLISH)
    assert sorted(re.findall("<[^>]*>", result.text)) == sorted(re.findall("<[^>]*>", html))
    assert result.billed_characters == len(html)
    xml = "<doc>Where is <Keep>my train</Keep>? <x/>Hello.</doc>"
    for ignore_tags in (["Keep", "other"], "Keep,other"):
        result = client.translate_text(xml, tag_handling="xml", ignore_tags=ignore_tags,
                                       tag_handling_version="v2", non_splitting_tags="Keep",
                                       outline_detection=False, **ENGLISH)
        assert "<Keep>my train</Keep>" in result.text and result.text.startswith("<doc>")
    assert "<Keep>my train</Keep>" not in \
        client.translate_text(xml, tag_handling="xml", **ENGLISH).text


def test_xml_stays_well_formed(server):
    doctype = '<!DOCTYPE n [\n<!ENTITY co "Acme">\n]>\n'
    xml = f"{doctype}<n><p>A&#160;dog.</p><p>&#160;</p></n>"
    reply = server.post("/v2/translate", json={"text": [xml], "tag_handling": "xml", **ENGLISH})
    text = reply.json()["translations"][0]["text"]
    found = ElementTree.fromstring(text)
    assert text.startswith(doctype)
    assert [p.tag for p in found] == ["p", "p"] and found[1].text == "\u00a0"


def test_many_long_names_are_ignored(server):
    names = [f"{'n' * 61}{i:03}" for i in range(100)]
    xml = f"<{names[99]}>my train</{names[99]}> is here."
    reply = server.post("/v2/translate", json={"text": [xml], "tag_handling": "xml", **ENGLISH,
                                               "ignore_tags": names})
    assert f"<{names[99]}>my train</{names[99]}>" in reply.json()["translations"][0]["text"]


def test_weblate_and_node_send_markup(server):
    xml = "Where is <Keep>my train</Keep>?"
    node = server.post("/v2/translate", data={"text": xml, "tag_handling": "xml", **ENGLISH,
                                              "ignore_tags": "x,Keep"})
    weblate = server.post("/v2/translate", json={"text": [xml], "tag_handling": "xml", **ENGLISH,
                                                 "ignore_tags": ["Keep", "x"]})
    for reply in (node, weblate):
        translation = reply.json()["translations"][0]
        assert "<Keep>my train</Keep>" in translation["text"]
        assert translation["tag_handling_version"] == "v2"


def test_client_lists_languages(client):
    sources = {language.code: language for language in client.get_source_languages()}
    targets = {language.code: language for language in client.get_target_languages()}
    assert {code: sources[code].name for code in sources} == {"EN": "English"}
    assert sources["EN"].supports_formality is None
    assert {code: targets[code].name for code in targets} == {"DE": "German", "FR": "French"}
    assert targets["DE"].supports_formality is False


def test_client_sees_usage_grow(client):
    before = client.get_usage()
    assert before.character.valid and not before.any_limit_reached
    client.translate_text(["Hello.", "Grüße"], **ENGLISH)
    assert client.get_usage().character.count == before.character.count + 11
    with pytest.raises(deepl.DeepLException):
        client.translate_text("Hello.", source_lang="EN", target_lang="XX")
    assert client.get_usage().character.count == before.character.count + 11


def test_client_retries_what_was_too_much(serve, monkeypatch):
    """A full queue is 429, which the client tries again until there is room."""
    monkeypatch.setattr(http_client._BackoffTimer, "BACKOFF_INITIAL", 0.3)
    server = serve(max_queued_tokens=100, threads=1)
    client = deepl.DeepLClient("any-key", server_url=server.url)
    body = json.dumps({"q": f"{SENTENCE} " * 2000, "source": "en", "target": "de"})
    with server.connect() as other, ThreadPoolExecutor() as pool:
        other.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n%s" % (len(body), body.encode()))
        assert eventually(lambda: metric(server, "acre_queued_tokens ") > 1000)
        result = pool.submit(client.translate_text, SENTENCE, **ENGLISH)
        assert eventually(lambda: 'route="/v2/translate",method="POST",dialect="deepl",status="429"'
                          in server.get("/metrics").text)
        other.close()
        assert result.result().text
    monkeypatch.setattr(http_client, "max_network_retries", 1)
    with pytest.raises(deepl.DeepLException) as caught:
        client.translate_text([SENTENCE] * 200, **ENGLISH)
    assert caught.value.http_status_code == 413


def test_client_sees_a_server_that_stops(serve, monkeypatch):
    monkeypatch.setattr(http_client, "max_network_retries", 1)
    monkeypatch.setattr(http_client._BackoffTimer, "BACKOFF_INITIAL", 0.05)
    server = serve()
    client = deepl.DeepLClient("any-key", server_url=server.url)
    assert client.translate_text("Hello.", **ENGLISH).text
    assert server.stop() == 0
    with pytest.raises(deepl.ConnectionException):
        client.translate_text("Hello.", **ENGLISH)


# ---- Its command line ----------------------------------------------------------------------------


def run_cli(server, *arguments):
    environment = {**os.environ, "DEEPL_AUTH_KEY": "any-key", "DEEPL_SERVER_URL": server.url}
    return subprocess.run([sys.executable, "-m", "deepl", *arguments], env=environment,
                          capture_output=True, text=True, check=False, timeout=120)


def test_command_line(server, expected):
    text = run_cli(server, "text", "--to", "DE", "--from", "EN", "--show-detected-source", SENTENCE)
    assert text.returncode == 0, text.stderr
    assert text.stdout == f"Detected source language: EN\n{expected}\n"
    languages = run_cli(server, "languages")
    assert "DE: German\n" in languages.stdout
    usage = run_cli(server, "usage")
    assert "Characters: " in usage.stdout
    wrong = run_cli(server, "text", "--to", "XX", "--from", "EN", SENTENCE)
    assert wrong.returncode != 0 and "not supported" in wrong.stderr


# ---- Other shapes of the call --------------------------------------------------------------------


@pytest.mark.parametrize("kwargs", [
    {"json": {"text": ["Hello.", SENTENCE], "source_lang": "en", "target_lang": "de"}},
    {"data": [("text", "Hello."), ("text", SENTENCE), ("source_lang", "en"),
              ("target_lang", "de"), ("auth_key", "k"), ("show_billed_characters", "1")]},
    {"params": [("text", "Hello."), ("text", SENTENCE), *ENGLISH.items()]},
    {"params": [("text", "Hello.")], "data": [("text", SENTENCE), *ENGLISH.items()]},
    {"files": [("text", (None, "Hello.")), ("text", (None, SENTENCE)),
               *((key, (None, value)) for key, value in ENGLISH.items())]},
])
def test_same_however_it_is_sent(server, expected, kwargs):
    reply = server.post("/v2/translate", headers={"Authorization": "DeepL-Auth-Key k"}, **kwargs)
    assert reply.status_code == 200, reply.text
    assert list(reply.json()) == ["translations"]
    assert [t["text"] for t in reply.json()["translations"]][1] == expected
    assert [t["billed_characters"] for t in reply.json()["translations"]] == [6, len(SENTENCE)]


def test_get(server, expected):
    reply = server.get("/v2/translate", params={"text": SENTENCE, **ENGLISH})
    assert reply.json()["translations"][0]["text"] == expected


def test_a_body_where_there_is_none_by_the_method_hides_no_query(server, expected):
    """As clients send that put a JSON body on everything."""
    for path, params in (("/v2/languages", {"type": "target"}),
                         ("/v3/languages", {"resource": "translate_text"}),
                         ("/v2/translate", {"text": SENTENCE, **ENGLISH})):
        replies = [server.get(path, params=params, **kwargs) for kwargs in ({}, {"json": {}})]
        assert [reply.status_code for reply in replies] == [200, 200]
        assert replies[0].text == replies[1].text
    reply = server.get("/v2/translate", json={"text": [SENTENCE], **ENGLISH})
    assert reply.json()["translations"][0]["text"] == expected


def test_line_ends_are_kept_and_counted_however_they_are_sent(server):
    text = "Hello.\r\nHow are you?"
    fields = {"text": text, **ENGLISH}
    replies = [server.post("/v2/translate", **kwargs) for kwargs in (
        {"json": {**fields, "text": [text]}}, {"data": fields},
        {"files": {key: (None, value) for key, value in fields.items()}})]
    assert [reply.text for reply in replies] == [replies[0].text] * 3
    translation = replies[0].json()["translations"][0]
    assert translation["billed_characters"] == len(text) and "\r\n" in translation["text"]


def test_as_many_texts_in_a_form_as_in_json(server):
    texts = ["!" * (i % 50) + "?" for i in range(300)]  # which stay as they are
    form = [("text", text) for text in texts] + list(ENGLISH.items())
    reply = server.post("/v2/translate", data=form)
    assert [t["text"] for t in reply.json()["translations"]] == texts
    reply = server.post("/v2/translate", data=[("text", "x")] * 2000 + list(ENGLISH.items()))
    assert reply.status_code == 400 and reply.json()["code"] == "bad_form"


def test_weblate(server):
    """It neither asks for billed characters nor minds them."""
    reply = server.post("/v2/translate", json={"text": ["Hello."], "source_lang": "EN",
                                               "target_lang": "DE", "formality": "default"})
    translation = reply.json()["translations"][0]
    assert translation["detected_source_language"] == "EN" and translation["text"]


def test_billed_characters_may_be_left_out(server):
    reply = server.post("/v2/translate", json={"text": ["a"], "show_billed_characters": False,
                                               **ENGLISH})
    assert sorted(reply.json()["translations"][0]) == ["detected_source_language", "text"]


@pytest.mark.parametrize("body, message", [
    ({}, "Parameter 'text' not specified"),
    ({"text": []}, "Parameter 'text' not specified"),
    ({"text": ["a"]}, "Parameter 'target_lang' not specified"),
    ({"text": [1], **ENGLISH}, r"Value for 'text[0]' not supported: expected a string, found 1"),
    ({"text": {"a": 1}, **ENGLISH}, "Value for 'text' not supported"),
    ({"text": ["a"], **ENGLISH, "tag_handling": "xml", "ignore_tags": [1]},
     "Value for 'ignore_tags' not supported"),
    ({"text": ["a"], **ENGLISH, "tag_handling": "xml", "ignore_tags": {"a": 1}},
     "Value for 'ignore_tags' not supported"),
    ({"text": ["a"], **ENGLISH, "tag_handling": "xml", "ignore_tags": ["a"] * 101},
     "Value for 'ignore_tags' not supported"),
    ({"text": ["a"], **ENGLISH, "tag_handling": "xml", "ignore_tags": ["a", "b" * 65]},
     "Value for 'ignore_tags' not supported: expected names of at most 64 bytes"),
    ({"text": ["a"], **ENGLISH, "tag_handling": "xml", "ignore_tags": "a," + "b" * 65},
     "Value for 'ignore_tags' not supported: expected names of at most 64 bytes"),
    ({"text": ["a"], **ENGLISH, "target_lang": 5}, "Value for 'target_lang' not supported"),
])
def test_errors_are_strings_under_message(server, body, message):
    reply = server.post("/v2/translate", json=body)
    assert reply.status_code == 400
    assert reply.json()["message"].startswith(message), reply.text


def test_a_text_that_is_too_long_is_413(serve):
    server = serve(max_text_chars=10)
    reply = server.post("/v2/translate", json={"text": ["a" * 11], **ENGLISH})
    assert reply.status_code == 413 and isinstance(reply.json()["message"], str)


def test_line_ends_as_the_client_says(server):
    def translate(split):
        return server.post("/v2/translate", json={"text": ["Hello my\nfriend. How are\nyou?"],
                                                  "split_sentences": split, **ENGLISH}
                           ).json()["translations"][0]["text"]
    assert translate("1").count("\n") == 2
    assert translate("nonewlines").count("\n") == 0
    assert len({translate(split) for split in ("0", "1", "nonewlines")}) == 3


def test_line_ends_in_markup(server):
    """Strings of Weblate come as XML: what they say in lines must come back in lines."""
    def translate(**options):
        return server.post("/v2/translate", json={
            "text": ["Save it. Go on.\n\nThen <x/>close the window.\n- Item one\n"], **options,
            **ENGLISH}).json()["translations"][0]["text"]
    for options in ({}, {"split_sentences": "1"}):
        lines = translate(tag_handling="xml", **options).split("\n")
        assert len(lines) == 5 and [bool(line) for line in lines] == [1, 0, 1, 1, 0]
    joined = translate(tag_handling="xml", split_sentences="nonewlines")
    assert joined.count("\n") == 1 and joined.endswith("\n")
    assert translate(tag_handling="xml", split_sentences="0") != joined
    assert translate(tag_handling="html").count("\n") == 1


def test_languages_over_http(server):
    for reply in (server.get("/v2/languages"), server.get("/v2/languages?type=source"),
                  server.post("/v2/languages", data={"type": "source"})):
        assert reply.json() == [{"language": "EN", "name": "English"}]
    wrong = server.get("/v2/languages?type=both")
    assert wrong.status_code == 400
    assert wrong.json()["message"] == \
        "Parameter 'type' is invalid. 'source' and 'target' are valid values."
    many = server.get("/v2/languages", data="x" * 5000)
    assert many.status_code == 413


def test_languages_version_3(server):
    found = {each["lang"]: each for each in server.get(
        "/v3/languages?resource=translate_text").json()}
    assert sorted(found) == ["de", "en", "fr"]
    assert found["en"] == {"lang": "en", "name": "English", "status": "stable",
                           "features": {"tag_handling": {"status": "stable"},
                                        "glossary": {"status": "stable"},
                                        "auto_detection": {"status": "stable"}},
                           "usable_as_source": True, "usable_as_target": False}
    assert found["de"]["usable_as_target"] and not found["de"]["usable_as_source"]
    without = server.get("/v3/languages?product=translate_text")
    assert without.status_code == 400
    assert "renamed to 'resource'" in without.json()["message"]
    documents = server.get("/v3/languages?resource=translate_document").json()
    assert [each["lang"] for each in documents] == list(found)
    assert documents[0]["features"] == {"auto_detection": {"status": "stable"},
                                        "glossary": {"status": "stable"}}
    assert set(documents[1]["features"]) == {"glossary"}
    resources = {each["name"]: each["features"]
                 for each in server.get("/v3/languages/resources").json()}
    assert {"name": "tag_handling", "needs_source_support": True,
            "needs_target_support": True} in resources["translate_text"]
    assert set(resources) >= {"translate_text", "translate_document"}
    terms = server.get("/v3/languages?resource=glossary").json()
    assert [each["lang"] for each in terms] == list(found)
    assert server.get("/v3/languages?resource=voice").status_code == 400


def test_variants_stand_for_their_language(models, tmp_path):
    folder = shutil.copytree(models / "en-de-token", tmp_path / "models/de-en-token")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config |= {"source_lang": "de", "target_lang": "en"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    server = Server(tmp_path / "models")
    try:
        targets = server.get("/v2/languages?type=target").json()
        assert [t["language"] for t in targets] == ["EN-GB", "EN-US"]
        client = deepl.DeepLClient("k", server_url=server.url)
        for target in ("EN-US", "EN-GB", "en-us"):
            assert client.translate_text("Hallo.", source_lang="DE", target_lang=target).text
        assert server.post("/v2/translate", json={
            "text": ["Hallo."], "source_lang": "DE", "target_lang": "EN"}).status_code == 200
        v3 = server.get("/v3/languages?resource=translate_text").json()
        assert [each["lang"] for each in v3] == ["de", "en", "en-GB", "en-US"]
        assert [each["usable_as_target"] for each in v3] == [False, True, True, True]
    finally:
        assert server.stop() == 0
