"""The static gate: every kernel as nvcc compiles it, where there is one; and what it refuses."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import gate

ROOT = Path(__file__).resolve().parents[2]
REPORT = """ptxas info    : Compiling entry function '_Z5sleepi' for 'sm_90'
ptxas info    : Function properties for _Z5sleepi
    {stack} bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers
"""


@pytest.fixture
def report(tmp_path):
    def write(stack=0, spilled=0, registers=40):
        path = tmp_path / "sleep.sm_90.ptxas"
        path.write_text(REPORT.format(stack=stack, spilled=spilled, registers=registers))
        return path

    return write


def test_kernels():
    """For one architecture, which takes a minute; `make cuda-gate` is all of them."""
    if os.environ.get("BUILD", "build") != "build":
        pytest.skip("kernels have no other builds")
    if not (shutil.which("nvcc") or Path("/usr/local/cuda/bin/nvcc").exists()):
        pytest.skip("there is no nvcc")
    result = subprocess.run(["make", "-s", "-j2", "cuda-gate", "CUDA_ARCHS=90"], cwd=ROOT,
                            capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_good_report_is_read(report):
    assert gate.read_reports([report()]) == ({"sleep": {"sm_90": 40}}, [])


@pytest.mark.parametrize("fault", [{"stack": 8}, {"spilled": 4}])
def test_stacks_and_spills_are_refused(report, fault):
    assert len(gate.read_reports([report(**fault)])[1]) == 1


def test_an_empty_report_is_refused(tmp_path):
    empty = tmp_path / "nothing.sm_90.ptxas"
    empty.write_text("")
    assert gate.read_reports([empty])[1] == [f"{empty}: no kernels"]


def test_more_registers_and_fewer_blocks_are_refused():
    table = {"sleep": {"sm_90": (40, 8)}}
    assert gate.compare(table, {"sleep": {"sm_90": (48, 8)}}) == []
    assert len(gate.compare(table, {"sleep": {"sm_90": (49, 8)}})) == 1
    assert len(gate.compare(table, {"sleep": {"sm_90": (40, 7)}})) == 1


def test_unknown_and_missing_kernels_are_refused():
    table = {"sleep": {"sm_90": (40, 8)}}
    assert len(gate.compare(table, {"wake": {"sm_90": (40, 8)}})) == 2


def test_blocks_are_limited_by_what_runs_out_first():
    assert gate.blocks_of("sm_90", 64, 128, 0) == 8
    assert gate.blocks_of("sm_90", 32, 1024, 0) == 2
    assert gate.blocks_of("sm_90", 32, 128, 70000) == 3
    assert gate.blocks_of("sm_75", 32, 128, 70000) == 0


def test_tables_are_read_as_written(tmp_path):
    measured = {"sleep": {arch: (40, 8 if arch != "sm_75" else 0) for arch in gate.ARCHITECTURES}}
    gate.write_table(tmp_path / "limits.txt", measured)
    assert gate.read_table(tmp_path / "limits.txt") == measured
