"""What the shipped models state that they take is what they take.

The promise: the memory in use is at most 1.2 times the packed weights and what the models work in,
both as GET /models states them, besides what program and libraries have for themselves.
"""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from acre_server import ACRE, PATIENCE, ROOT, Server

SHIPPED = ["en-de-char", "en-de-token", "en-fr-char", "en-fr-token"]
MIB = 1 << 20

# What nothing states. Heap: measured 8 MiB before the first request, 3 for the vocabularies of each
# token model and 1 of libraries; then requests, replies and the free blocks of malloc come to it.
# Program: what is read of the files of program and libraries, measured 8 to 16 MiB.
HEAP_BYTES = 16 * MIB
PROGRAM_BYTES = 24 * MIB

WORDS = ("where is the next train to your town and why did we not see a good friend of mine there "
         "please open this window save all changes close every file then start it again").split()

pytestmark = pytest.mark.skipif(PATIENCE > 1, reason="sanitizers take memory of their own")


def sentence(seed):
    """3 to 30 words."""
    return " ".join(WORDS[(seed * 7 + i * i) % len(WORDS)] for i in range(3 + seed * 11 % 28)) + "."


def resident_bytes(pid):
    """What the process holds, and which nobody else does: all but the files it has mapped, of which
    no model's is one."""
    status = Path(f"/proc/{pid}/status").read_text()
    kib = sum(int(n) for n in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", status, re.MULTILINE))
    assert ".safetensors" not in Path(f"/proc/{pid}/maps").read_text()
    return 1024 * kib


def burst(server, names, texts):
    """All models at once, in two requests each."""
    with ThreadPoolExecutor(2 * len(names)) as pool:
        replies = [pool.submit(server.post, f"/translate/{name}",
                               json={"q": texts[half::2], "beam_size": 4})
                   for name in names for half in (0, 1)]
        for reply in replies:
            assert reply.result().status_code == 200, reply.result().text


@pytest.fixture
def server():
    server = Server(ROOT / "models", threads=2, batch_size=2, max_beam_size=4,
                    request_timeout_ms=600000)
    yield server
    assert server.stop() == 0, "".join(server.log)


def test_a_server_takes_what_its_models_state(server):
    models = server.get("/models").json()["models"]
    assert [m["name"] for m in models] == SHIPPED
    for model in models:
        stated = (f"{model['packed_bytes'] / MIB:.1f} MiB of weights, "
                  f"up to {model['working_bytes'] / MIB:.1f} MiB to work in")
        assert any(f"model {model['name']}: " in line and stated in line for line in server.log)
    packed = sum(m["packed_bytes"] for m in models)
    working = sum(m["working_bytes"] for m in models)
    pid = server.process.pid

    # Before it has translated, neither the files it read nor what it will work in count.
    assert resident_bytes(pid) <= 1.2 * packed + HEAP_BYTES

    texts = [sentence(i) for i in range(16)]
    held = []
    for _ in range(3):
        burst(server, SHIPPED, texts)
        held.append(resident_bytes(pid))
        assert held[-1] <= 1.2 * packed + working + HEAP_BYTES
    # The same again needs no more, but for sentences that meet in other batches.
    assert held[2] <= held[1] + 8 * MIB, held


@pytest.mark.parametrize("largest, is_warned", [(1, False), (64, True)])
def test_start_warns_where_full_batches_might_not_fit(largest, is_warned):
    """Beams and batches of the largest size would take some TiB."""
    server = Server(ROOT / "models", threads=1, max_beam_size=largest, batch_size=16 * largest)
    models = server.get("/models").json()["models"]
    assert server.stop() == 0
    weights, working = (sum(m[key] for m in models) >> 20
                        for key in ("packed_bytes", "working_bytes"))
    said = re.findall(r"warning memory: .* (\d+) MiB of weights .* (\d+) MiB to work in, "
                      r"and (\d+) MiB are free", "".join(server.log))
    assert [tuple(map(int, found[:2])) for found in said] == [(weights, working)] * is_warned
    assert all(int(free) < working for *_, free in said)


@pytest.mark.parametrize("name", SHIPPED)
def test_full_batches_take_what_is_stated(name):
    """Long sentences, and the longest hypotheses of the largest beam, in every slot fill what there
    is: that is no more than stated, and not so little that the statement would be worthless."""
    model = ROOT / "models" / name
    flags = ["--threads", "1", "--batch-size", "2"]
    found = json.loads(subprocess.check_output([ACRE, "inspect", model, "--json", *flags,
                                                "--max-beam-size", "4"]))
    longest = found["max_target_tokens"]
    line = ("we " * longest)[:found["max_source_tokens"]].strip() + "\n"
    done = subprocess.run([ACRE, "bench", "--model", model, "--json", *flags, "--beam-size", "4",
                           "--min-length", str(longest), "--max-length", str(longest)],
                          input=2 * line.encode(), capture_output=True, check=True)
    bench = json.loads(done.stdout)
    assert bench["target_tokens"] == 2 * longest
    for key in ("packed_bytes", "working_bytes"):
        assert bench[key] == pytest.approx(found[key], abs=4096)  # malloc's rounding
    peak, working = bench["peak_rss_bytes"], bench["working_bytes"]
    assert peak <= 1.2 * bench["packed_bytes"] + working + HEAP_BYTES + PROGRAM_BYTES
    assert peak >= working / 2
