"""Replicas that share limits through Redis: together, and each alone while it is away or hangs."""

import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from acre_server import ACRE, PATIENCE, eventually
from test_http_keys import HELLO, Store, metric

SERVER = shutil.which("valkey-server") or shutil.which("redis-server")
pytestmark = pytest.mark.skipif(not SERVER, reason="neither Redis nor Valkey is installed")


def free_port():
    """One that no client's connection can get meanwhile: below those that the kernel gives."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Redis:
    def __init__(self, folder, *options):
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.command = [SERVER, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                        "--appendonly", "no", "--unixsocket", str(folder / "redis.sock"), *options]
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        assert eventually(self.listens)

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except ConnectionRefusedError:
            return False
        return True

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def redis(tmp_path):
    started = Redis(tmp_path)
    yield started
    started.process.send_signal(signal.SIGCONT)
    started.stop()


@pytest.fixture
def replicas(serve, tmp_path, redis):
    """Two servers, each with a store of its own that knows the same key."""

    def make(url=None, quota=0, rate=0, **settings):
        first, second = Store(tmp_path / "1.db"), Store(tmp_path / "2.db")
        key = first.add("app", quota=quota, rate=rate)
        shutil.copy(first.path, second.path)
        with sqlite3.connect(second.path) as db:
            db.execute("UPDATE facts SET value = 'another' WHERE name = 'replica'")
        both = [serve(store=store.path, shared_limits=url or redis.url, **settings)
                for store in (first, second)]
        return key, both

    return make


def up(server):
    return metric(server, "acre_shared_limits_up") == 1


def ask(server, key=None, q="hello"):
    return server.post(json={**HELLO, "q": q, "api_key": key}).status_code


def alternating(servers, n, key=None):
    return [ask(servers[i % len(servers)], key) for i in range(n)]


def used(server, key):
    return server.get("/v2/usage", params={"auth_key": key}).json()["character_count"]


def test_rates_and_quotas_are_one(replicas):
    key, both = replicas(quota=50, rate=6, rate_limit=4)
    assert all(eventually(lambda s=s: up(s)) for s in both)
    assert alternating(both, 6) == [200] * 4 + [429] * 2
    assert alternating(both, 8, key) == [200] * 6 + [429] * 2
    assert [used(server, key) for server in both] == [30, 30]
    assert metric(both[0], 'acre_shared_limits_asked_total{outcome="answered"}') > 0


def test_a_quota_is_not_exceeded_by_those_who_ask_at_once(replicas):
    key, both = replicas(quota=50)
    assert all(eventually(lambda s=s: up(s)) for s in both)
    with ThreadPoolExecutor(12) as pool:
        statuses = list(pool.map(lambda i: ask(both[i % 2], key), range(40)))
    assert 8 <= statuses.count(200) <= 10 and statuses.count(429) == 40 - statuses.count(200)
    while (left := 50 - used(both[0], key)) > 0:  # one that is refused may have stood in the way
        assert ask(both[1], key, "x" * min(left, 5)) == 200
    assert [ask(server, key, "x") for server in both] == [429, 429]
    assert [used(server, key) for server in both] == [50, 50]


def test_errors_give_back_what_was_reserved(replicas):
    key, both = replicas(quota=50)
    assert all(eventually(lambda s=s: up(s)) for s in both)
    bad = {**HELLO, "q": "x" * 40, "target": "zz", "api_key": key}
    assert both[0].post(json=bad).status_code == 400
    assert ask(both[1], key, "x" * 40) == 200


def test_without_it_each_counts_alone_and_then_together_again(replicas, redis):
    key, both = replicas(quota=40, rate_limit=1000)
    assert all(eventually(lambda s=s: up(s)) for s in both)
    assert alternating(both, 2, key) == [200] * 2
    redis.stop()
    assert all(eventually(lambda s=s: not up(s)) for s in both)
    assert eventually(lambda: "own until it is back" in "".join(both[0].log))
    assert [ask(both[0], key) for _ in range(4)] == [200] * 4
    redis.start()  # it has forgotten all
    assert all(eventually(lambda s=s: up(s), 20) for s in both)
    assert eventually(lambda: used(both[1], key) == 30)
    assert alternating(both, 4, key) == [200, 200, 429, 429]
    assert any("counts for all replicas" in line for line in both[0].log)


def test_one_that_hangs_is_waited_for_once_and_briefly(replicas, redis):
    key, both = replicas(rate_limit=1000)
    assert all(eventually(lambda s=s: up(s)) for s in both)
    server = both[0]
    ask(server, key)
    redis.process.send_signal(signal.SIGSTOP)
    times = []
    for _ in range(20):
        begun = time.monotonic()
        assert ask(server, key) == 200
        times.append(time.monotonic() - begun)
    assert max(times) < 1 * PATIENCE and sorted(times)[10] < 0.1 * PATIENCE, times
    assert eventually(lambda: not up(server))
    assert metric(server, 'acre_shared_limits_asked_total{outcome="late"}') == 1
    assert metric(server, 'acre_shared_limits_asked_total{outcome="away"}') >= 10
    assert ask(server, key) == 200
    redis.process.send_signal(signal.SIGCONT)
    assert eventually(lambda: up(server), 20)
    assert ask(server, key) == 200


def test_one_that_is_never_there_stops_nothing(serve, tmp_path):
    for url in ["redis://127.0.0.1:1", "redis://no-such-host.invalid:6379",
                f"unix:{tmp_path}/none.sock", "redis://192.0.2.1:6379"]:
        server = serve(shared_limits=url, rate_limit=2)
        assert [ask(server) for _ in range(3)] == [200, 200, 429]
        assert metric(server, "acre_shared_limits_up") == 0


def test_passwords_numbers_and_socket_files(serve, tmp_path):
    redis = Redis(tmp_path, "--requirepass", "s3cret:@/x")
    try:
        for url in [f"redis://:s3cret:@/x@127.0.0.1:{redis.port}/3",
                    f"redis://default:s3cret:@/x@localhost:{redis.port}"]:
            server = serve(shared_limits=url)
            assert eventually(lambda s=server: up(s)), "".join(server.log)
            assert "s3cret" not in "".join(server.log)
        wrong = serve(shared_limits=f"unix:{tmp_path}/redis.sock")
        assert eventually(lambda: any("NOAUTH" in line for line in wrong.log))
        assert not up(wrong)
    finally:
        redis.stop()


@pytest.mark.parametrize("url", ["localhost:6379", "redis://localhost", "redis://:6379",
                                 "redis://x:0x10", "redis://x:99999", "redis://pw@x:1", "unix:sock",
                                 "redis://x:1/a"])
def test_wrong_addresses(models, url):
    done = subprocess.run([ACRE, "serve", "--models", models, "--set", f"shared_limits={url}"],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--set: shared_limits: expected redis://" in done.stderr
