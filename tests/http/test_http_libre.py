"""What LibreTranslate answers beside translating, and the detection of languages."""

import json

import pytest
from acre_server import SENTENCE, eventually

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
    ("Guten Morgen, wie geht es Ihnen heute?", "language_not_supported", "German (de)"),
    ("Здравствуйте, как у вас дела?", "language_not_supported", "Russian (ru)"),
    ("漢", "language_not_detected", "cannot be told"),
])
def test_auto_does_not_guess(server, q, code, words):
    reply = server.translate(q, **PAIR)
    assert reply.status_code == 400, reply.text
    assert reply.json()["code"] == code
    assert words in reply.json()["error"]
    assert "(en)" in reply.json()["error"]


def test_detect_in_every_form(server):
    answers = [server.post("/detect", **way) for way in ways({"q": SENTENCE})]
    assert {reply.status_code for reply in answers} == {200}
    assert len({reply.text for reply in answers}) == 1
    found = answers[0].json()
    assert [item["language"] for item in found] == ["en"]
    assert found[0]["confidence"] >= 80
    assert isinstance(found[0]["confidence"], int)


def test_detect_says_what_it_does_not_know(server):
    for q in ("Guten Morgen, wie geht es Ihnen?", "🙂"):
        assert server.post("/detect", json={"q": q}).json() == [{"confidence": 0, "language": "en"}]
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
