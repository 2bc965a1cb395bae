#!/usr/bin/env python3
"""Minutes of everything at once that a server may be sent, and what it holds after many requests.

    ACRE=build/address/acre tests/http/soak.py --seconds 600     no 500, no leak, no crash
    tests/http/soak.py --memory                                  1,000 requests against 100,000

The first sends, all at once: what schemathesis makes of /openapi.json; mutations of
http11_cases.json; requests cut off at random, and replies not read to their end; and good requests,
each answer of which is looked at. Of the plain build the second compares the memory in use after
1,000 and after 100,000 requests. `make soak` does both.
"""

import argparse
import json
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from acre_server import PATIENCE, ROOT, Server, eventually, read_reply
from attack import HEALTH, TRANSLATE, connect, post, raise_descriptor_limit

HERE = Path(__file__).parent
MODELS = {"en-de-token": "tiny-token", "en-fr-char": "tiny-char"}
LONG = post({"q": ["How are you today? I am well."] * 20, "source": "en", "target": "de"})
STREAM = post({"q": "How are you today? I am well. " * 20, "source": "en", "target": "de",
               "stream": True})
HTML = post({"q": "<p>How <b>are</b> you?</p>" * 5, "source": "en", "target": "de",
             "format": "html"})
fork = multiprocessing.get_context("fork")

# ---- Mutations --------------------------------------------------------------------------------


def cases():
    for case in json.loads((HERE / "http11_cases.json").read_text())["cases"]:
        request = case["request"].encode("latin-1")
        yield request.replace(b" / ", b" /health ", 1)
    yield from (HEALTH, TRANSLATE, LONG, STREAM, HTML)


PIECES = [b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\xff", b"0", b"-1", b"chunked", b"%",
          b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: b\r\n", b"; a=b",
          b"ffffffffffffffff", b"HTTP/1.1", b"{", b"[" * 50, b'"', b"\\u0000",
          b"X-A: " + b"b" * 999]


def mutate(rng, request, others):
    data = bytearray(request)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        at, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
        match rng.randrange(6):
            case 0:
                data[at:at] = rng.choice(PIECES)
            case 1:
                del data[at:min(end, at + 20)]
            case 2:
                data[at:at] = data[at:min(end, at + 200)]
            case 3 if data:
                data[min(at, len(data) - 1)] = rng.randrange(256)
            case 4:
                other = rng.choice(others)
                data[at:] = other[rng.randrange(len(other)):]
            case 5:
                data[at:min(end, at + 8)] = rng.choice(PIECES)
    return bytes(data)


# ---- Those who send ---------------------------------------------------------------------------
# Each goes on until the end, then sends through the pipe how often, and what was wrong.


def send_malformed(port, seed, ending):
    """Any answer is right but 500; so is none, and a closed connection."""
    rng, known, n, wrong = random.Random(seed), list(cases()), 0, []
    while not ending.is_set() and len(wrong) < 10:
        request = mutate(rng, rng.choice(known), known)
        try:
            with connect(port) as connection:
                connection.settimeout(0.05)
                connection.sendall(request)
                reply = connection.recv(65536)
        except OSError:
            reply = b""
        if re.match(rb"HTTP/1.1 500 ", reply):
            wrong.append((request, reply))
        n += 1
    return n, wrong


def leave(port, seed, ending):
    """Sends a part of a request, or reads a part of its reply, and leaves in one way or another."""
    rng, n = random.Random(seed), 0
    while not ending.is_set():
        request = rng.choice([TRANSLATE, LONG, STREAM, HTML, HEALTH * 20])
        try:
            with connect(port) as connection:
                if rng.randrange(2):
                    connection.sendall(request[:rng.randrange(len(request))])
                else:
                    connection.sendall(request)
                    connection.settimeout(rng.choice([0.001, 0.01, 0.1]))
                    connection.recv(rng.choice([1, 100, 65536]))
                if rng.randrange(3) == 0:  # linger 0: RST instead of FIN
                    connection.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")
        except OSError:
            pass
        n += 1
    return n, []


def be_good(port, _seed, ending):
    """Every answer is 200 and the same; 429 and 503 are refusals for want of room."""
    n, wrong, known = 0, [], {}
    while not ending.is_set() and len(wrong) < 10:
        request = (TRANSLATE, LONG, HTML)[n % 3]
        try:
            with connect(port) as connection:
                connection.sendall(request)
                status, _, body = read_reply(connection)
        except OSError as error:
            status, body = repr(error), b""
        if status == 200 and known.setdefault(request, body) != body:
            wrong.append((request, body))
        elif status not in (200, 429, 503):
            wrong.append((request, status, body))
        n += 1
        ending.wait(0.02)
    return n, wrong


def go(who, port, seed, ending, pipe):
    pipe.send(who(port, seed, ending))


def start(who, port, seed, ending):
    ours, theirs = fork.Pipe(duplex=False)
    fork.Process(target=go, args=(who, port, seed, ending, theirs), daemon=True).start()
    return who, ours


