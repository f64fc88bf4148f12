"""All that a bookie keeps on disk, behind one door: journal, entry logs, index, last log mark.

    journal_dir/  0000000000000001.journal ...   zbk.storage.journal_segment
    ledger_dir/   last_mark                      zbk.storage.last_mark
                  index.flush                    zbk.storage.flush_file
                  deleted_ledgers                zbk.storage.deleted_ledgers
                  index/00/01/000...0100.idx     zbk.storage.index_file
                  logs/00000001.log ...          zbk.storage.entry_log_format

Order of an add, as in the seed: ``add`` (entry log, index), then the journal, then the answer.
The caller journals what it adds, and each change of a ledger that it notes here: what the index
holds in memory is on stable storage only after the journal's sync or a checkpoint.

A full disk: a write that finds no space releases the reserve of its directory, tells
``on_no_space``, and raises ``NoSpaceError``. What was promised stays promised, and what failed may
be tried again: an append to the journal, a step of a checkpoint; an ``add`` has changed nothing.
What the index holds in memory waits there for the next checkpoint.

Threads: everything belongs to one thread, the owner, but
    ``fetch``, ``is_deleted``            any thread
    ``garbage``                          as ``Garbage`` says
    ``journal``                          as ``Journal`` says
    the steps of a ``Checkpoint``        any thread; its begin and end belong to the owner
    ``last_mark``, ``ledger_count``,
    ``is_checkpoint_due`` and all of
    the reserves                         any thread

Source: the seed, sections Data management and Data flush; BookKeeper's ``BookieImpl`` and
``InterleavedLedgerStorage``.
"""

from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from zbk.errors import (
    CorruptRecordError,
    EntryUnreadableError,
    NoSpaceError,
    NoSuchLedgerError,
    StorageFailedError,
)
from zbk.protocol.entry_batch import EntryBatch
from zbk.protocol.words import LedgerType
from zbk.storage.checkpoint import Checkpoint
from zbk.storage.deleted_ledgers import DeletedLedgers
from zbk.storage.disk_reserve import DiskReserve
from zbk.storage.entry_log import LOG_SIZE, EntryLogs
from zbk.storage.entry_reader import Resolved, fetch
from zbk.storage.fail_stop import FailStop
from zbk.storage.garbage import Garbage
from zbk.storage.journal import SEGMENT_SIZE, SMALL_SEGMENT_SIZE, Journal
from zbk.storage.journal_replay import replay
from zbk.storage.journal_segment import (
    NO_POSITION,
    SEGMENT_HEADER_SIZE,
    JournalPosition,
)
from zbk.storage.last_mark import LastMark, LogMark
from zbk.storage.ledger_cache import LEDGER_COUNT_MAX, MEMORY_SIZE, LedgerCache
from zbk.storage.ledger_info import LedgerInfo
from zbk.storage.location import ABSENT, entry_locations
from zbk.storage.open_files import OPEN_FILES_MAX, OpenFiles
from zbk.storage.page_slots import find_absent, page_runs
from zbk.storage.recovery import Presence, Replayer
from zbk.storage.unfinished import check_finished, check_whole
from zbk.system.files import FileSystem

_NO_LIMIT: Final = 1 << 62


class Recovery(msgspec.Struct, frozen=True):
    """What ``open`` found and did."""

    record_count: int  # journal records replayed
    entry_count: int  # of these, entries that had to be stored again
    orphan_count: int  # records of ledgers that were deleted
    cut_record_count: int  # whole records of the journal's torn tail, none of them ever promised
    index_file_count: int  # index files that a crash in the middle of a flush had left half done


