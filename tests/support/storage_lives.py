"""The life of a bookie's storage, in acts, driven as the actors drive it; and what it promised.

An *act* is a function of a ``Life``. ``ACTS`` in order meet every kind of call that storage makes
to the file system. Whatever fails on the way is taken as the actors take it:

    ``NoSpaceError``           the bookie is read-only: an add is refused, a journal group waits, a
                               checkpoint and a note are tried again
    damage, unreadable         this request fails, and no other
    ``StorageFailedError``     the bookie stops: the life is over

*Promised* is a PD entry, a fence or a LAC once the journal was synced, a VD entry once it was
written; of these a loss of power keeps what was synced.
"""

from collections.abc import Callable, Hashable
from contextlib import suppress

from tests.support.batches import batch_of, entries_in
from tests.support.bookie_storages import BOOKIE_ID, KEY, NO_LIMIT, read_all
from tests.support.compactions import Compactor
from tests.support.crash_points import copy_of
from tests.support.promises import Promise, Promises
from tests.support.simulated_disk import SimulatedDisk
from zbk.errors import (
    CorruptRecordError,
    EntryUnreadableError,
    NoSpaceError,
    NoSuchLedgerError,
)
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.journal.record import (
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
)
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.storage.replay import add_batches

ONE_PAGE = 9_000
RESERVE_SIZE = 20_000
ATTEMPT_COUNT_MAX = 3  # of what a full disk refused

PD, VD, DOOMED, STRIPED = 1, 2, 3, 4


