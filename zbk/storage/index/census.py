"""The census of a ledger directory: the index files and entry logs that must exist.

It shows a start that files are lost. Without it, a ledger whose index file is missing looks like
one that was never here, and the bookie would deny entries that it acknowledged.

Format version 1 of ``census``. All integers little-endian.

    offset      size  field          type      meaning
    ----------  ----  -------------  --------  -----------------------------------------------------
             0     4  magic          u32       "zbkN"
             4     2  version        u16       1
             6     2  flags          u16       bit 0: an earlier census was lost, and with it the
                                               names of logs that may be missing
             8     8  owner          u64       xxh3_64 of the bookie's identity
            16     8  ledger_stop    i64       ledgers from this id on are not counted, for lack
                                               of room; 2^63 - 1: all are
            24     4  range_count    u32       c; at most 200,000
            28     4  log_count      u32       n; at most 40,000
            32     8  body_checksum  u64       xxh3_64 of what follows the header
            40     8  checksum       u64       xxh3_64 of bytes 0 .. 40
            48  16 c  ranges         i64, i64  first and last id of ledgers that have an index file,
                                               ascending, not adjacent
     48 + 16 c  16 n  logs           u64, u64  id of an entry log, ascending, and its least bytes;
                                               0: the shared log that is written, of which
                                               the last mark has more

Guarantees: the file is replaced whole, by a synced one; a crash leaves the old one or the new one.
The files in it were on stable storage before. Files that are not in it are newer than the last log
mark, so the journal brings their entries back.

    checkpoint        index files and logs are put on stable storage; then the census; then the last
                      mark, which notes that there is a census
    a deleted ledger  is noted in ``deleted_ledgers``; its index file is removed; the next census
                      forgets it. In between the census names a missing file, which the deleted
                      ledgers explain
    a removed log     the census forgets it; then it is removed. In between there is a log that the
                      census lacks, and the next start adds it
    an own log        that is written counts with its bytes at the checkpoint
    a compacted log   gets its name, durably; the census of the next checkpoint has it, before the
                      index that points there is on disk

Recovery rule: a census that is damaged, or missing although the last mark notes one, is lost: then
each ledger without an index file may have been here. A directory without a census and without that
note is of an older version: its next checkpoint writes a census.

Cost: a census is written only after ledgers or logs were added or removed, or own logs have grown.
20,000 ledgers with consecutive ids take one range; 20,000 ledgers without neighbors take 320 kB.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.

Threads: ``has_ledger``, ``named``, ``unnamed``, ``log_made`` and ``forget_logs`` any; ``write`` one
at a time, any; ``load`` and ``begin`` come first.
"""

import struct
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from threading import Lock
from typing import Final

import msgspec

from zbk.errors import CorruptRecordError, NoSpaceError
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import RANGE_SIZE, LedgerRanges, decode_ranges, encode_ranges
from zbk.storage.disk.owned_file import Owned, OwnedFile, OwnedKind
from zbk.storage.disk.small_file import SIZE_MAX
from zbk.system.files import FileSystem

CENSUS_NAME: Final = "census"
RANGE_COUNT_MAX: Final = 200_000
LOG_COUNT_MAX: Final = 40_000
ALL_LEDGERS: Final = (1 << 63) - 1
"""The ``ledger_stop`` of a census that counts all ledgers."""

_KIND: Final = OwnedKind(b"zbkN", own_fields="qII")
_LOG: Final = struct.Struct("<QQ")
_GAPS: Final = 1

assert _KIND.header_size == 48
assert _KIND.header_size + RANGE_COUNT_MAX * RANGE_SIZE + LOG_COUNT_MAX * _LOG.size <= SIZE_MAX


class Counted(msgspec.Struct, frozen=True):
    """The content of one census."""

    ledgers: LedgerRanges = LedgerRanges()
    log_sizes: tuple[tuple[int, int], ...] = ()  # by log, ascending: least bytes
    ledger_stop: int = ALL_LEDGERS
    has_gaps: bool = False  # an earlier census was lost: there may have been more logs

    @classmethod
    def of(
        cls,
        ledgers: LedgerRanges,
        log_sizes: Mapping[int, int],
        *,
        range_count_max: int = RANGE_COUNT_MAX,
        log_count_max: int = LOG_COUNT_MAX,
        has_gaps: bool = False,
    ) -> "Counted":
        """Return a census of the lowest ids, as many as there is room for."""
        logs = tuple(sorted(log_sizes.items())[:log_count_max])
        if ledgers.range_count <= range_count_max:
            return cls(ledgers, logs, has_gaps=has_gaps)
        firsts, lasts = ledgers.firsts[:range_count_max], ledgers.lasts[:range_count_max]
        return cls(LedgerRanges(firsts, lasts), logs, lasts[-1] + 1, has_gaps)


