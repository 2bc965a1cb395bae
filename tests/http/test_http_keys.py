"""API keys and limits: where clients put keys, quotas, rates, what is counted and told."""

import json
import re
import resource
import signal
import sqlite3
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import deepl
import libretranslatepy
import pytest
import requests
from acre_server import ACRE, PATIENCE, ROOT, SENTENCE, Server, eventually, pass_time
from deepl import http_client

LOOK = {"text": "hello", "source": "en", "target": "de"}
HELLO = {"q": "hello", "source": "en", "target": "de"}
DEEPL = {"text": ["hello"], "source_lang": "EN", "target_lang": "DE"}


class Store:
    def __init__(self, path):
        self.path = path

    def keys(self, action, *args, **options):
        command = [ACRE, "keys", action, *args, "--store", self.path]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def add(self, name, **limits):
        return self.keys("add", name, **limits)

    def bytes(self):
        """Of its files, the journal among them."""
        return {path.name: path.read_bytes() for path in self.path.parent.glob("acre.db*")}

    def row(self, name):
        rows = [json.loads(line) for line in self.keys("list", "--json").splitlines()]
        return next(row for row in rows if row["name"] == name)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "acre.db")


def refused(reply, status, code, text):
    assert reply.status_code == status, reply.text
    body = reply.json()
    assert set(body) == {"error", "message", "code"} and body["error"] == body["message"]
    assert body["code"] == code
    assert text in body["error"]


def used(server, key):
    reply = server.get("/v2/usage", headers={"Authorization": f"DeepL-Auth-Key {key}"})
    return reply.json()["character_count"]


def metric(server, start):
    lines = [x for x in server.get("/metrics").text.splitlines() if x.startswith(start)]
    return float(lines[0].split()[-1])


# ---- Where keys are, and who needs one -----------------------------------------------------------


def test_keys_are_taken_wherever_clients_put_them(serve, store):
    key = store.add("web")
    server = serve(store=store.path, keys_required="true")
    good = [
        server.post(json={**HELLO, "api_key": key}),
        server.post(data={**HELLO, "api_key": key}),
        server.post(params={**HELLO, "api_key": key}),
        server.post(files={name: (None, value) for name, value in
                           {**HELLO, "api_key": key}.items()}),
        server.post(json={**HELLO, "api_key": ""}, headers={"Authorization": f"bearer  {key}"}),
        server.post(json={**HELLO, "api_key": key}, headers={"Authorization": "Bearer x.y.z"}),
        server.post("/detect", json={"q": SENTENCE, "api_key": key}),
        server.post("/", data={**HELLO, "api_key": key}),
        server.get("/attention", params={**LOOK, "api_key": key}),
        server.post("/attention", json={**LOOK, "api_key": key}),
        server.post("/v2/translate", json=DEEPL,
                    headers={"Authorization": f"DeepL-Auth-Key {key}"}),
        server.post("/v2/translate", json={**DEEPL, "auth_key": key}),
        server.post("/v2/translate", data={**DEEPL, "auth_key": key}),
        server.post("/v2/translate", json=DEEPL, headers={"Authorization": f"Bearer {key}"}),
        server.get("/v2/languages", params={"auth_key": key}),
        server.get("/v2/usage", headers={"Authorization": f"DeepL-Auth-Key {key}"}),
    ]
    assert [reply.status_code for reply in good] == [200] * len(good)
    for path in ["/languages", "/health", "/models", "/metrics", "/frontend/settings", "/"]:
        assert server.get(path).status_code == 200, path
    shown = server.get("/frontend/settings").json()
    assert (shown["apiKeys"], shown["keyRequired"]) == (True, True)
    assert key not in "".join(server.log)


def test_the_page_asks_for_a_key_where_there_are_some(serve, store, server):
    key = store.add("web")
    with_keys = serve(store=store.path, keys_required="true")
    page = with_keys.get("/").text
    assert re.search(r'<input id="key" name="api_key" type="password" [^>]* required>', page)
    reply = with_keys.post("/", data={**HELLO, "api_key": key})
    assert reply.status_code == 200 and key not in reply.text
    assert "api_key" not in re.sub("<script>.*</script>", "", server.get("/").text, flags=re.DOTALL)


