"""What LibreTranslate answers beside translating, and the detection of languages."""

import json
import shutil

import pytest
from acre_server import ROOT, SENTENCE, Server, eventually

PAIR = {"source": "auto", "target": "de"}


def ways(fields):
    """One call in every form that clients send it in."""
    return [
        {"json": fields},
        {"data": fields},
        {"params": fields},
        {"files": {key: (None, value) for key, value in fields.items()}},
    ]


@pytest.mark.parametrize("q, least, most", [
    (SENTENCE, 80, 100),
    ("Good morning", 80, 100),
    ("Hello", 20, 50),  # a word tells little
    ("🙂 🙂", 0, 0),
    ("12 %", 0, 0),
])
def test_auto_tells_what_it_found(server, q, least, most):
    reply = server.translate(q, **PAIR)
    assert reply.status_code == 200, reply.text
    found = reply.json()["detectedLanguage"]
    assert found["language"] == "en"
    assert least <= found["confidence"] <= most
    assert f'"confidence":{found["confidence"]},' in reply.text  # an integer literal
    assert reply.json()["translatedText"] == server.translate(q).json()["translatedText"]


def test_auto_of_an_array_gives_an_array(server):
    reply = server.translate([SENTENCE, "Yes."], **PAIR).json()
    assert [found["language"] for found in reply["detectedLanguage"]] == ["en", "en"]
    assert len(reply["translatedText"]) == 2


def test_no_detection_without_auto(server):
    assert "detectedLanguage" not in server.translate().json()


@pytest.mark.parametrize("q, code, words", [
    ("Bonjour, comment allez-vous aujourd'hui ?", "language_not_supported", "French (fr)"),
    ("Здравствуйте, как у вас дела?", "language_not_supported", "Russian (ru)"),
    ("漢", "language_not_detected", "cannot be told"),
])
def test_auto_does_not_guess(server, q, code, words):
    reply = server.translate(q, **PAIR)
    assert reply.status_code == 400, reply.text
    assert reply.json()["code"] == code
    assert words in reply.json()["error"]
    assert "(en)" in reply.json()["error"]


GERMAN = "Guten Morgen, wie geht es Ihnen heute Abend?"
FRENCH = "Bonjour, comment allez-vous aujourd'hui ?"


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """From English and from French to German, by different models."""
    folder = tmp_path_factory.mktemp("two")
    for name, golden, source in (("en-de", "tiny-token", "en"), ("fr-de", "tiny-char", "fr")):
        shutil.copytree(ROOT / "tests/golden/models" / golden, folder / name)
        path = folder / name / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) |
                                   {"source_lang": source, "target_lang": "de"}))
    server = Server(folder)
    yield server
    assert server.stop() == 0, "".join(server.log)


def test_each_text_is_translated_from_its_own_language(two):
    texts = [SENTENCE, FRENCH, "Yes.", GERMAN, SENTENCE]
    sources = ["en", "fr", "en", None, "en"]
    expected = [two.translate(text, source=source, target="de").json()["translatedText"]
                if source else text for text, source in zip(texts, sources)]
    reply = two.translate(texts, **PAIR)
    assert reply.status_code == 200, reply.text
    found = reply.json()["detectedLanguage"]
    assert [each["language"] for each in found] == ["en", "fr", "en", "de", "en"]
    assert min(found[i]["confidence"] for i in (0, 1, 3, 4)) > 80
    assert reply.json()["translatedText"] == expected
    deepl = two.post("/v2/translate", json={"text": texts, "target_lang": "DE"}).json()
    assert [each["text"] for each in deepl["translations"]] == expected
    assert [each["detected_source_language"] for each in deepl["translations"]] == \
        ["EN", "FR", "EN", "DE", "EN"]
    assert [each["billed_characters"] for each in deepl["translations"]] == \
        [len(text) for text in texts]


def test_each_text_of_a_stream_has_its_own_language(two):
    lines = two.translate([FRENCH, GERMAN, SENTENCE], stream=True, **PAIR).text.splitlines()
    first = {}
    for line in map(json.loads, lines[:-1]):
        first.setdefault(line["index"], line)
    assert [first[i]["detectedLanguage"]["language"] for i in range(3)] == ["fr", "de", "en"]
    assert first[1]["translatedText"] == GERMAN


