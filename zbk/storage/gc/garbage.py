"""What of a bookie's storage goes when ledgers are deleted, and in which order.

    mark        owner  the ledgers are taken in no more: adds, fences, LACs, replayed records
    note        gc     so it stays after a restart, whatever the journal and the flush file say
    drop        owner  pages, headers and index files go. A crash before: the next start does it
    remove_log  gc     logs with nothing but noted ledgers go, after the census has forgotten them

Each step is safe to be the last one, and to be taken again. *Noted* decides about logs, not the
absence from the index: an index file that a disk lost must not take the entries with it.

A log may go only if its id is below that of the last log mark: then everything that the index
points at in it has been synced, nothing is written to it any more, and no restart will give its id
to another log.

Logs in which something is live, and much is not, are left to ``zbk.storage.gc.compaction``.

Threads: as the table says; *gc* is one thread, any. ``ledgers_in_memory`` belongs to the owner,
everything else to gc.

Source: BookKeeper's ``GarbageCollectorThread``.
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from zbk.errors import StorageFailedError
from zbk.storage.directory_parts import DirectoryParts
from zbk.storage.entry_logs.entry_log import log_ids
from zbk.storage.entry_logs.uses import LogUse, LogUses
from zbk.storage.gc.compaction import Compaction
from zbk.storage.index.index_file import ledger_ids

FINISH_COUNT: Final = 1_000
"""Ledgers that a start drops at once: their pages are not in memory yet."""


class LogSummary(msgspec.Struct, frozen=True):
    """The logs that are written no more. Sizes in bytes."""

    log_count: int = 0
    size: int = 0  # of the files
    dead_size: int = 0  # of entries of deleted ledgers
    damaged_count: int = 0  # logs that stay because they cannot be understood


class Garbage:
    """What may go, and its going. Made by ``BookieStorage``."""

    def __init__(self, parts: DirectoryParts) -> None:
        self._files = parts.files
        self._census = parts.census
        self._index_dir = parts.index_dir
        self._log_dir = parts.log_dir
        self._deleted = parts.deleted
        self._cache = parts.cache
        self._logs = parts.logs
        self._last_mark = parts.last_mark
        self._uses = LogUses(parts.files, parts.log_dir, parts.owner, lost=parts.lost)
        self.compaction = Compaction(parts, self._uses)

    # ------------------------------------------------------------------ owner

    def finish(self) -> int:
        """Drop what was noted before a crash and not dropped; return how many ledgers.

        A log that a crash left half made goes, too.

        Raises:
            StorageFailedError: an index file cannot be removed.
            OSError: the index cannot be listed.
        """
        self.compaction.clean_up()
        noted = self._deleted.noted
        if not noted.range_count:
            return 0  # nothing to walk the index for
        left = [one for one in ledger_ids(self._files, self._index_dir) if one in noted]
        for start in range(0, len(left), FINISH_COUNT):
            self._cache.delete_all(left[start : start + FINISH_COUNT])
        return len(left)

    def ledgers_in_memory(self) -> list[int]:
        """Return the ids of ledgers that may not have an index file yet, among others."""
        return self._cache.ledgers_in_memory()

    def mark(self, marked_ids: Collection[int]) -> bool:
        """Refuse ledgers from now on; false, and nothing changed, if no more can be remembered."""
        return self._deleted.mark(marked_ids)

    def drop(self, dropped_ids: Collection[int]) -> int:
        """Forget ledgers that were noted; return how many of them were here.

        Raises:
            StorageFailedError: an index file cannot be removed, or anything failed before.
        """
        assert all(one in self._deleted.noted for one in dropped_ids), "a restart has to know"
        return self._cache.delete_all(dropped_ids)

    # ------------------------------------------------------------------ gc

    def ledgers_on_disk(self) -> list[int]:
        """Return the ids of ledgers with an index file, ascending. Walks directories.

        Raises:
            StorageFailedError: they cannot be listed.
        """
        try:
            return ledger_ids(self._files, self._index_dir)
        except OSError as error:
            raise StorageFailedError(self._index_dir, "list", str(error)) from error

    def gap_ids(self, count_max: int) -> list[int]:
        """Return ids that were perhaps deleted, and would be remembered with others if so."""
        return self._deleted.gap_ids(count_max)

    def note(self) -> bool:
        """Put what is marked on stable storage; false if the disk is full.

        Raises:
            StorageFailedError: writing failed otherwise, or anything failed before.
        """
        return self._deleted.write()

    def left_logs(self) -> list[int]:
        """Return the ids of logs that nothing is written to, and nothing unsynced points at.

        Raises:
            StorageFailedError: they cannot be listed.
        """
        mark = self._last_mark.mark
        if mark is None:
            return []
        try:
            found = log_ids(self._files, self._log_dir)
        except OSError as error:
            raise StorageFailedError(self._log_dir, "list", str(error)) from error
        return [log_id for log_id in found if log_id < mark.entry_log_id]

    def log_count(self) -> int:
        """Return how many logs there are, the one being written too. Any thread."""
        try:
            return len(log_ids(self._files, self._log_dir))
        except OSError:
            return 0

    def use_of(self, log_id: int) -> LogUse:
        """Return what one of ``left_logs`` is used for. May read all of it."""
        return self._uses.use_of(log_id)

    def live_ids(self, use: LogUse) -> list[int]:
        """Return the ledgers in a log that were not deleted, as far as is noted."""
        noted = self._deleted.noted
        return [ledger_id for ledger_id in use.ledger_ids if ledger_id not in noted]

    def is_noted(self, ledger_id: int) -> bool:
        """Return whether a ledger was deleted, as far as is noted."""
        return ledger_id in self._deleted.noted

    def remove_if_dead(self, log_id: int) -> int:
        """Delete one of ``left_logs`` if nothing in it is live; return the bytes that this freed.

        Nothing is freed while the disk has no room for a census without it.

        Raises:
            StorageFailedError: it cannot be deleted, or anything failed before.
        """
        use = self.use_of(log_id)
        if not use.is_dead(self._deleted.noted) or not self._census.forget_logs([log_id]):
            return 0
        self._logs.remove(log_id)
        self._uses.forget(log_id)
        self.compaction.counts.forget(log_id)
        return use.size

    def summary_with(self, summary: LogSummary, log_id: int) -> LogSummary:
        """Return a summary with one more log in it."""
        use = self.use_of(log_id)
        return LogSummary(
            log_count=summary.log_count + 1,
            size=summary.size + use.size,
            dead_size=summary.dead_size + use.dead_size(self._deleted.noted),
            damaged_count=summary.damaged_count + use.is_damaged,
        )


# -------------------------------------------------------------------- questions to the owner


class LedgersInMemory(msgspec.Struct, frozen=True):
    """List the ledgers that may not have an index file yet, among others, in all directories."""

    garbages: Sequence[Garbage]

    def answer(self) -> list[int]:
        """Return their ids."""
        return [one for garbage in self.garbages for one in garbage.ledgers_in_memory()]


class DropIndexes(msgspec.Struct, frozen=True):
    """Drop what the index has of ledgers that were noted, in all directories."""

    garbages: Sequence[Garbage]
    ledger_ids: Sequence[int]

    def answer(self) -> int:
        """Return how many of the ledgers were here."""
        return sum(garbage.drop(self.ledger_ids) for garbage in self.garbages)