def test_words_of_each_dialect(serve, store):
    store.add("web")
    server = serve(store=store.path, keys_required="true")
    need = "Please contact the server operator to get an API key"
    for value in [{}, {"api_key": ""}, {"api_key": None}]:
        refused(server.post(json={**HELLO, **value}), 400, "key_required", need)
    refused(server.post("/detect", json={"q": "x"}), 400, "key_required", need)
    assert need in server.post("/", data=HELLO).text
    wrong = "acre-" + "0" * 40
    for bad in [wrong, "x", "x" * 9000, "grün"]:
        refused(server.post(json={**HELLO, "api_key": bad}), 403, "invalid_key", "Invalid API key")
    for path in ["/v2/translate", "/v2/usage", "/v2/languages", "/v3/languages/resources",
                 "/v3/glossaries", "/v2/glossary-language-pairs"]:
        for headers in [{}, {"Authorization": "DeepL-Auth-Key " + wrong},
                        {"Authorization": "DeepL-Auth-Key "}, {"Authorization": "Basic eDp5"}]:
            reply = server.post(path, json=DEEPL, headers=headers) if path.endswith("translate") \
                else server.get(path, headers=headers)
            refused(reply, 403, "key_required" if "0" * 40 not in str(headers) else "invalid_key",
                    "Authorization failure, check auth_key")
    assert metric(server, 'acre_refused_total{reason="no_key"}') >= 4
    assert metric(server, 'acre_refused_total{reason="bad_key"}') >= 4
    log = "".join(server.log)
    assert "refused: 403 invalid_key to 127.0.0.1, POST /translate, request " in log
    assert "refused: 400 key_required to 127.0.0.1, POST /translate, request " in log
    assert "0" * 40 not in log


def test_optional_keys(serve, store):
    key = store.add("web")
    server = serve(store=store.path)
    assert server.post(json=HELLO).status_code == 200
    assert server.post(json={**HELLO, "api_key": key}).status_code == 200
    assert server.post(json={**HELLO, "api_key": "guess"}).status_code == 403
    shown = server.get("/frontend/settings").json()
    assert (shown["apiKeys"], shown["keyRequired"]) == (True, False)


def test_without_a_store_any_key_is_taken(server):
    assert server.post(json={**HELLO, "api_key": "any"}).status_code == 200
    assert server.get("/v2/usage", headers={"Authorization": "DeepL-Auth-Key a"}).status_code == 200
    assert server.get("/frontend/settings").json()["apiKeys"] is False


def test_a_revoked_key_ends_within_seconds_and_a_new_one_begins(serve, store):
    old = store.add("web")
    server = serve(store=store.path, keys_required="true")
    assert server.post(json={**HELLO, "api_key": old}).status_code == 200
    store.keys("revoke", "web")
    new = store.add("web")
    assert eventually(lambda: server.post(json={**HELLO, "api_key": old}).status_code == 403)
    assert eventually(lambda: server.post(json={**HELLO, "api_key": new}).status_code == 200)
    assert metric(server, "acre_keys") == 1


def test_a_renewed_key_goes_on_where_the_old_one_ended(serve, store):
    old = store.add("web", quota=20)
    server = serve(store=store.path, keys_required="true")
    assert server.post(json={**HELLO, "api_key": old}).status_code == 200
    new = store.keys("renew", "web")
    status = lambda key, text: server.post(json={**HELLO, "q": text, "api_key": key}).status_code
    assert eventually(lambda: status(old, "") == 403)
    assert used(server, new) == 5
    assert status(new, 16 * "h") == 429
    store.keys("set", "web", quota=0)
    assert eventually(lambda: status(new, 21 * "h") == 200)
    assert metric(server, "acre_keys") == 1
    assert eventually(lambda: store.row("web")["characters"] == used(server, new))


# ---- Unchanged clients ---------------------------------------------------------------------------


