"""Whether there is a compiler that can make what native.py has compiled."""

import subprocess

import pytest

from models.train.native import compiler


def can_compile():
    command = [compiler(), "-fopenmp", "-shared", "-fPIC", "-x", "c", "-o", "/dev/null", "-"]
    return compiler() and subprocess.run(command, input="", text=True, capture_output=True,
                                         check=False).returncode == 0


needs_compiler = pytest.mark.skipif(not can_compile(), reason="needs a compiler with OpenMP")
