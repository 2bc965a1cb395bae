"""A zip file whose members are stored as they are, which is what PyTorch and Marian write.

Compressed members are refused: a stored one cannot be larger than its file, so that no small file
can ask for more memory than it has bytes.
"""

import struct
import zipfile

from .errors import ConvertError, missing, unlike

# All that zipfile raises when a file is damaged, or made to look like it.
DAMAGE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError,
          OverflowError, struct.error)


class Archive:
    def __init__(self, path):
        self.name = path.name
        try:
            self._zip = zipfile.ZipFile(path)
        except DAMAGE as error:
            raise ConvertError(f"{self.name}: expected a whole zip file, found: {error}") from None
        self._sizes = {}
        for info in self._zip.infolist():
            self._add(info)
        file_bytes = path.stat().st_size
        if sum(self._sizes.values()) > file_bytes:
            raise unlike(self.name, f"members of {file_bytes} bytes in all", "more of them")

    def _add(self, info):
        where = f"{self.name}: {info.filename!r}"
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise unlike(where, "a member that is not compressed", "a compressed one; save it "
                         "again with numpy.savez or torch.save")
        if info.filename in self._sizes:
            raise unlike(where, "one member of this name", "two")
        self._sizes[info.filename] = info.file_size

    @property
    def members(self):
        return list(self._sizes)

    def size(self, member):
        if member not in self._sizes:
            raise missing(f"{self.name}: {member!r}", "this member")
        return self._sizes[member]

    def read(self, member):
        """All bytes of a member; zipfile compares them with the checksum."""
        self.size(member)
        try:
            return self._zip.read(member)
        except DAMAGE as error:
            raise ConvertError(f"{self.name}: {member!r}: expected a whole member, "
                               f"found: {error}") from None
