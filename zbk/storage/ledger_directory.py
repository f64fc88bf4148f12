"""One ledger directory of a bookie: entry logs, index, last log mark, deleted ledgers.

    last_mark          zbk.storage.journal.last_mark
    census             zbk.storage.index.census
    new_logs           zbk.storage.entry_logs.new_logs
    index.flush        zbk.storage.index.flush_file
    deleted_ledgers    zbk.storage.index.deleted_ledgers
    index/00/01/...    zbk.storage.index.index_file
    logs/00000001.log  zbk.storage.entry_logs.format

Nothing in it points into another directory, except the mark, which points at journals. A ledger
lives in one ledger directory forever, the one with its index.

Threads: as ``zbk.storage.bookie_storage``, its owner.

Source: the seed, section Data management; BookKeeper's ``InterleavedLedgerStorage``, which covers
all directories.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress

import msgspec

from zbk.durability.level import level_of
from zbk.durability.limbo import LossReason
from zbk.errors import (
    CorruptRecordError,
    EntryUnreadableError,
    NoSuchLedgerError,
)
from zbk.protocol.entry.entry import has_plain_digest
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.storage.checkpoint import DirectoryFlush
from zbk.storage.directory.limbo import LimboFile
from zbk.storage.directory.lost_files import LostFiles, look
from zbk.storage.directory.unfinished import check_finished, check_whole
from zbk.storage.directory_parts import DirectoryLimits, DirectoryParts
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.disk.open_files import OpenFiles
from zbk.storage.disk.write_again import write_again
from zbk.storage.entry_logs.entry_log import EntryLogs, log_ids, log_path
from zbk.storage.entry_logs.entry_reader import Resolved, fetch
from zbk.storage.entry_logs.left_logs import LeftLogs
from zbk.storage.entry_logs.location import entry_locations
from zbk.storage.entry_logs.lost_regions import LostRegions
from zbk.storage.entry_logs.new_logs import NewLogs
from zbk.storage.entry_logs.own_logs import SHARED_LOG
from zbk.storage.entry_logs.stored_copies import StoredCopies
from zbk.storage.gc.garbage import Garbage
from zbk.storage.index.census import Census
from zbk.storage.index.deleted_ledgers import DeletedLedgers
from zbk.storage.index.index_handle import IndexHandle
from zbk.storage.index.ledger_cache import LedgerCache
from zbk.storage.journal.last_mark import LastMark, LogMark
from zbk.storage.journal.segment import JournalPosition
from zbk.storage.lost_index import check_noted, find_again, ledgers_to_find, remove_short
from zbk.storage.scrub.damaged_entries import DamagedEntryIds
from zbk.storage.scrub.scrub_view import ScrubView
from zbk.storage.tools.rebuild_sources import AskOthers
from zbk.storage.tools.reindex import Reindex
from zbk.storage.unjournaled import UnjournaledScan, gained_ledgers
from zbk.system.event_log import EventLog
from zbk.system.files import FileSystem

LOG = EventLog("zbk.bookie")


class SharedParts(msgspec.Struct, frozen=True):
    """The parts that the ledger directories of a bookie share."""

    files: FileSystem
    owner: bytes  # the bookie's identity
    open_files: OpenFiles
    fail_stop: FailStop
    damaged: DamagedEntryIds


class LedgerDirectory:
    """One directory. ``open`` comes first."""

    def __init__(
        self, shared: SharedParts, path: str, *, number: int, limits: DirectoryLimits
    ) -> None:
        """``number``: the place of the directory among the bookie's ledger directories."""
        files, owner, fail_stop = shared.files, shared.owner, shared.fail_stop
        self._files = files
        self.path = path
        self.number = number
        self.last_mark = LastMark(files, path, fail_stop)
        self.logs = EntryLogs(
            files,
            f"{path}/logs",
            owner=owner,
            open_files=shared.open_files,
            fail_stop=fail_stop,
            log_size_max=limits.log_size_max,
            own_logs=limits.own_logs,
        )
        self.new_logs = NewLogs(files, path, owner=owner)
        self.logs.on_made = self._note_log
        self.census = Census(files, path, owner=owner, fail_stop=fail_stop)
        self.cache = LedgerCache(
            files,
            path,
            census=self.census,
            begin_log_sync=self.logs.begin_sync,
            open_files=shared.open_files,
            fail_stop=fail_stop,
            memory_size_max=limits.memory_size_max,
            ledger_count_max=limits.ledger_count_max,
        )
        self._owner = owner
        self._fail_stop = fail_stop
        self.deleted = DeletedLedgers(files, path, owner=owner, fail_stop=fail_stop)
        self.damaged = shared.damaged
        parts = DirectoryParts(
            files,
            path,
            owner,
            fail_stop,
            self.deleted,
            self.cache,
            self.logs,
            self.last_mark,
            LostRegions(),
            self.census,
        )
        self.garbage = Garbage(parts)
        self.scrub = ScrubView(parts)
        self.copies = StoredCopies(self.logs.read, owner)
        self._turn_drop_count = -1
        self.unjournaled_size = 0  # bytes of entries that went to an entry log only
        self._indexed_sizes: Mapping[int, int] = {}  # bytes of logs that the index on disk covers
        self._unreadable_ids: set[int] = set()  # logs without a header
        self._is_note_due = False  # logs are not noted any more: nothing may be added

    def open(self, journal_count: int, limbo: LimboFile, ask_others: AskOthers) -> int:
        """Finish an interrupted flush; return the number of index files that it touched.

        Missing index files are rebuilt from the entry logs, as far as these have the entries;
        ``ask_others`` gives the keys of their ledgers.

        Raises:
            BookieError: a command has left the directory half changed, or a part is missing, or
                index files are missing whose ledgers are not in limbo.
            CorruptRecordError: the mark or the deleted ledgers are damaged.
            StorageFailedError, OSError: reading or writing failed.
        """
        check_finished(self._files, self.path)
        mark = self.last_mark.load()
        if mark is not None:
            check_whole(self._files, self.path)
            if len(mark.positions) != journal_count:
                told = f"it is of {len(mark.positions)} journals; the bookie has {journal_count}"
                raise CorruptRecordError(f"{self.path}/last_mark", 0, told)
        lost = look(self._files, self.path, self._owner)
        self.new_logs.load()
        self.logs.open(max(self._marked_log_id, *lost.known_sizes, *self.new_logs.found, 0))
        self.deleted.load()
        # after a crash the names of notes may be in the page cache only: later writes must not
        # outlive them
        self._files.sync_dir(self.path)
        check_noted(lost, limbo)
        remove_short(self._files, lost)
        self._indexed_sizes = lost.known_sizes
        index_file_count = self.cache.open()
        wanted = ledgers_to_find(lost, limbo)
        if wanted.range_count:
            reindex = Reindex(
                self._files,
                self.path,
                owner=self._owner,
                lost=wanted,
                least_sizes=lost.least_sizes,
                ask_others=ask_others,
                fail_stop=self._fail_stop,
            )
            find_again(self.path, reindex, wanted, limbo)
        if not lost.census_fault:
            self.census.load()
        sizes = self._log_sizes(lost)
        self.census.begin(self.cache.count_ledgers(), sizes, has_gaps=lost.has_gaps)
        if mark is not None:
            grown = {one for one, size in sizes.items() if size != lost.known_sizes.get(one)}
            self.logs.left = LeftLogs(mark.entry_log_id, grown)
        self.scrub.is_index_lost = lambda: LossReason.INDEX_LOST in limbo.limbo.reasons
        self.scrub.lost_logs = {one.log_id: one.size or 0 for one in lost.logs}
        return index_file_count

    def finish_deletions(self, noted: LedgerRanges) -> None:
        """Drop what was noted before a crash, in this directory or another one, and is here.

        Without room for the note, garbage collection drops what only another directory has noted.

        Raises:
            StorageFailedError, OSError: reading or writing failed.
        """
        if self.deleted.mark_ranges(noted):
            self.deleted.write()
        self.garbage.finish()

    def gained_ledgers(self) -> Collection[int]:
        """Return the ledgers with entries in what the logs had gained before this start."""
        return gained_ledgers(
            self._files, f"{self.path}/logs", owner=self._owner, known_sizes=self._indexed_sizes
        )

    def find_unjournaled(self, is_deleted: Callable[[int], bool]) -> int:
        """Index the entries that only the entry logs have; return their number. After the replay.

        Raises:
            CorruptRecordError: the index of a ledger is damaged.
            OSError: a log cannot be read.
        """
        scan = UnjournaledScan(
            self._files,
            f"{self.path}/logs",
            owner=self._owner,
            cache=self.cache,
            known_sizes=self._indexed_sizes,
            is_deleted=is_deleted,
        )
        entry_count = scan.run()
        self._unreadable_ids = scan.unreadable_ids
        return entry_count

    def owners_of_lost_logs(self) -> set[int]:
        """Return the ledgers whose own logs came after the last checkpoint, and are gone.

        ``SHARED_LOG`` is among them if a shared log is gone, or if that is not known.

        Raises:
            OSError: the logs cannot be listed.
        """
        readable = set(log_ids(self._files, f"{self.path}/logs")) - self._unreadable_ids
        return self.new_logs.owners_of_lost(readable, self._marked_log_id, self.deleted.noted)

    def note_new_logs(self) -> None:
        """Note, durably, the logs that came after the last checkpoint, and each new one from now.

        Raises:
            OSError: it could not be written; nothing can be added until it can.
        """
        self._is_note_due = True
        existing, found = log_ids(self._files, f"{self.path}/logs"), self.new_logs.found
        new = [one for one in existing if one > self._marked_log_id]
        self.new_logs.begin({one: found.get(one, SHARED_LOG) for one in new})
        self._is_note_due = False

    def note_new_logs_again(self) -> None:
        """Do it again if it has failed.

        Raises:
            NoSpaceError: it failed again.
            StorageFailedError: it failed for another reason.
        """
        if self._is_note_due:
            with self._fail_stop.guard(self.path, "note new logs"):
                self.note_new_logs()

    def unjournaled_ledgers(self) -> Iterator[int]:
        """Yield the ledgers whose entries only entry logs have until a checkpoint.

        One whose header is damaged is left out: a read of it fails.

        Raises:
            OSError: reading failed.
        """
        for ledger_id in self.cache.ledgers():
            with suppress(CorruptRecordError):
                info = self.cache.info(ledger_id)
                if info is not None and not level_of(info.ledger_type).is_journaled:
                    yield ledger_id

    @property
    def _marked_log_id(self) -> int:
        return 0 if self.last_mark.mark is None else self.last_mark.mark.entry_log_id

    def _note_log(self, log_id: int, ledger_id: int) -> None:
        self.new_logs.made(log_id, ledger_id, self._marked_log_id)

    def _log_sizes(self, lost: LostFiles) -> dict[int, int]:
        """Return the logs that must exist from now on, and their least bytes.

        Logs are complete after a start. What one has beyond the bytes that are known is written
        again and synced, once; then it counts with its full size.
        """
        known = dict(lost.known_sizes)
        logs = f"{self.path}/logs"
        for log_id in log_ids(self._files, logs):
            try:
                file = self._files.open(log_path(logs, log_id))
            except OSError:
                known.setdefault(log_id, 0)  # a read of it will fail
                continue
            with closing(file):
                size = file.size()
                if size > known.get(log_id, -1):  # an empty one counts, too
                    write_again(file, known.get(log_id, 0), size)
                    file.sync()
                    known[log_id] = size
        if known.keys() - lost.known_sizes.keys():
            self._files.sync_dir(logs)
        return known

    def has(self, ledger_id: int) -> bool:
        """Return whether a ledger lives here.

        Raises:
            CorruptRecordError: its index is damaged: it does.
        """
        return self.cache.info(ledger_id) is not None

    # ------------------------------------------------------------------ entries

    def begin_turn(self) -> None:
        """Begin a turn: ``add`` need not prepare a batch again that was prepared in it."""
        self._turn_drop_count = self.cache.drop_count

    def add(
        self,
        batches: Sequence[EntryBatch],
        indexes: Sequence[IndexHandle],
        bypass_ids: Collection[int] = (),
    ) -> Sequence[int]:
        """Append batches to entry logs and set their locations. None of the entries is stored.

        Return the location of each batch's first entry. ``indexes``: the handle of each batch's
        ledger. Since ``begin_turn`` the caller has prepared each batch, or one that it is a part
        of; without a turn this method prepares all. ``bypass_ids``: the ledgers whose batches go to
        entry logs only.

        Raises:
            NoSuchLedgerError, CorruptRecordError: as ``IndexHandle``; nothing was written.
            NoSpaceError: none of the entries was stored, and nothing has changed.
            StorageFailedError: writing failed, or anything failed before.
        """
        self.note_new_logs_again()
        if self.cache.drop_count != self._turn_drop_count:
            for batch, index in zip(batches, indexes, strict=True):
                index.prepare(batch.entry_ids)
        bases = self.logs.append(batches, bypass_ids)
        for batch, index, base in zip(batches, indexes, bases, strict=True):
            index.put(batch.entry_ids, entry_locations(base, batch.sizes))
        self.cache.make_room()
        if self.damaged:
            for batch in batches:
                self.damaged.remove(batch.ledger_id, batch.entry_ids)
        return bases

    def fetch(self, resolved: Resolved) -> tuple[int, bytes]:
        """Return the number of entries read, and their bytes. Any thread.

        Raises:
            EntryUnreadableError: the first one cannot be read, or is in a damaged block and
                ``is_checked``.
            NoSuchLedgerError: the ledger was deleted since it was looked up.
        """
        try:
            sound = self.copies.sound_part(resolved) if resolved.is_checked else resolved
            return fetch(self.logs.read, sound)
        except EntryUnreadableError as error:
            if resolved.ledger_id in self.deleted:  # then its log may be gone
                raise NoSuchLedgerError(resolved.ledger_id) from error
            raise

    def is_gone(self, resolved: Resolved) -> bool:
        """Return whether the log of the first of these entries no longer exists. Any thread.

        Compaction has moved them, and the index knows where; or a disk has lost the log.
        """
        return not self.logs.exists(resolved.locations[0])

    def is_as_written(self, resolved: Resolved, entry: bytes) -> bool:
        """Return whether an entry is what was stored, by its digest or its block's checksum."""
        has_digest = has_plain_digest(entry)
        if has_digest is not None:
            return has_digest
        return self.copies.sound_until(resolved.locations[0]) != 0

    # ------------------------------------------------------------------ checkpoint

    def begin_flush(self, positions: tuple[JournalPosition, ...]) -> DirectoryFlush:
        """Return a flush of everything added up to now, and the mark that it allows.

        Raises:
            NoSpaceError: a flush that was begun to make room still cannot end.
            StorageFailedError: anything failed before.
        """
        flush = self.cache.begin_flush()
        logs_at = self.logs.begin_mark()
        mark = LogMark(
            positions,
            logs_at.last_log_id,
            has_census=True,
            entry_log_size=logs_at.last_log_size,
        )
        return DirectoryFlush(mark, flush, self.last_mark, self.census, self.logs, logs_at)
