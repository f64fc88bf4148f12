"""The possible losses of a bookie: found at its start, recorded before it serves.

A start first records losses in the limbo file (``directory.limbo``), and then that the bookie
serves (``directory.serving``). A stop in good order removes that second note after the last sync.

Missing files are found by the census (``directory.lost_files``).

A wiped bookie starts only if its operator says that it was wiped on purpose.

Runs in the thread that starts and stops the bookie. The part for the re-check of ledgers belongs to
any one thread while the bookie runs.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from zbk.durability.limbo import LossReason
from zbk.errors import NoSpaceError
from zbk.storage.directory import serving, unfinished
from zbk.storage.directory.limbo import LimboFile
from zbk.storage.directory.lost_files import LostFiles, look, scope_of
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.entry_logs.new_logs import note_anew
from zbk.storage.index.census import CENSUS_NAME
from zbk.storage.journal.last_mark import MARK_NAME
from zbk.system.event_log import EventLog
from zbk.system.files import FileSystem

LOG = EventLog("zbk.bookie")

NAMED_COUNT: Final = 10
"""Lost files of a directory that the log names."""


class Losses:
    """The possible losses of one bookie."""

    def __init__(
        self, files: FileSystem, limbo: LimboFile, ledger_dirs: Sequence[str], boot_id: str
    ) -> None:
        self._files = files
        self._file = limbo
        self._ledger_dirs = ledger_dirs
        self._boot_id = boot_id
        self._lock = threading.Lock()
        self._is_recheck_over = False
        self.was_killed = False
        """True when the process before was killed in this boot: the disk shows all it wrote."""
        self.unchecked_count: int | None = None  # ledgers that are not cleared; None: not known yet

    def find(self, next_ledger_id: Callable[[], int], *, is_wiped_on_purpose: bool) -> None:
        """Record, durably, what may be lost. Comes before storage is opened.

        ``next_ledger_id`` asks the metadata store, by a read that does not lag.

        Raises:
            CorruptRecordError, CookieMismatchError: the record of an earlier loss is damaged.
            StorageFailedError: reading or writing failed; ``NoSpaceError`` among them.
            MetadataUnavailableError: the metadata store does not answer.
        """
        with self._file.guard("look for losses"):
            self._find(next_ledger_id, is_wiped_on_purpose)

    def find_lost_files(self, owner: bytes, next_ledger_id: Callable[[], int]) -> None:
        """Record, durably, the ledgers whose index files are missing; log missing entry logs.

        Comes after ``find``, and before storage is opened, which rebuilds what it can. Entries
        whose log is missing are damage: the scrubber finds and reports their ledgers. New entry
        logs are noted (``zbk.storage.entry_logs.new_logs``): this start may be killed.

        Raises:
            BookieError: a command has left a directory half changed, or a part is missing.
            CorruptRecordError, CookieMismatchError, StorageFailedError, MetadataUnavailableError:
                as ``find``.
        """
        with self._file.guard("look for lost files"):
            lost = [self._look(directory, owner) for directory in self._ledger_dirs]
            for one in lost:
                self._tell_lost(one)
            has_lost_census = any(one.census_fault for one in lost)
            scope = scope_of(lost, next_ledger_id() if has_lost_census else 0)
            if scope.range_count:
                self._file.note_lost_indexes(scope)
        for one in () if self.was_killed else lost:
            self._note_logs(one, owner)

    def lose_all(self, next_ledger_id: Callable[[], int]) -> None:
        """Record, durably, that all data may be lost, as after a wipe.

        May come before ``find``. Raises as ``find``.
        """
        with self._file.guard("look for losses"):
            self._file.load()
        self._note(LossReason.WIPED, next_ledger_id())

    def lose_directory(self, next_ledger_id: Callable[[], int]) -> int:
        """Record, durably, that a directory is lost; return the bound of its ledgers.

        Comes after ``find``, and before storage is opened. Raises as ``find``.
        """
        bound = next_ledger_id()
        self._note(LossReason.DIRECTORY_LOST, bound)
        return bound

    def begin_serving(self) -> None:
        """Record that entries acknowledged from now on may be lost with the page cache.

        Comes after ``find``, and before storage is opened.

        Raises:
            StorageFailedError: it could not be written; ``NoSpaceError`` among them.
        """
        with self._file.guard("begin serving"):
            serving.begin(self._files, self._file.directory, self._boot_id)

    def end_serving(self) -> None:
        """Record that everything is on stable storage and cannot be lost any more."""
        serving.end(self._files, self._file.directory)

    def doubt(self) -> None:
        """Record, if the disk allows it, that a write failed and unsynced entries may be lost."""
        with suppress(OSError):
            serving.begin(self._files, self._file.directory, "")

    # ------------------------------------------------------------------ the re-check

    @property
    def reasons(self) -> tuple[LossReason, ...]:
        """The reasons why ledgers are in limbo; empty when none is."""
        return self._file.limbo.reasons

    def left(self, *, has_lost_fences: bool) -> LedgerRanges:
        """Return the ledgers in limbo after losses that may, or cannot, include fences.

        A ledger in limbo for both is of the first kind only: to clear it, all of it must be here
        again, which the check after an unclean stop does not show.
        """
        all_lost = self._file.left(one for one in LossReason if one.has_lost_fences)
        if has_lost_fences:
            return all_lost
        return self._file.left([LossReason.UNCLEAN_STOP]).without(all_lost)

    def clear(self, ranges: Iterable[tuple[int, int]]) -> bool:
        """Clear ledgers, so that the bookie may deny missing entries; false: there is no room.

        Raises:
            StorageFailedError: writing failed: the bookie has to stop.
        """
        with self._lock:
            return not self._is_recheck_over and self._file.clear(ranges)

    def end_recheck(self) -> None:
        """Refuse to clear more: the directory may soon belong to another process."""
        with self._lock:
            self._is_recheck_over = True

    def _find(self, next_ledger_id: Callable[[], int], is_wiped_on_purpose: bool) -> None:
        self._file.load()
        if serving.is_loss_possible(self._files, self._file.directory, self._boot_id):
            self._note(LossReason.UNCLEAN_STOP, next_ledger_id())
        self.was_killed = serving.was_killed(self._files, self._file.directory, self._boot_id)
        wiped = [one for one in self._ledger_dirs if unfinished.was_wiped(self._files, one)]
        if wiped and is_wiped_on_purpose:
            self._note(LossReason.WIPED, next_ledger_id())
            for directory in wiped:
                unfinished.forget_wiped(self._files, directory)

    def _look(self, directory: str, owner: bytes) -> LostFiles:
        unfinished.check_finished(self._files, directory)
        if self._files.exists(f"{directory}/{MARK_NAME}"):
            unfinished.check_whole(self._files, directory)
        return look(self._files, directory, owner)

    def _note_logs(self, found: LostFiles, owner: bytes) -> None:
        """Note the new entry logs of a directory, if there is space for that."""
        for _ in range(2):  # lack of space releases the reserve
            with suppress(NoSpaceError), self._file.guard("note new logs", found.path):
                note_anew(self._files, found.path, owner, found.known_sizes)
                return

    def _tell_lost(self, lost: LostFiles) -> None:
        if lost.census_fault:
            LOG.critical(
                "limbo.census_lost",
                "%(directory)s/%(file)s %(fault)s: the ledgers and entry logs that were here are "
                "not known; this bookie answers neither yes nor no about ledgers without an index "
                "file until it has checked them against its peers",
                directory=lost.path,
                file=CENSUS_NAME,
                fault=lost.census_fault,
            )
        if lost.ledger_ids:
            LOG.critical(
                "limbo.index_files_lost",
                "%(directory)s has lost the index files of %(ledger_count)d ledgers: %(ledgers)s; "
                "they are now rebuilt from the entry logs; until a ledger is whole this bookie "
                "answers neither yes nor no about missing entries, and checks it against its peers",
                directory=lost.path,
                ledger_count=len(lost.ledger_ids),
                ledgers=_first_of(lost.ledger_ids),
            )
        if lost.logs:
            LOG.critical(
                "limbo.entry_logs_lost",
                "%(directory)s has lost %(log_count)d entry logs, or their ends: %(logs)s; reads "
                "of entries there fail, and the ledgers are reported for repair as soon as the "
                "index was read",
                directory=lost.path,
                log_count=len(lost.logs),
                logs=_first_of([one.path for one in lost.logs]),
            )

    def _note(self, reason: LossReason, bound: int) -> None:
        if not bound:
            return  # the cluster has never had a ledger
        self._file.note_loss(reason, bound)
        LOG.warning(
            "limbo.begun",
            "%(cause)s: parts of ledgers below %(below_ledger_id)d may be lost; this bookie "
            "answers neither yes nor no about these ledgers until it has checked them against its "
            "peers",
            cause=reason.value,
            below_ledger_id=bound,
        )


def _first_of(things: Sequence[object]) -> str:
    more = ", ..." if len(things) > NAMED_COUNT else ""
    return ", ".join(map(str, things[:NAMED_COUNT])) + more
