"""GET /metrics: what was asked is what is counted."""

import shutil
import signal
import subprocess
import time

from acre_server import ROOT, Server, eventually
from prometheus_client.parser import text_string_to_metric_families


def samples(server):
    """{(name, labels): value}, from a page that Prometheus's own parser reads."""
    reply = server.get("/metrics")
    assert reply.status_code == 200
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4"
    families = list(text_string_to_metric_families(reply.text))
    assert len({family.name for family in families}) == len(families)
    assert all(family.documentation and family.type != "unknown" for family in families)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def labels(path, method, dialect, **more):
    return tuple(sorted({"route": path, "method": method, "dialect": dialect, **more}.items()))


def test_replies_are_counted_by_route_dialect_and_status(serve):
    server = serve()
    for _ in range(3):
        assert server.translate().status_code == 200
    assert server.translate(beam_size=99).status_code == 400
    assert server.post("/translate/en-fr-char", json={"q": "Hi."}).status_code == 200
    assert server.get("/health").status_code == 200
    assert server.get("/nope").status_code == 404
    with server.connect() as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 400"
    got = samples(server)
    for path, method, dialect, status, n in (
        ("/translate", "POST", "libretranslate", 200, 3),
        ("/translate", "POST", "libretranslate", 400, 1),
        ("/translate/*", "POST", "libretranslate", 200, 1),
        ("/health", "GET", "acre", 200, 1),
        ("none", "none", "none", 404, 1),
        ("none", "none", "none", 400, 1),
    ):
        key = labels(path, method, dialect, status=str(status))
        assert got[("acre_http_replies_total", key)] == n


def test_times_are_a_histogram(serve):
    server = serve()
    for _ in range(5):
        assert server.translate().status_code == 200
    got = samples(server)
    name, key = "acre_http_request_duration_seconds", ("/translate", "POST", "libretranslate")
    bounds = [float(dict(k)["le"]) for (n, k) in got
              if n == name + "_bucket" and dict(k)["route"] == key[0]]
    counts = [got[(name + "_bucket", labels(*key, le=dict(k)["le"]))] for (n, k) in got
              if n == name + "_bucket" and dict(k)["route"] == key[0]]
    assert bounds == sorted(bounds) and bounds[-1] == float("inf")
    assert counts == sorted(counts) and counts[-1] == 5
    assert got[(name + "_count", labels(*key))] == 5
    assert 0 < got[(name + "_sum", labels(*key))] < 60


def test_gauges_say_what_is(serve):
    server = serve()
    idle = [server.connect() for _ in range(3)]
    got = samples(server)
    assert got[("acre_http_connections", ())] == 4
    assert got[("acre_http_requests_active", ())] == 1  # this one
    assert got[("acre_models", ())] == 2
    for connection in idle:
        connection.close()


def test_what_models_did_is_counted(serve):
    server = serve()
    before = samples(server)
    for _ in range(3):
        assert server.translate("One sentence. And another one.").status_code == 200
    got = samples(server)

    def grew(name, model="en-de-token"):
        key = (name, (("model", model),))
        return got[key] - before[key]

    assert grew("acre_sentences_total") == 6
    assert grew("acre_sentences_total", "en-fr-char") == 0
    assert grew("acre_source_tokens_total") > 6
    assert grew("acre_target_tokens_total") > 0
    assert 0 < grew("acre_decoder_steps_total") <= grew("acre_decoder_rows_total")
    assert got[("acre_queued_sentences", (("model", "en-de-token"),))] == 0
    assert got[("acre_running_sentences", (("model", "en-de-token"),))] == 0


def test_promtool_finds_nothing_to_say(serve):
    server = serve()
    assert server.translate().status_code == 200
    done = subprocess.run(["promtool", "check", "metrics"], input=server.get("/metrics").text,
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def buckets(got, name, model="en-de-token"):
    """[(bound, count)] of a model's histogram, and its sum."""
    found = sorted((float(dict(key)["le"]), value) for (n, key), value in got.items()
                   if n == name + "_bucket" and dict(key)["model"] == model)
    return found, got[(name + "_sum", (("model", model),))]


def test_waits_and_batches_are_histograms(serve):
    server = serve(threads=1, batch_size=4)
    texts = [f"Sentence number {i}." for i in range(40)]
    assert server.translate(texts).status_code == 200
    got = samples(server)
    waits, waited = buckets(got, "acre_queue_wait_seconds")
    counts = [n for _, n in waits]
    assert counts == sorted(counts) and counts[-1] == 40
    assert waits[0][0] == 0.001 and 0 < waited < 60
    sizes, sentence_steps = buckets(got, "acre_batch_sentences")
    steps = got[("acre_decoder_steps_total", (("model", "en-de-token"),))]
    assert dict(sizes)[4] == sizes[-1][1] == steps  # never more than four
    assert dict(sizes)[2] < steps  # and mostly as many
    assert 2 * steps < sentence_steps <= 4 * steps
    assert buckets(got, "acre_batch_sentences", "en-fr-char")[0][-1][1] == 0


def test_connections_are_told_by_state(serve):
    server = serve()
    with server.connect() as idle, server.connect() as head, server.connect() as body:
        head.sendall(b"GET /")
        body.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
        assert eventually(lambda: samples(server)[state("body")] == 1)
        got = samples(server)
        assert [got[state(name)] for name in ("idle", "head", "body")] == [1, 1, 1]
        assert got[state("awaiting")] == 1  # this one
        assert idle
    assert samples(server)[("acre_http_connections_evicted_total", ())] == 0


def state(name):
    return ("acre_http_connections_by_state", (("state", name),))


def test_memory_reloads_and_the_process_are_told(serve):
    server = serve()
    models = server.get("/models").json()["models"]
    got = samples(server)
    for model in models:
        for kind, key in (("weights", "packed_bytes"), ("working", "working_bytes")):
            labels_ = (("kind", kind), ("model", model["name"]))
            assert got[("acre_model_memory_bytes", labels_)] == model[key] > 0
    assert got[("process_resident_memory_bytes", ())] > 1 << 20
    assert got[("process_cpu_seconds_total", ())] > 0
    assert -60 < got[("process_start_time_seconds", ())] - time.time() <= 1
    server.signal(signal.SIGHUP)
    done = ("acre_reloads_total", (("outcome", "done"),))
    assert got[done] == 0 and eventually(lambda: samples(server)[done] == 1, 30)


def test_a_model_may_be_called_anything(tmp_path):
    shutil.copytree(ROOT / "tests/golden/models/tiny-token", tmp_path / 'a"b\\c')
    server = Server(tmp_path)
    got = samples(server)
    assert server.stop() == 0
    assert got[("acre_sentences_total", (("model", 'a"b\\c'),))] == 0
