"""What travels to another machine: one file of a prepared run and of plain text to translate."""

import shutil
import tarfile
from pathlib import Path

import numpy as np

from . import corpus
from .sentences import Sentences
from .vocabulary import open_vocabulary


def plain_text(paths, most):
    """Distinct lines of text files, `most` of them chosen by their hash."""
    lines = {corpus.tidy(line) for path in paths for line in corpus.read_lines(Path(path))}
    return corpus.capped(sorted(lines - {""}), most, text=str)


def pack(prepared, mono, most, out):
    """Writes `out`, a .tar.xz of a prepared run and at most `most` lines of the text files `mono`,
    which are in its language that is not English, as ids."""
    vocabulary = open_vocabulary("token", prepared)
    folder = out.with_name(out.name + ".part")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(prepared, folder)
    with np.load(prepared / "train.npz") as arrays:
        np.savez(folder / "train.npz", **arrays)  # xz does better without deflate before it
    text = Sentences.of([vocabulary.encode(line) for line in plain_text(mono, most)])
    np.savez(folder / "mono.npz", **text.arrays("mono"))
    with tarfile.open(out, "w:xz") as archive:
        archive.add(folder, "pack")
    shutil.rmtree(folder)
    print(f"pack: {out}: {len(text)} sentences of plain text, "
          f"{out.stat().st_size / 2**20:.1f} MiB")


def unpack(archive, folder):
    """Makes folder/pack of it, unless that was done."""
    if not (folder / "pack").exists():
        unfinished = folder / "pack.part"
        shutil.rmtree(unfinished, ignore_errors=True)
        with tarfile.open(archive) as file:
            file.extractall(unfinished, filter="data")
        (unfinished / "pack").rename(folder / "pack")
