"""A small file with its owner: a header, then a body, both with checksums.

All integers little-endian. The module that keeps a kind of file has a table of its ``version``,
``number``, own fields and body.

    offset  size  field          type  meaning
    ------  ----  -------------  ----  -----------------------------------------------------
         0     4  magic          u32   the kind of file
         4     2  version        u16   the format of the rest
         6     2  number         u16   flags or a count
         8     8  owner          u64   xxh3_64 of the bookie's identity
        16     f  own fields     ...   of this kind
    16 + f     8  body_checksum  u64   xxh3_64 of the body
    24 + f     8  checksum       u64   xxh3_64 of everything before it
    32 + f     .  body           u8[]

Guarantees: the file is replaced whole, by a synced one; a crash leaves the old one or the new one.

Threads: any, one at a time for a file.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from zbk.errors import CookieMismatchError, CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.small_file import read_file, replace_file
from zbk.system.files import FileSystem

_CHECKSUM: Final = struct.Struct("<Q")


class OwnedKind(msgspec.Struct, frozen=True):
    """A kind of owned file."""

    magic: bytes
    own_fields: str = ""  # as for ``struct``
    versions: Sequence[int] = (1,)

    @property
    def fields(self) -> struct.Struct:
        """The fields of the header up to its own checksum."""
        return struct.Struct(f"<4sHHQ{self.own_fields}Q")

    @property
    def header_size(self) -> int:
        """Bytes before the body."""
        return self.fields.size + _CHECKSUM.size


class Owned(msgspec.Struct, frozen=True):
    """The content of one file."""

    own_fields: tuple[int, ...]
    body: bytes
    number: int = 0
    version: int = 1


class OwnedFile:
    """One file of one bookie."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        name: str,
        kind: OwnedKind,
        *,
        owner: bytes,
        fail_stop: FailStop,
    ) -> None:
        self._files = files
        self._directory = directory
        self._name = name
        self._kind = kind
        self._owner_hash = checksum(owner)
        self._fail_stop = fail_stop
        self.path = f"{directory}/{name}"

    def read(self) -> Owned | None:
        """Return the content; ``None`` if there is no file.

        Raises:
            CorruptRecordError: it is damaged.
            CookieMismatchError: it is another bookie's.
            OSError: it cannot be read.
        """
        data = read_file(self._files, self.path)
        if data is None:
            return None
        fields, header_size = self._kind.fields, self._kind.header_size
        if len(data) < header_size:
            raise CorruptRecordError(self.path, 0, "ends inside its header")
        magic, version, number, owner_hash, *own, body_checksum = fields.unpack_from(data, 0)
        (stored,) = _CHECKSUM.unpack_from(data, fields.size)
        is_known = magic == self._kind.magic and version in self._kind.versions
        if not is_known or checksum(data[: fields.size]) != stored:
            raise CorruptRecordError(self.path, 0, "the header is damaged")
        if owner_hash != self._owner_hash:
            raise CookieMismatchError(f"{self.path} is another bookie's")
        body = data[header_size:]
        if checksum(body) != body_checksum:
            raise CorruptRecordError(self.path, header_size, "the content is damaged")
        return Owned(tuple(own), body, number, version)

    def write(self, content: Owned) -> None:
        """Write the file, durably.

        Raises:
            NoSpaceError: the disk has no room for it; the file is unchanged.
            StorageFailedError: writing failed otherwise.
        """
        data = self._encoded(content)
        with self._fail_stop.guard(self.path, "write"):
            replace_file(self._files, self._directory, self._name, data)

    def remove(self) -> None:
        """Remove the file, durably, if it exists.

        Raises:
            StorageFailedError: it cannot be removed.
        """
        with self._fail_stop.guard(self.path, "write"):
            if self._files.exists(self.path):  # unless an earlier attempt has removed it
                self._files.remove(self.path)
            self._files.sync_dir(self._directory)

    def _encoded(self, content: Owned) -> bytes:
        fields = self._kind.fields.pack(
            self._kind.magic,
            content.version,
            content.number,
            self._owner_hash,
            *content.own_fields,
            checksum(content.body),
        )
        return fields + _CHECKSUM.pack(checksum(fields)) + content.body
