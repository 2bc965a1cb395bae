"""Every way to ask wrongly: status, text and code of the answer."""

import json

import pytest
from acre_server import SENTENCE

GOOD = {"q": "Hello.", "source": "en", "target": "de"}
UNREADABLE = ("The browser (or proxy) sent a request that this server could not understand. "
              "JSON, line ")


def without(*names):
    return {key: value for key, value in GOOD.items() if key not in names}


def expected_found(field, expected, found):
    return f"Invalid request: {field}: expected {expected}, found {found}"


# (changes to a good JSON request, error text, code)
FIELDS = [
    ({"q": None}, "Invalid request: missing q parameter", "missing_parameter"),
    ({"q": ""}, "Invalid request: missing q parameter", "missing_parameter"),
    ({"q": []}, "Invalid request: missing q parameter", "missing_parameter"),
    ({"source": None}, "Invalid request: missing source parameter", "missing_parameter"),
    ({"source": ""}, "Invalid request: missing source parameter", "missing_parameter"),
    ({"target": None}, "Invalid request: missing target parameter", "missing_parameter"),
    ({"q": None, "source": None}, "Invalid request: missing q parameter", "missing_parameter"),
    ({"q": 5}, expected_found("q", "a string or an array of strings", "5"), "invalid_parameter"),
    ({"q": True}, expected_found("q", "a string or an array of strings", "true"),
     "invalid_parameter"),
    ({"q": {"a": 1}}, expected_found("q", "a string or an array of strings", "an object"),
     "invalid_parameter"),
    ({"q": ["a", None]}, expected_found("q[1]", "a string", "null"), "invalid_parameter"),
    ({"q": ["a", "b", ["c"]]}, expected_found("q[2]", "a string", "an array"),
     "invalid_parameter"),
    ({"source": 1.5}, expected_found("source", "a string", "1.5"), "invalid_parameter"),
    ({"target": ["de"]}, expected_found("target", "a string", "an array"), "invalid_parameter"),
    ({"model": 1}, expected_found("model", "a string", "1"), "invalid_parameter"),
    ({"level": False}, expected_found("level", "a string", "false"), "invalid_parameter"),
    ({"level": "word"}, expected_found("level", '"token" or "char"', '"word"'),
     "invalid_parameter"),
    ({"beam_size": 0}, expected_found("beam_size", "an integer from 1 to 8", "0"),
     "invalid_parameter"),
    ({"beam_size": 9}, expected_found("beam_size", "an integer from 1 to 8", "9"),
     "invalid_parameter"),
    ({"beam_size": 2.5}, expected_found("beam_size", "an integer from 1 to 8", "2.5"),
     "invalid_parameter"),
    ({"beam_size": 9.0}, expected_found("beam_size", "an integer from 1 to 8", "9.0"),
     "invalid_parameter"),
    ({"beam_size": "4"}, expected_found("beam_size", "an integer from 1 to 8", '"4"'),
     "invalid_parameter"),
    ({"beam_size": 2, "alternatives": 3},
     "Invalid request: beam_size: expected more than alternatives (3), found 2",
     "invalid_parameter"),
    ({"length_penalty": "x"}, expected_found("length_penalty", "a number from -10 to 10", '"x"'),
     "invalid_parameter"),
    ({"length_penalty": 11}, expected_found("length_penalty", "a number from -10 to 10", "11"),
     "invalid_parameter"),
    ({"beam_threshold": -1}, expected_found("beam_threshold", "a number from 0 to 1000", "-1"),
     "invalid_parameter"),
    ({"max_length": 0}, expected_found("max_length", "an integer from 1 to 60", "0"),
     "invalid_parameter"),
    ({"max_length": 61}, expected_found("max_length", "an integer from 1 to 60", "61"),
     "invalid_parameter"),
    ({"timeout_ms": 0}, expected_found("timeout_ms", "an integer from 1 to 2147483647", "0"),
     "invalid_parameter"),
    ({"scores": "yes"}, expected_found("scores", "true or false", '"yes"'), "invalid_parameter"),
    ({"scores": 1}, expected_found("scores", "true or false", "1"), "invalid_parameter"),
    ({"alternatives": "x"}, "Invalid request: alternatives parameter is not a number",
     "invalid_parameter"),
    ({"alternatives": [1]}, "Invalid request: alternatives parameter is not a number",
     "invalid_parameter"),
    ({"alternatives": 8}, "Invalid request: alternatives parameter must be <= 7",
     "invalid_parameter"),
    ({"alternatives": 10**15}, "Invalid request: alternatives parameter must be <= 7",
     "invalid_parameter"),
    ({"format": "pdf"}, "pdf format is not supported", "format_not_supported"),
    ({"format": 1}, expected_found("format", "a string", "1"), "invalid_parameter"),
    ({"stream": True, "alternatives": 1},
     "Invalid request: stream: expected no alternatives, found 1",
     "not_supported"),
    ({"alignments": True, "format": "html"},
     "Invalid request: alignments: expected format text, found html", "not_supported"),
    ({"sentences": True, "format": "html", "stream": True},
     "Invalid request: sentences: expected format text, found html", "not_supported"),
    ({"alignments": "yes"}, expected_found("alignments", "true or false", '"yes"'),
     "invalid_parameter"),
    ({"sentences": True, "q": ["x" * 30000, "", "ä" * 1385]},
     "Invalid request: sentences: expected at most 32768 bytes of text unless it is streamed, "
     "found 32770", "text_too_long"),
    ({"source": "zz"}, "zz is not supported", "language_not_supported"),
    ({"target": "zz"}, "zz is not supported", "language_not_supported"),
    ({"source": "de", "target": "fr"},
     "French (fr) is not available as a target language from German (de)", "pair_not_available"),
    ({"target": "en"},
     "English (en) is not available as a target language from English (en)",
     "pair_not_available"),
    ({"level": "char"}, "level char is not available from English (en) to German (de)",
     "level_not_available"),
    ({"q": "漢", "source": "auto"},
     "auto: the language cannot be told from this text; give the source language (en)",
     "language_not_detected"),
    ({"model": "nope"}, "model: expected one of en-de-token, en-fr-char, found nope",
     "unknown_model"),
    ({"model": "en-fr-char"},
     "Invalid request: target: expected fr as in model en-fr-char, found de", "model_mismatch"),
    ({"q": ["a"] * 1001}, "Invalid request: request (1001) exceeds text limit (1000)",
     "too_many_texts"),
    ({"q": "ü" * 100001}, "Invalid request: request (100001) exceeds text limit (100000)",
     "text_too_long"),
]


