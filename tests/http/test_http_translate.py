"""POST /translate: what comes out, by whichever way it went in."""

import json
import subprocess

import pytest
import requests
from acre_server import ACRE, SENTENCE, read_reply

PAIR = {"source": "en", "target": "de"}
FULL = {"q": SENTENCE, **PAIR}


@pytest.fixture(scope="module")
def expected(models):
    """The translation of SENTENCE as `acre translate` gives it."""
    command = [ACRE, "translate", "--model", str(models / "en-de-token"), "--json"]
    command += ["--num-hypotheses", "3"]
    output = subprocess.run(command, input=SENTENCE, capture_output=True, text=True, check=True)
    return json.loads(output.stdout)["hypotheses"]


@pytest.mark.parametrize(
    "kwargs",
    [
        {"json": FULL},
        {"json": {**FULL, "api_key": None, "secret": None, "format": "text"}},
        {"json": {**FULL, "api_key": "", "alternatives": 0}},
        {"json": {**FULL, "source": "EN", "target": "De"}},
        {"json": {**FULL, "level": "token", "unknown_field": [1, {}]}},
        {"json": {**FULL, "level": "TOKEN"}},
        {"json": {"q": SENTENCE, "model": "en-de-token"}},
        {"data": json.dumps(FULL), "headers": {"Content-Type": "application/json; charset=utf-8"}},
        {"data": json.dumps(FULL), "headers": {"Content-Type": "application/ld+json"}},
        {"data": FULL},
        {"data": {**FULL, "format": ""}},
        {"data": {**FULL, "model": "", "level": "", "beam_size": "", "max_length": "",
                  "length_penalty": "", "alternatives": "", "scores": "", "stream": ""}},
        {"json": {**FULL, "model": "", "level": ""}},
        {"files": {key: (None, value) for key, value in FULL.items()}},
        {"params": FULL},
        {"params": FULL, "data": ""},
        {"params": {"q": SENTENCE}, "data": {**PAIR, "q": "the query wins"}},
        {"data": [("q", SENTENCE), ("q", "the first one wins"), *PAIR.items()]},
        {"data": [("q", SENTENCE), *PAIR.items(), ("q", "x" * 50), ("q", SENTENCE * 2)]},
    ],
)
def test_same_text_however_it_is_sent(server, expected, kwargs):
    reply = server.post(**kwargs)
    assert reply.status_code == 200, reply.text
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.text == json.dumps({"translatedText": expected[0]["text"]},
                                    ensure_ascii=False, separators=(",", ":")) + "\n"


def test_utf8_is_not_escaped_and_survives_every_encoding(server):
    text = "Grüße, 你好 & 100% + “ok”=1 🙂"
    as_json = server.translate(text)
    assert as_json.status_code == 200
    assert "\\u" not in as_json.text
    for kwargs in (
        {"data": {**FULL, "q": text}},
        {"params": {**FULL, "q": text}},
        {"files": {key: (None, value) for key, value in {**FULL, "q": text}.items()}},
        {"data": json.dumps({**FULL, "q": text}, ensure_ascii=False).encode(),
         "headers": {"Content-Type": "application/json"}},
    ):
        assert server.post(**kwargs).text == as_json.text


def test_crlf_in_a_form_is_a_newline(server):
    by_json = server.translate("Hello.\nHow are you?")
    by_form = server.post(data={**FULL, "q": "Hello.\r\nHow are you?"})
    assert by_json.status_code == 200
    assert by_form.text == by_json.text
    assert "\r" not in by_form.json()["translatedText"]


@pytest.mark.parametrize(
    "q, text",
    [
        ("Good morning.\nThe dog sleeps.", "Good morning.\nThe dog sleeps."),
        ("100%", "100%"),
        ("5%2", "5%2"),
        ("%zz%4Z%+%25%2B", "%zz%4Z% %+"),
        ("E=mc2=", "E=mc2="),
        ("a;b=c", "a;b=c"),
        ("caf%C3%a9", "café"),
        ("café", "café"),
    ],
)
@pytest.mark.parametrize("order", ["q={q}&source=en&target=de", "source=en&target=de&q={q}",
                                   "=1&q={q}&source=en&target=de&target=xx", "&&q={q}&a&source=en"
                                   "&&target=de&", "%71={q}&s%6furce=en&target=de&q=no"])
def test_urlencoded_is_read_as_flask_reads_it(server, q, text, order):
    reply = server.post(data=order.format(q=q).encode(),
                        headers={"Content-Type": "Application/X-WWW-Form-Urlencoded;charset=UTF-8"})
    assert reply.status_code == 200, reply.text
    assert reply.text == server.translate(text).text