def test_deepl_client(serve, store, monkeypatch):
    monkeypatch.setattr(http_client, "max_network_retries", 0)
    key = store.add("app", quota=20)
    server = serve(store=store.path, keys_required="true")
    with closing(deepl.DeepLClient(key, server_url=server.url)) as client:
        assert client.translate_text("hello", source_lang="EN", target_lang="DE").text
        usage = client.get_usage()
        assert (usage.character.count, usage.character.limit) == (5, 20)
        with pytest.raises(deepl.QuotaExceededException):
            client.translate_text("h" * 16, source_lang="EN", target_lang="DE")
        assert client.translate_text("h" * 15, source_lang="EN", target_lang="DE").text
        assert client.get_usage().character.limit_reached
    with closing(deepl.DeepLClient("wrong", server_url=server.url)) as client:
        for call in [client.get_usage, client.get_source_languages,
                     lambda: client.translate_text("hello", target_lang="DE")]:
            with pytest.raises(deepl.AuthorizationException):
                call()


def test_libretranslatepy(serve, store):
    key = store.add("app", rate=3)
    server = serve(store=store.path, keys_required="true")
    client = libretranslatepy.LibreTranslateAPI(server.url + "/", api_key=key)
    assert client.translate("hello", "en", "de")
    assert client.detect(SENTENCE)[0]["language"] == "en"
    assert client.languages()
    assert client.translate("hello", "en", "de")
    with pytest.raises(Exception, match="429"):
        client.translate("hello", "en", "de")
    with pytest.raises(Exception, match="403"):
        libretranslatepy.LibreTranslateAPI(server.url + "/", api_key="x").translate("a", "en", "de")


# ---- Quotas --------------------------------------------------------------------------------------


def test_characters_are_those_of_the_texts_that_were_translated(serve, store):
    key = store.add("app")
    server = serve(store=store.path, max_text_chars=1000)
    send = lambda **fields: server.post(json={**HELLO, "api_key": key, **fields})
    assert send(q="Grüße 🙂").status_code == 200
    assert used(server, key) == 7
    assert send(q=["one", "two"]).status_code == 200
    assert used(server, key) == 13
    assert send(q="<b>x</b>", format="html").status_code == 200
    assert used(server, key) == 21
    reply = send(q="One. Two.", stream=True)
    assert reply.text.splitlines()[-1] == '{"done":true}'
    assert used(server, key) == 30
    for bad in [{"target": "zz"}, {"q": "x" * 1001}, {"q": ""}, {"beam_size": 99},
                {"timeout_ms": 1, "q": SENTENCE * 20}]:
        assert send(**bad).status_code >= 400
    assert used(server, key) == 30
    assert server.post("/detect", json={"q": SENTENCE, "api_key": key}).status_code == 200
    assert used(server, key) == 30


def cut_by_deadline(start, key, text):
    """The first that is not too short for a sentence; each server is new, and refuses none yet."""
    for timeout_ms in (500, 1000, 2000, 4000, 8000, 16000):
        server = start()
        reply = server.post(json={**HELLO, "q": text, "api_key": key, "stream": True,
                                  "timeout_ms": timeout_ms})
        if reply.status_code == 200:
            return server, reply.text
        assert used(server, key) == 0
    raise AssertionError(reply.text)


def test_a_stream_that_is_cut_counts_whole(serve, store):
    """What was delivered is not to be had for nothing by a deadline that is just too short."""
    key, text = store.add("app"), f"{SENTENCE} " * 2000
    server, sent = cut_by_deadline(
        lambda: serve(store=store.path, threads=1, batch_size=1), key, text)
    assert sent.count('"sentence":') > 0 and "deadline_exceeded" in sent.splitlines()[-1]
    assert used(server, key) == len(text)


def test_a_stream_that_the_server_ends_counts_whole(models, store):
    key, text = store.add("app"), f"{SENTENCE} " * 2000
    server = Server(models, store=store.path, threads=1, batch_size=1, drain_timeout_s=0)
    reply = server.post(json={**HELLO, "q": text, "api_key": key, "stream": True}, stream=True)
    lines = reply.iter_lines(chunk_size=1)
    assert json.loads(next(lines))["sentence"] == 0
    assert server.stop() == 0
    assert "done" not in json.loads(list(lines)[-1])
    assert store.row("app")["characters"] == len(text)