def check(reply, status, text, code):
    assert reply.status_code == status, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    body = {"code": code, "error": text, "message": text}
    assert reply.text == json.dumps(body, ensure_ascii=False, separators=(",", ":")) + "\n"


@pytest.mark.parametrize("value", [2, 2.0])
def test_a_whole_number_is_an_integer(server, value):
    """As JSON Schema has it, and clients whose language has one kind of number write it."""
    assert server.post(json={**GOOD, "beam_size": value, "timeout_ms": 30000.0}).status_code == 200


@pytest.mark.parametrize("changes, text, code", FIELDS)
def test_wrong_field(server, changes, text, code):
    check(server.post(json={**GOOD, **changes}), 400, text, code)


@pytest.mark.parametrize("name", ["q", "source", "target"])
@pytest.mark.parametrize("way", ["json", "data", "params"])
def test_missing_field(server, name, way):
    reply = server.post(**{way: without(name)})
    check(reply, 400, f"Invalid request: missing {name} parameter", "missing_parameter")


@pytest.mark.parametrize(
    "body, text",
    [
        (b"", "1, column 0: unexpected token near end of file"),
        (b"{", "1, column 1: string or '}' expected near end of file"),
        (b'{"q":"a"} trailing', "1, column 18: end of file expected near 'trailing'"),
        (b"q=a&source=en&target=de", "1, column 1: invalid token near 'q'"),
        (b'{"q":"\xff"}', "1, column 6: unable to decode byte 0xff near '\"'"),
        (b'{"q":"\\ud800"}', "1, column 13: invalid Unicode '\\uD800' near '\"\\ud800\"'"),
        (b'{"q":"a\\u0000b"}',
         "1, column 15: \\u0000 is not allowed without JSON_ALLOW_NUL near '\"a\\u0000b\"'"),
        (b"[" * 100000, "1, column 2049: maximum parsing depth reached near '['"),
        (b'{"a":' * 100000, "1, column 10241: maximum parsing depth reached near '{'"),
        ('{\n "q": "Größe 🙂",\n "Straße": x}'.encode(), "3, column 12: invalid token near 'x'"),
        (b"[]", "Invalid JSON format: expected an object, found an array"),
        (b'"text"', 'Invalid JSON format: expected an object, found "text"'),
        (b"null", "Invalid JSON format: expected an object, found null"),
        (b"1e3", "Invalid JSON format: expected an object, found 1000.0"),
    ],
)
def test_broken_json(server, body, text):
    reply = server.post(data=body, headers={"Content-Type": "application/json"})
    check(reply, 400, text if text.startswith("Invalid") else UNREADABLE + text, "invalid_json")


