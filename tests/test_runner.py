"""tests/run itself: what it does with a test that never ends."""

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