def test_quota_in_the_words_of_each_dialect(serve, store):
    key = store.add("app", quota=10)
    server = serve(store=store.path)
    header = {"Authorization": f"DeepL-Auth-Key {key}"}
    assert server.post("/v2/translate", json=DEEPL, headers=header).status_code == 200
    reply = server.post("/v2/translate", json={**DEEPL, "text": ["too", "much"]}, headers=header)
    refused(reply, 456, "quota_exceeded", "Quota for this billing period has been exceeded.")
    assert "Retry-After" not in reply.headers
    reply = server.post(json={**HELLO, "q": "toolong", "api_key": key})
    refused(reply, 429, "quota_exceeded", "5 of 10 characters of this month are used")
    assert 0 < int(reply.headers["Retry-After"]) <= 31 * 86400
    assert server.post(json={**HELLO, "api_key": key}).status_code == 200
    assert server.get("/v2/usage", headers=header).json() == \
        {"character_count": 10, "character_limit": 10}
    assert metric(server, 'acre_refused_total{reason="quota"}') == 2


def test_a_month_of_a_quota_is_one_in_utc(serve_late, store, monkeypatch):
    monkeypatch.setenv("TZ", "AHEAD-14")  # where the next month begins 14 hours before
    key = store.add("app", quota=5)
    server = serve_late(store=store.path)
    def ask():
        return server.post(json={**HELLO, "api_key": key})
    assert [ask().status_code for _ in range(2)] == [200, 429]
    pass_time(server, int(ask().headers["Retry-After"]) - 60)
    assert ask().status_code == 429 and 0 < int(ask().headers["Retry-After"]) <= 60
    pass_time(server, 60)
    assert [ask().status_code for _ in range(2)] == [200, 429]
    assert used(server, key) == 5


def test_those_who_ask_at_once_do_not_exceed_a_quota(serve, store):
    key = store.add("app", quota=10 * len(SENTENCE))
    server = serve(store=store.path)
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: server.translate(api_key=key).status_code, range(40)))
    assert sorted(replies) == [200] * 10 + [429] * 30
    assert used(server, key) == 10 * len(SENTENCE)


def test_usage_survives_restarts_and_being_killed(models, serve, store):
    key = store.add("app", quota=1000)
    server = serve(store=store.path)
    assert server.post(json={**HELLO, "api_key": key}).status_code == 200
    assert server.stop() == 0
    assert store.row("app")["characters"] == 5 and store.row("app")["requests"] == 1
    killed = Server(models, store=store.path)
    assert used(killed, key) == 5
    assert killed.post(json={**HELLO, "api_key": key}).status_code == 200
    assert eventually(lambda: store.row("app")["characters"] == 10)
    killed.signal(signal.SIGKILL)
    killed.process.wait()
    assert used(serve(store=store.path), key) == 10


def test_a_month_ends(serve, store):
    key = store.add("app", quota=10)
    server = serve(store=store.path)
    assert server.post(json={**HELLO, "q": "0123456789", "api_key": key}).status_code == 200
    assert server.stop() == 0
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE usage SET month = month - 1")
    server = serve(store=store.path)
    assert used(server, key) == 0
    assert server.post(json={**HELLO, "api_key": key}).status_code == 200


def test_two_servers_on_one_store(serve, store):
    key = store.add("app", quota=12)
    first, second = serve(store=store.path), serve(store=store.path)
    for server in (first, second):
        assert server.post(json={**HELLO, "api_key": key}).status_code == 200
    assert eventually(lambda: store.row("app")["characters"] == 10)
    for server in (first, second):
        assert eventually(lambda: server.post(json={**HELLO, "api_key": key}).status_code == 429)


def test_servers_on_one_store_know_what_the_others_counted(serve, store):
    key = store.add("app")
    idle, busy = serve(store=store.path), serve(store=store.path)
    for n in (5, 10):
        assert busy.post(json={**HELLO, "api_key": key}).status_code == 200
        assert eventually(lambda n=n: used(idle, key) == n)
        assert used(busy, key) == n


