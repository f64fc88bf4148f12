"""The ids of deleted ledgers whose data was collected here: the bookie never accepts them again.

Ids are never assigned twice, so a deleted ledger stays deleted: a late writer's add, a fence or a
replayed journal record must not create it again.

Format version 1 of ``deleted_ledgers`` (``disk.owned_file``). All integers little-endian.

    offset  size  field            type      meaning
    ------  ----  ---------------  --------  --------------------------------------------------
         0     4  magic            u32       "zbkD"
         4     2  version          u16       1
         6     2  reserved         u16       0
         8     8  owner            u64       xxh3_64 of the bookie's identity
        16     8  count            u64       c; number of ranges, at most 65536
        24     8  ranges_checksum  u64       xxh3_64 of the ranges
        32     8  checksum         u64       xxh3_64 of bytes 0 .. 32
        40  16 c  ranges           i64, i64  first and last ledger id, ascending, not adjacent

Guarantees: the file is replaced whole, by a synced one; a crash leaves the old one or the new one.
If an id in the file still has an index file, the next start removes the index file. A crash between
the files of several directories leaves an id in some of them: the next start puts it into all.

Recovery rule: a damaged file is refused, because its content cannot be guessed safely. If it is
removed by hand, the bookie starts, accepts late writers of deleted ledgers, and collects these
ledgers again.

Limits: ``RANGE_COUNT_MAX`` ranges, one MiB. At the limit no more ledgers are collected. Long before
that, garbage collection also asks for the ids between two ranges: if they were deleted, the two
ranges become one.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.

Threads: the owner calls ``mark``; one thread at a time, any, calls ``write``; all may use ``in``.

Source: BookKeeper #4462, which remembers such ids for seven days, in memory.
"""

from collections.abc import Iterable
from typing import Final

from zbk.errors import NoSpaceError, OutOfDescriptorsError
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges, decode_ranges, encode_ranges
from zbk.storage.disk.owned_file import Owned, OwnedFile, OwnedKind
from zbk.system.files import FileSystem

DELETED_NAME: Final = "deleted_ledgers"
RANGE_COUNT_MAX: Final = 65_536

_KIND: Final = OwnedKind(b"zbkD", own_fields="Q")

assert _KIND.header_size == 40


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
        self._fail_stop = fail_stop
        self._file = OwnedFile(
            files, directory, DELETED_NAME, _KIND, owner=owner, fail_stop=fail_stop
        )
        self._range_count_max = range_count_max
        self._marked = LedgerRanges()
        self._noted = LedgerRanges()

    def __contains__(self, ledger_id: int) -> bool:
        """Return whether a ledger is refused. Any thread."""
        return ledger_id in self._marked

    @property
    def noted(self) -> LedgerRanges:
        """The ids that the file has, on stable storage."""
        return self._noted

    @property
    def range_count(self) -> int:
        """The number of ranges of ids."""
        return self._marked.range_count

    def load(self) -> None:
        """Read the file, if there is one.

        Raises:
            CorruptRecordError: it is damaged.
            CookieMismatchError: it is another bookie's.
            OSError: it cannot be read.
        """
        found = self._file.read()
        if found is not None:
            (count,) = found.own_fields
            ranges = decode_ranges(found.body, count, self._file.path, _KIND.header_size)
            self._marked = self._noted = ranges

    def mark(self, ledger_ids: Iterable[int]) -> bool:
        """Refuse these ledgers from now on; return false, with nothing changed, without room.

        A restart knows of them only after ``write``.
        """
        return self._mark(self._marked.with_ids(ledger_ids))

    def mark_ranges(self, ranges: LedgerRanges) -> bool:
        """Do the same for ranges of ids."""
        return self._mark(self._marked.union(ranges))

    def _mark(self, marked: LedgerRanges) -> bool:
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
        """Put all marked ids on stable storage; return false if there is no room for them now.

        Raises:
            StorageFailedError: writing failed otherwise, or anything failed before.
        """
        self._fail_stop.check()
        marked = self._marked
        if marked != self._noted:
            try:
                self._file.write(Owned((marked.range_count,), encode_ranges(marked)))
            except (NoSpaceError, OutOfDescriptorsError):
                return False  # the file is unchanged: only garbage collection waits
            self._noted = marked
        return True
