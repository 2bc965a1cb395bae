"""acre_cuda.so, which is opened when somebody wants a GPU: what is wrong with it is named, and
`auto` does without it."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/golden/models/two-vocabs"
# The library's own side of the interface, for a device that only says that it was asked.
LIBRARY = """
extern "C" {
#include "acre.h"
}
#undef ACRE_VERSION
#define ACRE_VERSION %s
#include "device/cuda/host.cc"
extern "C" int device_cuda_open(int ordinal, struct device **, struct acre_err *err)
{
    return err_set(err, ACRE_EUNSUPPORTED, "cuda: asked for %%d", ordinal);
}
"""


def version():
    text = (ROOT / "engine/acre.h").read_text()
    return next(line.split()[2] for line in text.splitlines() if "#define ACRE_VERSION" in line)


def compile_library(folder, text):
    source, library = folder / "library.cc", folder / "acre_cuda.so"
    source.write_text(text)
    error = folder / "error.o"
    include = f"-I{ROOT}/engine"
    subprocess.run(["gcc", "-std=gnu11", "-fPIC", include, "-c", "-o", error,
                    ROOT / "engine/base/error.c"], check=True)
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", include,
                    "-o", library, source, error], check=True)
    return library


@pytest.fixture
def open_with(acre):
    """What `acre translate` says that is told to use this library."""
    def run(library, device="cuda"):
        return acre("translate", "--model", MODEL, "--device", device, text="",
                    env=os.environ | {"ACRE_CUDA": str(library)})

    return run


def refused(done, *texts):
    assert done.returncode == 1 and done.stdout == ""
    for text in texts:
        assert text in done.stderr, done.stderr


def test_no_library(open_with, tmp_path):
    refused(open_with(tmp_path / "none.so"), "acre: engine: cuda: ACRE_CUDA: expected a library",
            f"found no file {tmp_path}/none.so")


@pytest.mark.parametrize("content", [b"", b"no library\n", b"\x7fELF" + bytes(60)])
def test_broken_library(open_with, tmp_path, content):
    broken = tmp_path / "acre_cuda.so"
    broken.write_bytes(content)
    refused(open_with(broken), "acre: engine: cuda: ", str(broken))


@pytest.mark.parametrize("device, status", [("cuda", 1), ("auto", 0)])
def test_library_that_was_cut_short(acre, tmp_path, device, status):
    """Anywhere: a copy that did not come to its end. The loader would map it all the same."""
    whole = compile_library(tmp_path, f"int numbers[{1 << 18}] = {{1}};\n").read_bytes()
    cut = tmp_path / "cut.so"
    for n in (10, 500, len(whole) // 4, len(whole) // 2, len(whole) * 3 // 4):
        cut.write_bytes(whole[:n])
        done = acre("translate", "--model", MODEL, "--device", device, text="",
                    env=os.environ | {"ACRE_CUDA": str(cut)})
        assert done.returncode == status, (n, done.stderr)
        assert status == 0 or f"cuda: {cut}: " in done.stderr, done.stderr


def test_library_of_something_else(open_with, tmp_path):
    library = compile_library(tmp_path, "int nothing;\n")
    refused(open_with(library), f"cuda: {library}: expected acre_cuda_open() in it")


def test_library_of_another_version(open_with, tmp_path):
    library = compile_library(tmp_path, LIBRARY % '"99.9"')
    refused(open_with(library), "cuda: acre_cuda.so: expected the library of this build of Acre",
            "found another one's, of Acre 99.9")


def test_library_of_this_version_is_asked(open_with, tmp_path):
    library = compile_library(tmp_path, LIBRARY % version())
    refused(open_with(library, "cuda:5"), "acre: engine: cuda: asked for 5")


def test_auto_goes_on_without(open_with, tmp_path):
    assert open_with(tmp_path / "none.so", "auto").returncode == 0
    broken = tmp_path / "acre_cuda.so"
    broken.write_text("no library\n")
    assert open_with(broken, "auto").returncode == 0


def test_the_real_one_says_what_is_missing(acre, open_with):
    """Or works, where there is a GPU. Its symbols are its one function, and it asks for no library
    of NVIDIA's."""
    library = ROOT / "build/acre_cuda.so"
    if not library.exists():
        pytest.skip("acre_cuda.so is not built, see `make cuda`")
    done = open_with(library)
    if done.returncode != 0:
        refused(done, "acre: engine: cuda: expected a", "found ")
    names = subprocess.run(["nm", "--dynamic", "--defined-only", library], capture_output=True,
                           text=True, check=True).stdout.split()[2::3]
    assert names == ["acre_cuda_open"]
    needed = subprocess.run(["readelf", "--dynamic", library], capture_output=True, text=True,
                            check=True).stdout
    assert not any(name in needed for name in ("libcu", "libnv"))
    assert library.stat().st_size <= 25 * 2**20


@pytest.mark.parametrize("known, archs, ptx", [
    ("75 80 86 89 90", ["75", "80", "90"], "90"),
    ("75 80 90 100 110 120 121", ["75", "80", "90", "100", "120"], "90"),
    ("80 100 130", ["80", "100"], "100"),
])
def test_a_toolkit_is_asked_only_for_what_it_knows(tmp_path, known, archs, ptx):
    """One of CUDA 12.3 knows neither 100 nor 120."""
    nvcc = tmp_path / "nvcc"
    listed = "".join(f"compute_{arch}\\n" for arch in known.split())
    nvcc.write_text(f"#!/bin/sh\n[ $1 = --list-gpu-arch ] && printf '{listed}'\n")
    nvcc.chmod(0o755)
    said = subprocess.run(["make", "-nB", "build/acre_cuda.so"], cwd=ROOT, check=True, text=True,
                          capture_output=True, timeout=120, env=os.environ | {
                              "PATH": f"{tmp_path}:{os.environ['PATH']}", "CUDA": "0"}).stdout
    codes = {tuple(re.findall(r"code=(\w+)", line)) for line in said.splitlines()
             if "-gencode" in line}
    assert codes == {(*(f"sm_{arch}" for arch in archs), f"compute_{ptx}")}
