"""The ledgers that were deleted from the cluster and collected here: their ids are never taken in.

Ids are never given out twice, so what was deleted stays deleted: a late writer's add, a fence, a
record that the journal replays must not make the ledger anew.

Format version 1 of ``deleted_ledgers``. All integers little-endian.

    offset  size  field            type      meaning
    ------  ----  ---------------  --------  --------------------------------------------------
         0     4  magic            u32       "zbkD"
         4     2  version          u16       1
         6     2  reserved         u16       0
         8     8  owner            u64       xxh3_64 of the bookie's identity
        16     8  count            u64       c; how many ranges, at most 65536
        24     8  ranges_checksum  u64       xxh3_64 of the ranges
        32     8  checksum         u64       xxh3_64 of bytes 0 .. 32
        40  16 c  ranges           i64, i64  first and last ledger id, ascending, not adjacent

Guarantees: the file is replaced whole, by a synced one; a crash leaves the old one or the new one.
An id that is in the file and has an index file still: the index file goes at the next start.

Recovery rule: a damaged file is refused; there is no safe guess at what it said. Removed by hand,
the bookie starts, late writers of deleted ledgers are taken in, and collected again.

Limits: ``RANGE_COUNT_MAX`` ranges, a MiB. Beyond it no more ledgers are collected; long before, the
ids between two ranges are asked for, too: where these were deleted, the ranges become one.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.

Threads: ``mark`` belongs to the owner; ``write`` to one thread at a time, any; ``in`` to all.

Source: BookKeeper #4462, which remembers such ids for seven days, in memory.
"""

import struct
from collections.abc import Iterable
from typing import Final

from zbk.errors import (
    CookieMismatchError,
    CorruptRecordError,
    NoSpaceError,
    OutOfDescriptorsError,
)
from zbk.protocol.entry.digest import checksum
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges, is_in_order
from zbk.storage.disk.small_file import read_file, replace_file
from zbk.system.files import FileSystem

DELETED_NAME: Final = "deleted_ledgers"
RANGE_COUNT_MAX: Final = 65_536

_MAGIC: Final = b"zbkD\x01\x00"
_FIELDS = struct.Struct("<6sHQQQ")
_CHECKSUM = struct.Struct("<Q")
_RANGE = struct.Struct("<qq")
_HEADER_SIZE: Final = _FIELDS.size + _CHECKSUM.size

assert _HEADER_SIZE == 40


class DeletedLedgers:
    """The set, in memory and on disk."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        *,
        owner: bytes,
        fail_stop: FailStop,
        range_count_max: int = RANGE_COUNT_MAX,
    ) -> None:
        self._files = files
        self._directory = directory
        self._path = f"{directory}/{DELETED_NAME}"
        self._owner_hash = checksum(owner)
        self._fail_stop = fail_stop
        self._range_count_max = range_count_max
        self._marked = LedgerRanges()
        self._noted = LedgerRanges()

    def __contains__(self, ledger_id: int) -> bool:
        """Return whether a ledger is taken in no more. Any thread."""
        return ledger_id in self._marked

    @property
    def noted(self) -> LedgerRanges:
        """The ids that are in the file, on stable storage."""
        return self._noted

    @property
    def range_count(self) -> int:
        """How many ranges of ids there are."""
        return self._marked.range_count

    def load(self) -> None:
        """Read the file, if there is one.

        Raises:
            CorruptRecordError: it is damaged.
            CookieMismatchError: it is another bookie's.
            OSError: it cannot be read.
        """
        data = read_file(self._files, self._path)
        if data is None:
            return
        self._marked = self._noted = _decode(data, self._owner_hash, self._path)

    def mark(self, ledger_ids: Iterable[int]) -> bool:
        """Refuse these ledgers from now on; false, with nothing changed, if there is no room.

        A restart knows of it only after ``write``.
        """
        marked = self._marked.with_ids(ledger_ids)
        if marked.range_count > self._range_count_max:
            return False
        self._marked = marked
        return True

    def gap_ids(self, count_max: int) -> list[int]:
        """Return ids that would merge ranges if they were deleted; none while there is room."""
        if self._marked.range_count * 2 <= self._range_count_max:
            return []
        return self._marked.gap_ids(count_max)

    def write(self) -> bool:
        """Put all that is marked on stable storage; false if there is no room for it now.

        Raises:
            StorageFailedError: writing failed otherwise, or anything failed before.
        """
        self._fail_stop.check()
        marked = self._marked
        if marked == self._noted:
            return True
        content = _encode(marked, self._owner_hash)
        try:
            with self._fail_stop.guard(self._path, "write"):
                replace_file(self._files, self._directory, DELETED_NAME, content)
        except (NoSpaceError, OutOfDescriptorsError):
            return False  # the file is as it was: collecting waits, all else goes on
        self._noted = marked
        return True


def _encode(ranges: LedgerRanges, owner_hash: int) -> bytes:
    packed = b"".join(map(_RANGE.pack, ranges.firsts, ranges.lasts))
    fields = _FIELDS.pack(_MAGIC, 0, owner_hash, ranges.range_count, checksum(packed))
    return fields + _CHECKSUM.pack(checksum(fields)) + packed


def _decode(data: bytes, owner_hash: int, where: str) -> LedgerRanges:
    if len(data) < _HEADER_SIZE:
        raise CorruptRecordError(where, 0, "ends inside its header")
    magic, _, own_hash, count, ranges_checksum = _FIELDS.unpack_from(data, 0)
    (stored,) = _CHECKSUM.unpack_from(data, _FIELDS.size)
    if magic != _MAGIC or checksum(data[: _FIELDS.size]) != stored:
        raise CorruptRecordError(where, 0, "the header is damaged")
    if own_hash != owner_hash:
        raise CookieMismatchError(f"{where} is another bookie's")
    packed = data[_HEADER_SIZE:]
    if len(packed) != count * _RANGE.size or checksum(packed) != ranges_checksum:
        raise CorruptRecordError(where, _HEADER_SIZE, "the ranges are damaged")
    bounds = list(_RANGE.iter_unpack(packed))
    firsts, lasts = [first for first, _ in bounds], [last for _, last in bounds]
    if not is_in_order(firsts, lasts):
        raise CorruptRecordError(where, _HEADER_SIZE, "the ranges are not in order")
    return LedgerRanges(tuple(firsts), tuple(lasts))
