"""Campaigns on a machine that is lent for minutes and of whose files few come back.

Several campaigns share its GPU, each in a process of its own: while one makes batches or
translates, another multiplies. When the time is up they save and end, and the models that have
changed since the last time are written as files small enough to come back.
"""

import io
import signal
import subprocess
import sys
import tarfile
import time

from . import interrupted
from .campaign import EXPORTED_STAGES
from .pack import unpack

LARGEST_FILE = 15 * 2**20
LARGEST_OUTPUT, MOST_FILES = 60 * 2**20, 7
GRACE_SECONDS = 45  # for saving
# Done; ended once it had saved; ended before there was anything to save.
WELL = 0, interrupted.STATUS, -signal.SIGTERM, 128 + signal.SIGTERM


def archive_of(run):
    """A run's model and logs as a compressed archive, in memory."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz", preset=1) as archive:
        for name in ("model", "log.jsonl"):
            archive.add(run / name, f"{run.parent.name}-{run.name}/{name}")
    return data.getvalue()


def give_back(folders, out):
    """Writes to `out` the models that are new, finished ones first, as far as there is room."""
    runs = [folder / stage for folder in folders for stage in EXPORTED_STAGES
            if (folder / stage / "model" / "config.json").exists()]
    files = room = 0
    for run in sorted(runs, key=lambda run: not (run / "done").exists()):
        stamp = str((run / "best.pt").stat().st_mtime)
        given = run / "given"
        if given.exists() and given.read_text() == stamp:
            continue
        data = archive_of(run)
        parts = [data[start : start + LARGEST_FILE] for start in range(0, len(data), LARGEST_FILE)]
        files, room = files + len(parts), room + len(data)
        if files > MOST_FILES or room > LARGEST_OUTPUT:
            print(f"lent: no room for {run}; it comes back next time", flush=True)
            break
        for number, part in enumerate(parts):
            (out / f"{run.parent.name}-{run.name}.tar.xz.{number}").write_bytes(part)
        given.write_text(stamp)


def end(processes):
    """Has the processes that are still at work save and end."""
    at_work = [process for process in processes if process.poll() is None]
    for process in at_work:
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    for process in at_work:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_for(minutes, packs, folder, plan, out, threads=None):
    """Runs the campaigns of the archives `packs` in `folder`, each on so many threads, and says if
    one has failed."""
    deadline = time.monotonic() + 60 * minutes
    folders = [folder / pack.name.split(".")[0] for pack in packs]
    options = ["--threads", str(threads)] if threads else []
    for pack, own in zip(packs, folders):
        own.mkdir(parents=True, exist_ok=True)
        unpack(pack, own)
    processes = []
    try:
        for own in folders:
            processes.append(subprocess.Popen([sys.executable, "-m", "models.train", "campaign",
                                               str(own), "--plan", plan, *options]))
        while time.monotonic() < deadline and any(p.poll() is None for p in processes):
            time.sleep(0.2)
    finally:
        end(processes)
    failed = [own for own, process in zip(folders, processes) if process.returncode not in WELL]
    out.mkdir(parents=True, exist_ok=True)
    give_back(folders, out)
    if failed:
        raise ValueError(f"campaign: {', '.join(map(str, failed))} failed; what is done is kept")