def test_a_glossary_goes_with_the_language_of_the_text(two):
    terms = {"glossary": {"Bonjour": "MOIN", "dog": "HUND"}}
    texts = two.translate([FRENCH, "The dog sleeps in the garden."], **PAIR, **terms).json()
    assert "MOIN" in texts["translatedText"][0] and "HUND" in texts["translatedText"][1]
    made = two.post("/v2/glossaries", json={
        "name": "a", "source_lang": "fr", "target_lang": "de", "entries": "Bonjour\tMOIN",
        "entries_format": "tsv"}).json()
    assert "MOIN" in two.translate([FRENCH, GERMAN], **PAIR,
                                   glossary_id=made["glossary_id"]).json()["translatedText"][0]
    refused = two.translate([FRENCH, SENTENCE], **PAIR, glossary_id=made["glossary_id"])
    assert refused.json()["code"] == "dictionary_not_found"


@pytest.mark.parametrize("path, field, fields", [
    ("/translate", "q", PAIR), ("/v2/translate", "text", {"target_lang": "DE"})])
def test_a_text_of_no_source_is_named(two, path, field, fields):
    russian = "Здравствуйте, как у вас дела сегодня?"
    reply = two.post(path, json={field: [SENTENCE, russian], **fields})
    assert reply.status_code == 400
    assert f"auto: {field}[1]: " in reply.json()["message"]
    assert "found Russian (ru)" in reply.json()["message"]


def found_in(reply):
    assert reply.status_code == 200, reply.text
    return [(each["language"], each["confidence"]) for each in reply.json()["detectedLanguage"]]


@pytest.mark.parametrize("q, fields", [
    ("iPhone 15 Pro Max 256GB", {}),
    ("Kuala Lumpur, Malaysia", {}),
    ("Anna Maria Garcia Lopez", {}),
    ("Lionel Messi (Barcelona)", {}),
    ("<p><b>Berlin</b></p>", {"format": "html"}),
])
def test_a_short_text_that_is_misjudged_takes_the_language_of_the_others(server, q, fields):
    found = found_in(server.translate([SENTENCE * 3, q], **PAIR, **fields))
    assert found[0][1] > 80 and found[1] == ("en", 0)


def test_a_short_text_is_neither_kept_nor_refused_for_the_others(two):
    reply = two.translate([GERMAN * 3, "Yes.", "42", "Guten Tag"], **PAIR)
    (german, sure), (yes, _), number, (hello, half) = found_in(reply)
    assert [german, yes, number, hello] == ["de", "en", ("de", 0), "de"]
    assert sure > 80 and 0 < half < 50
    assert reply.json()["translatedText"][3] == "Guten Tag"
    assert reply.json()["translatedText"][1] == \
        two.translate("Yes.", source="en", target="de").json()["translatedText"]
    named = two.translate([GERMAN * 3, "Malaysia"], model="fr-de", **PAIR)
    assert found_in(named)[1] == ("fr", 0)


def test_what_all_short_texts_look_like_is_refused_as_one(two):
    reply = two.translate(["Здравствуйте", "Спасибо", "Как дела"], **PAIR)
    assert reply.json()["code"] == "language_not_supported"
    assert "q[" not in reply.json()["error"] and "Russian" in reply.json()["error"]


@pytest.mark.parametrize("fields", [{}, {"alternatives": 2, "scores": True, "alignments": True},
                                    {"format": "html"}, {"model": "en-de-token"}])
def test_a_text_in_the_language_of_the_target_stays_as_it_is(server, fields):
    text = f"<b>{GERMAN}</b> &amp; so" if fields.get("format") == "html" else GERMAN
    reply = server.translate(text, **PAIR, **fields)
    assert reply.status_code == 200, reply.text
    assert reply.json()["translatedText"] == text
    assert reply.json()["detectedLanguage"]["language"] == "de"
    assert reply.json()["detectedLanguage"]["confidence"] > 80
    assert reply.json().get("alternatives", []) == []
    named = server.translate(GERMAN, source="de", target="de")
    assert named.json()["code"] == "pair_not_available"


@pytest.mark.parametrize("fields, code", [
    ({"beam_size": 9999}, "invalid_parameter"),
    ({"max_length": 9999999}, "invalid_parameter"),
    ({"beam_size": 1, "alternatives": 2}, "invalid_parameter"),
    ({"glossary_id": "nobody"}, "glossary_not_found"),
    ({"model": "en-de-token", "level": "char"}, "model_mismatch"),
])
def test_what_stays_as_it_is_is_asked_for_rightly(server, fields, code):
    reply = server.translate(GERMAN, **PAIR, **fields)
    assert reply.status_code == (404 if "glossary_id" in fields else 400), reply.text
    assert reply.json()["code"] == code


