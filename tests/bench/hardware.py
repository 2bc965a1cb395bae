"""The machine that is measured, in words."""

import os
import platform
import re
from pathlib import Path

INFO = Path("/proc/cpuinfo").read_text()
FLAGS = set(INFO.split())
SHOWN = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")


def cpu_name():
    found = re.search(r"model name\s*: (.*)", INFO)
    return found[1] if found else platform.machine()


def is_intel():
    return "GenuineIntel" in FLAGS


def in_words():
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    sets = " ".join(name for name in SHOWN if name in FLAGS)
    linux = ".".join(platform.release().split(".")[:2])
    return (f"{cpu_name()}; {len(os.sched_getaffinity(0))} CPUs; {sets}; "
            f"{int(memory[1]) / 2**20:.0f} GiB; Linux {linux}")


def two_cores():
    """Two CPUs that do not share a core, as far as the system tells; None if there are none."""
    cpus = sorted(os.sched_getaffinity(0))
    shared = Path(f"/sys/devices/system/cpu/cpu{cpus[0]}/topology/thread_siblings_list")
    siblings = set(re.findall(r"\d+", shared.read_text())) if shared.exists() else set()
    others = [cpu for cpu in cpus[1:] if str(cpu) not in siblings]
    return (cpus[0], others[0]) if others else None
