"""The use of each entry log: the ledgers in it, and the bytes of each.

It is read from the log's map, or by a full scan of a log without one: that of the log that was
current when the bookie stopped. A complete log never changes, so a use stays true. Up to
``PAIR_COUNT_MAX`` pairs are kept in memory; further logs are read again.

A log is *whole* if its map is whole, or if its blocks follow each other to the end. Damage may hide
blocks of any ledger: a damaged log is kept and reported.

A log is *torn* if it is whole except for a write at its end that a crash has cut off: a block with
a whole header whose body is cut by the end of the file, or too few bytes for a block. That is
usually no damage. If it is, it hides entries of one ledger only, which the index has. Lost regions
(``zbk.storage.entry_logs.lost_regions``) do not keep a log from being whole.

A *stub* is too short for a log's header: it was made just before a loss of power. It stays until a
scrub has found that no index points there. It takes no room, and no warning is logged.

Any thread, one at a time.

Source: BookKeeper's ``EntryLogMetadata``; #4607 for the distrust.
"""

from array import array
from collections import OrderedDict
from contextlib import suppress
from typing import Final

import msgspec

from zbk.errors import CookieMismatchError, CorruptRecordError
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.disk.small_file import file_size
from zbk.storage.entry_logs.entry_log import log_path
from zbk.storage.entry_logs.format import BLOCK_HEADER_SIZE, BlockHeader, is_stub
from zbk.storage.entry_logs.lost_regions import LostRegions, RegionsOfLog, is_lost
from zbk.storage.entry_logs.scan import Block, Damage, EntryLogScan
from zbk.system.event_log import EventLog
from zbk.system.files import FileSystem

LOG = EventLog(__name__)

PAIR_COUNT_MAX: Final = 1_000_000
"""Pairs of ledger and size in memory: 16 MiB."""


class TornTail(msgspec.Struct, frozen=True):
    """The end of a log that a crash has cut off."""

    offset: int  # in the log
    header: BlockHeader | None  # of the block; None: it holds no whole entry header


class LogUse(msgspec.Struct, frozen=True):
    """One log."""

    log_id: int
    size: int  # of the file
    ledger_ids: "array[int]"
    sizes: "array[int]"  # bytes of each ledger's entries
    is_whole: bool
    has_map: bool = True  # it was sealed before the bookie stopped
    torn: TornTail | None = None  # the only reason why it is not whole
    is_stub: bool = False
    lost: RegionsOfLog = ()  # the regions that were skipped

    @property
    def is_damaged(self) -> bool:
        """True if the log has damage that may hide entries."""
        return not (self.is_whole or self.is_stub or self.torn is not None)

    def is_dead(self, deleted: LedgerRanges) -> bool:
        """Return whether all entries in the log are of deleted ledgers."""
        return self.is_whole and all(ledger_id in deleted for ledger_id in self.ledger_ids)

    def dead_size(self, deleted: LedgerRanges) -> int:
        """Return the bytes of entries of deleted ledgers."""
        pairs = zip(self.ledger_ids, self.sizes, strict=True)
        return sum(size for ledger_id, size in pairs if ledger_id in deleted)


class LogUses:
    """The logs of one directory."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        owner: bytes,
        *,
        lost: LostRegions | None = None,
        pair_count_max: int = PAIR_COUNT_MAX,
    ) -> None:
        self._files = files
        self._directory = directory
        self._owner = owner
        self._lost = LostRegions() if lost is None else lost
        self._pair_count_max = pair_count_max
        self._known: OrderedDict[int, LogUse] = OrderedDict()
        self._pair_count = 0
        self._reported: set[int] = set()  # damaged logs; few, unless the disk is bad

    def use_of(self, log_id: int) -> LogUse:
        """Return the use of a complete log."""
        lost = self._lost.of(log_id)
        known = self._known.get(log_id)
        if known is not None and known.lost == lost:
            return known
        self._drop(log_id)
        use = self._read(log_id, lost)
        if use.is_damaged and log_id not in self._reported:
            self._reported.add(log_id)
            path = log_path(self._directory, log_id)
            LOG.warning(
                "storage.entry_log_damaged",
                "%(path)s is damaged: it stays until a scrub shows that no entry is missing there",
                path=path,
            )
        self._keep(use)
        return use

    def forget(self, log_id: int) -> None:
        """Forget a log that was removed."""
        self._drop(log_id)
        self._lost.forget(log_id)

    def _drop(self, log_id: int) -> None:
        use = self._known.pop(log_id, None)
        if use is not None:
            self._pair_count -= len(use.ledger_ids)

    def _read(self, log_id: int, lost: RegionsOfLog) -> LogUse:
        scan = EntryLogScan(self._files, self._directory, log_id, self._owner)
        is_whole = has_map = True
        size_by_ledger: dict[int, int] = {}
        size = self._size(log_id)
        if size is not None and is_stub(size):
            nothing = array("q"), array("Q")
            is_whole = is_lost(lost, 0, size)
            return LogUse(log_id, size, *nothing, is_whole, has_map=False, is_stub=True, lost=lost)
        torn: TornTail | None = None
        try:
            with_map = scan.map_of_ledgers()
            if with_map is not None:
                size_by_ledger = with_map
            else:
                has_map = False
                for found in scan.blocks(is_body_read=False):
                    if isinstance(found, Block) and found.is_intact:
                        header = found.header
                        sum_before = size_by_ledger.get(header.ledger_id, 0)
                        size_by_ledger[header.ledger_id] = sum_before + header.body_size
                    elif is_lost(lost, found.offset, found.size):
                        continue
                    elif is_whole:
                        is_whole, torn = False, torn_tail(found, size or 0)
                        continue
                    torn = None  # something follows
        except (CorruptRecordError, CookieMismatchError):
            is_whole, torn = False, None
        ledger_ids = sorted(size_by_ledger)
        sizes = array("Q", [size_by_ledger[ledger_id] for ledger_id in ledger_ids])
        ids = array("q", ledger_ids)
        return LogUse(log_id, size or 0, ids, sizes, is_whole, has_map, torn, lost=lost)

    def _size(self, log_id: int) -> int | None:
        """Return the size of a log; ``None`` if it cannot be opened."""
        with suppress(OSError):
            return file_size(self._files, log_path(self._directory, log_id))
        return None

    def _keep(self, use: LogUse) -> None:
        self._known[use.log_id] = use
        self._pair_count += len(use.ledger_ids)
        while self._pair_count > self._pair_count_max:
            _, old = self._known.popitem(last=False)
            self._pair_count -= len(old.ledger_ids)


def torn_tail(found: Block | Damage, log_size: int) -> TornTail | None:
    """Return the torn end of a log, if this last part of it, without a map, may be one."""
    if isinstance(found, Block):
        is_cut = found.offset + found.header.body_size > log_size
        return TornTail(found.offset, found.header) if is_cut else None
    is_short = found.offset + found.size == log_size and found.size < BLOCK_HEADER_SIZE
    return TornTail(found.offset, None) if is_short and found.offset else None
