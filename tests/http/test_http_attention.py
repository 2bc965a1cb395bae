"""GET and POST /attention: what it says, what it costs others, what it refuses."""

import json
import subprocess
import time

import pytest
from acre_server import ACRE, PATIENCE, SENTENCE, eventually, read_reply

PAIR = {"source": "en", "target": "de"}
TEXT = "Hello there, %s! How are you?"


def test_it_says_what_inspect_says(server, models, tmp_path):
    path = tmp_path / "attention.json"
    subprocess.run([ACRE, "inspect", models / "en-de-token", "--attention", TEXT, "-o", path],
                   check=True, capture_output=True)
    expected = json.loads(path.read_text())
    for reply in (server.get("/attention", params={"text": TEXT, **PAIR}),
                  server.get("/attention", params={"text": TEXT, "model": "en-de-token"}),
                  server.post("/attention", json={"text": TEXT, **PAIR}),
                  server.post("/attention", data={"text": TEXT, **PAIR})):
        assert reply.status_code == 200, reply.text
        found = reply.json()
        assert set(found) == {"attention", "translatedText"}
        assert found["attention"] == expected["attention"]
        assert found["translatedText"] == expected["hypotheses"][0]["text"]


def test_tokens_have_their_places(server):
    for model, text in (("en-de-token", TEXT), ("en-fr-char", "Größe, café.")):
        found = server.get("/attention", params={"text": text, "model": model}).json()
        for sentence in found["attention"]:
            for side, whole in (("source", text), ("target", found["translatedText"])):
                ranges = sentence[f"{side}_ranges"]
                assert len(ranges) == len(sentence[side])
                assert ranges[-1][0] == ranges[-1][1]  # the end token's
                for token, (first, end) in zip(sentence[side], ranges, strict=True):
                    part = whole.encode()[first:end].decode()
                    assert model != "en-de-token" or first == end or \
                        token.replace("▁", "") == part or "unk" in token
            for layer in sentence["layers"]:
                for head in layer["heads"]:
                    assert len(head["tokens"]) == len(sentence["target"])
                    for areas in head["tokens"]:
                        assert sum(area["weight"] for area in areas) <= 1.001


@pytest.mark.parametrize("fields, status, code", [
    ({}, 400, "missing_parameter"),
    ({"text": ""}, 400, "missing_parameter"),
    ({"text": "ü" * 501, **PAIR}, 400, "text_too_long"),
    ({"text": "Hi"}, 400, "missing_parameter"),
    ({"text": "Hi", "source": "en", "target": "xx"}, 400, "language_not_supported"),
    ({"text": "Hi", "model": "nope"}, 400, "unknown_model"),
    ({"text": "Hi", **PAIR, "level": "word"}, 400, "invalid_parameter"),
    ({"text": "Hi", **PAIR, "timeout_ms": 0}, 400, "invalid_parameter"),
])
def test_what_is_refused(server, fields, status, code):
    for reply in (server.get("/attention", params=fields), server.post("/attention", json=fields)):
        assert (reply.status_code, reply.json()["code"]) == (status, code)
        assert reply.json()["message"]


def test_one_text_and_blanks(server):
    assert server.post("/attention", json={"text": ["Hi"], **PAIR}).status_code == 400
    assert server.get("/attention", params={"text": " \n", **PAIR}).json() == {
        "attention": [], "translatedText": " \n"}
    found = server.get("/attention", params={"text": SENTENCE, "source": "auto", "target": "de"})
    assert found.json()["detectedLanguage"]["language"] == "en"


def begin(server, who):
    """A connection that waits for a reply of a caller's."""
    connection = server.connect()
    connection.sendall(f"GET /attention?source=en&target=de&text={'The+cat+is+old.+' * 30} HTTP/1.1"
                       f"\r\nHost: a\r\nX-Forwarded-For: 192.0.2.{who}\r\n\r\n".encode())
    return connection


def statuses(connections):
    found = []
    for connection in connections:
        with connection:
            found.append(read_reply(connection)[0])
    return sorted(found)


def test_few_wait_and_others_are_served(serve):
    """Of thirty callers at once eight are taken; the loop has time, and who leaves makes room."""
    server = serve(threads=1, trusted_proxies="127.0.0.0/8")
    asking = [begin(server, who) for who in range(30)]
    begun = time.monotonic()
    assert server.get("/health").status_code == 200
    assert time.monotonic() - begun < 10 * PATIENCE
    replies = [read_reply(connection) for connection in asking]
    found = [status for status, _, _ in replies]
    assert found.count(200) >= 8 and set(found) == {200, 429}
    assert all(headers["retry-after"] for status, headers, _ in replies if status == 429)
    for connection in asking:
        connection.close()
    for who in range(40):  # who leaves, leaves his place
        begin(server, who).close()
    assert eventually(lambda: server.get("/attention", params={"text": "Hi", **PAIR})
                      .status_code == 200, 20 * PATIENCE)


def test_one_caller_leaves_places_to_others(serve):
    """Each has half of them at most; whose calls have ended has them again."""
    server = serve(threads=1, trusted_proxies="127.0.0.0/8")
    for _ in range(2):
        first, others = [begin(server, 1) for _ in range(12)], []
        for who in range(2, 6):
            others.append(begin(server, who))
        assert statuses(others) == [200] * 4
        found = statuses(first)
        assert found.count(200) >= 4 and set(found) == {200, 429}
