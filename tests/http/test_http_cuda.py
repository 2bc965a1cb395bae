"""A server on the emulated CUDA backend: batches of several clients, and what becomes of them when
the device is lost in between."""

import os
import threading
from pathlib import Path

import acre_server
import pytest
from acre_server import Server, eventually, stop_all

EMULATED = Path(acre_server.ACRE).parent / "emulated/acre"
TEXTS = ["Hello.", "The cat is old.", "We go home.", "Where is the house?", "I see you."]
LONG = " ".join(TEXTS * 8)

pytestmark = pytest.mark.skipif(not EMULATED.exists(), reason="there is no emulated program")


@pytest.fixture
def emulated(models, monkeypatch, tmp_path):
    """Makes servers on the emulated device; files in tmp_path say what happens to it."""
    monkeypatch.setattr(acre_server, "ACRE", str(EMULATED))
    monkeypatch.setenv("EMULATED_FAULT", str(tmp_path / "fault"))
    monkeypatch.setenv("EMULATED_HANG", str(tmp_path / "hang"))
    servers = []

    def make(**overrides):
        settings = {"device": "cuda", "batch_size": 4, "compute_type": "f32",
                    "request_timeout_ms": 600000} | overrides
        servers.append(Server(models, **settings))
        return servers[-1]

    yield make
    stop_all(servers)


def replies(server, texts, **fields):
    """The replies to all texts, sent at once."""
    found = [None] * len(texts)

    def ask(i):
        found[i] = server.translate(texts[i], max_length=12, timeout_ms=600000, **fields)

    clients = [threading.Thread(target=ask, args=(i,)) for i in range(len(texts))]
    for client in clients:
        client.start()
    return clients, found


def figure(server, name):
    """A counter of /metrics, of all models together."""
    return sum(float(line.split()[-1]) for line in server.get("/metrics").text.splitlines()
               if line.startswith(name + "{"))


def wait(clients):
    for client in clients:
        client.join(timeout=300)
        assert not client.is_alive()


@pytest.fixture
def wanted(models):
    """What the CPU says."""
    server = Server(models, device="cpu", compute_type="f32")
    yield {text: server.translate(text, max_length=12).json()["translatedText"] for text in TEXTS}
    assert server.stop() == 0


def test_clients_share_batches(emulated, wanted):
    server = emulated()
    assert "cuda:0 emulated GPU" in "".join(server.log)
    clients, found = replies(server, TEXTS)
    leaver = server.connect()  # who asks for a long text, and leaves
    body = b'{"q": "%s", "source": "en", "target": "de"}' % LONG.encode()
    leaver.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                   b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    leaver.close()
    wait(clients)
    assert [r.json()["translatedText"] for r in found] == [wanted[text] for text in TEXTS]
    assert server.get("/health/ready").status_code == 200


def test_alignments_put_markup_back(emulated, models):
    """What an alignment is good for, see server/content: the same as of the CPU."""
    html = "<p>Where is <b>the house</b>?</p>"
    replies = []
    for device in ("cuda", "cpu"):
        server = emulated(device=device)
        replies.append(server.translate(html, format="html", max_length=12).json())
    assert replies[0] == replies[1] and "<b>" in replies[0]["translatedText"]


def test_a_lost_device_ends_its_sentences(emulated, tmp_path):
    server = emulated()
    clients, found = replies(server, [LONG] * 3)
    (tmp_path / "fault").touch()
    wait(clients)
    assert {r.status_code for r in found} == {503}
    assert {r.json()["code"] for r in found} == {"device_lost"}
    assert server.get("/health/live").status_code == 200
    ready = server.get("/health/ready")
    assert (ready.status_code, ready.json()["code"]) == (503, "device_lost")
    assert "cudaErrorIllegalAddress" in ready.json()["message"]
    again = server.translate(TEXTS[0])
    assert (again.status_code, again.json()["code"]) == (503, "device_lost")


