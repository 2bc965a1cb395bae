"""Every fuzz target links, and stands its seeds and a thousand inputs that come of them: always
the same, so that a change is not blamed for what it did not do. `make fuzz` looks for what is
new."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = re.search(r"^FUZZ_SUPPORT := (.*)$", (ROOT / "tests/fuzz/rules.mk").read_text(),
                    re.MULTILINE)[1].split()
TARGETS = sorted(path.stem for path in (ROOT / "tests/fuzz").glob("*.c")
                 if path.stem not in SUPPORT)


@pytest.mark.parametrize("target", TARGETS)
def test_it_links_and_runs(target):
    if os.environ.get("BUILD", "build") != "build":
        pytest.skip("fuzz targets have sanitizers of their own")
    if not shutil.which("clang"):
        pytest.skip("there is no clang, see `conf/packages install fuzz`")
    result = subprocess.run([ROOT / "tests/fuzz/run", "60", target], capture_output=True, text=True,
                            timeout=600, check=False,
                            env=os.environ | {"SEED": "1", "RUNS": "1000"})
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"fuzzing {target} for 60 s" in result.stdout


def test_there_are_targets():
    assert "http" in TARGETS and "html" in TARGETS