# ---- Rates ---------------------------------------------------------------------------------------


def test_rate_of_an_address_and_of_keys(serve, store):
    slow, free = store.add("slow", rate=2), store.add("free")
    server = serve(store=store.path, rate_limit=4)
    def ask(key=None):
        return server.post(json={**HELLO, "api_key": key})
    assert [ask().status_code for _ in range(6)] == [200] * 4 + [429] * 2
    begun = time.monotonic()
    assert [ask(slow).status_code for _ in range(3)] == [200] * 2 + [429]
    assert [ask(free).status_code for _ in range(6)] == [200] * 4 + [429] * 2
    reply = ask(slow)
    refused(reply, 429, "too_many_requests", "Slowdown: 2 per 1 minute")
    assert 29 - (time.monotonic() - begun) <= int(reply.headers["Retry-After"]) <= 30
    reply = server.post("/v2/translate", json={**DEEPL, "auth_key": slow})
    refused(reply, 429, "too_many_requests", "Too many requests: 2 per 1 minute")
    assert ask("a guess").status_code == 429  # who guesses asks from an address
    assert metric(server, 'acre_refused_total{reason="address_rate"}') == 3
    assert metric(server, 'acre_refused_total{reason="key_rate"}') == 5
    assert server.get("/languages").status_code == 200


def test_guesses_take_a_token_where_nothing_else_does(serve, store):
    good = store.add("good")
    server = serve(store=store.path, rate_limit=2)

    def ask(path, key):
        return server.get(path, headers={"Authorization": f"DeepL-Auth-Key {key}"}).status_code

    assert [ask("/v2/usage", good) for _ in range(4)] == [200] * 4
    assert [ask("/v2/usage", f"guess {i}") for i in range(3)] == [403, 403, 429]
    assert ask("/v2/languages", "a guess") == 429
    assert ask("/v2/usage", good) == 200


def test_a_bucket_fills_again(serve):
    server = serve(rate_limit=30)
    begun, n = time.monotonic(), 0
    while (reply := server.post(json=HELLO)).status_code == 200:
        n += 1
    assert 30 <= n <= 31 + (time.monotonic() - begun) / 2
    retry = int(reply.headers["Retry-After"])
    assert retry in (1, 2)
    time.sleep(retry)
    assert server.post(json=HELLO).status_code == 200


def test_wrong_keys_write_nothing_and_take_no_memory(serve, store):
    """Keys that look like one, each of another client; a million: tests/bench/flood.py."""
    good = store.add("web")
    server = serve(store=store.path, rate_limit=100, trusted_proxies="127.0.0.0/8")

    def guess(first, n):
        with server.connect() as client:
            for i in range(first, first + n, 100):
                client.sendall(b"".join(guessed(k) for k in range(i, i + 100)))
                data = b""
                while data.count(b"HTTP/1.1 403 ") < 100 or not data.endswith(b"}\n"):
                    piece = client.recv(1 << 20)
                    assert piece, data[-200:]
                    data += piece

    guess(0, 1000)
    before, written = metric(server, "process_resident_memory_bytes"), store.bytes()
    guess(1000, 30000)
    time.sleep(2.1)  # what was used is stored each second
    assert store.bytes() == written
    assert metric(server, 'acre_refused_total{reason="bad_key"}') == 31000
    if PATIENCE == 1:  # sanitizers keep what is freed
        assert metric(server, "process_resident_memory_bytes") < before + 4e6
    assert len("".join(server.log)) < 20000
    assert server.post(json={**HELLO, "api_key": good}).status_code == 200
    assert eventually(lambda: store.bytes() != written)  # which looks at the right files


def guessed(i):
    body = json.dumps({**HELLO, "api_key": f"acre-{i * 2654435761:040x}"}).encode()
    return (b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"X-Forwarded-For: 10.%d.%d.%d\r\nContent-Length: %d\r\n\r\n%s"
            % (i >> 16, i >> 8 & 255, i & 255, len(body), body))


# ---- Settings and stores -------------------------------------------------------------------------


