"""Help, versions, wrong usage, and the configuration of `acre serve`."""

import json
import re
import shutil
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from conftest import failed

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ["serve", "translate", "bench", "inspect", "health", "keys"]


def test_help_and_version(acre):
    overview = acre("--help")
    assert overview.returncode == 0
    assert all(command in overview.stdout for command in COMMANDS)
    assert re.fullmatch(r"acre \d+\.\d+\.\d+\n", acre("--version").stdout)
    for command in COMMANDS:
        help_text = acre(command, "--help")
        assert help_text.returncode == 0
        assert help_text.stdout.startswith(f"usage: acre {command} ")
        assert help_text.stderr == ""
        assert acre(command, "--version").stdout == acre("--version").stdout
    for option in ["--beam-size", "--num-hypotheses", "--length-penalty", "--beam-threshold",
                   "--min-length", "--max-length", "--device", "--compute-type", "--threads",
                   "--batch-size", "--tokens", "--json"]:
        assert option in acre("translate", "--help").stdout
        assert option in acre("bench", "--help").stdout


@pytest.mark.parametrize("command", ["translate", "bench"])
def test_help_says_what_is_done_where_an_option_is_not_given(acre, command, token_model):
    told = dict(re.findall(r"^  --(\S+) .*\(default: (.*)\)$", acre(command, "--help").stdout,
                           re.MULTILINE))
    assert told["beam-size"] == told["max-length"] == told["length-penalty"] == "the model's"
    assert told["num-hypotheses"] == "1"
    lines = acre("translate", "--model", token_model, "--json", text="Hello.\n").stdout
    assert len(json.loads(lines)["hypotheses"]) == 1


def test_no_command_is_wrong_usage(acre):
    done = acre()
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: acre" in done.stderr
    failed(acre("fly"), 2, 'found "fly"')


@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_options_and_arguments(acre, command):
    failed(acre(command, "--nope"), 2, "--nope", f"acre {command} --help")
    failed(acre(command, "a", "b", "c"), 2, "expected no more arguments")


@pytest.mark.parametrize("args, texts", [
    (["translate"], ["--model: expected a model directory, found none"]),
    (["bench", "--input", "x"], ["--model: expected a model directory, found none"]),
    (["inspect"], ["DIR: expected a model directory, found none"]),
    (["translate", "--model"], ["--model: expected a value (DIR), found none"]),
    (["translate", "--beam-size", "0"], ["--beam-size: expected an integer from 1 to 64", '"0"']),
    (["translate", "--beam-size", "1.5"], ["--beam-size: expected an integer", '"1.5"']),
    (["translate", "--beam-size", "100"], ["--beam-size: expected an integer from 1 to 64"]),
    (["bench", "--batch-size", "1025"], ["--batch-size: expected an integer from 1 to 1024"]),
    (["bench", "--threads", "1025"], ["--threads: expected an integer from 0 to 1024"]),
    (["translate", "--beam-size=x"], ["--beam-size: expected an integer", '"x"']),
    (["translate", "--beam-size", "99999999999999999999"], ["--beam-size"]),
    (["translate", "--length-penalty", "nan"], ["--length-penalty: expected a number", '"nan"']),
    (["translate", "--length-penalty", "0x1"], ["--length-penalty: expected a number"]),
    (["translate", "--beam-threshold", "-1"], ["--beam-threshold: expected a number", '"-1"']),
    (["translate", "--device", "tpu"], ["--device: expected", '"tpu"']),
    (["translate", "--device", "cuda:x"], ["--device: expected"]),
    (["translate", "--compute-type", "f64"], ["--compute-type: expected", '"f64"']),
    (["translate", "--json=yes"], ["--json: expected no value"]),
    (["translate", "--model", "m", "--beam-size", "2", "--num-hypotheses", "3"],
     ["--num-hypotheses: expected at most --beam-size (2), found 3"]),
    (["translate", "--model", "m", "--min-length", "5", "--max-length", "4"],
     ["--min-length: expected at most --max-length (4), found 5"]),
    (["bench", "--repeat", "0"], ["--repeat: expected an integer", '"0"']),
    (["translate", ""], ['INPUT: expected a file, found ""']),
    (["translate", "--score", ""], ['--score: expected a file, found ""']),
    (["bench", "--input", ""], ['--input: expected a file, found ""']),
    (["inspect", "m", "-o", ""], ['-o: expected a file, found ""']),
    (["inspect", "m", "-o", "file.html"], ["-o: expected together with --attention"]),
    (["inspect", "m", "--source", "en"], ["--source: expected together with --attention"]),
    (["inspect", "m", "--target", "de"], ["--target: expected together with --attention"]),
    (["serve", "--listen", "5000"], ["--listen: expected HOST:PORT", '"5000"']),
    (["serve", "--listen", "::1:80"], ["--listen: expected HOST:PORT"]),
    (["serve", "--listen", "a:65536"], ["--listen: expected HOST:PORT"]),
    (["serve", "--config", ""], ["--config: expected a file", '""']),
    (["serve", "--config="], ["--config: expected a file", '""']),
    (["serve", "--models", ""], ["--models: expected a folder", '""']),
    (["serve", "--set", "models="], ["--set: models: expected a folder", '""']),
    (["health", "--config", ""], ["--config: expected a file", '""']),
    (["serve", "--set", "threads"], ["--set: expected KEY=VALUE"]),
    (["serve", "--set", "nope=1"], ["--set: nope: expected a known key"]),
    (["serve", "--set", "threads=-1"], ["--set: threads: expected an integer from 0", '"-1"']),
    (["serve", "--set", "cors_origin=a\nb"], ["--set: cors_origin: expected printable"]),
])
def test_wrong_usage(acre, args, texts):
    failed(acre(*args), 2, *texts)


