"""acre translate, bench and inspect: what they print and how they fail."""

import json
import math
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import threading
import time

import pytest

from conftest import ROOT

LINES = ["Hello.", "", "How are you today?", "I do not know.", "", "Thanks!"]
TEXT = "\n".join(LINES) + "\n"


def failed(done, status, *texts):
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith("acre: ")
    for text in texts:
        assert text in done.stderr


def copy_with_area(name, folder, changes):
    """A golden model with other entries in its config.json's section `area`."""
    model = shutil.copytree(ROOT / "tests/golden/models" / name, folder / "model")
    config = json.loads((model / "config.json").read_text())
    config["area"] |= changes
    (model / "config.json").write_text(json.dumps(config))
    return model


def test_weights_that_are_no_numbers_are_refused(acre, tmp_path):
    model = shutil.copytree(ROOT / "tests/golden/models/tiny-token", tmp_path / "model")
    name = "model.encoder.layers.1.fc1.weight"
    data = bytearray((model / "model.safetensors").read_bytes())
    header_bytes = struct.unpack_from("<Q", data)[0]
    tensor = json.loads(data[8:8 + header_bytes])[name]
    assert tensor["dtype"] == "F32"
    struct.pack_into("<f", data, 8 + header_bytes + tensor["data_offsets"][0] + 4 * 777, math.nan)
    (model / "model.safetensors").write_bytes(data)
    for command in (["translate", "--model", model], ["inspect", model]):
        done = acre(*command, text=TEXT)
        failed(done, 1, f"{model}/model.safetensors: {name}: expected finite numbers, found nan at "
                        "index 777")


def test_weights_that_overflow_translate_nothing(acre, tmp_path):
    """They are finite, but what they are multiplied to is not."""
    model = shutil.copytree(ROOT / "tests/golden/models/tiny-token", tmp_path / "model")
    data = bytearray((model / "model.safetensors").read_bytes())
    header_bytes = struct.unpack_from("<Q", data)[0]
    tensor = json.loads(data[8:8 + header_bytes])["model.decoder.layers.1.fc2.weight"]
    assert tensor["dtype"] == "F32"
    begin, end = (8 + header_bytes + at for at in tensor["data_offsets"])
    weights = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    largest = max(map(abs, weights))
    struct.pack_into(f"<{len(weights)}f", data, begin, *(w / largest * 3e38 for w in weights))
    (model / "model.safetensors").write_bytes(data)
    target = tmp_path / "target"
    target.write_text("Bonjour.\n")
    for flags in (["--json"], ["--json", "--beam-size", "1"], ["--score", target]):
        done = acre("translate", "--model", model, "--compute-type", "f32", *flags, text="Hello.\n")
        failed(done, 1, "model: expected finite numbers, found that they overflow in its type")
        assert done.stdout == ""


@pytest.mark.parametrize("which", ["token_model", "char_model"])
def test_one_line_in_one_line_out(acre, request, which, tmp_path):
    model = request.getfixturevalue(which)
    path = tmp_path / "input.txt"
    path.write_text(TEXT)
    done = acre("translate", "--model", model, path)
    lines = done.stdout.split("\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[-1] == ""
    assert [line == "" for line in lines[:-1]] == [line == "" for line in LINES]
    assert acre("translate", "--model", model, text=TEXT).stdout == done.stdout
    assert acre("translate", "--model", model, "-", text=TEXT).stdout == done.stdout
    assert acre("translate", "--model", model, text=TEXT.rstrip("\n")).stdout == done.stdout
    crlf = TEXT.replace("\n", "\r\n")
    assert acre("translate", "--model", model, text=crlf).stdout == done.stdout


def test_a_model_may_have_a_wide_beam_of_its_own(acre, token_model, tmp_path):
    model = shutil.copytree(token_model, tmp_path / "model")
    file = model / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"num_beams": 20}))
    wide = acre("translate", "--model", model, text="Hello.\n")
    assert (wide.returncode, wide.stderr) == (0, "")
    assert wide.stdout == acre("translate", "--model", token_model, "--beam-size", "20",
                               text="Hello.\n").stdout
    # as acre serve takes it
    assert "beam size          8, threshold 0 (none)\n" in acre("inspect", model).stdout


