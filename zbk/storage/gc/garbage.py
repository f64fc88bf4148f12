"""Removing the data of deleted ledgers from a bookie's storage, in the only order that is safe.

    mark        owner  the ledgers are refused: adds, fences, LACs, replayed records
    note        gc     they stay refused after a restart, whatever journal and flush file have
    drop        owner  pages, headers and index files are removed. After a crash before that, the
                       next start removes them
    remove_log  gc     logs that hold only noted ledgers are removed, after the census has forgotten
                       them

A crash after any step is safe, and each step may be repeated. Only a *noted* ledger lets a log go,
not a ledger that is absent from the index: an index file that a disk lost must not take the entries
with it.

A log may be removed only if it is *left* (``EntryLogs.left``): the last log mark covers it. Then
all entries in it that the index points at were synced, nothing is written to it any more, and no
restart gives its id to another log. A log that compaction made needs no mark after its sources are
gone: all pointers to it are on disk, and none is left when it is removed. An own log of a noted
ledger needs no mark: nothing but that ledger points there, so it goes in the round that drops the
ledger.
``zbk.storage.gc.compaction`` handles logs of which a part is live.

Threads: as the table says; *gc* is any one thread. The questions at the end belong to the owner.

Source: BookKeeper's ``GarbageCollectorThread``.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from zbk.storage.directory_parts import DirectoryParts
from zbk.storage.disk.fail_stop import as_failed_read
from zbk.storage.entry_logs.entry_log import log_ids
from zbk.storage.entry_logs.uses import LogUses
from zbk.storage.gc.compaction import Compaction
from zbk.storage.index.index_file import ledger_ids

FINISH_COUNT: Final = 1_000
"""Ledgers that a start drops together: their pages are not in memory yet."""


class LogSummary(msgspec.Struct, frozen=True):
    """The logs that are complete. Sizes in bytes."""

    log_count: int = 0
    size: int = 0  # of the files
    dead_size: int = 0  # of entries of deleted ledgers
    damaged_count: int = 0  # logs that stay because they cannot be read


class Garbage:
    """The garbage of one ledger directory, which makes this object."""

    def __init__(self, parts: DirectoryParts) -> None:
        self._files = parts.files
        self._census = parts.census
        self._index_dir = parts.index_dir
        self._log_dir = parts.log_dir
        self.deleted = parts.deleted
        self.cache = parts.cache
        self._logs = parts.logs
        self.uses = LogUses(parts.files, parts.log_dir, parts.owner, lost=parts.lost)
        self.compaction = Compaction(parts, self.uses)

    # ------------------------------------------------------------------ owner

    def finish(self) -> int:
        """Drop the ledgers that were noted before a crash and not dropped; return their number.

        A log that a crash left half made is removed, too.

        Raises:
            StorageFailedError: an index file cannot be removed.
            OSError: the index cannot be listed.
        """
        self.compaction.clean_up()
        noted = self.deleted.noted
        if not noted.range_count:
            return 0  # without a walk over the index
        left = [one for one in ledger_ids(self._files, self._index_dir) if one in noted]
        for start in range(0, len(left), FINISH_COUNT):
            self.cache.delete_all(left[start : start + FINISH_COUNT])
        return len(left)

    def drop(self, dropped_ids: Collection[int]) -> int:
        """Drop ledgers that were noted; return how many of them were here.

        Raises:
            StorageFailedError: an index file cannot be removed, or anything failed before.
        """
        assert all(one in self.deleted.noted for one in dropped_ids), "a restart has to know"
        self._logs.end_own(dropped_ids)
        return self.cache.delete_all(dropped_ids)

    # ------------------------------------------------------------------ gc

    def ledgers_on_disk(self) -> list[int]:
        """Return the ids of ledgers with an index file, ascending. Walks directories.

        Raises:
            StorageFailedError: they cannot be listed.
        """
        with as_failed_read(self._index_dir, "list"):
            return ledger_ids(self._files, self._index_dir)

    def left_logs(self) -> list[int]:
        """Return the ids of complete logs to which only synced pages of the index point.

        Own logs of noted ledgers are among them: no index points there.

        Raises:
            StorageFailedError: they cannot be listed.
        """
        with as_failed_read(self._log_dir, "list"):
            found = log_ids(self._files, self._log_dir)
        noted, logs = self.deleted.noted, self._logs
        return [one for one in found if one in logs.left or logs.is_own_of(one, noted)]

    def log_count(self) -> int:
        """Return the number of logs, including the one that adds go to. Any thread."""
        try:
            return len(log_ids(self._files, self._log_dir))
        except OSError:
            return 0

    def live_ids(self, log_id: int) -> list[int]:
        """Return the ledgers in one of ``left_logs`` that are not noted as deleted."""
        noted = self.deleted.noted
        return [one for one in self.uses.use_of(log_id).ledger_ids if one not in noted]

    def remove_dead(self, left_ids: Sequence[int]) -> Mapping[int, int]:
        """Delete those of ``left_logs`` in which nothing is live; return the bytes freed by log.

        They stay while the disk has no room for a census without them.

        Raises:
            StorageFailedError: one cannot be deleted, or anything failed before.
        """
        noted = self.deleted.noted
        uses = [self.uses.use_of(log_id) for log_id in left_ids]
        freed = {use.log_id: use.size for use in uses if use.is_dead(noted)}
        if not freed or not self._census.forget_logs(freed.keys()):
            return {}
        self._logs.remove(freed.keys())
        for log_id in freed:
            self.uses.forget(log_id)
            self.compaction.counts.forget(log_id)
        return freed

    def summary_with(self, summary: LogSummary, log_id: int) -> LogSummary:
        """Return a summary to which one more log is added."""
        use = self.uses.use_of(log_id)
        return LogSummary(
            log_count=summary.log_count + 1,
            size=summary.size + use.size,
            dead_size=summary.dead_size + use.dead_size(self.deleted.noted),
            damaged_count=summary.damaged_count + use.is_damaged,
        )


# -------------------------------------------------------------------- questions to the owner


class LedgersInMemory(msgspec.Struct, frozen=True):
    """List the ledgers in memory, in all directories: among them all without an index file."""

    garbages: Sequence[Garbage]

    def answer(self) -> list[int]:
        """Return their ids."""
        return [one for garbage in self.garbages for one in garbage.cache.ledgers_in_memory()]


class DropIndexes(msgspec.Struct, frozen=True):
    """Drop what the index has of ledgers that were noted, in all directories."""

    garbages: Sequence[Garbage]
    ledger_ids: Sequence[int]

    def answer(self) -> int:
        """Return how many of the ledgers were here."""
        return sum(garbage.drop(self.ledger_ids) for garbage in self.garbages)
