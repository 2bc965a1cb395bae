"""gpu-run itself, with steps that stand for those of a machine with a GPU."""

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import tarfile
import time
from pathlib import Path

import gpu_right
import gpu_speed
import pytest

PATH = Path(__file__).with_name("gpu-run")


@pytest.fixture
def gpu_run(tmp_path, monkeypatch):
    loader = importlib.machinery.SourceFileLoader("gpu_run", str(PATH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_run", loader))
    loader.exec_module(module)
    monkeypatch.setattr(module, "PACK", tmp_path / "gpu-run")
    monkeypatch.setattr(module, "ARCHIVE", tmp_path / "gpu-run.tar.xz")
    monkeypatch.setattr(module, "OUT", tmp_path / "out")
    module.OUT.mkdir()
    return module


def pack(gpu_run, program):
    """An archive with such a program, and nothing beside it."""
    folder = gpu_run.PACK.parent / "packed/gpu-run"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "acre").write_text(program)
    with tarfile.open(gpu_run.ARCHIVE, "w:xz") as archive:
        archive.add(folder, "gpu-run")


def test_another_archive_is_unpacked(gpu_run):
    assert not gpu_run.unpack()
    for program in ("the first", "the second"):
        pack(gpu_run, program)
        assert gpu_run.unpack()
        assert (gpu_run.PACK / "acre").read_text() == program
    (gpu_run.PACK / "more").touch()
    assert gpu_run.unpack() and (gpu_run.PACK / "more").exists()  # the same again


def in_repository(folder, *command):
    name = ("-c", "user.name=Acre", "-c", "user.email=acre@localhost")
    subprocess.run(["git", "-C", folder, *name, *command], check=True, capture_output=True)


@pytest.fixture
def repository(gpu_run, tmp_path, monkeypatch):
    """A checkout with 3 MiB of weights, 1 MiB else, and build/, which is ignored."""
    root = tmp_path / "repository"
    for name, mib in (("models/a/model.safetensors", 1), ("models/train/reverse/b/vocab.json", 2),
                      ("models/convert/layout.py", 0.5), ("new.py", 0.5), ("build/acre", 8)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(bytes(int(mib * 2**20)))
    (root / ".gitignore").write_text("/build/\n")
    in_repository(root, "init", "-q")
    in_repository(root, "add", "models", ".gitignore")
    in_repository(root, "commit", "-q", "-m", "all")
    monkeypatch.setattr(gpu_run, "ROOT", root)
    return root


def test_a_thin_checkout_is_as_large_as_is_said(gpu_run, repository):
    promised = gpu_run.thin_mib()
    assert 4 < gpu_run.tree_mib() < 4.01 and 1 < promised < 1.01
    subprocess.run(gpu_run.THIN, shell=True, cwd=repository, check=True)
    assert gpu_run.tree_mib() == gpu_run.thin_mib() == promised
    assert (repository / "models/convert/layout.py").exists()


@pytest.mark.parametrize("most, is_right, says", (
    (7, True, " 6.0 MiB of 7\n"), (4, False, "git sparse-checkout set"),
    (2, False, "leave the wheel out")))
def test_tree_and_pack_are_judged_together(gpu_run, repository, monkeypatch, capsys, most, is_right,
                                           says):
    monkeypatch.setattr(gpu_run, "MOST_MIB", most)
    assert gpu_run.can_be_carried(2) == is_right
    assert says in capsys.readouterr().out


def program(path, says):
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path


def in_time(is_so):
    """Whether it is so within ten seconds."""
    begin = time.monotonic()
    while not is_so() and time.monotonic() < begin + 10:
        time.sleep(0.01)
    return is_so()


def do(gpu_run, monkeypatch, *steps, device=lambda run: True):
    monkeypatch.setattr(gpu_run, "describe", device)
    monkeypatch.setitem(gpu_run.PARTS, "right", steps)
    return gpu_run.do("right", True, "")


def right(run):
    run.note("right", True)


def use_up(run):
    run.start -= 10000
    run.call("true")


def print_nothing(run):
    [].pop()


def test_what_is_right_passes(gpu_run, monkeypatch, capsys):
    assert do(gpu_run, monkeypatch, right, right)
    assert "right: 2 right, 0 wrong, 0 s\n" in capsys.readouterr().out


def test_what_is_not_expected_is_wrong(gpu_run, monkeypatch, capsys):
    """And the next step is done."""
    assert not do(gpu_run, monkeypatch, print_nothing, right)
    assert "right: 1 right, 1 wrong" in capsys.readouterr().out


def test_the_device_is_held_open(gpu_run, tmp_path, monkeypatch):
    """As long as the part takes."""
    told = tmp_path / "told"
    program(tmp_path / "nvidia-smi", f"echo $$ $* >{told}; exec sleep 99")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def wait(run):
        in_time(lambda: told.exists() and told.read_text())
        pid, *words = told.read_text().split()
        run.note("held", words == ["dmon", "-d", "10"] and Path("/proc", pid).exists())

    assert do(gpu_run, monkeypatch, wait)
    assert not Path("/proc", told.read_text().split()[0]).exists()


def test_a_device_that_does_not_open_is_wrong(gpu_run, monkeypatch):
    assert not do(gpu_run, monkeypatch, right, device=print_nothing)


def test_a_part_that_is_cut_short_fails(gpu_run, monkeypatch, capsys):
    """But nothing was wrong in it."""
    assert not do(gpu_run, monkeypatch, right, use_up, right)
    assert "right: 1 right, 0 wrong" in capsys.readouterr().out


@pytest.fixture
def run(gpu_run, tmp_path):
    return gpu_run.Run(True, "right", tmp_path)


def test_what_a_translation_fails_with_is_told(run, tmp_path):
    run.acre = program(tmp_path / "acre", "echo A; echo out of memory >&2; exit 1")
    assert gpu_right.translate(run, tmp_path, ["A."], "cuda", "f32", "1", 1) == \
        ([], "status 1: out of memory\n")


@pytest.mark.parametrize("off, is_right", ((0.009, True), (0.011, False)))
def test_golden_translations_are_scored(run, tmp_path, off, is_right):
    """Of 16 bits, too: they may be as probable as in f32, or not."""
    run.acre = program(tmp_path / "acre", f"""case "$*" in *cuda*) score={-1 - off};; *) score=-1;;
        esac; while read -r line; do echo "{{\\"normalized_score\\": $score}}"; done""")
    model = gpu_right.GOLDEN[0]
    gpu_right.near_f32(run, model, gpu_right.golden(model), "bf16")
    (step,) = run.steps
    assert step["right"] == is_right and abs(step["mean"] - off / 2) < 1e-9
    assert ("found" in step) == (not is_right)


def test_where_two_launches_part(run, tmp_path):
    """Every way of launching is held to sentences alone."""
    run.acre = program(tmp_path / "acre", 'sed "s/.*/&$ACRE_GPU/; s/plain$//; s/overlap$//"')
    gpu_right.check_launches(run)
    assert [step["right"] for step in run.steps] == [True, False, True]
    step = run.steps[1]
    assert (step["line"], step["found"]) == (1, step["wanted"] + "graphs")


def test_shapes_that_are_off_are_kept(run, tmp_path):
    run.area = program(tmp_path / "area", "echo fine")
    run.shapes = program(tmp_path / "shapes", "echo FAILED shape 3; echo 1 shapes off; exit 1")
    gpu_right.check_attention(run)
    assert [step.get("off") for step in run.steps] == [None] + 3 * [["FAILED shape 3"]]


@pytest.mark.parametrize("status, says, right", (
    (0, "0 errors", [True] * 12), (9, "1 error", [False] * 12),
    (1, "Error: Device not supported.", [None])))
def test_what_the_sanitizer_finds(run, tmp_path, monkeypatch, status, says, right):
    program(tmp_path / "compute-sanitizer", f"echo '{says}'; exit {status}")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    gpu_right.sanitize(run)
    assert [step["right"] for step in run.steps] == right


@pytest.mark.parametrize("step", (gpu_speed.ceilings, gpu_speed.products, gpu_speed.attention,
                                  gpu_speed.launches, gpu_speed.presets, gpu_speed.shipped))
def test_a_program_of_ours_that_fails_is_wrong(run, tmp_path, step):
    (tmp_path / "speed").mkdir()
    run.emulated, run.speed = step is not gpu_speed.ceilings, tmp_path / "speed"
    (tmp_path / "models/en-de-token").mkdir(parents=True)
    (tmp_path / "models/en-de-token/model.safetensors").touch()
    run.acre = program(tmp_path / "acre", "exit 139")
    for name in ("copy", "products", "attention"):
        program(tmp_path / "speed" / name, "exit 139")
    step(run)
    assert run.steps and not any(step["right"] is not False for step in run.steps)


def test_our_figure_is_noted_before_the_other_is_asked(gpu_run, run):
    def out_of_time():
        raise gpu_run.CutShort

    with pytest.raises(gpu_run.CutShort):
        gpu_speed.compare(run, "Base", lambda: 7.0, "ctranslate2", out_of_time)
    assert [step["tokens_per_second"] for step in run.steps] == [7.0]
    run.emulated = False
    ours = iter((8.0, "it crashed"))
    gpu_speed.compare(run, "Base", lambda: next(ours), "ctranslate2", lambda: 4.0)
    assert [step["right"] for step in run.steps[1:]] == [None, False, None]
    assert run.steps[-1]["over_ctranslate2"] == 2.0


def test_a_command_without_end_is_stopped(gpu_run, run, tmp_path, monkeypatch):
    """With what it has begun, and what it has said is kept. The step goes on."""
    monkeypatch.setattr(gpu_run, "MOST_S", 2)
    begun = tmp_path / "begun"
    _, done = run.call("sh", "-c", f"echo said; sleep 99 & echo $! >{begun}; wait", HOW="plain")
    assert (done.returncode, done.stdout) == (124, "said\n")
    child = Path("/proc") / begun.read_text().strip() / "stat"
    assert in_time(lambda: not child.exists() or child.read_text().split()[2] == "Z")
    log = (gpu_run.OUT / "right.log").read_text()
    assert log.startswith("$ HOW=plain sh -c ")
    assert re.search(r"\nstatus 124, \d+.\d s\nsaid\n", log)


def test_of_what_fails_more_is_kept(gpu_run, run):
    for status, most in ((0, 2000), (1, 250_000)):
        run.call("sh", "-c", f"printf '%300000s'; exit {status}")
        assert most / 4 < (gpu_run.OUT / "right.log").stat().st_size < most
        (gpu_run.OUT / "right.log").unlink()