def test_nothing_in_nothing_out(acre, token_model):
    done = acre("translate", "--model", token_model)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert acre("translate", "--model", token_model, text="\n").stdout == "\n"
    assert acre("translate", "--model", token_model, text=" \t\n").stdout.count("\n") == 1


def test_order_and_results_do_not_depend_on_the_batch(acre, token_model):
    lines = [f"Text {i}" + " and more" * (i * 7 % 11) + "." for i in range(500)]
    text = "\n".join(lines) + "\n"
    flags = ["--threads", "2", "--batch-size", "16", "--max-length", "20"]
    many = acre("translate", "--model", token_model, *flags, text=text)
    flags = ["--threads", "1", "--batch-size", "1", "--max-length", "20"]
    alone = acre("translate", "--model", token_model, *flags, text=text)
    assert many.returncode == 0
    assert many.stdout == alone.stdout
    assert many.stdout.count("\n") == len(lines)


def test_json(acre, token_model):
    flags = ["--json", "--beam-size", "4", "--num-hypotheses", "3", "--length-penalty", "0.5"]
    done = acre("translate", "--model", token_model, *flags, text=TEXT)
    assert done.returncode == 0
    objects = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(objects) == len(LINES)
    for line, found in zip(LINES, objects):
        assert list(found) == ["hypotheses"]
        hypotheses = found["hypotheses"]
        assert len(hypotheses) == (3 if line else 1)
        ranks = [h["normalized_score"] for h in hypotheses]
        assert ranks == sorted(ranks, reverse=True)
        for h in hypotheses:
            assert set(h) == {"text", "tokens", "score", "normalized_score"}
            n = len(h["tokens"]) + (1 if line else 0)
            if line:
                assert h["normalized_score"] == pytest.approx(h["score"] / n**0.5, rel=1e-5)
    plain = acre("translate", "--model", token_model, "--beam-size", "4", "--length-penalty",
                 "0.5", text=TEXT).stdout.splitlines()
    assert plain == [found["hypotheses"][0]["text"] for found in objects]


def test_beam_threshold(acre, token_model):
    """Of hypotheses that can be no worse than the best there is one: that is greedy search."""
    def best(*flags):
        done = acre("translate", "--model", token_model, "--json", *flags, text=TEXT)
        assert done.returncode == 0
        return [json.loads(line)["hypotheses"] for line in done.stdout.splitlines()]
    narrow = best("--beam-size", "4", "--beam-threshold", "1e-7")
    assert narrow == best("--beam-size", "1")
    assert narrow != best("--beam-size", "4", "--beam-threshold", "0")
    several = ("--beam-size", "4", "--num-hypotheses", "3")
    assert best(*several, "--beam-threshold", "1e-7") == best(*several)


def test_forced_length(acre, token_model):
    flags = ["--json", "--min-length", "7", "--max-length", "7"]
    done = acre("translate", "--model", token_model, *flags, text="Hello.\nHow are you?\n")
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, 2)
    for line in lines:
        assert len(json.loads(line)["hypotheses"][0]["tokens"]) == 7


def test_tokens(acre, token_model):
    source = "▁Hello ▁you ?"
    done = acre("translate", "--model", token_model, "--tokens", "--json", text=source)
    if done.returncode != 0:  # not every vocabulary has these pieces
        failed(done, 1, "line 1")
        vocabulary = json.loads((token_model / "vocab.json").read_text())
        source = " ".join([p for p in vocabulary if p.isalpha()][:3])
        done = acre("translate", "--model", token_model, "--tokens", "--json", text=source)
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)["hypotheses"][0]
    assert best["text"] == " ".join(best["tokens"])
    plain = acre("translate", "--model", token_model, "--tokens", text=source)
    assert plain.stdout == best["text"] + "\n"


