"""Builds the example program with nothing but acre.h and libacre.a, and runs it: it must say what
`acre translate` says. Skips what is not built yet."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
ACRE = Path(os.environ.get("ACRE", BUILD / "acre"))
MODELS = ROOT / "tests/golden/models"
LIBRARIES = ["jansson", "icu-i18n", "icu-uc", "sentencepiece"]
LINES = ["Hello there.", "", "a b c", "Two sentences. In one line!"]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    library = BUILD / "libacre.a"
    if not library.exists() or not shutil.which("cc"):
        pytest.skip(f"{library.name} or a C compiler is missing")
    sanitize = [f"-fsanitize={BUILD.name}"] if BUILD != ROOT / "build" else []
    flags = subprocess.check_output(["pkg-config", "--libs", *LIBRARIES], text=True).split()
    program = tmp_path_factory.mktemp("example") / "translate"
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", *sanitize, "-Iengine"]
    command += ["tests/example/translate.c", str(library), *flags, "-lstdc++", "-lm", "-lpthread"]
    subprocess.run([*command, "-o", str(program)], cwd=ROOT, check=True)
    return program


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("model", ["tiny-area", "tiny-char", "tiny-token"])
def test_example_says_what_the_command_says(example, model):
    if not ACRE.exists():
        pytest.skip("build/acre is not built yet")
    for line in LINES:
        ours = run(example, MODELS / model, line)
        command = run(ACRE, "translate", "--model", MODELS / model, text=line + "\n")
        assert ours.returncode == 0, ours.stderr
        assert command.returncode == 0, command.stderr
        assert ours.stdout == command.stdout


def test_the_header_leaves_programs_their_names(tmp_path):
    program = tmp_path / "names.c"
    program.write_text("#define X 1\n#include <acre.h>\nint x = X;\n")
    subprocess.run(["cc", "-Werror", "-Iengine", "-fsyntax-only", program], cwd=ROOT, check=True)


def test_example_explains_a_missing_model(example):
    result = run(example, "no-such-model", "Hello.")
    assert result.returncode == 1
    assert result.stderr == "no-such-model: expected a model directory, found nothing\n"
    assert result.stdout == ""
