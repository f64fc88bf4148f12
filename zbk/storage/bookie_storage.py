"""Everything that a bookie keeps on disk: journals, ledger directories, limbo, reserves.

    journal_dir/  0000000000000001.journal ...   zbk.storage.journal.segment
    ledger_dir/   last_mark, index, logs ...     zbk.storage.ledger_directory

A bookie may have several of both. All records of a ledger go to the journal of one journal
directory (``zbk.storage.journal.journals``). A ledger lives in one of the ledger directories
forever (``zbk.storage.ledger_homes``). A ledger that no directory has, and whose first record is
replayed, may go to any directory, and stays there; one that bypasses the journal goes to the
directory whose entry logs have its entries.

This module opens, checkpoints and closes. Callers work on a ledger through ``homes``, which gives
the ledger in its home directory.

Order of an add, as in the seed: ``LedgerDirectory.add`` (entry log, index), then the journal, then
the answer. The caller journals what it adds and each change of a ledger: the index in memory is on
stable storage only after a sync of the journal, or a checkpoint.

A full disk: a write that finds no space releases the reserve of its directory, calls
``on_no_space`` and raises ``NoSpaceError``. Everything promised stays promised, and the failed call
may be repeated: an append to the journal, a step of a checkpoint, an ``add``, which has changed
nothing. The index in memory waits there for the next checkpoint.

Threads: everything belongs to one thread, the owner, except
    ``home_of`` with ``LedgerDirectory.fetch``, ``is_gone``; ``is_deleted``;
    ``homes.avoid``; ``last_mark``; ``ledger_count``; ``is_checkpoint_due``;
    the reserves                                            any thread
    ``garbages``, ``limbo``, ``journals``                   as their classes say
    the steps of a ``Checkpoint``                           any thread; the owner begins and ends it

Source: the seed, sections Data management and Data flush; BookKeeper's ``BookieImpl`` and
``InterleavedLedgerStorage``.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Final

import msgspec

from zbk.errors import NoSpaceError
from zbk.storage.checkpoint import Checkpoint
from zbk.storage.directory.disk_reserve import DiskReserve
from zbk.storage.directory.limbo import LimboFile
from zbk.storage.directory_parts import DirectoryLimits
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.disk.open_files import OPEN_FILES_MAX, OpenFiles
from zbk.storage.entry_logs.entry_log import LOG_SIZE
from zbk.storage.entry_logs.entry_reader import Resolved
from zbk.storage.entry_logs.own_logs import DEFAULT_OWN_LOGS, OwnLogLimits
from zbk.storage.gc.garbage import Garbage
from zbk.storage.index.ledger_cache import LEDGER_COUNT_MAX, MEMORY_SIZE
from zbk.storage.journal.journal import SEGMENT_SIZE, Journal
from zbk.storage.journal.journals import Journals
from zbk.storage.journal.segment import NO_POSITION, JournalPosition
from zbk.storage.ledger_directory import LedgerDirectory, SharedParts
from zbk.storage.ledger_homes import LedgerHomes
from zbk.storage.replay import Replayer
from zbk.storage.scrub.damaged_entries import DamagedEntryIds
from zbk.storage.scrub.scrub_view import ScrubView
from zbk.storage.tools.rebuild_sources import AskOthers, ask_nobody
from zbk.system.files import FileSystem

LEDGERS_AT_START_MAX: Final = 1_000
"""Index files that a start writes before it serves. If there are more, the synced journal keeps
their changes until the first checkpoint, which runs beside the requests."""


class StorageLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a bookie's storage. Sizes in bytes."""

    segment_size: int = SEGMENT_SIZE
    log_size_max: int = LOG_SIZE
    own_logs: OwnLogLimits = DEFAULT_OWN_LOGS  # of each directory
    ledger_cache_size: int = MEMORY_SIZE
    open_files_max: int = OPEN_FILES_MAX
    ledger_count_max: int = LEDGER_COUNT_MAX  # headers in memory
    reserve_size: int = 0  # of each directory

    def of_each(self, directory_count: int) -> DirectoryLimits:
        """Return the limits of one ledger directory of so many."""
        return DirectoryLimits(
            self.log_size_max,
            self.own_logs,
            self.ledger_cache_size // directory_count,
            max(1, self.ledger_count_max // directory_count),
        )


DEFAULT_LIMITS: Final = StorageLimits()


class Recovery(msgspec.Struct, frozen=True):
    """Report of ``open``."""

    record_count: int  # journal records replayed
    entry_count: int  # entries that had to be stored again, or whose places were found again
    orphan_count: int  # records of ledgers that were deleted
    cut_record_count: int  # whole records of the journal's torn tail, none of them ever promised
    index_file_count: int  # index files that a crash in the middle of a flush had left half done


class BookieStorage:
    """Storage of one bookie. ``open`` comes first, ``close`` last."""

    def __init__(
        self,
        files: FileSystem,
        *,
        journal_dir: str | Sequence[str],
        ledger_dir: str | Sequence[str],
        bookie_id: str,
        limits: StorageLimits = DEFAULT_LIMITS,
        on_no_space: Callable[[str], None] = lambda _path: None,
        out_of_service: Collection[str] = (),
    ) -> None:
        journal_dirs = (journal_dir,) if isinstance(journal_dir, str) else tuple(journal_dir)
        all_ledger_dirs = (ledger_dir,) if isinstance(ledger_dir, str) else tuple(ledger_dir)
        journals = {no: path for no, path in enumerate(journal_dirs) if path not in out_of_service}
        self.ledger_dirs = [path for path in all_ledger_dirs if path not in out_of_service]
        self._journal_count = len(journal_dirs)
        self._files = files
        self._on_no_space = on_no_space
        self.reserves = [
            DiskReserve(files, path, limits.reserve_size)
            for path in dict.fromkeys((*journals.values(), *self.ledger_dirs))
        ]
        self.owner = bookie_id.encode()  # the identity in the headers of files
        self._fail_stop = FailStop(self._met_no_space)
        self.open_files = OpenFiles(files, limits.open_files_max)
        self.damaged = DamagedEntryIds()
        shared = SharedParts(files, self.owner, self.open_files, self._fail_stop, self.damaged)
        directory_limits = limits.of_each(len(self.ledger_dirs))
        self.directories = [
            LedgerDirectory(shared, path, number=number, limits=directory_limits)
            for number, path in enumerate(self.ledger_dirs)
        ]
        self.homes = LedgerHomes(self.directories, self._journal_count)
        self.garbages: Sequence[Garbage] = [one.garbage for one in self.directories]
        self.scrubs: Sequence[ScrubView] = [one.scrub for one in self.directories]
        self.limbo = LimboFile(
            files, self.ledger_dirs[0], bookie_id=bookie_id, fail_stop=self._fail_stop
        )
        self.journals = Journals(
            files,
            journals,
            count=self._journal_count,
            owner=self.owner,
            fail_stop=self._fail_stop,
            segment_size=limits.segment_size,
        )
        self._checkpoint: Checkpoint | None = None

    def open(self, ask_others: AskOthers = ask_nobody, *, was_killed: bool = False) -> Recovery:
        """Bring the disk to a state that can be served from: finish, replay, checkpoint.

        ``ask_others`` gives the key of a ledger whose index is lost. ``was_killed``: the process
        before ended without a stop, and the page cache has all that it wrote.

        When this returns, everything replayed is on stable storage, outside of the old journal. On
        a full disk, or if it takes more than ``LEDGERS_AT_START_MAX`` index files, a part may be in
        the old journal only, and ``open_checkpoint`` is set.

        Raises:
            CorruptJournalError: promised records are damaged; nothing was changed.
            CorruptRecordError: the mark, the deleted ledgers, or an index that records belong to,
                is damaged.
            CookieMismatchError: the files are another bookie's.
            BookieError: parts are missing, and nothing notes what may be lost with them.
            NoSpaceError: the start needs more space; the reserves were released.
            StorageFailedError: reading or writing failed.
        """
        self.homes.avoid(())
        self.journals.make_directories()
        with self.guard(self.directories[0].path, "open"):
            self.limbo.load()
        index_file_count = 0
        noted = LedgerRanges()  # as deleted: a crash may have left that in some directories only
        for one in self.directories:
            with self.guard(one.path, "open"):
                index_file_count += one.open(self._journal_count, self.limbo, ask_others)
            noted = noted.union(one.deleted.noted)
            for number in range(self._journal_count):
                if number not in self.journals.numbers:
                    one.last_mark.forget(number)
        for one in self.directories:
            with self.guard(one.path, "open"):
                one.finish_deletions(noted)
        replayer = Replayer(self.homes, self.is_deleted, self.limbo, ask_others)
        results = self.journals.open(self._positions(), replayer.apply)
        replayer.finish()
        entry_count = replayer.entry_count
        for one in self.directories:
            with self.guard(one.path, "open"):
                entry_count += one.find_unjournaled(self.is_deleted)
        with self.guard(self.directories[0].path, "open"):
            replayer.note_losses(self.directories, was_killed=was_killed)
        for one in self.directories:
            with suppress(NoSpaceError), self.guard(one.path, "open"):
                one.note_new_logs()
            with suppress(NoSpaceError):  # the reserve was released
                one.note_new_logs_again()
        checkpoint = self.begin_checkpoint()
        if checkpoint.ledger_count <= LEDGERS_AT_START_MAX:
            with suppress(NoSpaceError):  # the journal has all of it, synced
                checkpoint.run()
                self.end_checkpoint(checkpoint)
        return Recovery(
            sum(one.record_count for one in results),
            entry_count,
            replayer.orphan_count,
            sum(one.cut_record_count for one in results),
            index_file_count,
        )

    def close(self) -> None:
        """Sync what is not on stable storage and close all files; no other thread may use them.

        Entries that went to entry logs only are synced there. The next start finds them.

        Raises:
            StorageFailedError: an fsync failed.
        """
        try:
            self.journals.close()
            for one in self.directories:
                if one.unjournaled_size:
                    one.logs.sync()
        finally:
            for one in self.directories:
                one.logs.close()
                one.new_logs.close()
            self.open_files.close()

    @property
    def journal(self) -> Journal:
        """The journal of a bookie with one journal directory, once storage is open."""
        (journal,) = self.journals
        return journal

    @property
    def last_mark(self) -> tuple[JournalPosition, ...]:
        """The position where a replay would begin in each journal in service."""
        positions = self._positions()
        return tuple(positions[number] for number in self.journals.numbers)

    def guard(self, path: str, operation: str) -> AbstractContextManager[None]:
        """Return a context in which an ``OSError`` fails this storage (``FailStop.guard``)."""
        return self._fail_stop.guard(path, operation)

    # ------------------------------------------------------------------ a full disk

    @property
    def has_reserve(self) -> bool:
        """False while the space that was held back for a full disk is in use."""
        return all(reserve.is_held for reserve in self.reserves)

    @property
    def has_index_room(self) -> bool:
        """False while so much of the index waits for space that nothing should be added to it."""
        return all(one.cache.has_room for one in self.directories)

    def make_reserves(self) -> bool:
        """Hold back space for a full disk; return whether there was enough.

        Raises:
            StorageFailedError: it failed for another reason.
        """
        for reserve in self.reserves:
            with self.guard(reserve.directory, "reserve"):
                if not reserve.make():
                    return False
        return True

    def release_reserve(self, path: str) -> None:
        """Release the reserve, if any, of the directory that ``path`` is in."""
        for reserve in self.reserves:
            if reserve.holds(path):
                reserve.release()

    # ------------------------------------------------------------------ all ledgers

    @property
    def ledger_count(self) -> int:
        """The number of ledgers."""
        return sum(one.cache.ledger_count for one in self.directories)

    def ledgers(self) -> list[int]:
        """Return the ids of all ledgers, ascending. Walks directories."""
        return sorted(ledger_id for one in self.directories for ledger_id in one.cache.ledgers())

    def is_deleted(self, ledger_id: int) -> bool:
        """Return whether a ledger was deleted from the cluster, and is refused forever."""
        return any(ledger_id in one.deleted for one in self.directories)

    def mark_deleted(self, ledger_ids: Collection[int]) -> bool:
        """Refuse ledgers from now on, in all directories; return false if there is no room."""
        return all(one.deleted.mark(ledger_ids) for one in self.directories)

    def home_of(self, resolved: Resolved) -> LedgerDirectory:
        """Return the directory that entries were looked up in. Any thread."""
        return self.directories[resolved.directory_no]

    def begin_turn(self) -> None:
        """Begin a turn of ``IndexHandle.prepare`` and ``LedgerDirectory.add``."""
        for one in self.directories:
            one.begin_turn()

    # ------------------------------------------------------------------ checkpoint

    @property
    def is_checkpoint_due(self) -> bool:
        """True when so much of the index has changed that a flush should not wait."""
        return any(one.cache.is_flush_due for one in self.directories)

    @property
    def unjournaled_size(self) -> int:
        """Bytes of entries since the start that went to entry logs only. Any thread."""
        return sum(one.unjournaled_size for one in self.directories)

    def sync_logs_ahead(self) -> None:
        """Write in advance much of what a checkpoint will sync. Any thread, one at a time.

        Raises:
            StorageFailedError: an fsync failed, or anything failed before.
        """
        for one in self.directories:
            one.logs.sync_ahead()

    def when_logs_grow(self, callback: Callable[[], None]) -> None:
        """Call back in the storage actor's thread, when ``sync_logs_ahead`` has much to do."""
        for one in self.directories:
            one.logs.on_grown = callback

    def begin_checkpoint(self) -> Checkpoint:
        """Return a checkpoint of everything added up to now; the caller runs its steps.

        Raises:
            NoSpaceError: an earlier flush, begun to make room, still cannot end.
            StorageFailedError: anything failed before.
        """
        assert self._checkpoint is None, "one checkpoint at a time"
        for one in self.directories:
            one.cache.finish_stuck_flush()  # all of them first: a flush that begins is handed out
        positions = self.journals.positions()  # first: later records may not be in the flush
        flushes = [one.begin_flush(positions) for one in self.directories]
        self._checkpoint = Checkpoint(flushes, self.journals.by_number)
        return self._checkpoint

    @property
    def open_checkpoint(self) -> Checkpoint | None:
        """The checkpoint that has begun and not ended: after a start, one that found no space."""
        return self._checkpoint

    def end_checkpoint(self, checkpoint: Checkpoint) -> None:
        """End a checkpoint whose steps are all done."""
        assert self._checkpoint is checkpoint, "the checkpoint that was begun last"
        self._checkpoint = None
        for one, flush in zip(self.directories, checkpoint.flushes, strict=True):
            one.cache.end_flush(flush.flush)
            with suppress(NoSpaceError):
                one.note_new_logs_again()

    # ------------------------------------------------------------------ private

    def _positions(self) -> tuple[JournalPosition, ...]:
        """Return where replay begins in each journal, by number: all directories are past it."""
        marks = [one.last_mark.mark for one in self.directories]
        start = (NO_POSITION,) * self._journal_count
        known = [start if mark is None else mark.positions for mark in marks]
        return tuple(map(min, zip(*known, strict=True)))

    def _met_no_space(self, path: str) -> None:
        self.release_reserve(path)
        self._on_no_space(path)


# -------------------------------------------------------------------- questions to the owner


class BeginCheckpoint(msgspec.Struct, frozen=True):
    """Begin a checkpoint of everything added up to now."""

    storage: BookieStorage

    def answer(self) -> Checkpoint | NoSpaceError:
        """Return the checkpoint, or why there is none."""
        try:
            return self.storage.begin_checkpoint()
        except NoSpaceError as error:
            return error
