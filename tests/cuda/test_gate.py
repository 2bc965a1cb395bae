"""The static gates: every kernel as nvcc compiles it, where there is one; and what they refuse."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import gate
import instructions

ROOT = Path(__file__).resolve().parents[2]
REPORT = """ptxas info    : Compiling entry function '_Z5sleepi' for 'sm_90'
ptxas info    : Function properties for _Z5sleepi
    {stack} bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers
"""
LISTING = """
code for sm_{arch}
		arch = sm_{arch}
		Function : _Z12attend_tilesI3f16Li64EEv10tiles_task
	.headerflags	@"EF_CUDA_SM{arch}"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                   /* 0x00000a00ff017b82 */
                                                                            /* 0x000fe20000000800 */
        /*0010*/              @!P1 LDSM.16.M88.4 R8, [R12] ;                /* 0x00000a00ff017b82 */
        /*0020*/               @P0 LDSM.16.MT88.4 R8, [R12] ;               /* 0x00000a00ff017b82 */
        /*0030*/                   {matrices} R8, R12, R14, R8 ;            /* 0x00000a00ff017b82 */
        /*0040*/                   {copy} [R12], desc[UR4][R14.64] ;        /* 0x00000a00ff017b82 */
        /*0050*/                   {more} R8, R14, R12 ;                    /* 0x00000a00ff017b82 */
"""
COPY = "LDGSTS.E.BYPASS.128"


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


def faults_of(arch="90", matrices="HMMA.16816.F32", copy=COPY, more="IADD3"):
    """What is wrong with a kernel that attends by tiles."""
    listing = LISTING.format(arch=arch, matrices=matrices, copy=copy, more=more)
    found = instructions.read_listing(listing)
    assert list(found) == [("attend_tiles<f16,64>", f"sm_{arch}")]
    return [fault for key, each in found.items() for fault in instructions.faults(*key, each)]


def test_instructions_that_are_meant_are_enough():
    assert faults_of() == []
    assert faults_of(arch="75", matrices="HMMA.1688.F32", copy="LDG.E.128.SYS") == []


@pytest.mark.parametrize("given, word", [({"matrices": "FFMA"}, "HMMA"),
                                         ({"copy": "LDGSTS.E.64"}, "LDGSTS"),
                                         ({"copy": "LDG.E.SYS", "arch": "75"}, "LDG"),
                                         ({"more": "LDL.64"}, "local memory"),
                                         ({"more": "STL"}, "local memory"),
                                         ({"more": "DFMA"}, "double precision"),
                                         ({"more": "F2F.F64.F32"}, "double precision")])
def test_other_instructions_are_refused(given, word):
    (fault,) = faults_of(**given)
    assert word in fault