def test_integers_of_any_size(server):
    """Nobody reads the first; the second is too many, not too long."""
    reply = server.post(json={**GOOD, "id": 2**64 - 1})
    assert (reply.status_code, reply.text) == (200, server.post(json=GOOD).text)
    body = json.dumps({**GOOD, "alternatives": 10**30}).encode()
    reply = server.post(data=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 400
    assert reply.json()["error"].startswith("Invalid request: alternatives parameter must be <= ")
    for number in (b"1e400", b"-1e400", b"1" * 400):
        reply = server.post(data=b'{"q": "a", "id": %s}' % number,
                            headers={"Content-Type": "application/json"})
        assert reply.status_code == 400 and "overflow" in reply.json()["error"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", None])
def test_json_without_its_content_type_is_a_form_without_q(server, content_type):
    headers = {"Content-Type": content_type} if content_type else {}
    reply = server.post(data=json.dumps(GOOD).encode(), headers=headers)
    check(reply, 400, "Invalid request: missing q parameter", "missing_parameter")


@pytest.mark.parametrize("value", [b"a%ff", b"a%00b", b"%ed%a0%80"])
def test_bytes_that_are_not_text(server, value):
    text = expected_found("q", "UTF-8 text", "other bytes")[len("Invalid request: "):]
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    rest = b"&source=en&target=de"
    reply = server.post(data=b"q=" + value + rest, headers=headers)
    check(reply, 400, "Invalid request: " + text, "invalid_parameter")
    reply = server.post("/translate?q=" + value.decode() + rest.decode())
    check(reply, 400, "Invalid request: " + text, "invalid_parameter")


def test_quoted_text_is_cut_to_valid_utf8(server):
    reply = server.post(json={**GOOD, "source": "ä" * 200})
    assert reply.status_code == 400
    assert "ää" in reply.json()["error"]
    reply = server.post("/translate/" + "%ff%e4" * 30, json=GOOD)
    assert reply.status_code == 404
    assert reply.json()["code"] == "unknown_model"


@pytest.mark.parametrize(
    "body",
    [
        b"--b\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\nunfinished",
        b"garbage",
        b"--b--",
        b"--b\r\n\r\nno name\r\n--b--\r\n",
        b"--b\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\nHi.\r\n--b",
    ],
)
@pytest.mark.parametrize("boundary", ["; boundary=bb", "; boundary=b", "; boundary=other", ""])
def test_broken_multipart_is_an_error_not_an_accident(server, body, boundary):
    headers = {"Content-Type": "multipart/form-data" + boundary}
    reply = server.post(data=body.replace(b"--b", b"--bb"), headers=headers)
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_form"), reply.text
    assert "missing" not in reply.text


@pytest.mark.parametrize("way", ["data", "params", "files"])
def test_too_many_form_keys(server, way):
    for n, status in ((61, 200), (62, 400)):
        form = {**GOOD, **{f"key{i}": "x" for i in range(n)}}
        if way == "files":
            form = {key: (None, value) for key, value in form.items()}
        reply = server.post(**{way: form})
        assert reply.status_code == status
    check(reply, 400, "Invalid request: expected at most 64 different fields, found more",
          "bad_form")


@pytest.mark.parametrize("field", ["beam_size", "max_length", "timeout_ms"])
@pytest.mark.parametrize("value", ["1e0", "1.0", "0x1", " 1", "1-", "--1", "+", "inf"])
def test_integers_in_forms_are_digits(server, field, value):
    reply = server.post(data={**GOOD, field: value})
    assert reply.status_code == 400
    assert f'{field}: expected an integer from 1 to ' in reply.json()["error"]
    assert f'found "{value}"' in reply.json()["error"]
    check(server.post(data={**GOOD, "alternatives": value}), 400,
          "Invalid request: alternatives parameter is not a number", "invalid_parameter")
    assert server.post(data={**GOOD, "beam_size": "+4", "alternatives": "+1"}).status_code == 200


@pytest.mark.parametrize("path, status", [
    ("/nope", 404), ("/translate/", 404), ("/Translate", 404), ("/translate/nope", 404),
    ("/models/", 404), ("//translate", 404), ("/translate/en-de-token/x", 404),
])
def test_unknown_path(server, path, status):
    reply = server.post(path, json=GOOD)
    assert reply.status_code == status
    body = reply.json()
    assert body["error"] == body["message"]
    assert body["code"] in ("not_found", "unknown_model")


def test_unknown_model_lists_the_known(server):
    reply = server.post("/translate/nope", json={"q": SENTENCE})
    check(reply, 404, "model: expected one of en-de-token, en-fr-char, found nope",
          "unknown_model")


def test_named_model_must_match_what_is_given(server):
    for fields, text in (
        ({"source": "fr"}, "source: expected en as in model en-de-token, found fr"),
        ({"target": "fr"}, "target: expected de as in model en-de-token, found fr"),
        ({"level": "char"}, "level: expected token as in model en-de-token, found char"),
        ({"model": "en-fr-char"}, "model: expected en-de-token as in the path, found en-fr-char"),
    ):
        reply = server.post("/translate/en-de-token", json={"q": SENTENCE, **fields})
        check(reply, 400, "Invalid request: " + text, "model_mismatch")
    reply = server.post("/translate/en-de-token", json={"q": SENTENCE, "model": "en-de-token"})
    assert reply.status_code == 200


def test_limits_come_from_the_configuration(serve):
    server = serve(max_text_chars=5, max_texts=2, max_beam_size=2)
    assert server.translate("äöüßé").status_code == 200
    assert server.translate("äöüßéa").json()["error"].endswith("(6) exceeds text limit (5)")
    assert server.translate(["a", "b", "c"]).json()["error"].endswith("(3) exceeds text limit (2)")
    assert server.translate("a", alternatives=2).json()["error"].endswith("must be <= 1")
    assert server.translate("a", beam_size=3).status_code == 400