@pytest.mark.parametrize("content_type", [
    "multipart/form-data; boundary=abc", 'multipart/form-data; boundary="abc"',
    "Multipart/Form-Data; boundary=abc", "multipart/form-data; charset=utf-8; boundary=abc",
])
@pytest.mark.parametrize("end", ["--abc--\r\n", "--abc--"])
def test_multipart_as_clients_write_it(server, content_type, end):
    fields = {**FULL, "q": "100% = a&b;\r\n--ab\r\nc\n"}
    body = "".join(f'--abc\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
                   for key, value in fields.items())
    reply = server.post(data=(body + end).encode(), headers={"Content-Type": content_type})
    assert reply.status_code == 200, reply.text
    assert reply.text == server.translate("100% = a&b;\n--ab\nc\n").text


def test_long_form_values_arrive_whole(server):
    text = (SENTENCE + "\n") * 300
    assert server.post(data={**FULL, "q": text}).text == server.translate(text).text


def test_array_in_array_out(server, expected):
    texts = ["Good morning.", SENTENCE, "Thanks!", SENTENCE]
    reply = server.translate(texts).json()
    assert list(reply) == ["translatedText"]
    assert reply["translatedText"] == [server.translate(t).json()["translatedText"] for t in texts]
    assert reply["translatedText"][1] == expected[0]["text"]
    assert server.translate([SENTENCE]).json() == {"translatedText": [expected[0]["text"]]}


@pytest.mark.parametrize("blank", [" ", "\n\t ", "\u00a0\u3000"])
def test_blank_text_is_returned_unchanged(server, blank):
    assert server.translate(blank).json() == {"translatedText": blank}
    reply = server.translate(["", blank, SENTENCE], scores=True, alternatives=1).json()
    assert reply["translatedText"][:2] == ["", blank]
    assert reply["alternatives"][:2] == [[], []]
    assert reply["scores"][:2] == [0.0, 0.0]
    assert reply["scores"][2] < 0


def test_alternatives_are_the_next_hypotheses(server, expected):
    reply = server.translate(alternatives=2).json()
    assert reply == {
        "translatedText": expected[0]["text"],
        "alternatives": [h["text"] for h in expected[1:3]],
    }
    assert server.translate([SENTENCE], alternatives="2").json() == {
        "translatedText": [reply["translatedText"]],
        "alternatives": [reply["alternatives"]],
    }
    assert server.translate(alternatives=-1).json() == {"translatedText": expected[0]["text"]}
    assert server.translate(alternatives=7).status_code == 200  # more than the model's own beam


def test_an_empty_alternative_is_left_out(server, models):
    command = [ACRE, "translate", "--model", models / "en-de-token", "--json", "--max-length", "1",
               "--beam-size", "8", "--num-hypotheses", "8"]
    output = subprocess.run(command, input="Hello.", capture_output=True, text=True, check=True)
    texts = [h["text"] for h in json.loads(output.stdout)["hypotheses"]]
    assert "" in texts[1:]
    reply = server.translate("Hello.", alternatives=7, max_length=1).json()
    assert [reply["translatedText"], *reply["alternatives"]] == [t for t in texts if t]


def test_scores_are_normalised_and_one_per_text(server, expected):
    reply = server.translate(scores=True).json()
    assert reply["scores"] == [pytest.approx(expected[0]["normalized_score"], rel=1e-5)]
    assert len(server.translate([SENTENCE] * 3, scores=True).json()["scores"]) == 3
    assert "scores" not in server.translate(scores=False).json()


def test_decoding_options_reach_the_engine(server, models):
    for fields, flags in (
        ({"beam_size": 1}, ["--beam-size", "1"]),
        ({"max_length": 3}, ["--max-length", "3"]),
        ({"beam_size": 6, "length_penalty": 0.1}, ["--beam-size", "6", "--length-penalty", "0.1"]),
        ({"beam_size": 6, "beam_threshold": 0.01},
         ["--beam-size", "6", "--beam-threshold", "0.01"]),
    ):
        command = [ACRE, "translate", "--model", str(models / "en-de-token"), "--json", *flags]
        output = subprocess.run(command, input=SENTENCE, capture_output=True, text=True, check=True)
        best = json.loads(output.stdout)["hypotheses"][0]
        want = {"translatedText": best["text"]}
        if len(best["tokens"]) == fields.get("max_length", 60):
            want["truncated"] = True
        assert best.get("truncated") == want.get("truncated")
        assert server.translate(**fields).json() == want, fields
        form = {key: str(value) for key, value in {**FULL, **fields}.items()}
        assert server.post(data=form).json() == want
    assert server.translate(max_length=3).json() != server.translate().json()


def test_model_by_name_and_by_level(server):
    by_path = server.post("/translate/en-fr-char", json={"q": SENTENCE})
    assert by_path.status_code == 200
    pair = {"source": "en", "target": "fr"}
    for fields in ({"level": "char"}, {}):  # the pair has no other level
        assert server.translate(**{**pair, **fields}).text == by_path.text
    assert server.post("/translate/en-fr-char", json={"q": SENTENCE, **pair}).text == by_path.text
    auto = {"q": SENTENCE, "source": "auto"}  # the model tells the language
    found = server.post("/translate/en-fr-char", json=auto).json()
    assert found.pop("detectedLanguage")["language"] == "en"
    assert found == by_path.json()
    assert server.translate().text != by_path.text