def test_a_device_that_is_lost_over_a_picture_is_told(emulated, tmp_path):
    """Of a translation from the cache only the picture is computed."""
    server = emulated(cache_bytes=1 << 20)
    fields = {"text": "Hi.", "source": "en", "target": "de"}
    assert server.get("/attention", params=fields, timeout=300).status_code == 200
    (tmp_path / "fault").touch()
    for _ in range(2):
        lost = server.get("/attention", params=fields, timeout=300)
        assert (lost.status_code, lost.json()["code"]) == (503, "device_lost")
        assert "cudaErrorIllegalAddress" in lost.json()["message"]
    ready = server.get("/health/ready")
    assert (ready.status_code, ready.json()["code"]) == (503, "device_lost")


def memory(server):
    """Of all models: the one that is loaded first has what they share."""
    models = server.get("/models").json()["models"]
    return [sum(m[key] for m in models) for key in ("packed_bytes", "working_bytes")]


def test_the_other_device_goes_on(emulated, wanted, tmp_path, monkeypatch):
    """Of two GPUs one is lost, then the other."""
    stated = memory(emulated(batch_size=2))
    monkeypatch.setenv("EMULATED_DEVICES", "2")
    server = emulated(batch_size=2)
    assert "cuda:0 emulated GPU (sm_90), cuda:1 emulated GPU (sm_90)" in "".join(server.log)
    assert "to work in on 2 devices" in "".join(server.log)
    assert memory(server) == pytest.approx([2 * stated[0], 2 * stated[1]], rel=0.02)
    clients, found = replies(server, TEXTS)
    (tmp_path / "fault.1").touch()
    wait(clients)
    assert [r.status_code for r in found] == [200] * len(found)
    assert [r.json()["translatedText"] for r in found] == [wanted[text] for text in TEXTS]

    def all_is_told():
        wait(replies(server, TEXTS)[0])  # so that the second GPU has something to do
        return "device lost: cuda:1" in "".join(server.log)

    assert eventually(all_is_told, 300)
    assert "1 of 2 go on" in "".join(server.log)
    assert server.get("/health/ready").status_code == 200
    assert 'acre_devices{state="lost"} 1' in server.get("/metrics").text
    (tmp_path / "fault.0").touch()
    assert eventually(lambda: server.translate(TEXTS[0]).status_code == 503, 300)
    ready = server.get("/health/ready")
    assert (ready.status_code, ready.json()["code"]) == (503, "device_lost")


@pytest.mark.parametrize("how", ("fault", "hang"))
def test_the_cpu_goes_on(emulated, wanted, tmp_path, how):
    server = emulated(device_fallback="cpu")
    before = server.translate(TEXTS[0], max_length=12)
    assert before.json()["translatedText"] == wanted[TEXTS[0]]
    clients, found = replies(server, TEXTS * 2)
    (tmp_path / how).touch()
    wait(clients)
    assert [r.status_code for r in found] == [200] * len(found)
    assert [r.json()["translatedText"] for r in found] == [wanted[text] for text in TEXTS * 2]
    assert server.get("/health/ready").status_code == 200
    assert eventually(lambda: "device lost: cuda:0" in "".join(server.log))
    assert server.translate(TEXTS[1], max_length=12).json()["translatedText"] == wanted[TEXTS[1]]
    steps, batches = (figure(server, "acre_decoder_steps_total"),
                      figure(server, "acre_batch_sentences_count"))
    assert steps == batches > 0, "the figures of both devices are added"
    server.process.terminate()
    assert server.process.wait(timeout=60) == 0
    os.remove(tmp_path / how)


def test_auto_says_why_it_is_the_cpu(models, monkeypatch, tmp_path):
    monkeypatch.setenv("ACRE_CUDA", str(tmp_path / "none.so"))
    server = Server(models, device="auto")
    assert f"device: auto: no GPU: cuda: ACRE_CUDA: expected a library, found no file {tmp_path}" \
        in "".join(server.log)
    assert server.translate(TEXTS[0], max_length=12).status_code == 200
    assert server.stop() == 0


def test_a_fallback_for_f16_computes_in_f32(emulated, wanted, tmp_path):
    """The CPU has no f16."""
    server = emulated(device_fallback="cpu", compute_type="f16")
    (tmp_path / "fault").touch()
    assert server.translate(TEXTS[0], max_length=12).json()["translatedText"] == wanted[TEXTS[0]]
    (tmp_path / "fault").unlink()
