"""The note of a compaction under way: the log to make, and its sources.

Format version 1 of ``compaction``, in the ledger directory. All integers little-endian.

    offset   size  field       type    meaning
    -------  ----  ----------  ------  ------------------------------------------------------
          0     4  magic       u32     "zbkC"
          4     2  version     u16     1
          6     2  reserved    u16     0
          8     8  owner       u64     xxh3_64 of the bookie's identity
         16     8  target_id   u64     the log that is made, in ``<target>.log.compacting`` first
         24     8  count       u64     c; how many sources, 1 .. 1000
         32   8 c  source_ids  u64[c]  the logs that go when it is there, below target_id
    32 + 8 c    8  checksum    u64     xxh3_64 of all bytes before

Guarantees: the file is replaced whole, by a synced one; a crash leaves the old one or the new one.
It is on stable storage before the target is begun, and is removed after the last source.

Recovery rule: without the note every log is a log like the others, and the index has the place of
each entry. So a damaged note, or another bookie's, is removed. Later compactions find the copies
again by the live shares of the logs.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.
"""

import struct
from typing import Final

import msgspec

from zbk.errors import CorruptRecordError
from zbk.protocol.entry.digest import checksum
from zbk.protocol.upkeep.compaction import SOURCE_COUNT_MAX
from zbk.storage.disk.small_file import NEW_SUFFIX, read_file, replace_file
from zbk.system.files import FileSystem

NOTE_NAME: Final = "compaction"

_MAGIC: Final = b"zbkC\x01\x00"
_FIELDS = struct.Struct("<6sHQQQ")
_ID = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<Q")

assert _FIELDS.size == 32


class CompactionPlan(msgspec.Struct, frozen=True):
    """One compaction."""

    target_id: int
    source_ids: tuple[int, ...]


class CompactionNote:
    """The note of one ledger directory. Errors are ``OSError``. Any one thread."""

    def __init__(self, files: FileSystem, directory: str, owner: bytes) -> None:
        self._files = files
        self._directory = directory
        self._owner_hash = checksum(owner)
        self.path = f"{directory}/{NOTE_NAME}"

    @property
    def is_there(self) -> bool:
        """True while a compaction is under way."""
        return self._files.exists(self.path)

    def read(self) -> CompactionPlan | None:
        """Return the plan in the note; ``None`` if there is no note.

        Raises:
            CorruptRecordError: it is damaged, or another bookie's.
        """
        data = read_file(self._files, self.path)
        return None if data is None else decode_plan(data, self._owner_hash, self.path)

    def write(self, plan: CompactionPlan) -> None:
        """Write a plan, durably; after a failure there is no note."""
        content = encode_plan(plan, self._owner_hash)
        replace_file(self._files, self._directory, NOTE_NAME, content)

    def remove(self) -> None:
        """Remove the note, durably."""
        paths = (self.path + NEW_SUFFIX, self.path)
        there = [path for path in paths if self._files.exists(path)]
        for path in there:
            self._files.remove(path)
        if there:
            self._files.sync_dir(self._directory)


def encode_plan(plan: CompactionPlan, owner_hash: int) -> bytes:
    """Return a note's bytes."""
    assert 1 <= len(plan.source_ids) <= SOURCE_COUNT_MAX, "a compaction has sources"
    assert max(plan.source_ids) < plan.target_id, "what is made comes later"
    fields = _FIELDS.pack(_MAGIC, 0, owner_hash, plan.target_id, len(plan.source_ids))
    data = fields + b"".join(map(_ID.pack, plan.source_ids))
    return data + _CHECKSUM.pack(checksum(data))


def decode_plan(data: bytes, owner_hash: int, where: str) -> CompactionPlan:
    """Return the plan in the bytes of a note.

    Raises:
        CorruptRecordError: it is damaged, or another bookie's.
    """
    if len(data) < _FIELDS.size + _CHECKSUM.size:
        raise CorruptRecordError(where, 0, "ends inside its header")
    (stored,) = _CHECKSUM.unpack_from(data, len(data) - _CHECKSUM.size)
    magic, _, own_hash, target_id, count = _FIELDS.unpack_from(data, 0)
    ids = data[_FIELDS.size : -_CHECKSUM.size]
    is_whole = checksum(data[: -_CHECKSUM.size]) == stored and len(ids) == count * _ID.size
    if magic != _MAGIC or not is_whole:
        raise CorruptRecordError(where, 0, "the note of a compaction is damaged")
    if own_hash != owner_hash:
        raise CorruptRecordError(where, 0, "the note of a compaction is another bookie's")
    return CompactionPlan(target_id, tuple(one for (one,) in _ID.iter_unpack(ids)))
