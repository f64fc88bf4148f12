"""All that a bookie keeps on disk, behind one door: journal, entry logs, index, last log mark.

    journal_dir/  0000000000000001.journal ...   zbk.storage.journal.segment
    ledger_dir/   last_mark, index, logs ...     zbk.storage.ledger_directory

There may be several of both. All records of a ledger go to the journal of one journal directory
(``zbk.storage.journal.journals``). A ledger lives in one of the ledger directories for ever
(``zbk.storage.ledger_homes``); one whose first record is replayed and that is nowhere yet may go
anywhere, and stays there.

Order of an add, as in the seed: ``add`` (entry log, index), then the journal, then the answer.
The caller journals what it adds, and each change of a ledger that it notes here: what the index
holds in memory is on stable storage only after the journal's sync or a checkpoint.

A full disk: a write that finds no space releases the reserve of its directory, tells
``on_no_space``, and raises ``NoSpaceError``. What was promised stays promised, and what failed may
be tried again: an append to the journal, a step of a checkpoint; an ``add`` has changed nothing.
What the index holds in memory waits there for the next checkpoint.

Threads: everything belongs to one thread, the owner, but
    ``fetch``, ``is_gone``,
    ``is_deleted``, ``avoid``            any thread
    ``garbages``                         as ``Garbage`` says
    ``limbo``                            as ``LimboFile`` says
    ``journals``                         as ``Journals`` says
    the steps of a ``Checkpoint``        any thread; its begin and end belong to the owner
    ``last_mark``, ``ledger_count``,
    ``is_checkpoint_due`` and all of
    the reserves                         any thread

Source: the seed, sections Data management and Data flush; BookKeeper's ``BookieImpl`` and
``InterleavedLedgerStorage``.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from zbk.errors import InvalidOptionError, NoSpaceError, StorageFailedError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.storage.checkpoint import Checkpoint
from zbk.storage.directory.disk_reserve import DiskReserve
from zbk.storage.directory.limbo import LimboFile
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.open_files import OPEN_FILES_MAX, OpenFiles
from zbk.storage.entry_logs.entry_log import LOG_SIZE
from zbk.storage.entry_logs.entry_reader import Resolved
from zbk.storage.gc.garbage import Garbage
from zbk.storage.index.index_file import LedgerIndex
from zbk.storage.index.ledger_cache import LEDGER_COUNT_MAX, MEMORY_SIZE
from zbk.storage.index.ledger_info import LedgerInfo
from zbk.storage.journal.journal import SEGMENT_SIZE, Journal
from zbk.storage.journal.journals import Journals
from zbk.storage.journal.segment import NO_POSITION, JournalPosition
from zbk.storage.ledger_directory import LedgerDirectory
from zbk.storage.ledger_homes import LedgerHomes
from zbk.storage.replay import Presence, Replayer
from zbk.storage.scrub.damaged_entries import DamagedEntryIds
from zbk.storage.scrub.scrub_view import ScrubView
from zbk.storage.tools.rebuild_sources import AskOthers, ask_nobody
from zbk.system.files import FileSystem

LEDGERS_AT_START_MAX: Final = 1_000
"""Index files that a start writes ahead of serving: of more the journal, synced, keeps what they
lack until the first checkpoint, which then goes on beside the requests."""


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
        journal_dir: str | Sequence[str],
        ledger_dir: str | Sequence[str],
        bookie_id: str,
        segment_size: int = SEGMENT_SIZE,
        log_size_max: int = LOG_SIZE,
        ledger_cache_size: int = MEMORY_SIZE,
        open_files_max: int = OPEN_FILES_MAX,
        ledger_count_max: int = LEDGER_COUNT_MAX,
        reserve_size: int = 0,
        on_no_space: Callable[[str], None] = lambda _path: None,
        out_of_service: Collection[str] = (),
    ) -> None:
        journal_dirs = (journal_dir,) if isinstance(journal_dir, str) else tuple(journal_dir)
        ledger_dirs = (ledger_dir,) if isinstance(ledger_dir, str) else tuple(ledger_dir)
        journals = {no: path for no, path in enumerate(journal_dirs) if path not in out_of_service}
        ledger_dirs = tuple(path for path in ledger_dirs if path not in out_of_service)
        self._journal_count = len(journal_dirs)
        self._files = files
        self._on_no_space = on_no_space
        self.reserves = [
            DiskReserve(files, path, reserve_size)
            for path in dict.fromkeys((*journals.values(), *ledger_dirs))
        ]
        self.owner = bookie_id.encode()  # what files say whose they are
        self._fail_stop = FailStop(self._met_no_space)
        self._open_files = OpenFiles(files, open_files_max)
        self._directories = [
            LedgerDirectory(
                files,
                path,
                number=number,
                owner=self.owner,
                open_files=self._open_files,
                fail_stop=self._fail_stop,
                log_size_max=log_size_max,
                memory_size_max=ledger_cache_size // len(ledger_dirs),
                ledger_count_max=max(1, ledger_count_max // len(ledger_dirs)),
            )
            for number, path in enumerate(ledger_dirs)
        ]
        self.directory_count = len(self._directories)
        self._homes = LedgerHomes(self._directories, self._journal_count)
        self._only = self._homes.only
        self.garbages: Sequence[Garbage] = [one.garbage for one in self._directories]
        self.scrubs: Sequence[ScrubView] = [one.scrub for one in self._directories]
        self.damaged = DamagedEntryIds()
        self.limbo = LimboFile(
            files, ledger_dirs[0], bookie_id=bookie_id, fail_stop=self._fail_stop
        )
        self.journals = Journals(
            files,
            journals,
            count=self._journal_count,
            owner=self.owner,
            fail_stop=self._fail_stop,
            segment_size=segment_size,
        )
        self._checkpoint: Checkpoint | None = None
        self._ask_others: AskOthers = ask_nobody

    def open(self, ask_others: AskOthers = ask_nobody) -> Recovery:
        """Bring the disk to a state that can be served from: finish, replay, checkpoint.

        ``ask_others`` tells the key of a ledger whose index is lost.

        When this returns, all that was replayed is on stable storage, outside of the old journal;
        but on a full disk, or when that takes more than ``LEDGERS_AT_START_MAX`` index files, it
        may be in the old journal, too, and ``open_checkpoint`` is there.

        Raises:
            CorruptJournalError: promised records are damaged; nothing was changed.
            CorruptRecordError: the mark, the deleted ledgers, or an index that records belong to,
                is damaged.
            CookieMismatchError: the files are another bookie's.
            BookieError: parts are missing, and it was not noted what may be lost with them.
            NoSpaceError: there is no room for what it takes; the reserves were released.
            StorageFailedError: reading or writing failed.
        """
        self._homes.avoid(())
        self._ask_others = ask_others
        self.journals.make_directories()
        with self._fail_stop.guard(self._directories[0].path, "open"):
            self.limbo.load()
        index_file_count = 0
        for one in self._directories:
            with self._fail_stop.guard(one.path, "open"):
                index_file_count += one.open(self._journal_count, self.limbo, ask_others)
            for number in range(self._journal_count):
                if number not in self.journals.numbers:
                    one.last_mark.forget(number)
        replayer = Replayer(self)
        results = self.journals.open(self._positions(), replayer.apply)
        replayer.finish()
        checkpoint = self.begin_checkpoint()
        if checkpoint.ledger_count <= LEDGERS_AT_START_MAX:
            with suppress(NoSpaceError):  # the journal has all of it, synced
                checkpoint.run()
                self.end_checkpoint(checkpoint)
        return Recovery(
            sum(one.record_count for one in results),
            replayer.entry_count,
            replayer.orphan_count,
            sum(one.cut_record_count for one in results),
            index_file_count,
        )

    def close(self) -> None:
        """Sync the journal and give the files back; no other thread may be at work.

        Raises:
            StorageFailedError: an fsync failed.
        """
        try:
            self.journals.close()
        finally:
            for one in self._directories:
                one.logs.close()
            self._open_files.close()

    @property
    def journal(self) -> Journal:
        """The journal of a bookie that has one; there is one once storage is open."""
        (journal,) = self.journals
        return journal

    @property
    def last_mark(self) -> tuple[JournalPosition, ...]:
        """Where a replay would begin in each journal that is in service."""
        positions = self._positions()
        return tuple(positions[number] for number in self.journals.numbers)

    # ------------------------------------------------------------------ a full disk

    @property
    def has_reserve(self) -> bool:
        """False while what was held back for a full disk is being used."""
        return all(reserve.is_held for reserve in self.reserves)

    def avoid(self, crowded: Collection[str]) -> None:
        """Place new ledgers in other ledger directories than these, if there are any."""
        self._homes.avoid(crowded)

    @property
    def has_index_room(self) -> bool:
        """False while so much of the index waits for space that nothing should be added to it."""
        return all(one.cache.has_room for one in self._directories)

    def make_reserves(self) -> bool:
        """Hold back space for a full disk; return whether there was enough.

        Raises:
            StorageFailedError: it failed for another reason.
        """
        for reserve in self.reserves:
            with self._fail_stop.guard(reserve.directory, "reserve"):
                if not reserve.make():
                    return False
        return True

    def release_reserve(self, path: str) -> None:
        """Give back what is held back in the directory of a path, if there is anything."""
        for reserve in self.reserves:
            if reserve.holds(path):
                reserve.release()

    def failed(self, path: str, error: OSError) -> StorageFailedError:
        """Note that somebody else could not write in one of the directories; return the error."""
        return self._fail_stop.failed(path, "write", error)

    # ------------------------------------------------------------------ ledgers

    @property
    def ledger_count(self) -> int:
        """How many ledgers the bookie has."""
        return sum(one.cache.ledger_count for one in self._directories)

    def ledgers(self) -> list[int]:
        """Return the ids of all ledgers, ascending. Walks directories."""
        return sorted(ledger_id for one in self._directories for ledger_id in one.cache.ledgers())

    def ledger_info(self, ledger_id: int) -> LedgerInfo | None:
        """Return what is known of a ledger; ``None`` if the bookie does not have it.

        Raises:
            CorruptRecordError: its index is damaged: neither yes nor no.
        """
        home = self._homes.find(ledger_id)
        return None if home is None else home.cache.info(ledger_id)

    def set_ledger_key(self, ledger_id: int, ledger_key: bytes, ledger_type: LedgerType) -> None:
        """Record a ledger, before its first entry. To be journaled as ``LedgerKeyRecord``."""
        home = self._homes.find(ledger_id) or self._homes.choose(ledger_id)
        home.cache.set_ledger_key(ledger_id, ledger_key, ledger_type)

    def take_in_lost(self, ledger_id: int) -> bool:
        """Record a ledger whose index was lost, as a replay has more of it; return whether it was.

        Raises:
            ZbkError: the metadata store does not tell its key.
        """
        if ledger_id not in self.limbo.lost_indexes or self.is_deleted(ledger_id):
            return False
        try:
            secret = self._ask_others(ledger_id)
        except InvalidOptionError:
            return False  # an old ledger: only its password tells the key
        if secret is not None:
            self.set_ledger_key(ledger_id, secret.ledger_key, secret.ledger_type)
        return secret is not None

    def set_fenced(self, ledger_id: int) -> None:
        """Note that a ledger is fenced, for ever. To be journaled as ``FenceRecord``."""
        self._homes.of(ledger_id).cache.set_fenced(ledger_id)

    def set_explicit_lac(self, ledger_id: int, lac: int) -> None:
        """Note a LAC, unless a higher one is known. To be journaled as ``ExplicitLacRecord``."""
        self._homes.of(ledger_id).cache.set_explicit_lac(ledger_id, lac)

    def set_last_add_synced(self, ledger_id: int, last_add_synced: int) -> None:
        """Keep how far a sync cursor came, so that a restart need not look below. Not journaled.

        Everything up to there has to be on stable storage already, or confirmed by the ensemble.
        """
        self._homes.of(ledger_id).cache.set_last_add_synced(ledger_id, last_add_synced)

    def is_deleted(self, ledger_id: int) -> bool:
        """Return whether a ledger was deleted from the cluster, and is taken in no more."""
        return any(ledger_id in one.deleted for one in self._directories)

    def delete_ledger(self, ledger_id: int) -> None:
        """Forget a ledger, durably. Its entries stay in the entry logs until these go.

        It may be taken in again, as by a replay of the journal: ``garbage`` says how not.
        """
        home = self._homes.forget(ledger_id)
        if home is not None:
            home.cache.delete(ledger_id)

    def mark_deleted(self, ledger_ids: Collection[int]) -> bool:
        """Refuse ledgers from now on, in no directory; false if no more can be remembered."""
        return all(one.mark(ledger_ids) for one in self.garbages)

    def last_entry_id(self, ledger_id: int) -> int:
        """Return the highest id that is here of a ledger that is; -1 is none.

        Raises:
            CorruptRecordError: its index is damaged.
        """
        return self._homes.of(ledger_id).cache.last_entry_id(ledger_id)

    def contiguous_until(self, ledger_id: int, from_id: int) -> int:
        """Return the last id of the unbroken run of entries behind ``from_id``; or ``from_id``."""
        return self._homes.of(ledger_id).cache.contiguous_until(ledger_id, from_id)

    def held_ranges(
        self, ledger_id: int, first_entry_id: int, *, range_count_max: int, entry_count_max: int
    ) -> tuple[list[tuple[int, int]], int | None]:
        """Return first and last ids of the runs held from ``first_entry_id`` on, ascending.

        Second: where to go on when a limit was reached, else ``None``. A run may be cut in two by
        a limit. What is known to be damaged is not held.
        """
        ranges, next_id = self._present_ranges(
            ledger_id, first_entry_id, range_count_max, entry_count_max
        )
        if ledger_id in self.damaged:
            ranges = self.damaged.held(ledger_id, ranges)
        if len(ranges) > range_count_max:
            return ranges[:range_count_max], ranges[range_count_max][0]
        return ranges, next_id

    def _present_ranges(
        self, ledger_id: int, first_entry_id: int, range_count_max: int, entry_count_max: int
    ) -> tuple[list[tuple[int, int]], int | None]:
        ranges: list[tuple[int, int]] = []
        held_count = 0
        cache = self._homes.of(ledger_id).cache
        first = cache.next_entry_id(ledger_id, first_entry_id)
        while first is not None:
            if len(ranges) >= range_count_max or held_count >= entry_count_max:
                return ranges, first
            last = cache.contiguous_until(ledger_id, first - 1)
            ranges.append((first, last))
            held_count += last - first + 1
            first = cache.next_entry_id(ledger_id, last + 1)
        return ranges, None

    # ------------------------------------------------------------------ entries

    def begin_turn(self) -> None:
        """Begin a turn of ``prepare`` and ``add``: nothing is prepared that is to be added."""
        for one in self._directories:
            one.begin_turn()

    def prepare(self, batch: EntryBatch, index: LedgerIndex | None = None) -> LedgerIndex:
        """Read what ``add`` will need: damage then fails this batch, and not those beside it.

        ``index``: what this returned for the ledger the last time, if anybody has kept it.

        Raises:
            NoSuchLedgerError: ``set_ledger_key`` comes first.
            CorruptRecordError: the index is damaged where the batch belongs.
            ScatteredLedgerError: the ledger has entries in too many places far from each other.
        """
        home = self._only or self._homes.of(batch.ledger_id)
        return home.cache.prepare(batch.ledger_id, batch.entry_ids, index, is_admission=True)

    @property
    def ledger_dirs(self) -> Sequence[str]:
        """The ledger directories in service."""
        return [one.path for one in self._directories]

    def directory_no(self, ledger_id: int) -> int:
        """Return the number of the ledger directory in which a ledger lives.

        Raises:
            NoSuchLedgerError: ``set_ledger_key`` comes first.
            CorruptRecordError: its index is damaged.
        """
        return self._homes.of(ledger_id).number

    def add(
        self, batches: Sequence[EntryBatch], indexes: Sequence[LedgerIndex] | None = None
    ) -> None:
        """Append batches to the entry log and set their locations. None of the entries is here.

        ``indexes``: what ``prepare`` returned for each, or for a batch that it is a part of, since
        ``begin_turn``.

        Raises:
            NoSuchLedgerError, CorruptRecordError: as ``prepare``; nothing was written.
            NoSpaceError: none of those is there that go to the ledger directory without space. To
                know of all at once, add those of each directory by themselves (``directory_no``).
            StorageFailedError: writing failed, or anything failed before.
        """
        if self._only is not None:
            self._only.add(batches, indexes)
        else:
            places_by_no: dict[int, list[int]] = {}
            for at, batch in enumerate(batches):
                places_by_no.setdefault(self.directory_no(batch.ledger_id), []).append(at)
            for number, places in places_by_no.items():
                self._directories[number].add(
                    [batches[at] for at in places],
                    None if indexes is None else [indexes[at] for at in places],
                )
        if self.damaged:
            for batch in batches:
                self.damaged.remove(batch.ledger_id, batch.entry_ids)

    def presence(self, batch: EntryBatch) -> Presence:
        """Return what the bookie has of a batch. Cheap when all ids are new.

        Raises:
            NoSuchLedgerError: ``set_ledger_key`` comes first.
            CorruptRecordError: the index is damaged there.
            EntryUnreadableError: an entry is here and cannot be compared.
        """
        return self._homes.of(batch.ledger_id).presence(batch)

    def missing_part(self, batch: EntryBatch) -> EntryBatch:
        """Return the entries of a batch that are not here, of which there is at least one."""
        return self._homes.of(batch.ledger_id).missing_part(batch)

    def part_to_mend(self, batch: EntryBatch) -> EntryBatch | None:
        """Return what of a recovery's batch is to be stored: what is absent, and what is damaged.

        ``None``: all of it is here, in copies that can be vouched for (``StoredCopies``).

        Raises:
            NoSuchLedgerError: ``set_ledger_key`` comes first.
            CorruptRecordError: the index is damaged there.
            DuplicateEntryError: an id is stored with other bytes, and these are not damaged.
        """
        part = self._homes.of(batch.ledger_id).part_to_mend(batch)
        if part is None and self.damaged:
            self.damaged.remove(batch.ledger_id, batch.entry_ids)
        return part

    def resolve(
        self,
        ledger_id: int,
        entry_ids: Sequence[int],
        size_max: int,
        index: LedgerIndex | None = None,
        *,
        is_checked: bool = False,
    ) -> Resolved | None:
        """Look up the first of these entries, ascending, up to one that is absent.

        ``None`` if the very first is absent: only that is a "no such entry". ``index``: what
        ``prepare`` returned for the ledger the last time, if it was kept. ``is_checked``: entries
        in damaged blocks are to be unreadable for ``fetch``.

        Raises:
            NoSuchLedgerError: the bookie does not have the ledger.
            EntryUnreadableError: the index is damaged there: neither yes nor no.
        """
        home = self._homes.of(ledger_id)
        return home.resolve(ledger_id, entry_ids, size_max, index, is_checked=is_checked)

    def fetch(self, resolved: Resolved) -> tuple[int, bytes]:
        """Return how many of the entries were read and their bytes. Any thread.

        Raises:
            EntryUnreadableError: the first one cannot be read, or vouched for where that is asked.
            NoSuchLedgerError: because the ledger was deleted since it was looked up.
        """
        return self._directories[resolved.directory_no].fetch(resolved)

    def is_gone(self, resolved: Resolved) -> bool:
        """Return whether the log of the first of these entries is not there any more. Any thread.

        Compaction has moved them, and the index knows where to; or a disk has lost the log.
        """
        directory = self._directories[resolved.directory_no]
        return not directory.logs.exists(resolved.locations[0])

    def is_as_written(self, resolved: Resolved, entry: bytes) -> bool:
        """Return whether an entry, just fetched, is what was stored, as far as is known here."""
        return self._directories[resolved.directory_no].is_as_written(resolved, entry)

    # ------------------------------------------------------------------ checkpoint

    @property
    def is_checkpoint_due(self) -> bool:
        """True when so much of the index has changed that a flush should not wait."""
        return any(one.cache.is_flush_due for one in self._directories)

    def sync_logs_ahead(self) -> None:
        """Write ahead much of what a checkpoint will sync. Any thread, one at a time.

        Raises:
            StorageFailedError: an fsync failed, or anything failed before.
        """
        for one in self._directories:
            one.logs.sync_ahead()

    def begin_checkpoint(self) -> Checkpoint:
        """Return a checkpoint of everything added up to now; its steps have still to be taken.

        Raises:
            NoSpaceError: a flush that was begun to make room can still not be ended.
            StorageFailedError: anything failed before.
        """
        assert self._checkpoint is None, "one checkpoint at a time"
        positions = self.journals.positions()  # first: what comes later may not be in the flush
        flushes = [one.begin_flush(positions) for one in self._directories]
        self._checkpoint = Checkpoint(flushes, self.journals.by_number)
        return self._checkpoint

    @property
    def open_checkpoint(self) -> Checkpoint | None:
        """The checkpoint that was begun and not ended: after the start, one that found no space."""
        return self._checkpoint

    def end_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Note that all steps were taken."""
        assert self._checkpoint is checkpoint, "the checkpoint that was begun last"
        self._checkpoint = None
        for one, flush in zip(self._directories, checkpoint.flushes, strict=True):
            one.cache.end_flush(flush.flush)

    # ------------------------------------------------------------------ private

    def _positions(self) -> tuple[JournalPosition, ...]:
        """Return where replay begins in each journal, by number: behind it all directories are."""
        marks = [one.last_mark.mark for one in self._directories]
        start = (NO_POSITION,) * self._journal_count
        known = [start if mark is None else mark.positions for mark in marks]
        return tuple(map(min, zip(*known, strict=True)))

    def _met_no_space(self, path: str) -> None:
        self.release_reserve(path)
        self._on_no_space(path)
