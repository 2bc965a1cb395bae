"""Makes models/convert importable, and names what its tests share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def golden():
    return ROOT / "tests/golden/models"


@pytest.fixture(scope="session")
def fixtures():
    return Path(__file__).resolve().parent / "fixtures"


@pytest.fixture
def acre():
    def translate(model, lines, *options):
        """What `acre translate` writes for these lines."""
        binary = os.environ.get("ACRE", str(ROOT / "build/acre"))
        command = [binary, "translate", "--model", str(model), "--compute-type", "f32", *options]
        text = "".join(line + "\n" for line in lines)
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=300,
                              check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().splitlines()

    return translate


@pytest.fixture
def command():
    def run(*arguments, interpreter=(sys.executable, "-B")):
        return subprocess.run([*interpreter, "-m", "models.convert", *map(str, arguments)],
                              cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)

    return run


@pytest.fixture
def refused():
    """Runs a function that must fail with an error that says all of these words."""
    from models.convert.errors import ConvertError

    def check(function, *arguments, words):
        with pytest.raises(ConvertError) as error:
            function(*arguments)
        missing = [word for word in words if word not in str(error.value)]
        assert not missing, f"{missing} are not in: {error.value}"

    return check