# ---- Configuration ------------------------------------------------------------------------------


def table(acre):
    """The configuration table as `acre serve --help-config` prints it: key -> default."""
    text = acre("serve", "--help-config").stdout
    return {k: json.loads(v) for k, v in re.findall(r"^(\w+) = (.*)$", text, re.MULTILINE)}


def test_shipped_configuration_is_the_table(acre):
    shipped = json.loads((ROOT / "conf/acre.json").read_text())
    assert shipped == table(acre)
    assert list(shipped) == list(table(acre))
    assert len(shipped) > 10
    done = acre("serve", "--config", ROOT / "conf/acre.json", "--check-config")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_key_is_explained(acre):
    text = acre("serve", "--help-config").stdout
    assert text.count("\n    Takes ") == len(table(acre))


@pytest.mark.parametrize("content, texts", [
    ('{"threads": 1,\n "nope": 2}', ["nope: expected a known key", "found nope"]),
    ('{"threads": "1"}', ['threads: expected an integer from 0 to 1024, found "1"']),
    ('{"threads": 1.5}', ["threads: expected an integer from 0 to 1024, found 1.5"]),
    ('{"threads": 1025}', ["threads: expected an integer from 0 to 1024, found 1025"]),
    ('{"threads": null}', ["threads: expected an integer from 0 to 1024, found null"]),
    ('{"threads": []}', ["threads: expected an integer from 0 to 1024, found an array"]),
    ('{"listen": 5000}',
     ["listen: expected HOST:PORT, [IPV6]:PORT, unix:/PATH or fd:NUMBER, ", "found 5000"]),
    ('{"listen": "here"}', ['listen: expected HOST:PORT, ', 'found "here"']),
    ('{"device": "abacus"}', ['device: expected auto, cpu, cuda or cuda:N, found "abacus"']),
    ('{"batch_size": 1025}', ["batch_size: expected an integer from 1 to 1024, found 1025"]),
    ('{"max_beam_size": 65}', ["max_beam_size: expected an integer from 1 to 64, found 65"]),
    ('{"max_texts": 1.0}', ["max_texts: expected an integer from 1 to 1000000, found 1.0"]),
    ('{"models": ""}', ["models: expected a folder"]),
    ('{"threads": 1,\n\n "threads": 2}', [":3: expected valid JSON", "duplicate"]),
    ('{"threads": 1,\n "batch_size"}', [":2: expected valid JSON"]),
    ('{"threads": 1} {}', [":1: expected valid JSON"]),
    ("", ["expected valid JSON"]),
    ("[]", ["expected an object, found an array"]),
])
def test_wrong_configuration(acre, tmp_path, content, texts):
    path = tmp_path / "conf.json"
    path.write_text(content)
    failed(acre("serve", "--config", path, "--check-config"), 1, str(path), *texts)


