"""Finds again, at a start, the entries that are in the entry logs and not in the journal.

Entries of bypass ledgers (``zbk.durability.vd_bypass_journal``) are only in entry logs. The index
of those that came after the last checkpoint is gone with the process. So a start reads what the
logs have gained since: each log from its size in the census, or in the last mark, on. Of other
ledgers the journal has these entries.

A block counts if its checksums match. After a loss of power, blocks that no fsync covered may be
torn: no client was promised their entries. All that the logs have gained is on stable storage
before, since the start has written it again (``LedgerDirectory.open``).

The journal has a record of the entries of each ``sync`` (``SyncedEntriesRecord``). A ledger that
lacks such an entry has lost it, with a log or with bytes of it. The census, and the note of new
logs (``zbk.storage.entry_logs.new_logs``), show that a log is lost. Then the bypass ledgers of the
directory may have had entries in it that no index has: nothing may deny them
(``zbk.storage.replay``).

Bounded by the bytes that were written since the last checkpoint. One thread, before the bookie
serves; a scan that is cut off by a crash is done again, as the mark has not moved.

Source: BookKeeper has no such scan: without its journal, a crash loses what was not flushed.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress

import msgspec

from zbk.durability.level import level_of
from zbk.errors import CookieMismatchError, CorruptRecordError, EntryUnreadableError
from zbk.protocol.entry.digest import checksum
from zbk.storage.entry_logs.entry_log import log_ids, log_path
from zbk.storage.entry_logs.format import LOG_HEADER_SIZE, check_log_header, log_seed
from zbk.storage.entry_logs.location import ABSENT, entry_locations, location_of
from zbk.storage.entry_logs.runs import entries_of
from zbk.storage.entry_logs.scan import Block, BlockWalk, EntryLogScan
from zbk.storage.index.due_entries import due_until
from zbk.storage.index.index_handle import IndexHandle
from zbk.storage.index.ledger_cache import LedgerCache
from zbk.storage.journal.record import SyncedEntriesRecord
from zbk.system.files import File, FileSystem


def gained_ledgers(
    files: FileSystem, directory: str, *, owner: bytes, known_sizes: Mapping[int, int]
) -> set[int]:
    """Return the ledgers with whole blocks after ``known_sizes`` in the logs of a directory.

    Only these logs show in which directory a new bypass ledger is. Logs that cannot be read are
    left to ``UnjournaledScan``, which follows.
    """
    found: set[int] = set()
    for log_id in log_ids(files, directory):
        start = max(LOG_HEADER_SIZE, known_sizes.get(log_id, 0))
        path = log_path(directory, log_id)
        with (
            suppress(OSError, CorruptRecordError, CookieMismatchError),
            closing(files.open(path, write=False)) as file,
        ):
            if file.size() <= start:
                continue
            check_log_header(file.pread(LOG_HEADER_SIZE, 0), owner, log_id, path)
            walk = BlockWalk(file, log_seed(owner, log_id))
            for one in walk.blocks(is_body_read=False, start=start):
                if isinstance(one, Block) and one.is_intact:
                    found.add(one.header.ledger_id)
    return found


class UnjournaledScan:
    """The scan of one ledger directory.

    ``known_sizes``: bytes of each log that the index on disk covers. ``is_deleted``: whether a
    ledger was deleted from the cluster.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        *,
        owner: bytes,
        cache: LedgerCache,
        known_sizes: Mapping[int, int],
        is_deleted: Callable[[int], bool],
    ) -> None:
        self._files = files
        self._directory = directory
        self._owner = owner
        self._cache = cache
        self._known_sizes = known_sizes
        self._is_deleted = is_deleted
        self.unreadable_ids: set[int] = set()  # logs that cannot be opened, or have no header
        self._handles: dict[int, IndexHandle | None] = {}  # None: not a ledger to look for
        self._entry_count = 0

    def run(self) -> int:
        """Index what is found; return the number of entries.

        Raises:
            CorruptRecordError: the index of a ledger is damaged.
            OSError: a log cannot be read.
        """
        for log_id in log_ids(self._files, self._directory):
            with suppress(CookieMismatchError):  # another bookie's: its reader meets that
                self._scan(log_id)
        return self._entry_count

    def _scan(self, log_id: int) -> None:
        path = log_path(self._directory, log_id)
        try:
            file = self._files.open(path, write=False)
        except OSError:
            self.unreadable_ids.add(log_id)  # a read of it will fail
            return
        with closing(file):
            start = max(LOG_HEADER_SIZE, self._known_sizes.get(log_id, 0))
            if file.size() < LOG_HEADER_SIZE:
                self.unreadable_ids.add(log_id)
            if file.size() <= start or not self._has_wanted(log_id):
                return
            try:
                check_log_header(file.pread(LOG_HEADER_SIZE, 0), self._owner, log_id, path)
            except CorruptRecordError:
                self.unreadable_ids.add(log_id)  # if power was lost, no fsync has covered any of it
                return
            walk = BlockWalk(file, log_seed(self._owner, log_id))
            for found in walk.blocks(is_body_read=False, start=start):
                if isinstance(found, Block) and found.is_intact:
                    self._take(file, log_id, found)

    def _has_wanted(self, log_id: int) -> bool:
        """Return whether a log may have entries of bypass ledgers."""
        scan = EntryLogScan(self._files, self._directory, log_id, self._owner)
        try:
            ledgers = scan.map_of_ledgers()
        except CorruptRecordError:  # it cannot be read: the walk meets that, and fails the start
            return True
        return ledgers is None or any(self._handle(one) is not None for one in ledgers)

    def _handle(self, ledger_id: int) -> IndexHandle | None:
        if ledger_id not in self._handles:
            info = None if self._is_deleted(ledger_id) else self._cache.info(ledger_id)
            is_wanted = info is not None and not level_of(info.ledger_type).is_journaled
            self._handles[ledger_id] = self._cache.handle(ledger_id) if is_wanted else None
        return self._handles[ledger_id]

    def _take(self, file: File, log_id: int, block: Block) -> None:
        """Index the entries of a block that the index does not have."""
        header = block.header
        handle = self._handle(header.ledger_id)
        if handle is None:
            return
        body = file.pread(header.body_size, block.offset)
        if checksum(body) != header.body_checksum:
            return
        found = entries_of(body, header.count)
        if found is None or found[0] != header.ledger_id:
            return
        _, entry_ids, sizes = found
        locations = entry_locations(location_of(log_id, block.offset), sizes)
        known = handle.locations_of(entry_ids)
        absent = [at for at, location in enumerate(known) if location == ABSENT]
        if absent:
            ids = [entry_ids[at] for at in absent]
            handle.set_locations(ids, locations.__class__("Q", [locations[at] for at in absent]))
            self._entry_count += len(absent)


class Promised(msgspec.Struct):
    """The entries that the journal shows to be synced outside of it."""

    records: list[SyncedEntriesRecord] = []

    def lost(self, index_of: Callable[[int], IndexHandle | None]) -> Iterable[int]:
        """Yield the ledgers that lack such an entry, each once.

        ``index_of`` returns the index of a ledger; ``None``: it was deleted.
        """
        seen: set[int] = set()
        for record in self.records:
            index = None if record.ledger_id in seen else index_of(record.ledger_id)
            if index is not None and not self._has(index, record):
                seen.add(record.ledger_id)
                yield record.ledger_id

    def _has(self, index: IndexHandle, record: SyncedEntriesRecord) -> bool:
        try:
            before = record.first_entry_id - 1
            if record.stripe is not None:
                return due_until(index, record.stripe, before) >= record.last_entry_id
            return index.contiguous_until(before) >= record.last_entry_id
        except (CorruptRecordError, EntryUnreadableError):
            return True  # neither yes nor no is what its readers get, too
