"""coverage.c and features.c, compiled for the CPU at hand when first asked for; calls to the first.

Its passes take a tenth of the time of area.py's and areas.py's, which say what they compute.
"""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch
from torch.autograd.function import once_differentiable

SOURCES = [Path(__file__).with_name(name) for name in ("coverage.c", "features.c")]
TYPES = torch.float32, torch.bfloat16


def compiler():
    return shutil.which("cc")


def compiled():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "coverage.so"
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
        print(f"train: area attention is computed by PyTorch, as {compiler()} failed: "
              f"{why.splitlines()[-1]}",
              flush=True)
        return None
    pointer, integer, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_bool
    loaded.pass_rows.argtypes = (pointer, pointer, pointer, pointer, integer, integer, ctypes.c_int,
                                 flag, flag, ctypes.c_int)
    for name in ("pass_rows", "deviations", "deviations_back", "hidden", "hidden_back"):
        getattr(loaded, name).restype = flag
    return loaded


def knows(tensor):
    """Whether it can do the passes of these."""
    return tensor.device.type == "cpu" and tensor.dtype in TYPES and library() is not None


def pointer(tensor):
    return None if tensor is None else tensor.data_ptr()


def run(scores, shown, gradient, made, width, means):
    """`scores` and `made` are contiguous, and so is `shown`."""
    if gradient is not None:
        gradient = gradient.to(scores.dtype).contiguous()
    length = scores.shape[-1]
    rows = (scores if shown is None else shown).numel() // length
    if not library().pass_rows(pointer(scores), pointer(shown), pointer(gradient), pointer(made),
                               rows, length, width, means, scores.dtype == torch.bfloat16,
                               torch.get_num_threads()):
        raise MemoryError(f"coverage of {length} items in areas of {width}")
    return made


def coverage(scores, width, means):
    """Of scores [..., L] the coverage [..., L], in the same type."""
    scores = scores.contiguous()
    return run(scores, None, None, torch.empty_like(scores), width, means)


def gradient_of_scores(gradient, scores, width, means):
    """From the gradient of the coverage [..., L]."""
    scores = scores.contiguous()
    return run(scores, None, gradient, torch.empty_like(scores), width, means)


class AreaCoverage(torch.autograd.Function):
    """Logits [..., A, L] of the areas of a line to coverage [..., L], in the same type.

    Of areas all of whose items are shown, `shown` [..., L].
    """

    @staticmethod
    def forward(ctx, logits, shown, means):
        logits, shown = logits.contiguous(), shown.contiguous()
        ctx.save_for_backward(logits, shown)
        ctx.means = means
        made = logits.new_empty(shown.shape)
        return run(logits, shown, None, made, logits.shape[-2], means)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        logits, shown = ctx.saved_tensors
        made = torch.empty_like(logits)
        return run(logits, shown, gradient, made, logits.shape[-2], ctx.means), None, None