def test_missing_configuration(acre, tmp_path):
    failed(acre("serve", "--config", tmp_path / "none.json"), 1, "none.json", "No such file")
    failed(acre("serve", "--config", tmp_path), 1,
           f"acre: {tmp_path}: expected a JSON file, found a folder")


@pytest.mark.parametrize("setting, texts", [
    ("device=cuda", ["acre: engine: cuda: expected ", "found "]),
    ("compute_type=f16", ["compute_type: expected auto, f32, bf16 or int8", '"f16"']),
])
def test_what_this_build_cannot_do_is_seen_without_serving(acre, setting, texts):
    done = acre("serve", "--set", setting, "--check-config")
    if done.returncode == 0:
        pytest.skip("this build and machine can do that")
    assert done.returncode != 0
    for text in texts:
        assert text in done.stderr


@pytest.mark.parametrize("command", [["serve", "--help-config"], ["translate", "--help"],
                                     ["bench", "--help"]])
def test_what_is_offered_is_there(acre, command):
    """Every name that a help text lists for a device or a type is taken; a GPU that cannot be had
    is another matter."""
    text = acre(*command).stdout
    offered = [line for line in text.splitlines() if "auto" in line]
    devices = next(line for line in offered if "cpu" in line)
    types = next(line for line in offered if "int8" in line)
    for line, key, names in ((devices, "device", ["auto", "cpu", "cuda"]),
                             (types, "compute_type", ["auto", "f32", "bf16", "f16", "int8"])):
        for name in names:
            done = acre("serve", "--set", f"{key}={name}", "--check-config")
            is_offered = re.search(rf"\b{name}\b", line.split("(default")[0]) is not None
            is_taken = f"{key}: expected" not in done.stderr
            assert is_taken == is_offered, (name, line, done.stderr)
            assert done.returncode == 0 or name == "cuda" or not is_taken


def test_checking_looks_at_address_and_models(acre, tmp_path):
    check = ("serve", "--check-config", "--models", ROOT / "tests/golden/models/tiny-token")
    assert acre(*check).returncode == 0
    failed(acre(*check, "--listen", "no.such.host.invalid:5000"), 1, "listen: expected an address",
           "no.such.host.invalid")
    failed(acre("serve", "--check-config", "--models", tmp_path), 1, str(tmp_path),
           "expected a subfolder with a config.json")
    shutil.copytree(ROOT / "tests/golden/models/tiny-token", tmp_path / "broken")
    (tmp_path / "broken/config.json").write_text("{}")
    failed(acre("serve", "--check-config", "--models", tmp_path), 1, "broken/config.json")


def test_checking_does_not_need_the_port(acre):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert acre("serve", "--check-config", "--listen", address).returncode == 0


def test_checking_makes_and_changes_no_file(acre, tmp_path):
    store, log = tmp_path / "acre.db", tmp_path / "access.log"
    check = ("serve", "--check-config", "--set", f"store={store}", "--set", f"access_log={log}")
    assert acre(*check).returncode == 0
    assert list(tmp_path.iterdir()) == []
    failed(acre(*check, "--set", f"store={tmp_path}/no/acre.db"), 1,
           "expected a file that can be written, found: No such file or directory")
    acre("keys", "add", "web", "--store", store)
    for mode in ("WAL", "DELETE"):  # the latter a server would change
        with closing(sqlite3.connect(store)) as db:
            db.execute(f"PRAGMA journal_mode = {mode}")
        before = store.read_bytes()
        assert acre(*check).returncode == 0
        assert [file.name for file in tmp_path.iterdir()] == [store.name]
        assert store.read_bytes() == before
    store.write_text("no store")
    failed(acre(*check), 1, f"store: {store}: ")