def test_timeout_longer_than_the_servers_is_capped_not_refused(server):
    assert server.translate(timeout_ms=10**9).status_code == 200


def test_languages(server):
    reply = server.get("/languages")
    assert reply.json() == [{"code": "en", "name": "English", "targets": ["de", "fr"]},
                            {"code": "de", "name": "German", "targets": []},
                            {"code": "fr", "name": "French", "targets": []}]


def test_models(server):
    models = server.get("/models").json()["models"]
    assert [m["name"] for m in models] == ["en-de-token", "en-fr-char"]
    assert [m["level"] for m in models] == ["token", "char"]
    for model in models:
        assert {"source", "target", "parameters", "max_area_width"} <= set(model)
        assert model["parameters"] > 1000


@pytest.mark.parametrize("host", ["", "http://host", "HTTPS://host:99"])
def test_target_may_name_the_host(server, host):
    with server.connect() as connection:
        for target, status in (("/health", 200), ("/health?a=http://b/", 200), ("", 200)):
            line = f"GET {host}{target or '/'} HTTP/1.1\r\nHost: a\r\n\r\n"
            connection.sendall(line.encode())
            assert read_reply(connection)[0] == status


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready"])
def test_health(server, path):
    assert server.get(path).text == '{"status":"ok"}\n'


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/languages", "/models"])
def test_get_with_a_body_keeps_the_connection(server, path):
    with requests.Session() as session:
        for kwargs in ({"data": "{}"}, {"data": {"api_key": "k"}}, {"data": "x" * 100000}, {}):
            assert session.get(server.url + path, timeout=10, **kwargs).status_code == 200
        head = session.head(server.url + path, data="abc", timeout=10)
        assert head.status_code == 200
        assert head.text == ""
        assert int(head.headers["Content-Length"]) > 0


CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, traceparent, X-Request-ID",
    "Access-Control-Expose-Headers": "Authorization, Content-Disposition, Retry-After, "
                                     "traceparent, X-Request-ID, X-Trace-ID",
    "Access-Control-Allow-Methods": "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT",
    "Access-Control-Allow-Credentials": "true",
    "Access-Control-Max-Age": "1728000",
}


@pytest.mark.parametrize(
    "method, path, status, allow",
    [
        ("OPTIONS", "/translate", 200, "OPTIONS, POST"),
        ("OPTIONS", "/translate/en-de-token", 200, "OPTIONS, POST"),
        ("OPTIONS", "/languages", 200, "GET, HEAD, OPTIONS"),
        ("GET", "/translate", 405, "OPTIONS, POST"),
        ("HEAD", "/translate", 405, "OPTIONS, POST"),
        ("PUT", "/translate", 405, "OPTIONS, POST"),
        ("DELETE", "/models", 405, "GET, HEAD, OPTIONS"),
        ("POST", "/languages", 405, "GET, HEAD, OPTIONS"),
        ("POST", "/health", 405, "GET, HEAD, OPTIONS"),
        ("GET", "/languages", 200, None),
        ("GET", "/nowhere", 404, None),
        ("POST", "/translate", 400, None),
    ],
)
def test_methods_and_cors(server, method, path, status, allow):
    reply = requests.request(method, server.url + path, timeout=10)
    assert reply.status_code == status
    assert reply.headers.get("Allow") == allow
    assert CORS.items() <= reply.headers.items()
    if method == "OPTIONS":
        assert reply.content == b""


@pytest.mark.parametrize("path", ["/v2/glossaries/x", "/v3/glossaries/x", "/translate", "/",
                                  "/v3/glossaries/x/dictionaries"])
def test_cors_lets_pass_what_a_path_allows(server, path):
    """As a browser asks before it sends."""
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "PUT",
             "Access-Control-Request-Headers": "x-request-id"}
    headers = requests.options(server.url + path, headers=asked, timeout=10).headers
    methods = headers["Access-Control-Allow-Methods"].split(", ")
    assert set(headers["Allow"].split(", ")) <= set(methods)
    named = headers["Access-Control-Expose-Headers"].lower().split(", ")
    refused = requests.post(server.url + "/v2/translate", headers={
        "traceparent": f"00-{32 * 'a'}-{16 * 'b'}-01"}, timeout=10).headers
    assert {"x-request-id", "x-trace-id", "traceparent"} <= set(named) & {
        name.lower() for name in refused}


def test_cors_can_be_another_origin_or_none(serve):
    reply = serve(cors_origin="https://example.org").get("/health")
    assert reply.headers["Access-Control-Allow-Origin"] == "https://example.org"
    reply = serve(cors_origin="").get("/health")
    assert not [name for name in reply.headers if name.startswith("Access-Control")]
