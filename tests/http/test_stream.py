"""`stream`: one object for each sentence, in order, while later ones are still being translated."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from acre_server import PATIENCE, SENTENCE, Server, eventually

PAIR = {"source": "en", "target": "de"}
TEXTS = ["Hello there. How are you?\n\n  Fine. ", " ", "🙂", "One\nTwo", "",
         "The train is late today."]


def sentences(count):
    """So many that differ, lest the answer to one answer all."""
    return [f"The train of number {i} is late today." for i in range(count)]


def read(reply):
    """The objects of a stream, in either of its forms."""
    if reply.headers["Content-Type"] == "application/x-ndjson":
        return [json.loads(line) for line in reply.text.splitlines()]
    events = [event.split("\n") for event in reply.text.split("\n\n") if event]
    return [json.loads(event[-1].removeprefix("data: ")) for event in events]


def stream(server, q, accept="*/*", **fields):
    reply = server.post(json={"q": q, **PAIR, "stream": True, **fields},
                        headers={"Accept": accept})
    assert reply.status_code == 200, reply.text
    reply.encoding = "utf-8"
    return reply


def put_together(objects, n_texts):
    assert objects[-1] == {"done": True}
    texts, places = [""] * n_texts, []
    for each in objects[:-1]:
        places.append((each["index"], each["sentence"]))
        texts[each["index"]] += each.get("before", "") + each["translatedText"] + \
            each.get("after", "")
    assert places == sorted(places) and len(set(places)) == len(places)
    return texts


def metric(server, start):
    lines = [x for x in server.get("/metrics").text.splitlines() if x.startswith(start)]
    return sum(float(line.split()[-1]) for line in lines)


@pytest.mark.parametrize("accept, kind", [
    ("*/*", "application/x-ndjson"),
    ("application/x-ndjson", "application/x-ndjson"),
    ("text/event-stream", "text/event-stream"),
    ("application/json, Text/Event-Stream;q=0.9", "text/event-stream"),
])
def test_parts_are_the_whole(server, accept, kind):
    whole = server.translate(TEXTS).json()["translatedText"]
    reply = stream(server, TEXTS, accept)
    assert reply.headers["Content-Type"] == kind
    assert reply.headers["Transfer-Encoding"] == "chunked"
    assert "Content-Length" not in reply.headers
    objects = read(reply)
    assert put_together(objects, len(TEXTS)) == whole
    assert [o["sentence"] for o in objects if o.get("index") == 0] == [0, 1, 2]
    assert objects[2]["before"] == "\n\n  " and objects[2]["after"] == " "


@pytest.mark.parametrize("text", ["今天很冷。我在家。\n我在家。", "今天很冷。我在家。{name}我在家。"])
def test_the_space_that_chinese_has_not(server, text):
    """It is before the sentence, and places know of it: also where there is a placeholder."""
    fields = {"target": "fr", "beam_size": 1}
    whole = server.translate(text, sentences=True, **fields).json()
    objects = read(stream(server, text, sentences=True, **fields))
    assert put_together(objects, 1) == [whole["translatedText"]]
    assert objects[1]["before"] == " "
    assert [each["target"] for each in objects[:-1]] == \
        [each["target"] for each in whole["sentences"][0]]


def test_one_text_and_its_scores(server):
    whole = server.translate(SENTENCE, scores=True).json()
    objects = read(stream(server, SENTENCE, scores=True))
    assert len(objects) == 2
    assert objects[0] == {"index": 0, "sentence": 0, "translatedText": whole["translatedText"],
                          "score": pytest.approx(whole["scores"][0])}


def test_the_first_sentence_of_a_text_tells_what_was_detected(server):
    objects = read(stream(server, ["The dog sleeps. It is old.", "Good morning."], source="auto"))
    assert put_together(objects, 2)
    found = [each["sentence"] for each in objects[:-1] if "detectedLanguage" in each]
    assert found == [0, 0] and len(objects) == 4
    assert objects[0]["detectedLanguage"]["language"] == "en"


def test_a_form_may_ask_too(server):
    reply = server.post(data={"q": SENTENCE, **PAIR, "stream": "true"})
    assert read(reply)[-1] == {"done": True}


@pytest.mark.parametrize("fields, status", [
    ({"target": "xx"}, 400),
    ({"alternatives": 2}, 400),
    ({"q": []}, 400),
    ({"timeout_ms": 1, "q": f"{SENTENCE} " * 200}, 504),
])
def test_what_is_refused_before_the_first_sentence_has_its_status(serve, fields, status):
    server = serve()
    reply = server.post(json={"q": SENTENCE, **PAIR, "stream": True, **fields})
    assert reply.status_code == status
    assert reply.json()["message"] and reply.headers["Content-Type"] == "application/json"


def test_the_connection_goes_on(server):
    with requests.Session() as session:
        for _ in range(3):
            reply = session.post(f"{server.url}/translate",
                                 json={"q": "Hello. You.", **PAIR, "stream": True},
                                 timeout=60)
            assert [o.get("sentence") for o in read(reply)] == [0, 1, None]
        assert reply.headers.get("Connection") != "close"


def send(connection, body, version="1.1"):
    data = json.dumps(body).encode()
    connection.sendall(b"POST /translate HTTP/%s\r\nHost: x\r\nContent-Type: application/json\r\n"
                       b"Content-Length: %d\r\n\r\n%s" % (version.encode(), len(data), data))


def test_http_1_0_has_no_chunks(server):
    with server.connect() as connection:
        send(connection, {"q": "Hello. You.", **PAIR, "stream": True}, "1.0")
        data = b""
        while piece := connection.recv(65536):
            data += piece
    head, _, body = data.decode().partition("\r\n\r\n")
    assert "Transfer-Encoding" not in head and "Connection: close" in head
    assert [json.loads(line).get("sentence") for line in body.splitlines()] == [0, 1, None]


def test_the_first_comes_while_later_ones_are_decoded(serve):
    server = serve(threads=1, batch_size=2)
    text = " ".join(f"This is the sentence of number {i} of many." for i in range(100))
    reply = server.post(json={"q": text, **PAIR, "stream": True}, stream=True)
    lines = reply.iter_lines(chunk_size=1)
    first = next(lines)
    waiting = metric(server, "acre_queued_sentences") + metric(server, "acre_running_sentences")
    assert json.loads(first)["sentence"] == 0
    assert waiting > 0
    assert sum(1 for _ in lines) == 100


def test_the_first_sentence_does_not_wait_for_its_text(serve):
    """It is decoded by itself. Times on a busy machine scatter, so the best of several counts."""
    server = serve(threads=1)
    text = " ".join(f"This is the sentence of number {i} of many that follow." for i in range(50))
    ratios = []
    for _ in range(5):
        begun = time.monotonic()
        reply = server.post(json={"q": text, **PAIR, "stream": True}, stream=True)
        lines = reply.iter_lines(chunk_size=1)
        next(lines)
        first = time.monotonic() - begun
        assert sum(1 for _ in lines) == 50
        ratios.append(first / (time.monotonic() - begun))
    assert min(ratios) < 0.4, ratios


def replies_of(access):
    """(status, code) of each reply to /translate in the log."""
    lines = [line.split() for line in access.read_text().splitlines()]
    return [(line[4], line[-1]) for line in lines if line[3] == "/translate"]


def test_an_error_in_midstream_is_an_event(serve, tmp_path):
    """The deadline passes when some sentences are out. Logs and metrics have it as what it is."""
    access = tmp_path / "access.log"
    text = " ".join(sentences(2000))
    for accept in ("*/*", "text/event-stream"):
        for timeout_ms in (500, 1000, 2000, 4000, 8000, 16000):
            # which does not know yet that it will be late
            server = serve(threads=1, batch_size=1, access_log=access)
            reply = server.post(json={"q": text, **PAIR, "stream": True,
                                      "timeout_ms": timeout_ms}, headers={"Accept": accept})
            if reply.status_code == 200:
                break
        objects = read(reply)
        assert len(objects) > 1 and objects[-1]["code"] == "deadline_exceeded"
        assert objects[-1]["message"] and "done" not in objects[-1]
        assert ("event: error\n" in reply.text) == (accept == "text/event-stream")
        assert eventually(lambda: replies_of(access)[-1:] == [("504", "deadline_exceeded")])
        counted = [line for line in server.get("/metrics").text.splitlines()
                   if line.startswith("acre_http_replies_total") and '"/translate"' in line]
        assert len(counted) == 1 and counted[0].endswith('status="504"} 1'), counted
        assert eventually(lambda: any("refused: 504 deadline_exceeded to 127.0.0.1, POST /translate"
                                      in line for line in server.log))
    assert eventually(lambda: metric(server, "acre_running_sentences") == 0)


def test_a_client_that_leaves_cancels_the_rest(serve, tmp_path):
    """In the log its stream is what any translation is that nobody waits for."""
    access = tmp_path / "access.log"
    server = serve(threads=1, batch_size=1, access_log=access)
    for n, is_streamed in enumerate((True, False), 1):
        with server.connect() as connection:
            send(connection, {"q": " ".join(sentences(2000)), **PAIR, "stream": is_streamed})
            if is_streamed:
                assert b"200 OK" in connection.recv(1000)
            else:
                assert eventually(lambda: metric(server, "acre_running_sentences") > 0)
        assert eventually(lambda: len(replies_of(access)) == n)
    assert replies_of(access) == 2 * [("503", "cancelled")]
    assert eventually(lambda: metric(server, "acre_cancelled_sentences_total") > 1000)
    assert metric(server, "acre_queued_sentences") == 0
    assert server.get("/health").status_code == 200


def test_a_client_that_leaves_while_a_sentence_is_rendered_cancels_the_rest(serve):
    """Its images take a thread of the pool some tenths of a second."""
    size = {"max_body_bytes": 20_000_000, "max_text_chars": 20_000_000}
    server = serve(threads=1, batch_size=1, max_queued_tokens=10_000_000, **size)
    text = f"<p>Hi{'<img>' * 2_000_000} you.</p>" + "".join(f"<p>{s}</p>" for s in sentences(2000))
    with server.connect() as connection:
        send(connection, {"q": text, **PAIR, "format": "html", "stream": True})
        assert eventually(lambda: metric(server, "acre_sentences_total") > 0, 30 * PATIENCE)
    assert eventually(lambda: metric(server, "acre_cancelled_sentences_total") > 1000,
                      10 * PATIENCE)
    assert metric(server, "acre_queued_sentences") == 0


def test_a_slow_reader_holds_up_nobody_and_is_left(serve):
    """It takes nothing: what it does not take is not rendered, others are served, and after
    send_timeout_s its stream is cut off, without the end that would make it whole."""
    server = serve(threads=1, send_timeout_s=1, cache_bytes=10_000_000,
                   max_queued_tokens=10_000_000)
    server.translate("Hi.")
    q = ["Hi.\n" * 20000] * 5  # all known: more to send at once than the kernel keeps
    with server.connect() as connection:
        send(connection, {"q": q, **PAIR, "stream": True})
        time.sleep(0.5)
        begun = time.monotonic()
        assert server.translate("Hello.").status_code == 200
        assert time.monotonic() - begun < 5 * PATIENCE
        assert eventually(lambda: metric(server, "acre_http_requests_active") <= 1, 30 * PATIENCE)
        data = b""
        try:
            while piece := connection.recv(65536):
                data += piece
        except ConnectionResetError:
            pass
    assert b"200 OK" in data and not data.endswith(b"0\r\n\r\n")


def count_sentences(connection):
    data = bytearray()
    while not data.endswith(b"0\r\n\r\n"):
        piece = connection.recv(1 << 20)
        assert piece
        data += piece
    return data.count(b'"sentence":')


def test_what_is_known_already_holds_up_nobody(serve):
    """All sentences are there at once, and their readers take them as fast as they come: others
    have their turns meanwhile."""
    server = serve(threads=1, cache_bytes=10_000_000, max_queued_tokens=10_000_000,
                   max_bodies_bytes=1_000_000_000)
    server.translate("Hi.")
    q = ["Hi.\n" * 20000] * 3
    with server.connect() as one, server.connect() as two, ThreadPoolExecutor(2) as readers:
        for connection in (one, two):
            send(connection, {"q": q, **PAIR, "stream": True})
        counts = [readers.submit(count_sentences, connection) for connection in (one, two)]
        begun, waits = time.monotonic(), []
        while not all(count.done() for count in counts):
            asked = time.monotonic()
            assert server.get("/health").status_code == 200
            waits.append(time.monotonic() - asked)
            time.sleep(0.02)
        took = time.monotonic() - begun
    assert [count.result() for count in counts] == [60000] * 2
    assert max(waits) < took / 4, (max(waits), took)


def test_a_server_that_stops_finishes_streams(models):

    server = Server(models, threads=1)
    with server.connect() as connection:
        send(connection, {"q": f"{SENTENCE} " * 100, **PAIR, "stream": True})
        data = connection.recv(300)
        server.signal()
        while piece := connection.recv(65536):
            data += piece
    assert server.stop() == 0
    assert data.endswith(b"0\r\n\r\n") and b'{"done":true}' in data
    assert len(re.findall(rb'"sentence":', data)) == 100


def test_random_leavers_leave_nothing_behind(serve):
    server = serve(threads=2, cache_bytes=100_000)
    for i in range(60):
        with server.connect() as connection:
            send(connection, {"q": [f"{SENTENCE} Sentence {i % 7}. " * (1 + i % 20)] * 3, **PAIR,
                              "stream": True})
            if i % 3:
                connection.recv(i * 10 + 1)
    assert eventually(lambda: metric(server, "acre_running_sentences")
                      + metric(server, "acre_queued_sentences") == 0, 30 * PATIENCE)
    assert read(stream(server, SENTENCE))[-1] == {"done": True}
