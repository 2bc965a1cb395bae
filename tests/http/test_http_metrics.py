"""GET /metrics: what was asked is what is counted."""

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
