"""Who may do what with glossaries: where keys stand, rates, turns in the pool, shares of memory."""

import json
import re
import sqlite3
import statistics
import threading
import time

import deepl
import pytest
import requests
from acre_server import PATIENCE, eventually, read_reply
from test_glossaries import NO_GLOSSARY, make
from test_http_keys import DEEPL, Store, metric, refused

PAIR = {"source_lang": "en", "target_lang": "de"}
PART = {**PAIR, "entries": "a\tb", "entries_format": "tsv"}
NEW = {"name": "n", **PART}
WRONG = "acre-" + "0" * 40


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "acre.db")


def ask(server, method, path, **kwargs):
    return requests.request(method, server.url + path, timeout=60 * PATIENCE, **kwargs)


def lines(pairs):
    return "\n".join(f"{source}\t{target}" for source, target in pairs)


# ---- Keys ----------------------------------------------------------------------------------------


def test_keys_are_taken_wherever_clients_put_them(serve, store):
    key = store.add("ann")
    server = serve(store=store.path, keys_required="true")
    field = {"auth_key": key}
    multipart = {name: (None, value) for name, value in {**NEW, **field}.items()}
    made = [
        ask(server, "POST", "/v2/glossaries", json={**NEW, **field}),
        ask(server, "POST", "/v2/glossaries", data={**NEW, **field}),
        ask(server, "POST", "/v2/glossaries", data=NEW, params=field),
        ask(server, "POST", "/v2/glossaries", files=multipart),
        ask(server, "POST", "/v2/glossaries", json=NEW, headers={"Authorization": f"Bearer {key}"}),
        ask(server, "POST", "/v3/glossaries", json={"name": "n", "dictionaries": [PART], **field}),
    ]
    assert [reply.status_code for reply in made] == [201] * len(made)
    first, second = (reply.json()["glossary_id"] for reply in made[:2])
    for path in ("/v2/glossaries", "/v3/glossaries"):
        for shown in (ask(server, "GET", path, params=field), ask(server, "GET", path, json=field)):
            assert len(shown.json()["glossaries"]) == len(made), shown.text
    one = f"/v3/glossaries/{first}"
    good = [
        ask(server, "GET", f"/v2/glossaries/{first}", params=field),
        ask(server, "GET", f"/v2/glossaries/{first}/entries", params=field),
        ask(server, "GET", one, params=field),
        ask(server, "GET", one, data=field),
        ask(server, "GET", one + "/entries", params={**PAIR, **field}),
        ask(server, "PATCH", one, json={"name": "m", **field}),
        ask(server, "PUT", one + "/dictionaries", json={**PART, "target_lang": "fr", **field}),
        ask(server, "PUT", one + "/dictionaries", data={**PART, **field}),
        ask(server, "DELETE", one + "/dictionaries", params={**PAIR, **field}),
        ask(server, "DELETE", one, params=field, headers={"Content-Type": "application/json"}),
        ask(server, "DELETE", f"/v2/glossaries/{second}", json=field),
    ]
    assert [reply.status_code for reply in good] == [200] * 8 + [204] * 3
    assert key not in "".join(server.log)


def test_the_same_key_counts_as_in_other_calls(serve, store):
    key = store.add("ann")
    server = serve(store=store.path, keys_required="true")

    def both(headers, **field):
        """What a translation and a list say, of which a list says it without a body, too."""
        replies = [ask(server, "POST", "/v2/translate", json={**DEEPL, **field}, headers=headers),
                   ask(server, "GET", "/v2/glossaries", json=field, headers=headers),
                   ask(server, "GET", "/v3/glossaries", params=field, headers=headers)]
        assert len({reply.status_code for reply in replies}) == 1, [r.text for r in replies]
        return replies[0].status_code

    ours, bearer = f"DeepL-Auth-Key {key}", f"Bearer {key}"
    assert both({"Authorization": ours}, auth_key=WRONG) == 200
    assert both({"Authorization": "DeepL-Auth-Key " + WRONG}, auth_key=key) == 403
    assert both({"Authorization": bearer}, auth_key=WRONG) == 403
    assert both({"Authorization": "Bearer x.y.z"}, auth_key=key) == 200
    assert both({"Authorization": bearer}, auth_key="") == 200
    assert both({}, auth_key="x" * 50000) == 403
    assert both({}, auth_key="grün") == 403
    assert both({}) == 403
    assert both({}, api_key=key) == 403  # which is LibreTranslate's


