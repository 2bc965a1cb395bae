"""What travels to another machine: one file of a prepared run and of plain text to translate."""

import lzma
import shutil
import tarfile
from itertools import islice

import numpy as np

from .back import plain_text
from .corpus import BACK_SUFFIX, DISTILLED_SUFFIX
from .files import made_whole, write_json
from .overlap import Evaluated
from .prepared import read_arrays, read_sources
from .recipe import read_recipe
from .sentences import Sentences, sentences_of
from .vocabulary import open_vocabulary

PACK = "pack"  # the folder in the archive, and what a campaign calls it
DAMAGE = tarfile.TarError, lzma.LZMAError, EOFError  # also of an archive that was cut off


def human_pairs(prepared):
    """(arrays, sources) of a prepared run without what machines translated for it: who gets the
    pack makes better."""
    sources = read_sources(prepared)
    names = list(sources["corpora"])
    human = [name for name in names if not name.endswith((BACK_SUFFIX, DISTILLED_SUFFIX))]
    languages = "en", read_recipe(prepared / "recipe.json").language
    arrays = read_arrays(prepared / "train.npz", "origin", *(
        f"{side}_{part}" for side in languages for part in ("ids", "offsets")))
    origin = arrays["origin"]
    kept = np.flatnonzero(np.isin(origin, list(map(names.index, human))))
    renamed = np.array([human.index(n) if n in human else 0 for n in names], np.uint8)
    found = {"origin": renamed[origin[kept]]}
    for side in languages:
        found |= sentences_of(arrays, side).take(kept).arrays(side)
    return found, sources | {"corpora": {name: sources["corpora"][name] for name in human}}


def unevaluated(lines, prepared):
    """The lines that repeat no evaluation text of a prepared run."""
    folders = prepared / "eval", prepared / "heldout"
    targets = Evaluated(folders, read_recipe(prepared / "recipe.json")).targets
    return (line for line in lines if not targets.find(line))


def pack(prepared, mono, most, out):
    """Writes `out`, a .tar.xz of a prepared run and at most `most` lines of the text files `mono`,
    which are in its language that is not English, as ids; none repeats evaluation text."""
    if not prepared.is_dir():
        raise FileNotFoundError(f"{prepared}: expected the prepared folder of a run, found none")
    vocabulary = open_vocabulary("token", prepared)
    folder = out.with_name(out.name + ".part")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(prepared, folder)
    arrays, sources = human_pairs(prepared)
    np.savez(folder / "train.npz", **arrays)  # xz does better without deflate before it
    write_json(folder / "sources.json", sources)
    lines = islice(unevaluated(plain_text(mono), prepared), most)
    text = Sentences.of(map(vocabulary.encode, lines))
    np.savez(folder / "mono.npz", **text.arrays("mono"))
    with tarfile.open(out, "w:xz") as archive:
        archive.add(folder, PACK)
    shutil.rmtree(folder)
    print(f"pack: {out}: {len(text)} sentences of plain text, "
          f"{out.stat().st_size / 2**20:.1f} MiB")


def inside(member, folder):
    """A member of a pack under its name in there."""
    name = member.name.removeprefix(PACK).removeprefix("/") or "."
    return tarfile.data_filter(member.replace(name=name, deep=False), folder)


def unpack(archive, folder):
    """Makes folder/pack of it, unless that was done."""
    if (folder / PACK).exists():
        return
    with made_whole(folder / PACK) as unfinished:
        try:
            with tarfile.open(archive) as file:
                file.extractall(unfinished, filter=inside)
        except DAMAGE as error:
            raise ValueError(f"{archive}: expected what pack writes, a .tar.xz, found a file that "
                             "is damaged or another") from error
        if not (unfinished / "recipe.json").exists():
            raise ValueError(f"{archive}: expected what pack writes, found no {PACK}/recipe.json")
