"""A disk that is full at any byte, or at any operation: what was promised stays, and reads go on.

Each run drives storage as the actors do: an add that finds no space is refused, a journal group
that finds none waits, a checkpoint that finds none is tried again. Then the disk is given space
again, or the power is lost.
"""

import copy
import errno
from collections.abc import Callable, Hashable
from contextlib import suppress
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import BOOKIE_ID, KEY, read_all
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import NoSpaceError, StorageFailedError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.journal.record import (
    EntriesRecord,
    FenceRecord,
    JournalRecord,
    LedgerKeyRecord,
)
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.storage.replay import add_batches

pytestmark = pytest.mark.usefixtures("same_nonce")

RESERVE_SIZE = 30_000
LEDGERS = (1, 2, 3)


class Run:
    """Storage on a disk that may be full, and what it has promised."""

    def __init__(self, disk: SimulatedDisk, *, ledger_cache_size: int = 1 << 20) -> None:
        self.disk = disk
        self._ledger_cache_size = ledger_cache_size
        self.no_space_paths: list[str] = []
        self.promised: dict[int, dict[int, EntryBatch]] = {}
        self.fenced: set[int] = set()
        self.refused_count = 0
        self._unwritten: list[tuple[list[JournalRecord], Callable[[], None]]] = []
        self._known: set[int] = set()
        self.storage = self._new_storage()

    def _new_storage(self) -> BookieStorage:
        return BookieStorage(
            self.disk,
            journal_dir="/j",
            ledger_dir="/l",
            bookie_id=BOOKIE_ID,
            on_no_space=self.no_space_paths.append,
            limits=StorageLimits(
                segment_size=SEGMENT_HEADER_SIZE + 4096,
                log_size_max=6_000,
                ledger_cache_size=self._ledger_cache_size,
                open_files_max=4,
                reserve_size=RESERVE_SIZE,
            ),
        )

    def open(self) -> None:
        """Start, as a bookie does: with the reserve where that is needed."""
        for path in ("/j", "/l"):
            self.disk.make_dirs(path)
        self.storage.make_reserves()
        before: Hashable = None
        for attempt in range(4):
            try:
                self.storage.open()
            except NoSpaceError:
                if attempt == 3:
                    raise
                self.disk.process_crash()
                after = self.disk.state()
                if after == before:
                    raise  # without a reserve it left the disk as it was: so would the next one
                before = after
                self.storage = self._new_storage()
            else:
                return

    def on(self, disk: SimulatedDisk) -> "Run":
        """Return the same promises on a copy of the disk, not started yet."""
        other = Run(disk, ledger_cache_size=self._ledger_cache_size)
        other.promised = {ledger_id: dict(own) for ledger_id, own in self.promised.items()}
        other.fenced, other._known = set(self.fenced), set(self._known)
        return other

    def state(self) -> Hashable:
        """Return what a start after a crash and a check depend on."""
        promised = frozenset(
            (ledger_id, first, batch.body)
            for ledger_id, own in self.promised.items()
            for first, batch in own.items()
        )
        limits = (self.disk.capacity, self._ledger_cache_size)
        return self.disk.state(), limits, promised, frozenset(self.fenced)

    def restart_and_check(self, passed: set[Hashable]) -> None:
        """Start on what the crash has left: all is there. Done once for what is left alike."""
        state = self.state()
        if state not in passed:
            self.restart()
            self.check()
            passed.add(state)

    def restart(self) -> None:
        """Start again on what the crash has left."""
        self._unwritten = []
        self.storage = self._new_storage()
        self.open()

    def add(self, ledger_id: int, first: int, count: int = 3) -> None:
        batch = batch_of(ledger_id, range(first, first + count), 200)
        records = self._records_of_new(ledger_id)
        try:
            add_batches(self.storage.homes, [batch])
        except NoSpaceError:
            self.refused_count += 1
            assert self.storage.homes.ledger(ledger_id).resolve(batch.entry_ids, 1) is None
            self._unwritten.append((records, lambda: None))
        else:
            promised = self.promised.setdefault(ledger_id, {})
            records.append(EntriesRecord(batch))
            self._unwritten.append((records, lambda: promised.__setitem__(first, batch)))
        self.write()

    def fence(self, ledger_id: int) -> None:
        records = self._records_of_new(ledger_id)
        self.storage.homes.ledger(ledger_id).index.set_fenced()
        self._unwritten.append(
            ([*records, FenceRecord(ledger_id)], lambda: self.fenced.add(ledger_id))
        )
        self.write()

    def write(self) -> None:
        """Write what waits, in order, and sync it: then it is promised."""
        for _ in range(2):  # the first failure releases the reserve
            with suppress(NoSpaceError):
                while self._unwritten:
                    records, promise = self._unwritten[0]
                    if records:
                        self.storage.journal.append(records)
                        self.storage.journal.sync()
                    promise()
                    self._unwritten.pop(0)
                if self.storage.has_reserve:
                    self.storage.journal.note_synced()
                return

    def checkpoint(self) -> None:
        with suppress(NoSpaceError):
            checkpoint = self.storage.open_checkpoint or self.storage.begin_checkpoint()
            checkpoint.run()
            self.storage.end_checkpoint(checkpoint)

    def check(self) -> None:
        for ledger_id, batches in self.promised.items():
            for batch in batches.values():
                assert read_all(self.storage, ledger_id, batch.entry_ids) == batch.body
        for ledger_id in self.fenced:
            info = self.storage.homes.info(ledger_id)
            assert info is not None
            assert info.is_fenced, "a fence is for ever"

    def _records_of_new(self, ledger_id: int) -> list[JournalRecord]:
        if ledger_id in self._known:
            return []
        self._known.add(ledger_id)
        self.storage.homes.place(ledger_id).home.cache.set_ledger_key(
            ledger_id, KEY, LedgerType.PD_JOURNAL
        )
        return [LedgerKeyRecord(ledger_id, KEY, LedgerType.PD_JOURNAL)]


