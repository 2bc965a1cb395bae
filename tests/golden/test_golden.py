"""`make golden` on the committed cases, and on a case that was tampered with."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests/golden/area-attention"


def make_golden(folder):
    """Runs the target with the build that is under test."""
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    command = ["make", "--no-print-directory", "golden", f"GOLDEN={folder}"]
    build = Path(os.environ.get("BUILD", "build")).name
    if build != "build":
        command.append(f"SAN={build}")
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True,
                          timeout=600, check=False)


def test_all_cases_are_within_their_bound():
    result = make_golden(CASES)
    assert result.returncode == 0, result.stdout + result.stderr
    missing = [case.stem for case in CASES.glob("*.safetensors") if case.stem not in result.stdout]
    assert not missing


def test_a_wrong_value_is_noticed(tmp_path):
    path = tmp_path / "eq3-basic.safetensors"
    shutil.copyfile(CASES / path.name, path)
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    start = 8 + size + json.loads(data[8 : 8 + size])["output"]["data_offsets"][0]
    value = np.frombuffer(bytes(data[start : start + 4]), "<f4")[0]
    data[start : start + 4] = np.float32(value + 1e-3).tobytes()
    path.write_bytes(data)
    result = make_golden(tmp_path)
    assert result.returncode != 0 and path.stem in result.stdout
