"""Locks of files: of the processes that share a folder one works in it at a time.

The system takes a lock away from a process that ends, however it ends; the file stays.
"""

import fcntl
from contextlib import contextmanager


@contextmanager
def locked(path, wait=False):
    """Whether this process has the lock `path`; false while another does, unless it waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            mine = True
        except BlockingIOError:
            mine = False
        yield mine


@contextmanager
def alone(run):
    """For what changes a run: an error while another process does."""
    with locked(run / "train.lock") as mine:
        if not mine:
            raise ValueError(f"{run}: another process is at it")
        yield