def test_detect_in_every_form(server):
    answers = [server.post("/detect", **way) for way in ways({"q": SENTENCE})]
    assert {reply.status_code for reply in answers} == {200}
    assert len({reply.text for reply in answers}) == 1
    found = answers[0].json()
    assert [item["language"] for item in found] == ["en"]
    assert found[0]["confidence"] >= 80
    assert isinstance(found[0]["confidence"], int)


def test_detect_says_what_it_does_not_know(server):
    for q in ("Здравствуйте, как у вас дела?", "🙂"):
        assert server.post("/detect", json={"q": q}).json() == [{"confidence": 0, "language": "en"}]
    for q, language in ((GERMAN, "de"), (FRENCH, "fr")):  # which are only translated to
        found = server.post("/detect", json={"q": q}).json()[0]
        assert found["language"] == language and found["confidence"] > 80
    reply = server.post("/detect", json={})
    assert reply.status_code == 400
    assert reply.json()["error"] == "Invalid request: missing q parameter"
    assert server.get("/detect").status_code == 405


def test_detect_takes_large_bodies(server):
    reply = server.post("/detect", json={"q": [SENTENCE * 50] * 100})
    assert reply.json()[0]["language"] == "en"


def test_settings(server):
    reply = server.get("/frontend/settings").json()
    assert reply == {
        "apiKeys": False, "charLimit": 100000, "filesTranslation": True, "frontendTimeout": 500,
        "keyRequired": False, "suggestions": False,
        "supportedFilesFormat": [".txt", ".html", ".htm", ".xhtml", ".srt", ".vtt"],
        "language": {"source": {"code": "en", "name": "English"},
                     "target": {"code": "de", "name": "German"}},
    }


SUGGESTION = {"q": "Hello", "s": "Hallo", "source": "en", "target": "de"}


def test_suggestions_are_refused_unless_enabled(server):
    reply = server.post("/suggest", json=SUGGESTION)
    assert reply.status_code == 403
    assert reply.json()["error"] == "Suggestions are disabled on this server."


def test_suggestions_are_kept(serve, tmp_path):
    kept = tmp_path / "suggestions"
    server = serve(suggestions=str(kept))
    assert server.get("/frontend/settings").json()["suggestions"] is True
    for way in ways(SUGGESTION):
        assert server.post("/suggest", **way).json() == {"success": True}
    assert eventually(lambda: kept.exists() and kept.read_text().count("\n") == 4)
    assert [json.loads(line) for line in kept.read_text().splitlines()] == [SUGGESTION] * 4
    missing = server.post("/suggest", json={**SUGGESTION, "s": ""})
    assert missing.status_code == 400
    assert missing.json()["error"] == "Invalid request: missing s parameter"


def test_suggestions_do_not_fill_the_disk(serve, tmp_path):
    kept = tmp_path / "suggestions"
    with kept.open("wb") as file:
        file.truncate(64 << 20)
    server = serve(suggestions=str(kept))
    for _ in range(2):  # none is said to be kept that is not
        reply = server.post("/suggest", json=SUGGESTION)
        assert reply.status_code == 503 and reply.json()["code"] == "suggestions_full"
    assert kept.stat().st_size == 64 << 20
    assert eventually(lambda: any("move the file away" in line for line in server.log))
    kept.rename(tmp_path / "elsewhere")
    assert server.post("/suggest", json=SUGGESTION).json() == {"success": True}
    assert eventually(lambda: kept.exists() and kept.read_text().count("\n") == 1)
    assert sum("move the file away" in line for line in server.log) == 1


def test_who_suggests_is_told_that_it_could_not_be_written(serve, tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    for path, repair in (("/dev/full", None), (folder / "suggestions", folder.mkdir)):
        server = serve(suggestions=str(path))
        if repair:
            folder.rmdir()
        for way in ways(SUGGESTION):
            reply = server.post("/suggest", **way)
            assert reply.status_code == 500 and reply.json()["code"] == "suggestion_not_kept"
        assert eventually(lambda: any("a suggestion could not be written: No s" in line
                                      for line in server.log))
        if repair:
            repair()
            assert server.post("/suggest", json=SUGGESTION).json() == {"success": True}
            assert json.loads(path.read_text()) == SUGGESTION  # before the reply