@pytest.mark.parametrize("key", ["access_log", "suggestions"])
def test_files_that_cannot_be_written_are_refused(acre, tmp_path, key):
    check = ("serve", "--check-config", "--set")
    for path, why in ((tmp_path / "no/such", "No such file or directory"),
                      (tmp_path, "Is a directory")):
        failed(acre(*check, f"{key}={path}"), 1,
               f"{key}: expected a file that can be written, found {path}: {why}")
    assert acre(*check, f"{key}={tmp_path / 'new'}").returncode == 0
    assert list(tmp_path.iterdir()) == []


# ---- Starting -----------------------------------------------------------------------------------


def start_failed(done, *texts):
    """The log may come before the one message."""
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("acre: ")
    for text in texts:
        assert text in last


def test_command_line_wins_over_the_file(acre, tmp_path):
    path = tmp_path / "conf.json"
    path.write_text('{"models": "/nonexistent-a", "listen": "127.0.0.1:0"}')
    config = ["--config", path]
    assign = ["--set", "models=/nonexistent-b"]
    for args, winner in (
        (config, "/nonexistent-a"),
        (assign + config, "/nonexistent-b"),
        (["--models", "/nonexistent-c"] + assign + config, "/nonexistent-c"),
    ):
        found = f"acre: {winner}: expected a folder of models, found: No such file"
        start_failed(acre("serve", *args), found)


def test_no_models(acre, tmp_path):
    done = acre("serve", "--listen", "127.0.0.1:0", "--models", tmp_path)
    start_failed(done, str(tmp_path), "expected a subfolder with a config.json, found none")


def test_broken_model(acre, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/config.json").write_text("{}")
    done = acre("serve", "--listen", "127.0.0.1:0", "--models", tmp_path)
    start_failed(done, f"acre: {tmp_path}/broken/config.json: model_type: expected")
    assert done.stderr.count("config.json") == 1


def test_default_folder_is_named_once(acre, tmp_path):
    done = acre("serve", "--listen", "127.0.0.1:0", cwd=tmp_path)
    start_failed(done, "acre: models: expected a folder of models, found: No such file")


def test_model_that_cannot_be_looked_at(acre, tmp_path, token_model):
    """Not skipped in silence: somebody wants it served."""
    (tmp_path / "good").symlink_to(token_model)
    (tmp_path / "file").write_text("no model, and nobody thinks so")
    (tmp_path / "round").symlink_to("round")
    start_failed(acre("serve", "--listen", "127.0.0.1:0", "--models", tmp_path),
                 f"acre: {tmp_path}/round: expected a folder that can be read, found: Too many")


@pytest.mark.parametrize(
    "host, family", [("127.0.0.1", socket.AF_INET), ("[::1]", socket.AF_INET6)]
)
def test_port_in_use(acre, host, family, token_model):
    with socket.socket(family) as taken:
        try:
            taken.bind((host.strip("[]"), 0))
        except OSError:
            pytest.skip("no such address here")
        taken.listen()
        address = f"{host}:{taken.getsockname()[1]}"
        done = acre("serve", "--listen", address, "--models", token_model)
        start_failed(done, f"listen: expected a free address and port, found {address}",
                     "in use")


def test_unknown_host(acre, token_model):
    done = acre("serve", "--listen", "no-such-host.invalid:5000", "--models", token_model)
    start_failed(done, "listen: expected an address", "no-such-host.invalid")


def test_who_reads_json_reads_why_it_did_not_start(acre, tmp_path, token_model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for args, text in (
            (["--models", token_model, "--listen", address], "listen: expected a free address"),
            (["--models", tmp_path, "--listen", "127.0.0.1:0"], "expected a subfolder with a"),
            (["--models", token_model, "--listen", "127.0.0.1:0", "--set",
              f"tls_certificate={tmp_path}"], "tls_"),
            (["--models", token_model, "--listen", "127.0.0.1:0", "--set",
              f"store={tmp_path}"], f"store: {tmp_path}"),
        ):
            done = acre("serve", "--set", "log_format=json", *args)
            assert (done.returncode, done.stdout) == (1, "")
            lines = [json.loads(line) for line in done.stderr.splitlines()]
            assert lines[-1]["level"] == "error" and text in lines[-1]["message"]
            assert sum(line["level"] == "error" for line in lines) == 1
