"""A Marian model, NAME.npz: a zip of one array of numpy's .npy format for each tensor."""

import io
import math

import numpy as np

from .archive import Archive
from .errors import ConvertError, missing, unlike
from .files import check_fetched

SUFFIX = ".npy"
FLOATS = {np.dtype("<f4"): "F32", np.dtype("<f2"): "F16"}
BYTES = {np.dtype("i1"): "I8", np.dtype("u1"): "U8", np.dtype("S1"): "U8"}
LARGEST_HEADER = 10000


class Npz:
    """The arrays of a file by their names."""

    def __init__(self, path):
        self.name = path.name
        check_fetched(path)
        self._archive = Archive(path)
        for member in self._archive.members:
            if not member.endswith(SUFFIX):
                raise unlike(f"{self.name}: {member!r}", "an array, NAME.npy", "another file")

    @property
    def names(self):
        return [member[: -len(SUFFIX)] for member in self._archive.members]

    def floats(self, name):
        """(type as safetensors names it, array)"""
        array = self._array(name, FLOATS, "float32 or float16")
        return FLOATS[array.dtype], array

    def text(self, name):
        """A text, which Marian stores as an array of bytes that ends with NUL."""
        data = self._array(name, BYTES, "bytes").tobytes().removesuffix(b"\0")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise unlike(f"{self.name}: {name}", "text in UTF-8", "other bytes") from None

    def _array(self, name, types, expected):
        """The array; its header is checked against the bytes that follow."""
        where = f"{self.name}: {name}"
        if name not in self.names:
            raise missing(where, "an array")
        data = self._archive.read(name + SUFFIX)
        shape, is_fortran, dtype, begin = read_header(where, data)
        if dtype not in types:
            raise unlike(where, f"an array of {expected}", f"one of {dtype}")
        n_bytes = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or len(data) - begin != n_bytes:
            raise unlike(where, f"{n_bytes} bytes for shape {list(shape)}",
                         f"{len(data) - begin}")
        items = np.frombuffer(data, dtype, offset=begin)
        return items.reshape(shape, order="F" if is_fortran else "C")


def read_header(where, data):
    """(shape, is in Fortran's order, dtype, where the items begin)"""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, is_fortran, dtype = read(file, max_header_size=LARGEST_HEADER)
    except Exception as error:  # numpy evaluates the header; much can go wrong, nothing can run
        raise ConvertError(f"{where}: expected an array in numpy's format, "
                           f"found: {type(error).__name__}") from None
    return shape, is_fortran, dtype, file.tell()