def schemathesis(server, seconds, folder):
    """The command as in test_openapi.py, but that a server that is given too much may say 503."""
    for name in ("schemathesis.toml", "openapi_hooks.py"):
        shutil.copy(HERE / name, folder)
    settings = folder / "schemathesis.toml"
    settings.write_text(settings.read_text().replace('"504"]', '"503", "504"]'))
    command = [ROOT / "build/venv-test/bin/schemathesis", "run", server.url + "/openapi.json",
               "--checks", "not_a_server_error", "--phases", "coverage,fuzzing", "--no-color",
               "--continue-on-failure", "--warnings", "off", "--max-time", str(seconds),
               "--request-timeout", str(10 * PATIENCE)]
    with (folder / "schemathesis.log").open("w") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)


# ---- The two forms ----------------------------------------------------------------------------


def put_models(folder):
    for name, golden in MODELS.items():
        shutil.copytree(ROOT / "tests/golden/models" / golden, folder / name)


def replies_500(server):
    metrics = server.get("/metrics").text
    found = re.findall(r'acre_http_replies_total\{.*status="500"\} (\d+)', metrics)
    return sum(map(int, found))


def soak(seconds, seed):
    """Prints what was sent; whether nothing was wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models").mkdir()
        put_models(folder / "models")
        server = Server(folder / "models", idle_timeout_s=5, cache_bytes=100000)
        ending = fork.Event()
        senders = [start(who, server.port, seed + i, ending)
                   for i, who in enumerate([send_malformed, send_malformed, leave, leave, be_good])]
        fuzzer = schemathesis(server, seconds, folder)
        time.sleep(seconds)
        ending.set()
        results = [(who, pipe.recv()) for who, pipe in senders]
        try:
            fuzzed = fuzzer.wait(timeout=120 * PATIENCE)
        except subprocess.TimeoutExpired:
            fuzzer.kill()
            fuzzed = "did not end"
        text = (folder / "schemathesis.log").read_text()
        wrong = [each for _, (_, found) in results for each in found]
        for who, (n, _) in results:
            print(f"{who.__name__}: {n} requests")
        generated = re.findall(r"[0-9]+ generated", text) or ["nothing generated"]
        print(f"schemathesis: {generated[-1]}, exit {fuzzed}")
        n_500, status = replies_500(server), server.stop()
        print(f"replies with 500: {n_500}; SIGTERM: exit {status}")
        if fuzzed != 0:
            print(text[-6000:])
        for each in wrong:
            print("wrong:", each)
        if status != 0:
            print("".join(server.log)[-6000:])
        return not wrong and fuzzed == 0 and n_500 == 0 and status == 0


def resident_kib(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1])


CYCLE, AT_ONCE = 500, 20


def cycle():
    """The requests that come again and again, so that the first thousand have all that follow."""
    kinds = {HEALTH: 260, TRANSLATE: 120, post({"q": "Hi.", "source": "xx", "target": "de"}): 60,
             HTML: 20, STREAM: 10, LONG: 10, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n": 10,
             b"BAD\r\n\r\n": 10}
    found = [request for request, n in kinds.items() for _ in range(n)]
    random.Random(1).shuffle(found)
    return found


def reads(connection, request):
    """Takes the reply; whether the connection can be used again."""
    if request is not STREAM:
        status, headers, _ = read_reply(connection)
        return status is not None and headers.get("connection") != "close"
    data = b""
    while not data.endswith(b"0\r\n\r\n"):
        data += connection.recv(1 << 16)
    return True


def send_many(server, n):
    """So many at once on connections that are kept; the last of them leaves without its reply."""
    requests, connections = cycle(), [None] * AT_ONCE
    for i in range(0, n, AT_ONCE):
        batch = [requests[(i + k) % CYCLE] for k in range(AT_ONCE)]
        for k, request in enumerate(batch):
            connections[k] = connections[k] or connect(server.port)
            connections[k].sendall(request)
        for k, request in enumerate(batch):
            if k == AT_ONCE - 1 or not reads(connections[k], request):
                connections[k].close()
                connections[k] = None
    for connection in filter(None, connections):
        connection.close()


def is_idle(server):
    return "acre_http_connections 1\n" in server.get("/metrics").text


def memory(n_first, n):
    """Prints both, of the shipped models; whether the second is within 2 % of the first."""
    server, held, sent = Server(ROOT / "models", threads=2), [], 0
    for total in (n_first, *(n // 10 * k for k in range(1, 11))):
        send_many(server, max(0, total - sent))
        sent = max(sent, total)
        eventually(lambda: is_idle(server))
        held.append(resident_kib(server))
    status = server.stop()
    print(f"after {n_first} requests {held[0]} KiB, after each tenth of {n} "
          f"{', '.join(map(str, held[1:]))}: {100 * (held[-1] / held[0] - 1):+.2f} %; "
          f"SIGTERM: exit {status}")
    return held[-1] <= 1.02 * held[0] and status == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=os.getpid())
    parser.add_argument("--memory", action="store_true", help="this instead")
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=100000)
    args = parser.parse_args()
    raise_descriptor_limit()
    if args.memory:
        good = memory(args.first, args.requests)
    else:
        print(f"seed {args.seed}")
        good = soak(args.seconds, args.seed)
    print("good" if good else "not good")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