@pytest.mark.parametrize("bad, found", [
    (b"caf\xe9", "expected UTF-8, found byte 0xe9"),
    (b"a\xed\xa0\x80", "expected UTF-8, found byte 0xed"),
    (b"a\x00b", "expected text, found a NUL byte"),
])
def test_bad_line(acre, token_model, bad, found):
    done = acre("translate", "--model", token_model, text=b"Hello.\n\n" + bad + b"\nThanks!\n")
    failed(done, 1, "standard input: line 3: " + found, "the 2 lines before it are translated")
    good = acre("translate", "--model", token_model, text="Hello.\n\n")
    assert done.stdout == good.stdout


def test_too_many_tokens_name_their_line(acre, token_model):
    """A line of tokens is one sentence: it is not split, and never silently cut."""
    text = "\n" + "▁ " * 1000 + "\n"
    done = acre("translate", "--model", token_model, "--tokens", text=text)
    failed(done, 1, "standard input: line 2: ")


@pytest.mark.parametrize("command", ["translate", "bench"])
def test_length_beyond_the_model_is_wrong_usage(acre, token_model, command):
    """Before the first line is read or translated."""
    longest = json.loads(acre("inspect", token_model, "--json").stdout)["max_target_tokens"]
    for length, status in ((longest, 0), (longest + 1, 2)):
        flags = ["--max-length", length, "--min-length", "0"]
        done = acre(command, "--model", token_model, *flags, text="Hello.\n")
        assert done.returncode == status, done.stderr
    failed(done, 2, f"--max-length: expected at most {longest} for this model, found {length}")
    assert done.stdout == ""


@pytest.mark.parametrize("attention", ["encoder_self", "decoder_cross"])
def test_tokens_that_a_grid_does_not_divide(acre, tmp_path, attention):
    model = copy_with_area("tiny-area", tmp_path, {attention: {"memory_height": 2}})
    flags = ["translate", "--model", model, "--tokens"]
    assert acre(*flags, text="a\n").returncode == 0
    failed(acre(*flags, text="a\na a\n"), 1, "line 2: ",
           f"config.json: area.{attention}.memory_height: expected sentences of a multiple of 2 "
           "tokens, end token included, found 3")


@pytest.mark.parametrize("name, changes, message", [
    ("area-concat", {"key": "mean"},
     "model.decoder.layers.0.encoder_attn.area.fc1.bias, found mean"),
    ("area-concat", {"decoder_self": {"key": "sample"}},
     "model.decoder.layers.0.self_attn.area.fc1.bias, found mean"),
    ("area-max", {"encoder_self": {"key": "max"}},
     "model.encoder.layers.0.self_attn.area.fc1.bias, found max"),
    ("lstm-sum", {"key": "max"}, "model.decoder.attention.area.fc1.bias, found max"),
])
def test_keys_that_do_not_use_their_weights(acre, tmp_path, name, changes, message):
    model = copy_with_area(name, tmp_path, changes)
    failed(acre("inspect", model), 1,
           f"model/config.json: area.key: expected one with the weights {message}")


