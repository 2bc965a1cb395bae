"""`make golden` on the committed cases, and on a case that was tampered with."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests/golden/area-attention"
LINE = re.compile(r"(passed|FAILED) .*/(.*)\.safetensors: largest error (\S+), bound (\S+)")


def make_golden(folder):
    """Runs the target with the build that is under test."""
    command = ["make", "--no-print-directory", "golden", f"GOLDEN={folder}"]
    build = Path(os.environ.get("BUILD", "build")).name
    if build != "build":
        command.append(f"SAN={build}")
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600,
                          check=False)


def bound_of(case):
    """1e-4 where a deviation enters, see area-attention/README.md."""
    data = case.read_bytes()
    size = int.from_bytes(data[:8], "little")
    facts = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["acre"])
    has_deviation = facts["kind"] == "features" or facts.get("key_mode") in ("concat", "sum")
    return 1e-4 if has_deviation else 1e-5


def test_all_cases_are_within_their_bound():
    result = make_golden(CASES)
    found = {name: (float(error), float(bound)) for verdict, name, error, bound
             in LINE.findall(result.stdout) if verdict == "passed"}
    assert set(found) == {case.stem for case in CASES.glob("*.safetensors")}, result.stdout
    for case in CASES.glob("*.safetensors"):
        error, bound = found[case.stem]
        assert bound == bound_of(case) and error <= bound
    assert result.returncode == 0


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
    assert result.returncode != 0 and "FAILED" in result.stdout and path.stem in result.stdout


def tampered(path, facts):
    """A case with other facts."""
    data = (CASES / path.name).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = header["__metadata__"]
    metadata["acre"] = json.dumps(json.loads(metadata["acre"]) | facts)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])


@pytest.mark.parametrize("name, facts, complaint", [
    ("eq3-basic", {"kind": "other"}, 'kind: expected attention or features, found "other"'),
    ("eq3-basic", {"max_area_width": 17}, "max_area_width: expected an integer from 1 to 16"),
    ("features-1d", {"max_area_width": None}, "max_area_width: expected an integer from 1 to 16"),
    ("eq3-basic", {"max_area_width": 2}, "weights: expected"),
    ("grid-2x2", {"memory_height": 7}, "memory_height: expected a divisor of"),
    ("eq3-basic", {"key_mode": "least"}, 'key_mode: found "least"'),
])
def test_a_bad_case_says_what_is_wrong(tmp_path, name, facts, complaint):
    tampered(tmp_path / f"{name}.safetensors", facts)
    result = make_golden(tmp_path)
    assert result.returncode != 0 and complaint in result.stdout


def test_a_folder_of_good_cases_passes(tmp_path):
    for name in ("eq3-basic", "eq9-concat-padding", "features-1d", "grid-3x3-eq9"):
        shutil.copyfile(CASES / f"{name}.safetensors", tmp_path / f"{name}.safetensors")
    assert make_golden(tmp_path).returncode == 0
