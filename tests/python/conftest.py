"""The package as a user has it: the newest wheel of build/wheel, unpacked, is what is imported."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
ACRE = os.environ.get("ACRE", str(BUILD / "acre"))
MODELS = ROOT / "tests/golden/models"
LINES = ["Hello there.", "", "The cat is old. Two sentences in one line!",
         "Où? Ñandú 東京 🙂."]


@pytest.fixture(scope="session")
def wheel():
    found = sorted((BUILD / "wheel").glob("*.whl"))
    if not found:
        pytest.skip("build/wheel has no wheel: a sanitizer's library does not load into Python")
    return found[-1]


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """The folder that the package lies in."""
    folder = tmp_path_factory.mktemp("site-packages")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


@pytest.fixture(scope="session")
def acre(installed):
    sys.path.insert(0, str(installed))
    import acre as package
    assert Path(package.__file__).parent == installed / "acre"
    return package


@pytest.fixture
def translator(acre):
    """Of a small model, on two threads."""
    with acre.Translator(MODELS / "tiny-area", threads=2) as translator:
        yield translator


@pytest.fixture
def python(installed):
    """Runs a program in an interpreter of its own."""
    def run(program, *arguments, timeout=60, isolated=True):
        program = f"import sys; sys.path.insert(0, {str(installed)!r})\n" + program
        flags = ["-I", "-S"] if isolated else []
        return subprocess.run([sys.executable, *flags, "-c", program, *map(str, arguments)],
                              capture_output=True, text=True, timeout=timeout, check=False)
    return run


def command(model, lines, *options):
    """What `acre translate --json` says of lines."""
    text = "".join(line + "\n" for line in lines)
    done = subprocess.run([ACRE, "translate", "--model", MODELS / model, "--json", *options],
                          input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