def story(run: Run) -> None:
    """Do everything that writes: adds over several logs and segments, fences, checkpoints."""
    for n in range(6):
        for ledger_id in LEDGERS:
            run.add(ledger_id, 3 * n)
        if n % 2:
            run.checkpoint()
        run.fence(10 + n)
    run.fence(LEDGERS[0])
    run.check()


def start(disk: SimulatedDisk, *, ledger_cache_size: int = 1 << 20) -> Run:
    run = Run(disk, ledger_cache_size=ledger_cache_size)
    run.open()
    run.add(LEDGERS[0], 1_000)
    run.checkpoint()
    return run


def sizes() -> range:
    """Return how many bytes fit onto the disk, from nearly none to enough for all of the story."""
    disk = SimulatedDisk()
    run = start(disk)
    before = disk.used_size
    story(run)
    for _ in range(3):
        run.checkpoint()
    return range(0, disk.used_size - before + 3_000, 331)


@pytest.mark.parametrize("size", sizes())
def test_whatever_byte_is_the_last_one_nothing_promised_is_lost(
    size: int, passed: set[Hashable]
) -> None:
    full = SimulatedDisk()
    run = start(full)
    full.capacity = full.used_size + size

    story(run)
    for seed in range(2):
        disk = copy.deepcopy(full).crash(Random(seed))
        again = run.on(disk)
        with suppress(NoSpaceError):  # replay may need more than there is, and says so
            again.restart()
            again.check()
            again.fence(99)
        disk.crash(Random(seed))
        disk.capacity = None
        again.restart_and_check(passed)


@pytest.mark.parametrize("size", sizes())
def test_when_there_is_space_again_everything_goes_on(size: int, passed: set[Hashable]) -> None:
    disk = SimulatedDisk()
    run = start(disk, ledger_cache_size=1)
    disk.capacity = disk.used_size + size
    story(run)
    is_full = bool(run.no_space_paths)
    assert run.storage.has_reserve is not is_full

    disk.capacity = None
    assert run.storage.make_reserves()
    run.write()
    run.refused_count = 0
    for ledger_id in LEDGERS:
        run.add(ledger_id, 100)
    for _ in range(2):
        run.checkpoint()
    run.check()
    assert not run.refused_count
    assert {1, *range(10, 16)} <= run.fenced
    assert run.storage.open_checkpoint is None
    assert run.storage.last_mark == (run.storage.journal.position,)

    disk.crash(Random(1))
    run.restart_and_check(passed)


@pytest.mark.parametrize("operation", ["pwrite", "allocate", "create", "rename", "remove"])
def test_whatever_operation_finds_no_space_nothing_promised_is_lost(
    operation: str, passed: set[Hashable]
) -> None:
    is_met, k = True, 0
    while is_met:
        disk = SimulatedDisk()
        run = start(disk)
        disk.capacity = disk.used_size + 400_000  # room for all, but not for many spares
        disk.faults = [Fault(operation, errno.ENOSPC, skip_count=k)]
        story(run)
        assert not run.no_space_paths or not disk.faults, "there is room otherwise"
        is_met, k = not disk.faults, k + 1
        assert run.no_space_paths or not is_met

        disk.crash(Random(k))
        run.restart_and_check(passed)
    assert k > 3


@pytest.mark.parametrize("operation", ["sync", "sync_dir"])
def test_an_fsync_that_finds_no_space_is_never_tried_again(
    operation: str, passed: set[Hashable]
) -> None:
    is_met, k = True, 0
    while is_met:
        disk = SimulatedDisk()
        run = start(disk)
        disk.faults = [Fault(operation, errno.ENOSPC, skip_count=k)]
        error = None
        try:
            story(run)
        except StorageFailedError as failure:
            error = failure
            with pytest.raises(StorageFailedError):
                run.storage.journal.sync()
        assert not isinstance(error, NoSpaceError)
        is_met, k = not disk.faults, k + 1

        disk.crash(Random(k))
        run.restart_and_check(passed)
    assert k > 3


def test_fences_find_room_when_nothing_else_does(passed: set[Hashable]) -> None:
    """B8: on a full disk, from the reserve."""
    disk = SimulatedDisk()
    run = start(disk)
    disk.capacity = disk.used_size
    n = 0
    while not run.refused_count:
        run.add(LEDGERS[1], 3 * n)
        n += 1
    for ledger_id in range(100, 130):
        run.fence(ledger_id)

    assert set(range(100, 130)) <= run.fenced
    disk.crash(Random(1))
    run.restart_and_check(passed)