def test_reload_with_other_limits(serve, store, tmp_path):
    key = store.add("web")
    config = tmp_path / "acre.json"
    config.write_text(json.dumps({"store": str(store.path)}))
    server = serve(config=config)
    assert server.post(json=HELLO).status_code == 200

    def reload(**settings):
        config.write_text(json.dumps(settings))
        done = sum("reloaded" in line for line in server.log)
        server.signal(signal.SIGHUP)
        assert eventually(lambda: sum("reloaded" in line for line in server.log) > done)

    reload(store=str(store.path), keys_required=True, rate_limit=2)
    assert server.post(json=HELLO).status_code == 400
    asked = [server.post(json={**HELLO, "api_key": key}).status_code for _ in range(3)]
    assert asked == [200, 200, 429]
    reload(store=str(tmp_path / "other.db"), keys_required=False)
    assert any("store: a change takes a restart" in line for line in server.log)
    assert server.post(json=HELLO).status_code == 200
    assert used(server, key) == 10
    reload(store=str(store.path), keys_required="yes")
    assert "keys_required: expected true or false" in "".join(server.log)
    assert server.post(json=HELLO).status_code == 200


def test_reload_does_not_open_what_asks_for_keys(serve, tmp_path):
    """A store takes a restart: without it nobody could be asked for a key."""
    config = tmp_path / "acre.json"
    config.write_text("{}")
    server = serve(config=config)
    names = [model["name"] for model in server.get("/models").json()["models"]]
    config.write_text(json.dumps({"store": str(tmp_path / "acre.db"), "keys_required": True,
                                  "models": str(ROOT / "models")}))
    server.signal(signal.SIGHUP)
    assert eventually(lambda: "keys_required: expected a store beside it, found none" in
                      "".join(server.log))
    assert server.get("/frontend/settings").json()["keyRequired"] is False
    assert [model["name"] for model in server.get("/models").json()["models"]] == names


def test_keys_required_takes_a_store(models):
    done = subprocess.run([ACRE, "serve", "--models", models, "--set", "keys_required=true"],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "keys_required: expected a store beside it, found none" in done.stderr


def test_full_disk_stops_nothing_and_loses_nothing(models, store):
    """No file may grow, as on a full disk; then it may again."""
    key = store.add("app", quota=1000)
    command = [ACRE, "serve", "--models", str(models), "--listen", "127.0.0.1:0",
               "--set", f"store={store.path}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
    patience = threading.Timer(100 * PATIENCE, process.kill)  # a line that never comes
    patience.start()
    log = []
    for line in process.stderr:
        log.append(line)
        if "listening on" in line:
            break
    url = log[-1].split()[4].rstrip(",")

    def read_until(text):
        for line in process.stderr:
            log.append(line)
            if text in line:
                return
        raise AssertionError("".join(log))

    unlimited = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
    assert requests.post(url + "/translate", json={**HELLO, "api_key": key},
                         timeout=10).status_code == 200
    read_until("what keys use is counted in memory alone: " + str(store.path))
    for _ in range(3):
        assert requests.post(url + "/translate", json={**HELLO, "api_key": key},
                             timeout=10).status_code == 200
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, unlimited)
    read_until("what keys use is counted in memory alone: no longer")
    patience.cancel()
    process.terminate()
    assert process.wait(timeout=20) == 0
    process.stderr.close()
    assert store.row("app")["characters"] == 20 and store.row("app")["requests"] == 4


def test_stores_that_are_none_end_the_start(models, tmp_path):
    text = tmp_path / "text.db"
    text.write_text("no database " * 50)
    later = tmp_path / "later.db"
    Store(later).add("x")
    with sqlite3.connect(later) as db:
        db.execute("PRAGMA user_version = 99")
    for path, says in [(text, "file is not a database"), (later, "found version 99"),
                       (tmp_path / "no/acre.db", "No such file or directory")]:
        done = subprocess.run([ACRE, "serve", "--models", models, "--set", f"store={path}"],
                              capture_output=True, text=True, check=False, timeout=20)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith(f"acre: store: {path}: ")
        assert says in done.stderr