@pytest.mark.parametrize("value", [5, True, 1.5, [], ["x"], {}, {"a": "b"}, [WRONG] * 9999])
def test_what_is_no_key_is_refused(server, value):
    for method, path in (("POST", "/v2/glossaries"), ("GET", "/v3/glossaries"),
                         ("DELETE", f"/v3/glossaries/{NO_GLOSSARY}")):
        refused(ask(server, method, path, json={**NEW, "auth_key": value}), 400,
                "invalid_parameter", "Value for 'auth_key' not supported: expected a string")
    assert server.get("/v3/glossaries").json() == {"glossaries": []}


def test_a_long_body_with_a_wrong_key(serve, store):
    """It is read in the pool, and its key is in it."""
    key = store.add("ann")
    server = serve(store=store.path)
    long = {**NEW, "entries": lines((f"term {i}", "x") for i in range(20000))}
    for wrong in (WRONG, "x" * 500000):
        refused(ask(server, "POST", "/v2/glossaries", json={**long, "auth_key": wrong}), 403,
                "invalid_key", "Authorization failure")
    assert ask(server, "POST", "/v2/glossaries", json={**long, "auth_key": key}).status_code == 201
    assert server.get("/v2/glossaries").json() == {"glossaries": []}
    assert store.row("ann")["characters"] == 0


def test_who_gets_another_key_keeps_them_and_who_has_none_leaves_none(serve, store):
    """Of servers that share the store, too."""
    ann, bob = store.add("ann"), store.add("bob")
    servers = [serve(store=store.path) for _ in range(2)]
    for key in (ann, bob):
        assert ask(servers[0], "POST", "/v2/glossaries",
                   json={**NEW, "auth_key": key}).status_code == 201

    def count(server, key):
        reply = ask(server, "GET", "/v2/glossaries", params={"auth_key": key})
        return len(reply.json()["glossaries"]) if reply.status_code == 200 else reply.status_code

    assert eventually(lambda: [count(s, k) for s in servers for k in (ann, bob)] == [1] * 4)
    new = store.keys("renew", "ann")
    store.keys("revoke", "bob")
    assert eventually(lambda: [count(s, k) for s in servers for k in (ann, new, bob)] ==
                      [403, 1, 403] * 2)
    assert eventually(lambda: [metric(s, "acre_glossaries ") for s in servers] == [1, 1])
    with sqlite3.connect(store.path) as db:
        for table in ("glossaries", "dictionaries"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)


def test_a_server_that_has_not_heard_of_the_end_of_a_key(serve, store):
    """What it makes for it would be there for good."""
    ann = store.add("ann")
    server = serve(store=store.path)
    with sqlite3.connect(store.path) as db:  # without what servers look at
        db.execute("UPDATE keys SET revoked = 'now'")
    reply = ask(server, "POST", "/v2/glossaries", json={**NEW, "auth_key": ann})
    refused(reply, 503, "store_failed", "its key has been revoked")
    assert metric(server, "acre_glossaries ") == 0


# ---- Rates ---------------------------------------------------------------------------------------

CALLS = [("GET", "/v2/glossaries"), ("POST", "/v2/glossaries"), ("GET", "/v3/glossaries"),
         ("POST", "/v3/glossaries"), ("GET", f"/v2/glossaries/{NO_GLOSSARY}"),
         ("GET", f"/v2/glossaries/{NO_GLOSSARY}/entries"),
         ("DELETE", f"/v2/glossaries/{NO_GLOSSARY}"), ("GET", f"/v3/glossaries/{NO_GLOSSARY}"),
         ("GET", f"/v3/glossaries/{NO_GLOSSARY}/entries"),
         ("PATCH", f"/v3/glossaries/{NO_GLOSSARY}"), ("DELETE", f"/v3/glossaries/{NO_GLOSSARY}"),
         ("PUT", f"/v3/glossaries/{NO_GLOSSARY}/dictionaries"),
         ("DELETE", f"/v3/glossaries/{NO_GLOSSARY}/dictionaries")]


