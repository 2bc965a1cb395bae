"""What a run computes on, and with which numbers."""

import ctypes
from pathlib import Path

import torch


def cpu_has_bf16():
    """Whether this CPU multiplies bfloat16 in hardware; elsewhere float32 is faster."""
    info = Path("/proc/cpuinfo")
    flags = info.read_text().split() if info.exists() else []
    return "avx512_bf16" in flags or "amx_bf16" in flags


def choose_device():
    """(device, whether to multiply in bfloat16)."""
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")  # Muon's and Adam's are no less exact for it
        return torch.device("cuda"), True
    return torch.device("cpu"), cpu_has_bf16()


def keep_freed_memory():
    """Has malloc keep what is freed. By default it maps every tensor of a batch anew, and the
    kernel then clears its pages one by one: a quarter of a training step. The largest tensors
    still go back, because holes of their size, never quite the right one, would come to
    gigabytes."""
    m_trim_threshold, m_mmap_threshold = -1, -3  # of malloc.h
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(m_trim_threshold, 2**31 - 1)
        libc.mallopt(m_mmap_threshold, 32 * 2**20)  # the highest there is
