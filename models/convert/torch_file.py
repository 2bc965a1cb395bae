"""pytorch_model.bin: what torch.save writes, as a zip (PyTorch 1.6 on) or as one long file.

The zip holds the state dict's pickle, data.pkl, and each storage as data/KEY. The older layout is
five pickles (magic number, version, machine, state dict, keys) and then, for each key, the number
of items in 8 bytes and the items.
"""

import io
import math

import numpy as np

from .archive import Archive
from .errors import missing, unlike
from .files import check_fetched
from .state_dict import Storage, run_pickle, tensors_of
from .tensor import ITEM_TYPES, Tensor

LARGEST_PICKLE = 64 << 20
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
LEGACY_VERSION = 1001
COUNT_BYTES = 8
ZIP_BEGIN, PICKLE_BEGIN = b"PK\x03\x04", b"\x80"


def read_torch_file(path):
    """Name -> Tensor. Everything but the items themselves is checked here."""
    check_fetched(path)
    with open(path, "rb") as file:
        begin = file.read(len(ZIP_BEGIN))
    if begin == ZIP_BEGIN:
        return read_zip(path)
    if begin.startswith(PICKLE_BEGIN):
        return read_legacy(path)
    raise unlike(path.name, "a file that torch.save wrote", "something else")


def view(where, stored, read):
    """A Tensor; `read` gives the bytes of its storage."""
    kind = stored.storage.type
    if math.prod(stored.shape) > stored.storage.n_items:
        raise unlike(where, f"at most the {stored.storage.n_items} items of its storage",
                     f"shape {list(stored.shape)}")

    def load():
        items = np.frombuffer(read(), ITEM_TYPES[kind.dtype], stored.storage.n_items)
        strides = [step * kind.item_bytes for step in stored.stride]
        try:
            return np.ascontiguousarray(np.lib.stride_tricks.as_strided(
                items[stored.offset:], stored.shape, strides, writeable=False))
        except ValueError as error:  # of a tensor without items the product says nothing
            raise unlike(where, "a shape that an array can have",
                         f"{list(stored.shape)}") from error

    return Tensor(kind.dtype, stored.shape, load)


# ---- Zip ----------------------------------------------------------------------------------------


def find_root(archive):
    """The folder that torch.save puts everything into; its name is up to who saves."""
    roots = [member[: -len("data.pkl")] for member in archive.members
             if member.endswith("/data.pkl") and member.count("/") == 1]
    if len(roots) != 1:
        raise unlike(archive.name, "one data.pkl", f"{len(roots)} of them")
    return roots[0]


def check_storage(archive, root, storage: Storage):
    member = f"{root}data/{storage.key}"
    expected, found = storage.n_items * storage.type.item_bytes, archive.size(member)
    if found != expected:
        raise unlike(f"{archive.name}: {member!r}", f"{expected} bytes", f"{found}")


def read_zip(path):
    archive = Archive(path)
    root = find_root(archive)
    if root + "byteorder" in archive.members:
        order = archive.read(root + "byteorder")
        if order != b"little":
            raise unlike(f"{path.name}: byteorder", "little", repr(order[:16]))
    where = f"{path.name}: data.pkl"
    if archive.size(root + "data.pkl") > LARGEST_PICKLE:
        raise unlike(where, f"at most {LARGEST_PICKLE} bytes", "more")
    value = run_pickle(where, io.BytesIO(archive.read(root + "data.pkl")))
    tensors = {}
    for name, stored in tensors_of(where, value).items():
        check_storage(archive, root, stored.storage)
        member = f"{root}data/{stored.storage.key}"
        tensors[name] = view(f"{path.name}: {name}", stored, lambda m=member: archive.read(m))
    return tensors


# ---- Before PyTorch 1.6 -------------------------------------------------------------------------


def read_legacy(path):
    with open(path, "rb") as file:
        head = io.BytesIO(file.read(LARGEST_PICKLE))
    magic = run_pickle(f"{path.name}: magic number", head)
    if magic != MAGIC_NUMBER or run_pickle(f"{path.name}: version", head) != LEGACY_VERSION:
        raise unlike(path.name, "a file that torch.save wrote", "another pickle")
    machine = run_pickle(f"{path.name}: machine", head)
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise unlike(f"{path.name}: little_endian", "true", "another machine's file")
    where = f"{path.name}: state dict"
    stored = tensors_of(where, run_pickle(where, head))
    keys = run_pickle(f"{path.name}: keys", head)
    places = find_storages(path, head.tell(), keys, storages_of(where, stored))
    data = np.memmap(path, np.uint8, "r")
    tensors = {}
    for name, tensor in stored.items():
        if tensor.storage.key not in places:
            raise missing(f"{path.name}: {name}", f"storage {tensor.storage.key!r}")
        place = places[tensor.storage.key]
        tensors[name] = view(f"{path.name}: {name}", tensor, lambda p=place: data[p])
    return tensors


def storages_of(where, stored):
    """Key -> storage; tensors that share one must agree on what it is."""
    storages = {}
    for name, tensor in stored.items():
        if storages.setdefault(tensor.storage.key, tensor.storage) != tensor.storage:
            raise unlike(f"{where}: {name}", "a storage as other tensors describe it", "another")
    return storages


def find_storages(path, begin, keys, storages):
    """Key -> where the storage's bytes are in the file."""
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise unlike(f"{path.name}: keys", "a list of texts", "something else")
    places, file_bytes = {}, path.stat().st_size
    with open(path, "rb") as file:
        for key in keys:
            where = f"{path.name}: storage {key!r}"
            if key not in storages or key in places:
                raise unlike(where, "a storage of the state dict", "another one")
            file.seek(begin)
            n_items = int.from_bytes(file.read(COUNT_BYTES), "little")
            if n_items != storages[key].n_items:
                raise unlike(where, f"{storages[key].n_items} items", f"{n_items}")
            first = begin + COUNT_BYTES
            begin = first + n_items * storages[key].type.item_bytes
            if begin > file_bytes:
                raise unlike(where, f"{begin - first} bytes", f"{file_bytes - first}")
            places[key] = slice(first, begin)
    return places
