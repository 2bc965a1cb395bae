"""Where things stand, on request: alignments, sentences, and what max_length cut."""

import json
import re

import pytest
from acre_server import ROOT, SENTENCE, Server

PAIR = {"source": "en", "target": "de"}
TEXTS = ["Hello there. How are you?\n\n  Fine. ", " ", "", "One\nTwo", "🙂", "Größe: 5 €, no?",
         "Open %s now. See https://a.example/b?c=d&e=f, {name}! 🙂 It is “late”. 🎉🎉"]
UNREAD = ["Größe", "€"]  # by the models of these tests
PLACEHOLDERS = ["%s", "https://a.example/b?c=d&e=f", "{name}"]


@pytest.fixture(scope="module")
def shipped():
    """Models that copy placeholders."""
    server = Server(ROOT / "models")
    yield server
    assert server.stop() == 0, "".join(server.log)


def ask(server, q, **fields):
    reply = server.translate(q, **fields)
    assert reply.status_code == 200, reply.text
    return reply.json()


def piece(text, place):
    """The text between two bytes, which must be whole characters."""
    data = text.encode()
    assert 0 <= place[0] <= place[1] <= len(data)
    return data[place[0]:place[1]].decode()


def check(source, target, alignments, sentences):
    """Every character of the translation that is no blank is some token's, or no words': in one of
    the sentences, tokens are in order and look at their own sentence."""
    covered, last = set(), 0
    for token in alignments:
        piece(source, token["source"]), piece(target, token["target"])
        assert token["target"][1] >= last and token["target"][0] < token["target"][1]
        last = token["target"][1]
        covered.update(range(*token["target"]))
        own = [s for s in sentences if s["target"][0] <= token["target"][0] < s["target"][1]]
        assert len(own) == 1
        assert own[0]["source"][0] <= token["source"][0] <= token["source"][1] <= \
            own[0]["source"][1]
    for sentence in sentences:
        assert piece(source, sentence["source"]).strip() == piece(source, sentence["source"])
        assert sentence["score"] < 0 and sentence["truncated"] in (True, False)
    return covered


@pytest.mark.parametrize("target", ["de", "fr"])
def test_every_token_has_its_place(server, target):
    """By tokens and by characters; with a model that copies nothing and cannot read all letters."""
    reply = ask(server, TEXTS, target=target, alignments=True, sentences=True, scores=True)
    found = zip(TEXTS, reply["translatedText"], reply["alignments"], reply["sentences"],
                strict=True)
    for source, translation, alignments, sentences in found:
        covered = check(source, translation, alignments, sentences)
        kept = {at for word in UNREAD for place in re.finditer(word.encode(), translation.encode())
                for at in range(*place.span())}
        for at, byte in enumerate(translation.encode()):
            inside = any(s["target"][0] <= at < s["target"][1] for s in sentences)
            if inside and byte not in b" \n" and "%s" not in source:
                assert at in covered or at in kept, (source, translation, at)
    assert [len(each) for each in reply["sentences"][:5]] == [3, 0, 0, 2, 0]
    assert reply["scores"][3] != 0 and reply["scores"][1] == 0


def test_placeholders_are_their_own(shipped):
    """Where the model copied what stood for them; else no token is theirs."""
    n = 0
    for target in ("de", "fr"):
        reply = ask(shipped, TEXTS[-1], target=target, level="token", alignments=True,
                    sentences=True)
        check(TEXTS[-1], reply["translatedText"], reply["alignments"][0], reply["sentences"][0])
        pairs = {piece(reply["translatedText"], a["target"]): piece(TEXTS[-1], a["source"])
                 for a in reply["alignments"][0]}
        for placeholder in PLACEHOLDERS:
            assert pairs.get(placeholder, placeholder) == placeholder
            n += placeholder in pairs
        assert not {"%", "{", "name"} & set(pairs)
        shown = [piece(TEXTS[-1], s["source"]) for s in reply["sentences"][0]]
        assert shown[0] == "Open %s now." and len(shown) >= 3
    assert n >= 5