def test_each_call_takes_a_token(serve, store):
    keys = [store.add(f"slow{i}", rate=2) for i in range(len(CALLS))]
    server = serve(store=store.path)
    for key, (method, path) in zip(keys, CALLS, strict=True):
        headers = {"Authorization": f"DeepL-Auth-Key {key}"}
        begun = time.monotonic()
        for _ in range(2):
            assert ask(server, method, path, headers=headers).status_code != 429, path
        reply = ask(server, method, path, headers=headers)
        refused(reply, 429, "too_many_requests", "Too many requests: 2 per 1 minute")
        assert 29 - (time.monotonic() - begun) <= int(reply.headers["Retry-After"]) <= 30
        reply = ask(server, "POST", "/v2/translate", json={**DEEPL, "auth_key": key})
        assert reply.status_code == 429  # of the same bucket
    assert metric(server, 'acre_refused_total{reason="key_rate"}') == 2 * len(CALLS)


def test_who_has_no_good_key_asks_from_an_address(serve, store):
    store.add("ann")
    server = serve(store=store.path, rate_limit=3, trusted_proxies="127.0.0.0/8")
    here, there = from_address(1), from_address(2)
    for expected in (403, 403, 403, 429):  # also while guessing
        reply = ask(server, "GET", "/v2/glossaries", params={"auth_key": WRONG}, headers=here)
        assert reply.status_code == expected
    assert ask(server, "GET", "/v2/glossaries", headers=here).status_code == 429
    assert ask(server, "GET", "/v2/glossaries", headers=there).status_code == 200


def from_address(i):
    return {"X-Forwarded-For": f"192.0.2.{i}"}


JSON = {"Content-Type": "application/json"}
BROKEN = [b"{", b"[]", b'{"auth_key": 5, "api_key": 5}', b'{"name": %s}' % (b"x" * 50000)]


@pytest.mark.parametrize("required", ["false", "true"])
def test_what_is_wrong_takes_a_token_too(serve, store, required):
    key = {"Authorization": "Bearer " + store.add("slow", rate=len(BROKEN))}
    server = serve(store=store.path, rate_limit=len(BROKEN), trusted_proxies="127.0.0.0/8",
                   keys_required=required)
    paths = "/v2/glossaries", "/v3/glossaries", "/translate", "/v2/translate"
    for i, path in enumerate(paths):
        who = from_address(i)
        for body in BROKEN:
            reply = ask(server, "POST", path, data=body, headers={**who, **JSON})
            assert reply.status_code == 400, reply.text
        assert ask(server, "GET", "/v2/glossaries", headers=who).status_code == 429, path
    for body in BROKEN:
        if b"auth_key" not in body:
            assert ask(server, "POST", "/v2/glossaries", data=body,
                       headers={**key, **JSON}).status_code == 400
    assert ask(server, "GET", "/v2/glossaries", headers=key).status_code == 200
    assert ask(server, "GET", "/v2/glossaries", headers=key).status_code == 429


def posts(server):
    """That have ended."""
    return sum(float(n) for n in re.findall(r'^acre_http_replies_total{.*method="POST".*} (\S+)',
                                            server.get("/metrics").text, re.M))


@pytest.mark.parametrize("path", ["/v2/glossaries", "/translate"])
def test_who_leaves_has_taken_a_token(serve, path):
    """His body is read in the pool when the connection ends."""
    server = serve(rate_limit=3, trusted_proxies="127.0.0.0/8", max_body_bytes=1 << 25)
    body = b'{"name": "%s"}' % (b"\\u00e4" * 1000000)
    head = "".join(f"{name}: {value}\r\n" for name, value in {
        **from_address(1), **JSON, "Content-Length": len(body)}.items())
    for n in range(3):
        with server.connect() as connection:
            connection.sendall(f"POST {path} HTTP/1.1\r\nHost: a\r\n{head}\r\n".encode() + body)
        assert eventually(lambda n=n: posts(server) > n, 20 * PATIENCE)
    reply = ask(server, "GET", "/v2/glossaries", headers=from_address(1))
    assert reply.status_code == 429


# ---- Others wait for nobody ----------------------------------------------------------------------

CODES = ["en", "de", "fr", "es", "it", "nl", "pl", "pt", "sv"]
PAIRS = [(a, b) for a in CODES for b in CODES if a != b][:64]