class Life:
    """Storage, and what it has promised."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.attempted = Promises()
        self.written = Promises()
        self.synced = Promises()
        self.deleted: set[int] = set()  # begun: may be there or not
        self.gone: set[int] = set()  # noted: may not be there any more
        self.no_space_paths: list[str] = []
        self.refused_count = 0
        self.has_started = False
        self._waiting: list[tuple[list[JournalRecord], Promise]] = []
        self._known: set[int] = set()
        self.storage: BookieStorage  # since the start: many lives are not started

    # ------------------------------------------------------------------ start and stop

    def start(self) -> None:
        """Open storage, with the reserve where there is no space otherwise."""
        for path in ("/j", "/l"):
            self.disk.make_dirs(path)
        for _ in range(ATTEMPT_COUNT_MAX):
            self.storage = self._storage()
            if not self.storage.make_reserves():
                self.no_space_paths.append("reserve")
            with suppress(NoSpaceError):
                self.storage.open()
                self.has_started = True
                return
            self.disk.process_crash()  # the process ends, and somebody starts it again
        raise AssertionError("with the reserves a start succeeds")

    def stop(self) -> None:
        """Stop well."""
        self.write()
        self.storage.close()
        self.synced = self.written.copy()

    def state(self) -> Hashable:
        """Return what the next lives depend on."""
        promises = (self.attempted, self.written, self.synced)
        ids = (self.deleted, self.gone, self._known)
        return self.disk.state(), *(one.state() for one in promises), *map(frozenset, ids)

    def stopped(self) -> "Life":
        """Return what a crash leaves of this life: a copy of its disk, and of what it promised."""
        for promises in (self.attempted, self.written, self.synced):
            promises.state()  # computed once for all that comes of it
        return self.reborn(copy_of(self.disk), is_power_lost=False)

    def reborn(self, disk: SimulatedDisk, *, is_power_lost: bool) -> "Life":
        """Return the same life, not started yet, on a copy of its disk after a crash."""
        other = Life(disk)
        other.attempted = self.attempted.copy()
        other.synced, other.deleted = self.synced.copy(), set(self.deleted)
        other.written = (self.synced if is_power_lost else self.written).copy()
        other.gone, other._known = set(self.gone), set(self._known)
        return other

    def restart(self) -> None:
        """Start again on what is on the disk."""
        self._waiting = []
        self.has_started = False
        self.start()

    # ------------------------------------------------------------------ what clients ask for

    def add(
        self, ledger_id: int, first: int, count: int = 3, size: int = 40, step: int = 1
    ) -> None:
        """Store entries and journal them."""
        ids = range(first, first + count * step, step)
        batch = batch_of(ledger_id, ids if step == 1 else list(ids), size)
        entries = entries_in(batch)
        try:
            records = self._take_in(ledger_id)
            add_batches(self.storage.homes, [batch])
        except (NoSpaceError, CorruptRecordError):
            self.refused_count += 1
            return
        self._journal(
            [*records, EntriesRecord(batch)],
            lambda promises: promises.entries.setdefault(ledger_id, {}).update(entries),
        )

    def fence(self, ledger_id: int) -> None:
        """Fence a ledger."""
        try:
            records = self._take_in(ledger_id)
            self.storage.homes.ledger(ledger_id).index.set_fenced()
        except (NoSpaceError, CorruptRecordError):
            self.refused_count += 1
            return
        self._journal(
            [*records, FenceRecord(ledger_id)], lambda promises: promises.fenced.add(ledger_id)
        )

    def set_lac(self, ledger_id: int, lac: int) -> None:
        """Note a LAC."""
        try:
            records = self._take_in(ledger_id)
            self.storage.homes.ledger(ledger_id).index.set_explicit_lac(lac)
        except (NoSpaceError, CorruptRecordError):
            self.refused_count += 1
            return
        self._journal(
            [*records, ExplicitLacRecord(ledger_id, lac)],
            lambda promises: promises.lacs.__setitem__(ledger_id, lac),
        )

    def read(self, ledger_id: int) -> None:
        """Read a ledger; damage and failed reads are no answers."""
        for entry_id, entry in self.written.entries.get(ledger_id, {}).items():
            with suppress(EntryUnreadableError, CorruptRecordError):
                resolved = self.storage.homes.ledger(ledger_id).resolve([entry_id], NO_LIMIT)
                assert resolved is not None, f"ledger {ledger_id} has no entry {entry_id}"
                assert self.storage.home_of(resolved).fetch(resolved) == (1, entry)

    # ------------------------------------------------------------------ what the actors do

    def write(self) -> None:
        """Write what waits, in order, and sync it."""
        for _ in range(ATTEMPT_COUNT_MAX):
            with suppress(NoSpaceError):
                while self._waiting:
                    records, promise = self._waiting[0]
                    if records:
                        self.storage.journal.append(records)
                    self.written.keep(promise)
                    self._waiting.pop(0)
                self.storage.journal.sync()
                self.synced = self.written.copy()
                self.storage.journal.note_synced()
                self.storage.journal.prepare_next()
                return

    def checkpoint(self) -> None:
        """Take a checkpoint from its beginning to its end."""
        for _ in range(ATTEMPT_COUNT_MAX):
            with suppress(NoSpaceError):
                checkpoint = self.storage.open_checkpoint or self.storage.begin_checkpoint()
                checkpoint.run()
                self.storage.end_checkpoint(checkpoint)
                return

    def delete(self, ledger_id: int) -> None:
        """Collect a ledger, and the logs that held nothing else."""
        self.attempted.forget(ledger_id)
        for promises in (self.written, self.synced):
            promises.forget(ledger_id)
        self.deleted.add(ledger_id)
        assert self.storage.mark_deleted([ledger_id])
        for garbage in self.storage.garbages:
            if not any(garbage.deleted.write() for _ in range(ATTEMPT_COUNT_MAX)):
                return  # the disk is full: collecting waits
        self.gone.add(ledger_id)
        for garbage in self.storage.garbages:
            garbage.drop([ledger_id])
            for log_id in garbage.left_logs():
                garbage.remove_dead([log_id])

    # ------------------------------------------------------------------ what must be so

    def check(self) -> None:
        """Compare: what is promised is served, what was never written is not."""
        promised = self.written
        for ledger_id, entries in promised.entries.items():
            ids = sorted(entries)
            assert read_all(self.storage, ledger_id, ids) == b"".join(entries[i] for i in ids)
        for ledger_id in promised.fenced:
            info = self.storage.homes.info(ledger_id)
            assert info is not None, f"ledger {ledger_id} is gone"
            assert info.is_fenced, "a fence is for ever"
        for ledger_id, lac in promised.lacs.items():
            info = self.storage.homes.info(ledger_id)
            assert info is not None, f"ledger {ledger_id} is gone"
            assert info.explicit_lac >= lac
        self._check_nothing_else()

    def _check_nothing_else(self) -> None:
        for ledger_id in self.storage.ledgers():
            assert ledger_id not in self.gone, f"ledger {ledger_id} came back"
            if ledger_id in self.deleted:
                continue
            assert ledger_id in self._known, f"ledger {ledger_id} was never taken in"
            info = self.storage.homes.info(ledger_id)
            assert info is not None
            assert info.ledger_key == KEY
            assert not info.is_fenced or ledger_id in self.attempted.fenced
            assert info.explicit_lac <= self.attempted.lacs.get(ledger_id, NO_ENTRY)
            attempted = self.attempted.entries.get(ledger_id, {})
            assert info.last_entry_id in {NO_ENTRY, *attempted}
            promised = self.written.entries.get(ledger_id, {})  # ``check`` has read those
            for entry_id, entry in attempted.items() - promised.items():
                with suppress(NoSuchLedgerError):
                    resolved = self.storage.homes.ledger(ledger_id).resolve([entry_id], NO_LIMIT)
                    if resolved is not None:
                        assert self.storage.home_of(resolved).fetch(resolved) == (1, entry)

    # ------------------------------------------------------------------ private

    def _storage(self) -> BookieStorage:
        return BookieStorage(
            self.disk,
            journal_dir="/j",
            ledger_dir="/l",
            bookie_id=BOOKIE_ID,
            on_no_space=self.no_space_paths.append,
            limits=StorageLimits(
                segment_size=SEGMENT_HEADER_SIZE + 4096,
                log_size_max=3_000,
                ledger_cache_size=ONE_PAGE,
                open_files_max=3,
                reserve_size=RESERVE_SIZE,
            ),
        )

    def _take_in(self, ledger_id: int) -> list[JournalRecord]:
        if self.storage.homes.info(ledger_id) is not None:
            return []
        kind = LedgerType.VD_JOURNAL if ledger_id == VD else LedgerType.PD_JOURNAL
        self._known.add(ledger_id)
        self.storage.homes.place(ledger_id).home.cache.set_ledger_key(ledger_id, KEY, kind)
        record = LedgerKeyRecord(ledger_id, KEY, kind)
        self._waiting.append(([record], lambda _promises: None))
        return []

    def _journal(self, records: list[JournalRecord], promise: Promise) -> None:
        self.attempted.keep(promise)
        self._waiting.append((records, promise))
        self.write()


class Tried:
    """How lives ended that were tried. The next lives are the same after each that ended so."""

    def __init__(self) -> None:
        self._states: set[Hashable] = set()

    def is_new(self, life: Life) -> bool:
        """Return whether no life that was tried ended like this one, and note it."""
        count = len(self._states)
        self._states.add(life.state())
        return len(self._states) > count


Act = Callable[[Life], None]


def adds(life: Life) -> None:
    """Take in ledgers of all types, rows and stripes, and read back."""
    life.add(PD, 0)
    life.add(VD, 0)
    life.add(STRIPED, 0, step=2)
    life.add(DOOMED, 0, size=300)
    life.read(PD)


def fence_and_lac(life: Life) -> None:
    """Change what is known of ledgers."""
    life.fence(STRIPED)
    life.set_lac(PD, 1)


def checkpoint(life: Life) -> None:
    """Bring all of it to its place, and again through the flush file."""
    life.checkpoint()
    life.add(PD, 3)
    life.checkpoint()


def roll(life: Life) -> None:
    """Fill more than one entry log and more than one journal segment."""
    for n in range(4):
        life.add(PD, 10 + 3 * n, size=500)
        life.add(DOOMED, 10 + 3 * n, size=300)


def evict(life: Life) -> None:
    """Touch more pages than there is room for, in turn."""
    for page in range(3):
        for ledger_id in (PD, VD):
            life.add(ledger_id, 1024 * (page + 1), count=2)
    life.read(VD)


def delete_and_collect(life: Life) -> None:
    """Delete a ledger, and the logs with it."""
    life.checkpoint()
    life.delete(DOOMED)
    life.checkpoint()


def compact(life: Life) -> None:
    """Copy what is live out of logs that hold little else than dead entries, and remove them."""
    compactor = Compactor(life.storage)
    compactor.checkpoint = life.checkpoint
    compactor.major()
    if compactor.rounds.round_counts.gave_up:
        life.no_space_paths.append("compaction")  # it waits; the bookie goes on as it was
    life.read(PD)


def stop_and_start(life: Life) -> None:
    """Stop well, start again, and go on."""
    life.stop()
    life.restart()
    life.add(PD, 5_000)


ACTS: tuple[Act, ...] = (
    Life.start,
    adds,
    fence_and_lac,
    checkpoint,
    roll,
    evict,
    delete_and_collect,
    compact,
    stop_and_start,
)