def test_words_look_at_words(shipped):
    reply = ask(shipped, "The dog sleeps.", alignments=True)
    assert reply["translatedText"] == "Der Hund schläft."
    pairs = {piece(reply["translatedText"], a["target"]).strip():
             piece("The dog sleeps.", a["source"]).strip() for a in reply["alignments"][0]}
    assert pairs["Hund"] == "dog" and pairs["Der"] in ("The", "dog")


@pytest.mark.parametrize("fields", [{"alignments": True}, {"sentences": True, "scores": True},
                                    {"alignments": True, "sentences": True}])
def test_a_stream_tells_the_same(server, fields):
    whole = ask(server, TEXTS, **fields)
    reply = server.translate(TEXTS, stream=True, **fields)
    parts = [json.loads(line) for line in reply.content.decode().splitlines()][:-1]
    for i, _ in enumerate(TEXTS):
        own = [part for part in parts if part["index"] == i]
        text = "".join(part.get("before", "") + part["translatedText"] + part.get("after", "")
                       for part in own)
        assert text == whole["translatedText"][i]
        if "alignments" in fields:
            assert sum((part["alignments"] for part in own), []) == whole["alignments"][i]
        if "sentences" in fields:
            told = [{key: part[key] for key in ("score", "source", "target", "truncated")}
                    for part in own if "source" in part]
            assert told == [{**s, "score": pytest.approx(s["score"], rel=1e-6)}
                            for s in whole["sentences"][i]]
        assert all(("score" in part) == ("sentences" in fields) for part in own)


def test_only_who_asks_is_told(server):
    assert set(ask(server, SENTENCE)) == {"translatedText"}
    assert set(ask(server, SENTENCE, alignments=False, sentences=False)) == {"translatedText"}
    form = {"q": SENTENCE, **PAIR, "alignments": "1", "alternatives": "2", "source": "auto"}
    reply = server.post(data=form).json()
    assert list(reply) == ["alignments", "alternatives", "detectedLanguage", "translatedText"]
    assert reply["alignments"] == ask(server, SENTENCE, alignments=True)["alignments"]


def test_the_longest_reply_is_written_off_the_loop(server):
    text = "A dog. " * (32768 // 7)
    reply = ask(server, text, alignments=True, sentences=True, beam_size=1, max_length=4)
    assert len(reply["sentences"][0]) == 32768 // 7
    assert server.translate(text + "A dog.", alignments=True).status_code == 400
    reply = server.translate(text + "A dog.", alignments=True, stream=True, beam_size=1,
                             max_length=4)
    assert reply.status_code == 200 and reply.content.endswith(b'{"done":true}\n')


# ---- What max_length cut -------------------------------------------------------------------------


def test_what_was_cut_says_so(server):
    texts = ["Hello there. How are you?", "", SENTENCE]
    cut = ask(server, texts, max_length=1)
    assert cut["truncated"] == [True, False, True]
    assert ask(server, SENTENCE, max_length=1)["truncated"] is True
    sentences = ask(server, texts, max_length=1, sentences=True)["sentences"]
    assert [[s["truncated"] for s in each] for each in sentences] == [[True, True], [], [True]]
    reply = server.translate(texts, max_length=1, stream=True)
    parts = [json.loads(line) for line in reply.content.decode().splitlines()][:-1]
    assert [part.get("truncated") for part in parts] == [True, True, None, True]
    html = ask(server, "<p>The <b>dog</b> sleeps.", format="html", max_length=1)
    assert html["truncated"] is True


def test_deepl_s_reply_is_as_it_was(serve):
    reply = serve().post("/v2/translate", json={"text": [SENTENCE], "target_lang": "DE",
                                                "source_lang": "EN"})
    assert set(reply.json()["translations"][0]) == {"billed_characters",
                                                    "detected_source_language", "text"}