def fill(path, n, pairs=PAIRS):
    """Glossaries without a key, of as many dictionaries as there may be, or others."""
    with sqlite3.connect(path) as db:
        for i in range(n):
            db.execute("INSERT INTO glossaries (id, owner, name, created) VALUES (?, 0, 'n', ?)",
                       [f"{i:036d}", i])
            db.executemany("INSERT INTO dictionaries VALUES (?, ?, ?, ?, CAST('a\tb' AS BLOB))",
                           [(f"{i:036d}", k, *pair) for k, pair in enumerate(pairs)])


class Repeat(threading.Thread):
    """Asks for one thing until it is told to stop, and notes how long each answer took."""

    def __init__(self, server, path):
        super().__init__()
        self.request = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        self.server, self.seconds, self.is_over = server, [], False

    def run(self):
        with self.server.connect() as connection:
            while not self.is_over:
                begin = time.monotonic()
                connection.sendall(self.request)
                assert read_reply(connection)[0] == 200
                self.seconds.append(time.monotonic() - begin)


@pytest.mark.parametrize("n, pairs", [(150, PAIRS), (5000, [])])
def test_a_long_list_holds_up_nobody(serve, store, n, pairs):
    """It is written in the pool: else whoever asks for anything waits for those before it."""
    store.add("ann")
    fill(store.path, n, pairs)
    server = serve(store=store.path)
    assert len(server.get("/v3/glossaries").json()["glossaries"]) == n
    lists = [Repeat(server, "/v3/glossaries") for _ in range(3)]
    health = Repeat(server, "/health")
    for thread in (*lists, health):
        thread.start()
    time.sleep(2 * PATIENCE)
    for thread in (*lists, health):
        thread.is_over = True
    for thread in (*lists, health):
        thread.join()
    of_lists = statistics.median(s for thread in lists for s in thread.seconds)
    assert statistics.median(health.seconds) < of_lists / 10