class Census:
    """The census of one directory, in memory and on disk."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        *,
        owner: bytes,
        fail_stop: FailStop,
        range_count_max: int = RANGE_COUNT_MAX,
    ) -> None:
        self._file = OwnedFile(
            files, directory, CENSUS_NAME, _KIND, owner=owner, fail_stop=fail_stop
        )
        self._fail_stop = fail_stop
        self._range_count_max = range_count_max
        self._lock = Lock()  # of the fields below; never held while a file is written
        self._write_lock = Lock()
        self._ledgers = LedgerRanges()
        self._new_ids: set[int] = set()  # not in it yet
        self._gone_ids: set[int] = set()  # still in it
        self._log_sizes: dict[int, int] = {}  # on stable storage, and not being removed
        self._forgotten_ids: set[int] = set()  # logs, since the start
        self._has_gaps = False
        self._written: Counted | None = None

    def load(self) -> Counted | None:
        """Return the content of the file; ``None`` if there is none.

        Raises:
            CorruptRecordError: it is damaged.
            CookieMismatchError: it is another bookie's.
            OSError: it cannot be read.
        """
        found = self._file.read()
        self._written = None if found is None else _counted_in(found, self._file.path)
        return self._written

    def begin(
        self, ledger_ids: Iterable[int], log_sizes: Mapping[int, int], *, has_gaps: bool = False
    ) -> None:
        """Record the files that must exist from now on; all are on stable storage.

        ``has_gaps``: there may have been more logs.
        """
        self._has_gaps = has_gaps
        self._ledgers = LedgerRanges().with_ids(ledger_ids)
        self._log_sizes = dict(log_sizes)

    def has_ledger(self, ledger_id: int) -> bool:
        """Return whether a ledger must have an index file."""
        with self._lock:
            if ledger_id in self._new_ids:
                return True
            return ledger_id in self._ledgers and ledger_id not in self._gone_ids

    def named(self, ledger_ids: Collection[int]) -> None:
        """Record that ledgers have an index file, on stable storage."""
        with self._lock:
            self._gone_ids.difference_update(ledger_ids)
            self._new_ids.update(ledger_ids)

    def unnamed(self, ledger_ids: Collection[int]) -> None:
        """Record that the index files of ledgers are being removed."""
        with self._lock:
            self._new_ids.difference_update(ledger_ids)
            self._gone_ids.update(ledger_ids)

    def log_made(self, log_id: int, size: int) -> None:
        """Record a sealed log that is on stable storage, with its name."""
        with self._lock:
            self._log_sizes[log_id] = size

    def write(self, log_sizes: Mapping[int, int]) -> None:
        """Put the census on stable storage; ``log_sizes`` are of logs on stable storage.

        Raises:
            NoSpaceError: there is no room for it; the file is as it was.
            StorageFailedError: writing failed otherwise, or anything failed before.
        """
        with self._lock:
            left = {one: log_sizes[one] for one in log_sizes if one not in self._forgotten_ids}
            self._log_sizes.update(left)
        self._write()

    def forget_logs(self, log_ids: Collection[int]) -> bool:
        """Put a census without these logs on stable storage; after that they may be removed.

        Return false, and the logs must stay, if the disk has no room even with the reserve.

        Raises:
            StorageFailedError: writing failed otherwise, or anything failed before.
        """
        with self._lock:
            self._forgotten_ids.update(log_ids)
            for log_id in log_ids:
                self._log_sizes.pop(log_id, None)
        if self._written is None:
            return True  # the first checkpoint writes it without them
        for _ in range(2):  # the first attempt without room releases the reserve
            with suppress(NoSpaceError):
                self._write()
                return True
        return False

    def _write(self) -> None:
        with self._write_lock:
            self._fail_stop.check()
            counted = self._counted()
            if counted == self._written:
                return
            self._file.write(_content_of(counted))
            self._written = counted

    def _counted(self) -> Counted:
        with self._lock:
            if self._new_ids or self._gone_ids:
                gone = LedgerRanges().with_ids(self._gone_ids)
                self._ledgers = self._ledgers.without(gone).with_ids(self._new_ids)
                self._new_ids, self._gone_ids = set(), set()
            return Counted.of(
                self._ledgers,
                self._log_sizes,
                range_count_max=self._range_count_max,
                has_gaps=self._has_gaps,
            )


def _content_of(counted: Counted) -> Owned:
    logs = b"".join(_LOG.pack(log_id, size) for log_id, size in counted.log_sizes)
    return Owned(
        (counted.ledger_stop, counted.ledgers.range_count, len(counted.log_sizes)),
        encode_ranges(counted.ledgers) + logs,
        number=_GAPS if counted.has_gaps else 0,
    )


def _counted_in(content: Owned, where: str) -> Counted:
    """Return the census in the content of its file.

    Raises:
        CorruptRecordError: it is damaged.
    """
    ledger_stop, range_count, log_count = content.own_fields
    ranges_size, start = range_count * RANGE_SIZE, _KIND.header_size
    packed_logs = content.body[ranges_size:]
    ledgers = decode_ranges(content.body[:ranges_size], range_count, where, start)
    if len(packed_logs) != log_count * _LOG.size:
        raise CorruptRecordError(where, start + ranges_size, "the logs are not as many as it says")
    logs = list(_LOG.iter_unpack(packed_logs))
    if not all(one[0] < other[0] for one, other in pairwise(logs)):
        raise CorruptRecordError(where, start + ranges_size, "the logs are not in order")
    return Counted(ledgers, tuple(logs), ledger_stop, bool(content.number & _GAPS))