@pytest.mark.parametrize("name, keys", [
    ("tiny-token", ["encoder_layers"]), ("tiny-token", ["decoder_layers"]),
    ("tiny-lstm", ["encoder_layers", "decoder_layers"]),
])
def test_weights_of_layers_that_are_not_there(acre, tmp_path, name, keys):
    model = shutil.copytree(ROOT / "tests/golden/models" / name, tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    assert {config[key] for key in keys} == {2}
    (model / "config.json").write_text(json.dumps(config | {key: 1 for key in keys}))
    failed(acre("inspect", model), 1, f"model/config.json: {keys[0]}: expected more than 1, the "
                                      "last layer with weights, found 1")


def test_people_are_told_of_the_device_and_the_model(acre, acre_path, token_model):
    ours, theirs = pty.openpty()
    subprocess.run([acre_path, "translate", "--model", token_model, "--device", "cpu"],
                   input=b"Hello.\n", stdout=subprocess.PIPE, stderr=theirs, timeout=60, check=True)
    os.close(theirs)
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert re.search("^acre: engine: CPU", said, re.MULTILINE | re.IGNORECASE), said
    assert re.search(f"^acre: model {os.path.basename(token_model)}: ", said, re.MULTILINE), said
    assert acre("translate", "--model", token_model, text="Hello.\n").stderr == ""


@pytest.mark.parametrize("command", ["translate", "bench", "inspect"])
def test_model_that_is_not_there(acre, command, tmp_path):
    args = [] if command == "inspect" else ["--model"]
    done = acre(command, *args, tmp_path / "none", text="Hello.\n")
    failed(done, 1, f"acre: {tmp_path}/none: expected a model directory")
    assert done.stderr.count("none") == 1
    assert done.stdout == ""


def test_input_that_is_not_there(acre, token_model, tmp_path):
    for args in (["translate", tmp_path / "none"], ["bench", "--input", tmp_path / "none"],
                 ["translate", tmp_path]):
        done = acre(args[0], "--model", token_model, *args[1:])
        failed(done, 1, str(args[-1]))
        assert done.stdout == ""


def test_output_that_cannot_be_written(acre_path, token_model):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    for args in (["translate", "--model", token_model], ["inspect", token_model],
                 ["bench", "--model", token_model], ["serve", "--help-config"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([acre_path, *args], input=b"Hello.\n" * 2000, stdout=full,
                                  stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 1
        assert b"standard output" in done.stderr


def test_a_closed_pipe_ends_it(acre_path, token_model):
    process = subprocess.Popen([acre_path, "translate", "--model", token_model],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
    process.stdout.close()
    try:
        process.communicate(b"Hello.\n" * 5000, timeout=30)
    except BrokenPipeError:
        pass
    assert process.wait(timeout=30) in (-signal.SIGPIPE, 1)


def ends_in_a_conversation(command, seconds):
    """Whether it ends with the second line, a while after the first could not be written; or even
    before, where its reading thread gets the processor last."""
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=full,
                                   stderr=subprocess.DEVNULL)
    try:
        for pause in (seconds, 0):
            process.stdin.write(b"How are you?\n")
            process.stdin.flush()
            time.sleep(pause)
        return process.wait(timeout=5) == 1
    except BrokenPipeError:
        return process.wait(timeout=5) == 1
    except subprocess.TimeoutExpired:
        return False
    finally:
        process.kill()
        process.communicate()


def test_output_that_cannot_be_written_ends_a_conversation(acre_path, token_model):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    command = [acre_path, "translate", "--model", token_model]
    assert any(ends_in_a_conversation(command, seconds) for seconds in (0.5, 2, 8))


def test_results_come_while_input_is_open(acre_path, token_model):
    """It works in a conversation: each line is answered before the next is written."""
    process = subprocess.Popen([acre_path, "translate", "--model", token_model],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    watchdog = threading.Timer(30, process.kill)
    watchdog.start()
    for _ in range(3):
        process.stdin.write(b"How are you?\n")
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")
    process.stdin.close()
    assert process.wait(timeout=10) == 0
    watchdog.cancel()
    process.stdout.close()


BENCH_KEYS = {
    "model", "device", "compute_type", "threads", "beam_size", "batch_size", "sentences",
    "source_tokens", "target_tokens", "seconds", "tokens_per_second", "sentences_per_second",
    "load_seconds", "peak_rss_bytes", "packed_bytes", "working_bytes", "latency_ms",
}


def test_bench_json(acre, token_model, tmp_path):
    path = tmp_path / "input.txt"
    path.write_text(TEXT * 5)
    flags = ["--json", "--repeat", "3", "--beam-size", "2", "--batch-size", "4", "--threads", "1"]
    done = acre("bench", "--model", token_model, "--input", path, *flags)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert BENCH_KEYS <= set(found)
    assert found["model"] == token_model.name
    assert (found["device"], found["compute_type"]) == ("cpu", "f32")
    assert (found["threads"], found["beam_size"], found["batch_size"]) == (1, 2, 4)
    assert found["sentences"] == 5 * len([line for line in LINES if line])
    translated = acre("translate", "--model", token_model, "--json", "--beam-size", "2", path)
    best = [json.loads(line)["hypotheses"][0] for line in translated.stdout.splitlines()]
    assert found["target_tokens"] == sum(len(h["tokens"]) for h in best)
    assert found["source_tokens"] > found["sentences"]
    for rate, count in (("tokens_per_second", "target_tokens"),
                        ("sentences_per_second", "sentences")):
        assert found[rate] == pytest.approx(found[count] / found["seconds"], rel=1e-6)
    latency = found["latency_ms"]
    assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"]
    assert found["peak_rss_bytes"] > found["packed_bytes"] > 0 < found["working_bytes"]
    assert found["load_seconds"] > 0


def test_bench_counts_no_memory_of_the_program_that_starts_it(acre, token_model):
    ours = bytearray(b"x") * (256 << 20)
    found = json.loads(acre("bench", "--model", token_model, "--json", text=TEXT).stdout)
    assert found["packed_bytes"] < found["peak_rss_bytes"] < len(ours)


def test_bench_reads_stdin_and_prints_a_table(acre, token_model):
    done = acre("bench", "--model", token_model, text=TEXT)
    assert done.returncode == 0
    assert {line.split()[0] for line in done.stdout.splitlines()} >= BENCH_KEYS


def test_bench_says_which_line_is_wrong(acre, char_model, tmp_path):
    path = tmp_path / "tokens"
    path.write_text("a b\n\nab\n")
    failed(acre("bench", "--model", char_model, "--tokens", "--input", path), 1,
           f"acre: {path}: line 3: ", '"ab"')


def test_bench_without_text(acre, token_model):
    failed(acre("bench", "--model", token_model, text="\n\n"), 1,
           "expected at least one line of text, found none")


def test_inspect(acre, token_model, char_model):
    config = json.loads((token_model / "config.json").read_text())
    found = json.loads(acre("inspect", token_model, "--json").stdout)
    assert found["name"] == token_model.name
    assert (found["source"], found["target"], found["level"]) == ("en", "de", "token")
    assert found["d_model"] == config["d_model"]
    assert found["vocab_size"] == config["vocab_size"]
    assert found["max_area_width"] == 1
    assert json.loads(acre("inspect", char_model, "--json").stdout)["level"] == "char"
    table = acre("inspect", str(token_model) + "/")
    assert table.returncode == 0
    assert str(found["parameters"]) in table.stdout


def test_a_model_that_tells_no_languages(acre, tmp_path):
    model = shutil.copytree(ROOT / "tests/golden/models/tiny-token", tmp_path / "model")
    (model / "tokenizer_config.json").unlink()
    assert "languages          (not told) -> (not told)\n" in acre("inspect", model).stdout
    failed(acre("translate", "--model", model, "--source", "en"), 2,
           "--source: expected none, as model model does not tell its languages, found en")


def test_inspect_states_the_memory_of_a_server(acre, token_model):
    def rows(*flags):
        lines = acre("inspect", token_model, *flags).stdout.splitlines()
        return dict(re.fullmatch(r"(.{18}) (.*)", line).groups() for line in lines)

    def numbers(*flags):
        found = json.loads(acre("inspect", token_model, "--json", *flags).stdout)
        return found["packed_bytes"], found["working_bytes"]

    packed, working = numbers()
    table = rows()
    assert table["weights in memory "] == f"{packed / 2**20:.1f} MiB"
    assert table["working memory    "] == (
        f"at most {working / 2**20:.1f} MiB (threads 1, batch size 32, beams up to 8)")
    assert numbers("--threads", "3") == (pytest.approx(packed, abs=4096),
                                         pytest.approx(3 * working, rel=0.01))
    small = numbers("--threads", "2", "--batch-size", "8", "--max-beam-size", "4")
    assert small[1] < working / 2
    assert rows("--threads", 2, "--batch-size", 8, "--max-beam-size", 4)["working memory    "] == (
        f"at most {small[1] / 2**20:.1f} MiB (threads 2, batch size 8, beams up to 4)")