def send(server, fields, key, where):
    """A connection that waits for a reply."""
    field = {"auth_key": key} if where == "body" else {}
    body = json.dumps({**NEW, **fields, **field}).encode()
    head = f"Authorization: DeepL-Auth-Key {key}\r\n" if where == "head" else ""
    connection = server.connect()
    connection.sendall(f"POST /v2/glossaries HTTP/1.1\r\nHost: a\r\n{head}"
                       "Content-Type: application/json\r\n"
                       f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


@pytest.mark.parametrize("where", ["head", "body"])
def test_who_makes_many_waits_for_himself(serve, store, where):
    """The pool works on one glossary of a caller, and then on one of another."""
    ann, bob = store.add("ann"), store.add("bob")
    server = serve(store=store.path, max_body_bytes=1 << 23, max_glossary_bytes=1 << 30)
    many = {"entries": lines((f"term {i} of many", "x") for i in range(60000))}
    few = {"entries": lines((f"term {i}", "x") for i in range(2000))}
    ended = []

    def wait(name, connection):
        with connection:
            connection.settimeout(60 * PATIENCE)
            assert read_reply(connection)[0] == 201
        ended.append(name)

    threads = [threading.Thread(target=wait, args=("ann", send(server, many, ann, where)))
               for _ in range(10)]
    threads.append(threading.Thread(target=wait, args=("bob", send(server, few, bob, where))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended.count("ann") == 10 and ended.index("bob") <= 6, ended


def test_those_who_leave_their_turn(serve, store):
    """Lists that nobody waits for any more are not written: who comes next does not wait for them.
    """
    store.add("ann")
    fill(store.path, 100)
    server = serve(store=store.path)
    request = b"GET /v3/glossaries HTTP/1.1\r\nHost: a\r\n\r\n"

    def seconds():
        start = time.monotonic()
        found = server.get("/v3/glossaries", timeout=60 * PATIENCE).json()["glossaries"]
        assert len(found) == 100
        return time.monotonic() - start

    alone = min(seconds() for _ in range(5))
    for _ in range(20):
        connections = [server.connect() for _ in range(20)]
        for connection in connections:
            connection.sendall(request)
        for connection in connections:
            connection.close()
    assert seconds() < 100 * alone  # of 400 that would be written
    assert ask(server, "DELETE", f"/v3/glossaries/{0:036d}").status_code == 204


def begin(server, path, n):
    """Connections that wait for replies."""
    connections = [server.connect() for _ in range(n)]
    for connection in connections:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return connections


def read_all(connections):
    """(status, glossaries listed or None) of each reply."""
    replies = []
    for connection in connections:
        with connection:
            status, _, body = read_reply(connection)
            replies.append((status, len(json.loads(body).get("glossaries", ()))))
    return replies


def test_who_waits_holds_nothing(serve, store):
    """Calls find what there is when their turn comes, not before: it may be gone."""
    store.add("ann")
    fill(store.path, 100)
    server = serve(store=store.path)
    lists = begin(server, "/v3/glossaries", 40)
    assert ask(server, "DELETE", f"/v3/glossaries/{0:036d}").status_code == 204
    assert read_all(lists)[-1] == (200, 99)
    lists = begin(server, "/v3/glossaries", 20) + begin(server, f"/v3/glossaries/{1:036d}", 4)
    assert ask(server, "DELETE", f"/v3/glossaries/{1:036d}").status_code == 204
    assert read_all(lists)[-1] == (404, 0)


def test_what_is_deleted_while_it_is_shown(serve, store):
    store.add("ann")
    fill(store.path, 100)
    server = serve(store=store.path)
    lists = [server.connect() for _ in range(8)]
    for connection in lists:
        connection.sendall(b"GET /v3/glossaries HTTP/1.1\r\nHost: a\r\n\r\n")
    for i in range(100):
        assert ask(server, "DELETE", f"/v3/glossaries/{i:036d}").status_code == 204
    for connection in lists:
        with connection:
            status, _, body = read_reply(connection)
            assert status == 200 and len(json.loads(body)["glossaries"]) <= 100
    assert server.get("/v3/glossaries").json() == {"glossaries": []}


# ---- Shares --------------------------------------------------------------------------------------


def bytes_of(server):
    return float(re.search(r"^acre_glossary_bytes (\S+)", server.get("/metrics").text, re.M)[1])


def make_until_refused(server, key=None, entries="a\tb"):
    """(the last one that was made, the reply that refused another)"""
    made, field = None, {"auth_key": key} if key else {}
    for _ in range(1000):
        reply = make(server, entries, **field)
        if reply.status_code != 201:
            return made, reply
        made = reply.json()["glossary_id"]
    raise AssertionError("everything is taken")


def test_one_key_takes_no_more_than_it_leaves_free(serve, store):
    most = 400000
    ann, bob, cid = (store.add(name) for name in ("ann", "bob", "cid"))
    server = serve(store=store.path, max_glossary_bytes=most)
    entries = lines((f"term {i}", "x") for i in range(100))
    made, reply = make_until_refused(server, ann, entries)
    refused(reply, 456, "glossary_share_exceeded", "Your glossaries would take")
    assert f"expected at most {most // 2}" in reply.json()["message"]
    taken = bytes_of(server)
    assert most / 4 < taken <= most / 2
    for key in (bob, cid, None):  # each still has room, and no more than it leaves
        _, reply = make_until_refused(server, key)
        refused(reply, 456, "glossary_share_exceeded", "Your glossaries would take")
        own, taken = bytes_of(server) - taken, bytes_of(server)
        assert 0 < own <= most - taken
    url, key = f"/v3/glossaries/{made}", {"auth_key": ann}
    part = {**PART, "entries": entries}
    assert ask(server, "PATCH", url, json={"name": "m", **key}).status_code == 200
    assert ask(server, "PUT", url + "/dictionaries", json={**part, **key}).status_code == 200
    more = {"dictionaries": [{**part, "entries": entries.replace("term", "more")}], **key}
    refused(ask(server, "PATCH", url, json=more), 456, "glossary_share_exceeded", "")
    with pytest.raises(deepl.QuotaExceededException, match="left for others"):
        deepl.DeepLClient(ann, server_url=server.url).create_glossary("n", "EN", "DE",
                                                                      {"a" * 999: "b" * 999})
    assert ask(server, "PUT", url + "/dictionaries", json={**PART, **key}).status_code == 200


def test_without_keys_there_are_no_shares(serve, tmp_path):
    """Whether there is a store or not."""
    for settings in ({}, {"store": tmp_path / "store.db"}):
        server = serve(max_glossary_bytes=100000, **settings)
        _, reply = make_until_refused(server, entries=lines((f"{i}", "x") for i in range(100)))
        refused(reply, 413, "glossary_too_large", "more than 100000 bytes")
        assert bytes_of(server) > 60000