class BookieStorage:
    """Storage of one bookie. ``open`` comes first, ``close`` last."""

    def __init__(
        self,
        files: FileSystem,
        *,
        journal_dir: str,
        ledger_dir: str,
        bookie_id: str,
        segment_size: int = SEGMENT_SIZE,
        log_size_max: int = LOG_SIZE,
        ledger_cache_size: int = MEMORY_SIZE,
        open_files_max: int = OPEN_FILES_MAX,
        ledger_count_max: int = LEDGER_COUNT_MAX,
        reserve_size: int = 0,
        on_no_space: Callable[[str], None] = lambda _path: None,
    ) -> None:
        self._files = files
        self._journal_dir = journal_dir
        self._ledger_dir = ledger_dir
        self._on_no_space = on_no_space
        self.reserves = [DiskReserve(files, d, reserve_size) for d in (journal_dir, ledger_dir)]
        self._owner = bookie_id.encode()
        self._segment_size = segment_size
        self._fail_stop = FailStop(self._met_no_space)
        self._open_files = OpenFiles(files, open_files_max)
        self._last_mark = LastMark(files, ledger_dir, self._fail_stop)
        self._logs = EntryLogs(
            files,
            f"{ledger_dir}/logs",
            owner=self._owner,
            open_files=self._open_files,
            fail_stop=self._fail_stop,
            log_size_max=log_size_max,
        )
        self._cache = LedgerCache(
            files,
            ledger_dir,
            begin_log_sync=self._logs.begin_sync,
            open_files=self._open_files,
            fail_stop=self._fail_stop,
            memory_size_max=ledger_cache_size,
            ledger_count_max=ledger_count_max,
        )
        self._deleted = DeletedLedgers(
            files, ledger_dir, owner=self._owner, fail_stop=self._fail_stop
        )
        self.garbage = Garbage(
            files,
            ledger_dir,
            owner=self._owner,
            deleted=self._deleted,
            cache=self._cache,
            logs=self._logs,
            last_mark=self._last_mark,
        )
        self._journal: Journal | None = None
        self._checkpoint: Checkpoint | None = None

    def open(self) -> Recovery:
        """Bring the disk to a state that can be served from: finish, replay, checkpoint.

        When this returns, all that was replayed is on stable storage, outside of the old journal;
        but on a full disk it may be in the old journal, too, and ``open_checkpoint`` is there.

        Raises:
            CorruptJournalError: promised records are damaged; nothing was changed.
            CorruptRecordError: the mark, the deleted ledgers, or an index that records belong to,
                is damaged.
            CookieMismatchError: the files are another bookie's.
            NoSpaceError: there is no room for what it takes; the reserves were released.
            StorageFailedError: reading or writing failed.
        """
        try:
            return self._open()
        except OSError as error:
            raise self._fail_stop.failed(self._ledger_dir, "open", error) from error

    def close(self) -> None:
        """Sync the journal and give the files back; no other thread may be at work.

        Raises:
            StorageFailedError: an fsync failed.
        """
        try:
            if self._journal is not None:
                self._journal.close()
        finally:
            self._logs.close()
            self._open_files.close()

    @property
    def journal(self) -> Journal:
        """The journal; there is one once storage is open."""
        assert self._journal is not None, "open comes first"
        return self._journal

    @property
    def last_mark(self) -> JournalPosition:
        """Where a replay would begin."""
        mark = self._last_mark.mark
        return NO_POSITION if mark is None else mark.position

    # ------------------------------------------------------------------ a full disk

    @property
    def has_reserve(self) -> bool:
        """False while what was held back for a full disk is being used."""
        return all(reserve.is_held for reserve in self.reserves)

    @property
    def journal_room_size(self) -> int:
        """Bytes of records for which the journal has room, or finds it when it looks."""
        segment_count = self._files.free_size(self._journal_dir) // SMALL_SEGMENT_SIZE
        new_size = segment_count * (SMALL_SEGMENT_SIZE - SEGMENT_HEADER_SIZE)
        return self.journal.room_size + new_size

    @property
    def has_index_room(self) -> bool:
        """False while so much of the index waits for space that nothing should be added to it."""
        return self._cache.has_room

    def make_reserves(self) -> bool:
        """Hold back space for a full disk; tell whether there was enough.

        Raises:
            StorageFailedError: it failed for another reason.
        """
        for reserve in self.reserves:
            try:
                if not reserve.make():
                    return False
            except OSError as error:
                raise self._fail_stop.failed(reserve.directory, "reserve", error) from error
        return True

    def out_of_space(self, path: str, error: OSError) -> StorageFailedError:
        """Note that somebody else found no space in one of the directories; return the error."""
        return self._fail_stop.failed(path, "write", error)

    # ------------------------------------------------------------------ ledgers

    @property
    def ledger_count(self) -> int:
        """How many ledgers the bookie has."""
        return self._cache.ledger_count

    def ledgers(self) -> list[int]:
        """Return the ids of all ledgers, ascending. Walks directories."""
        return self._cache.ledgers()

    def ledger_info(self, ledger_id: int) -> LedgerInfo | None:
        """Return what is known of a ledger; ``None`` if the bookie does not have it.

        Raises:
            CorruptRecordError: its index is damaged: neither yes nor no.
        """
        return self._cache.info(ledger_id)

    def set_ledger_key(self, ledger_id: int, ledger_key: bytes, ledger_type: LedgerType) -> None:
        """Take in a ledger, before its first entry. To be journaled as ``LedgerKeyRecord``."""
        self._cache.set_ledger_key(ledger_id, ledger_key, ledger_type)

    def set_fenced(self, ledger_id: int) -> None:
        """Note that a ledger is fenced, for ever. To be journaled as ``FenceRecord``."""
        self._cache.set_fenced(ledger_id)

    def set_explicit_lac(self, ledger_id: int, lac: int) -> None:
        """Note a LAC, unless a higher one is known. To be journaled as ``ExplicitLacRecord``."""
        self._cache.set_explicit_lac(ledger_id, lac)

    def set_last_add_synced(self, ledger_id: int, last_add_synced: int) -> None:
        """Keep how far a sync cursor came, so that a restart need not look below. Not journaled.

        Everything up to there has to be on stable storage already, or confirmed by the ensemble.
        """
        self._cache.set_last_add_synced(ledger_id, last_add_synced)

    def is_deleted(self, ledger_id: int) -> bool:
        """Tell whether a ledger was deleted from the cluster, and is taken in no more."""
        return ledger_id in self._deleted

    def delete_ledger(self, ledger_id: int) -> None:
        """Forget a ledger, durably. Its entries stay in the entry logs until these go.

        It may be taken in again, as by a replay of the journal: ``garbage`` says how not.
        """
        self._cache.delete(ledger_id)

    def last_entry_id(self, ledger_id: int) -> int:
        """Return the highest id that is here of a ledger that is; -1 is none.

        Raises:
            CorruptRecordError: its index is damaged.
        """
        return self._cache.last_entry_id(ledger_id)

    def contiguous_until(self, ledger_id: int, from_id: int) -> int:
        """Return the last id of the unbroken run of entries behind ``from_id``; or ``from_id``."""
        return self._cache.contiguous_until(ledger_id, from_id)

    def held_ranges(
        self, ledger_id: int, first_entry_id: int, *, range_count_max: int, entry_count_max: int
    ) -> tuple[list[tuple[int, int]], int | None]:
        """Return first and last ids of the runs held from ``first_entry_id`` on, ascending.

        Second: where to go on when a limit was reached, else ``None``. A run may be cut in two by
        a limit.
        """
        ranges: list[tuple[int, int]] = []
        held_count = 0
        first = self._cache.next_entry_id(ledger_id, first_entry_id)
        while first is not None:
            if len(ranges) >= range_count_max or held_count >= entry_count_max:
                return ranges, first
            last = self._cache.contiguous_until(ledger_id, first - 1)
            ranges.append((first, last))
            held_count += last - first + 1
            first = self._cache.next_entry_id(ledger_id, last + 1)
        return ranges, None

    # ------------------------------------------------------------------ entries

    def prepare(self, batch: EntryBatch) -> None:
        """Read what ``add`` will need: damage then fails this batch, and not those beside it.

        Raises:
            NoSuchLedgerError: ``set_ledger_key`` comes first.
            CorruptRecordError: the index is damaged where the batch belongs.
        """
        self._cache.prepare(batch.ledger_id, batch.entry_ids)

    def add(self, batches: Sequence[EntryBatch]) -> None:
        """Append batches to the entry log and set their locations. None of the entries is here.

        Raises:
            NoSuchLedgerError, CorruptRecordError: as ``prepare``; nothing was written.
            NoSpaceError: none of them is there.
            StorageFailedError: writing failed, or anything failed before.
        """
        for batch in batches:
            self._cache.prepare(batch.ledger_id, batch.entry_ids)
        bases = self._logs.append(batches)
        for batch, base in zip(batches, bases, strict=True):
            locations = entry_locations(base, batch.sizes)
            self._cache.put(batch.ledger_id, batch.entry_ids, locations)
        self._cache.make_room()

    def presence(self, batch: EntryBatch) -> Presence:
        """Tell what the bookie has of a batch. Cheap when all ids are new.

        Raises:
            NoSuchLedgerError: ``set_ledger_key`` comes first.
            CorruptRecordError: the index is damaged there.
            EntryUnreadableError: an entry is here and can not be compared.
        """
        if batch.first_entry_id > self._cache.last_entry_id(batch.ledger_id):
            return Presence.NONE
        locations = self._locations(batch.ledger_id, batch.entry_ids)
        present = [at for at, location in enumerate(locations) if location != ABSENT]
        if not present:
            return Presence.NONE
        here = batch if len(present) == batch.count else batch.select(present)
        known = array("Q", [locations[at] for at in present])
        resolved = Resolved(batch.ledger_id, here.entry_ids, known, _NO_LIMIT)
        count, body = self.fetch(resolved)
        if count < here.count:
            raise EntryUnreadableError(batch.ledger_id, here.entry_ids[count], "while comparing")
        if body != here.body:
            return Presence.OTHER
        return Presence.SAME if here is batch else Presence.PART

    def missing_part(self, batch: EntryBatch) -> EntryBatch:
        """Return the entries of a batch that are not here, of which there is at least one."""
        locations = self._locations(batch.ledger_id, batch.entry_ids)
        return batch.select([at for at, one in enumerate(locations) if one == ABSENT])

    def resolve(self, ledger_id: int, entry_ids: Sequence[int], size_max: int) -> Resolved | None:
        """Look up the first of these entries, ascending, up to one that is absent.

        ``None`` if the very first is absent: only that is a "no such entry".

        Raises:
            NoSuchLedgerError: the bookie does not have the ledger.
            EntryUnreadableError: the index is damaged there: neither yes nor no.
        """
        found: array[int] = array("Q")
        for _, low, high in page_runs(entry_ids):
            try:
                some = self._locations(ledger_id, entry_ids[low:high])
            except CorruptRecordError as error:
                if found:
                    break  # what is whole is answered; the rest is asked again
                raise EntryUnreadableError(ledger_id, entry_ids[low], str(error)) from error
            absent = find_absent(some)
            found += some[:absent]
            if absent is not None or _is_enough(found, size_max):
                break
        if not found:
            return None
        return Resolved(ledger_id, entry_ids[: len(found)], found, size_max)

    def fetch(self, resolved: Resolved) -> tuple[int, bytes]:
        """Return how many of the entries were read and their bytes. Any thread.

        Raises:
            EntryUnreadableError: the first one can not be read.
            NoSuchLedgerError: because the ledger was deleted since it was looked up.
        """
        try:
            return fetch(self._logs.read, resolved)
        except EntryUnreadableError as error:
            if resolved.ledger_id in self._deleted:  # then its log may be gone
                raise NoSuchLedgerError(resolved.ledger_id) from error
            raise

    # ------------------------------------------------------------------ checkpoint

    @property
    def is_checkpoint_due(self) -> bool:
        """True when so much of the index has changed that a flush should not wait."""
        return self._cache.is_flush_due

    def begin_checkpoint(self) -> Checkpoint:
        """Return a checkpoint of everything added up to now; its steps have still to be taken.

        Raises:
            NoSpaceError: a flush that was begun to make room can still not be ended.
            StorageFailedError: anything failed before.
        """
        assert self._checkpoint is None, "one checkpoint at a time"
        position = self.journal.position  # first: what is journaled later may not be in the flush
        flush = self._cache.begin_flush()
        mark = LogMark(position, self._logs.last_log_id)
        self._checkpoint = Checkpoint(mark, flush, self._last_mark, self.journal)
        return self._checkpoint

    @property
    def open_checkpoint(self) -> Checkpoint | None:
        """The checkpoint that was begun and not ended: after the start, one that found no space."""
        return self._checkpoint

    def end_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Note that all steps were taken."""
        assert self._checkpoint is checkpoint, "the checkpoint that was begun last"
        self._checkpoint = None
        self._cache.end_flush(checkpoint.flush)

    # ------------------------------------------------------------------ private

    def _open(self) -> Recovery:
        self._files.make_dirs(self._journal_dir)
        check_finished(self._files, self._ledger_dir)
        mark = self._last_mark.load()
        if mark is not None:
            check_whole(self._files, self._ledger_dir)
        self._logs.open(0 if mark is None else mark.entry_log_id)
        self._deleted.load()
        index_file_count = self._cache.open()
        self.garbage.finish()
        replayer = Replayer(self)
        result = replay(
            self._files,
            self._journal_dir,
            None if mark is None else mark.position,
            replayer.apply,
            owner=self._owner,
        )
        self._journal = Journal(
            self._files,
            self._journal_dir,
            owner=self._owner,
            start=result.end,
            fail_stop=self._fail_stop,
            segment_size=self._segment_size,
        )
        checkpoint = self.begin_checkpoint()
        with suppress(NoSpaceError):  # the journal has all of it, synced
            checkpoint.run()
            self.end_checkpoint(checkpoint)
        return Recovery(
            result.record_count,
            replayer.entry_count,
            replayer.orphan_count,
            result.cut_record_count,
            index_file_count,
        )

    def _met_no_space(self, path: str) -> None:
        for reserve in self.reserves:
            if reserve.holds(path):
                reserve.release()
        self._on_no_space(path)

    def _locations(self, ledger_id: int, entry_ids: Sequence[int]) -> "array[int]":
        if isinstance(entry_ids, range):
            return self._cache.locations(ledger_id, entry_ids[0], entry_ids[-1])
        return self._cache.scattered_locations(ledger_id, entry_ids)


def _is_enough(locations: "array[int]", size_max: int) -> bool:
    """Tell whether these fill an answer, or do not lie in a row: then the rest is asked again."""
    return bool(locations) and not 0 <= locations[-1] - locations[0] < size_max
