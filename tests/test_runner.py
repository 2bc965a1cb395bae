"""tests/run itself: what it does with tests that never end or are no more."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(build, *arguments):
    return subprocess.run([ROOT / "tests/run", *arguments], env=os.environ | {"BUILD": str(build)},
                          capture_output=True, text=True, timeout=120, check=False)


def test_one_that_hangs_ends_the_run_and_is_named(tmp_path):
    path = tmp_path / "test_hanging.py"
    path.write_text("import time\n\ndef test_endless():\n    time.sleep(1000)\n")
    done = run(tmp_path, "python", "-o", "faulthandler_timeout=1", path)
    assert done.returncode == 1 and "in test_endless" in done.stderr
    assert done.stdout.endswith("0 passed, 1 failed, 0 skipped\n")


def test_a_program_whose_source_is_gone_is_not_run(tmp_path):
    program = tmp_path / "tests/unit/test_that_was_renamed"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 1..1\necho not ok 1\n")
    program.chmod(0o755)
    assert run(tmp_path, "unit").stdout == "nothing was run\n0 passed, 0 failed, 0 skipped\n"
