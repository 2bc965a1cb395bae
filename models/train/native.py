"""coverage.c, features.c and cross_entropy.c, compiled for the CPU at hand when first asked for.

Their passes take a tenth of the time of those in area.py and areas.py, half of that in loss.py,
which say what they compute.
"""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

SOURCES = [Path(__file__).with_name(name)
           for name in ("coverage.c", "features.c", "cross_entropy.c")]
TYPES = torch.float32, torch.bfloat16


def compiler():
    return shutil.which("cc")


def compiled():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "native.so"
        subprocess.run([compiler(), "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math",
                        "-fopenmp", "-shared", "-fPIC", "-o", file, *SOURCES, "-lm"], check=True,
                       capture_output=True, text=True)
        return ctypes.CDLL(file)


@cache
def library():
    """None without a compiler, or where what it makes cannot be used: PyTorch is slower."""
    if not compiler():
        return None
    try:
        loaded = compiled()
    except (OSError, subprocess.CalledProcessError) as error:
        why = (getattr(error, "stderr", "") or "").strip() or str(error)
        print(f"train: PyTorch computes areas and losses, as {compiler()} failed: "
              f"{why.splitlines()[-1]}",
              flush=True)
        return None
    pointer, integer, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_bool
    loaded.pass_rows.argtypes = (pointer, pointer, pointer, pointer, integer, integer, ctypes.c_int,
                                 flag, flag, ctypes.c_int)
    loaded.cross_entropy_rows.argtypes = (pointer, pointer, pointer, integer, integer,
                                          ctypes.c_float, flag, ctypes.c_int)
    for name in ("pass_rows", "deviations", "deviations_back", "hidden", "hidden_back",
                 "cross_entropy_rows"):
        getattr(loaded, name).restype = flag
    return loaded


def knows(tensor):
    """Whether it can do the passes of these."""
    return tensor.device.type == "cpu" and tensor.dtype in TYPES and library() is not None
