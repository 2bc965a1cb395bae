"""Runs the acre command; the golden models serve as examples."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ACRE = os.environ.get("ACRE", str(ROOT / "build/acre"))


@pytest.fixture(scope="session")
def acre_path():
    return ACRE


@pytest.fixture
def acre():
    def run(*args, text="", **kwargs):
        """Text or bytes in, text out."""
        data = text if isinstance(text, bytes) else text.encode()
        command = [ACRE, *map(str, args)]
        done = subprocess.run(command, input=data, capture_output=True, timeout=300, **kwargs)
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        return done

    return run


@pytest.fixture(scope="session")
def token_model():
    return ROOT / "tests/golden/models/tiny-token"


@pytest.fixture(scope="session")
def char_model():
    return ROOT / "tests/golden/models/tiny-char"


def failed(done, status, *texts):
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("acre: ")
    assert done.stderr.count("\n") == 1
    for text in texts:
        assert text in done.stderr
