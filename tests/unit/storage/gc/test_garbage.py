"""What goes when ledgers are deleted: in the right order, for good, and nothing else."""

import errno
from collections.abc import Callable, Hashable, Iterator
from functools import cache
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY, TwinnedStorage, read_all, storage_on
from tests.support.crash_points import copy_of, left_by_crashes
from tests.support.scrubbing import BadDisk
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.errors import EntryUnreadableError, NoSuchLedgerError, StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.gc.garbage import LogSummary
from zbk.storage.journal.record import (
    EntriesRecord,
    ExplicitLacRecord,
    FenceRecord,
    LedgerKeyRecord,
)
from zbk.storage.replay import add_batches

LOG_SIZE = 4000


def opened(
    disk: SimulatedDisk, *, log_size_max: int = LOG_SIZE, ledger_cache_size: int = 1 << 20
) -> BookieStorage:
    storage = storage_on(disk, log_size_max=log_size_max, ledger_cache_size=ledger_cache_size)
    storage.open()
    return storage


def add(storage: BookieStorage, ledger_id: int, first: int = 0, count: int = 20) -> None:
    """Store and journal entries of 50 bytes of payload."""
    batch = batch_of(ledger_id, range(first, first + count), 50)
    storage.homes.place(ledger_id).home.cache.set_ledger_key(ledger_id, KEY, LedgerType.PD_JOURNAL)
    add_batches(storage.homes, [batch])
    storage.journal.append(
        [LedgerKeyRecord(ledger_id, KEY, LedgerType.PD_JOURNAL), EntriesRecord(batch)]
    )


def checkpoint(storage: BookieStorage) -> None:
    storage.journal.sync()
    under_way = storage.begin_checkpoint()
    under_way.run()
    storage.end_checkpoint(under_way)


def collect(storage: BookieStorage, *ledger_ids: int) -> list[int]:
    """Drop ledgers, and the logs that are dead then; return the ids of these."""
    garbage = storage.garbages[0]
    assert garbage.deleted.mark(ledger_ids)
    assert garbage.deleted.write()
    garbage.drop(ledger_ids)
    return [log_id for log_id in garbage.left_logs() if garbage.remove_dead([log_id])]


def logs_of(disk: SimulatedDisk) -> list[int]:
    return [int(path[-12:-4], 16) for path in disk.paths("/l/logs/")]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def test_the_logs_of_deleted_ledgers_go_and_the_others_stay(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    for ledger_id in (1, 2, 1, 3, 3, 4):
        add(storage, ledger_id, first=100 * len(logs_of(disk)), count=30)  # a log each
    checkpoint(storage)
    assert logs_of(disk) == [1, 2, 3, 4, 5, 6]

    assert collect(storage, 1) == [1, 3]
    assert logs_of(disk) == [2, 4, 5, 6]
    assert collect(storage, 3, 4) == [4, 5]  # 6 is being written

    assert storage.ledgers() == [2]
    assert read_all(storage, 2, range(100, 130)) == batch_of(2, range(100, 130), 50).body


def test_a_log_with_one_live_ledger_stays_and_its_dead_bytes_are_counted(
    disk: SimulatedDisk,
) -> None:
    storage = opened(disk)
    add(storage, 1, count=15)
    add(storage, 2, count=15)
    add(storage, 3, count=30)
    checkpoint(storage)

    assert collect(storage, 1) == []

    use = storage.garbages[0].uses.use_of(1)
    assert list(use.ledger_ids) == [1, 2]
    assert use.dead_size(storage.garbages[0].deleted.noted) == len(batch_of(1, range(15), 50).body)
    assert storage.garbages[0].live_ids(1) == [2]


def test_a_log_that_no_checkpoint_has_passed_stays(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    for ledger_id in (1, 2, 3):
        add(storage, ledger_id, count=30)
    assert collect(storage, 1, 2) == []
    assert storage.garbages[0].left_logs() == []

    add(storage, 3, first=100, count=30)
    checkpoint(storage)

    assert collect(storage) == [1, 2]


def test_a_ledger_that_is_not_noted_keeps_its_log_though_its_index_is_gone(
    disk: SimulatedDisk,
) -> None:
    storage = opened(disk)
    for ledger_id in (1, 2):
        add(storage, ledger_id, count=30)
    checkpoint(storage)
    storage.homes.ledger(1).home.cache.delete(1)

    assert collect(storage, 2) == []

    assert logs_of(disk) == [1, 2]
    garbage = storage.garbages[0]
    assert garbage.live_ids(1) == [1]  # to be asked for, too


@pytest.mark.parametrize("is_checkpointed", [False, True])
@pytest.mark.parametrize("is_power_lost", [False, True])
def test_a_deleted_ledger_does_not_come_back_from_the_journal(
    disk: SimulatedDisk, is_checkpointed: bool, is_power_lost: bool
) -> None:
    """B16: nor does its id lose the mark that it was deleted."""
    storage = opened(disk)
    add(storage, 1)
    add(storage, 2)
    if is_checkpointed:
        checkpoint(storage)
    storage.journal.append([FenceRecord(1), ExplicitLacRecord(1, 5)])
    storage.journal.sync()
    collect(storage, 1)
    # a late writer's add was on its way to the journal
    storage.journal.append([EntriesRecord(batch_of(1, range(20, 30), 50))])
    storage.journal.sync()

    for seed in range(3):
        if is_power_lost:
            disk.crash(Random(seed))
        else:
            disk.process_crash()
        storage = opened(disk)
        assert storage.ledgers() == [2]
        assert storage.homes.info(1) is None
        assert storage.is_deleted(1)
        assert not storage.is_deleted(2)
        checkpoint(storage)


def test_a_read_on_its_way_says_no_such_ledger_and_not_that_the_disk_is_bad(
    disk: SimulatedDisk,
) -> None:
    storage = opened(disk)
    for ledger_id in (1, 2, 3):
        add(storage, ledger_id, count=30)
    checkpoint(storage)
    on_its_way = [
        storage.homes.ledger(ledger_id).resolve(range(30), 1 << 20) for ledger_id in (1, 2)
    ]
    assert all(on_its_way)
    assert storage.home_of(on_its_way[0]).fetch(on_its_way[0])[0] == 30  # type: ignore[arg-type]  # its log is open now

    assert collect(storage, 1) == [1]
    disk.remove_at_rest(disk.paths("/l/logs/")[0])  # of ledger 2, which nobody deleted

    with pytest.raises(NoSuchLedgerError):
        storage.home_of(on_its_way[0]).fetch(on_its_way[0])  # type: ignore[arg-type]
    with pytest.raises(EntryUnreadableError):
        storage.home_of(on_its_way[1]).fetch(on_its_way[1])  # type: ignore[arg-type]


def test_no_descriptor_of_a_removed_log_stays_open(disk: SimulatedDisk) -> None:
    storage = opened(disk, ledger_cache_size=1_000)  # of pages only the ends stay
    for ledger_id in range(1, 4):
        add(storage, ledger_id, count=30)
    checkpoint(storage)
    for ledger_id in (1, 2):
        storage.homes.ledger(ledger_id).resolve(range(30), 1 << 20)  # its index file is open
    open_count = disk.open_count
    for ledger_id in (1, 2):
        read_all(storage, ledger_id, range(30))
    assert disk.open_count == open_count + 2

    collect(storage, 1, 2)

    assert disk.open_count == open_count - 2, "index files are closed, too"


class _ReadsMeanwhile(SimulatedDisk):
    """A read opens a log at the moment at which it is removed."""

    meanwhile: Callable[[], object] | None = None

    def remove(self, path: str) -> None:
        if self.meanwhile is not None and path.endswith(".log"):
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        super().remove(path)


def test_a_read_that_opens_a_log_while_it_is_removed_keeps_no_descriptor() -> None:
    disk = _ReadsMeanwhile()
    storage = opened(disk, ledger_cache_size=1_000)
    for ledger_id in (1, 2):
        add(storage, ledger_id, count=30)
    checkpoint(storage)
    resolved = storage.homes.ledger(1).resolve(range(30), 1 << 20)
    assert resolved is not None
    open_count = disk.open_count
    disk.meanwhile = lambda: storage.home_of(resolved).fetch(resolved)

    assert collect(storage, 1) == [1]

    assert disk.open_count == open_count - 1, "its index file is closed"


def test_a_full_disk_keeps_everything_until_there_is_space(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    for ledger_id in (1, 2):
        add(storage, ledger_id, count=30)
    checkpoint(storage)
    storage.garbages[0].deleted.mark([1])
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part="deleted_ledgers")]

    assert not storage.garbages[0].deleted.write()
    assert not storage.garbages[0].remove_dead([1])

    assert storage.is_deleted(1)
    assert collect(storage, 1) == [1]


def test_a_log_that_cannot_be_removed_stops_the_bookie(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    for ledger_id in (1, 2):
        add(storage, ledger_id, count=30)
    checkpoint(storage)
    disk.faults = [Fault("remove", errno.EIO, path_part=".log")]

    with pytest.raises(StorageFailedError):
        collect(storage, 1)


# ------------------------------------------------------------------ damaged logs


def _three_ledgers_in_two_logs() -> SimulatedDisk:
    disk = SimulatedDisk()
    storage = opened(disk, log_size_max=700)
    add(storage, 1, count=2)
    add(storage, 2, count=2)
    add(storage, 3, count=5)
    checkpoint(storage)
    assert logs_of(disk) == [1, 2]
    return disk


@pytest.mark.parametrize("is_sealed", [True, False])
def test_whatever_byte_of_a_log_is_damaged_a_live_ledger_keeps_it(is_sealed: bool) -> None:
    """B33: in header, blocks, map and footer; and cut off anywhere."""
    disk = _three_ledgers_in_two_logs()
    path = disk.paths("/l/logs/")[0]
    whole = disk.content(path)
    if not is_sealed:
        whole = whole[: -(16 * 2 + 40)]
    storage = opened(disk)
    damaged = [bytes([*whole[:at], whole[at] ^ 0xFF, *whole[at + 1 :]]) for at in range(len(whole))]
    for content in [*damaged, *(whole[:size] for size in range(0, len(whole), 7))]:
        disk.set_content(path, content)
        storage = opened(disk.process_crash())

        assert collect(storage, 1, 3) == []  # 2 lives; 3 is in the log of before the start

        assert path in disk.paths("/l/logs/")
        disk.remove_at_rest("/l/deleted_ledgers")
        disk.remove_at_rest("/l/census")  # it would miss what was deleted


def test_a_log_without_a_map_is_scanned_and_goes_when_it_is_dead(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    add(storage, 1, count=3)
    checkpoint(storage)
    disk.process_crash()  # log 1 is never sealed
    storage = opened(disk)
    add(storage, 2, count=3)
    checkpoint(storage)

    assert collect(storage) == []
    assert collect(storage, 1) == [1]


def test_logs_that_cannot_be_listed_are_not_counted() -> None:
    disk = BadDisk()
    storage = opened(disk)
    (garbage,) = storage.garbages
    add(storage, 1)
    assert garbage.log_count() > 0

    disk.unlistable = "/l/logs"

    assert garbage.log_count() == 0


def test_damage_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = _three_ledgers_in_two_logs()
    path = disk.paths("/l/logs/")[0]
    disk.set_content(path, disk.content(path)[:-1] + b"!")  # no map ...
    disk.flip_bit(path, 8 * 40)  # ... and no first block
    storage = opened(disk)

    for _ in range(3):
        assert collect(storage, 1, 2, 3) == []

    assert [record.message for record in caplog.records] == [
        f"{path} is damaged: it stays until a scrub shows that no entry is missing there"
    ]


@pytest.mark.parametrize("size", [0, 9, 31])
def test_a_stub_that_a_loss_of_power_left_is_no_damage_and_stays(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = _three_ledgers_in_two_logs()
    path = disk.paths("/l/logs/")[1]
    disk.set_content(path, disk.content(path)[:size])
    storage = opened(disk)

    assert collect(storage, 1, 2, 3) == [1]

    assert path in disk.paths("/l/logs/")
    (garbage,) = storage.garbages
    assert garbage.uses.use_of(2).is_stub
    assert garbage.summary_with(LogSummary(), 2).damaged_count == 0
    assert not garbage.compaction.is_compactable(2)
    assert caplog.records == []


# ------------------------------------------------------------------ crashes


def _story(storage: BookieStorage) -> Iterator[set[int]]:
    """Live; yield the ledgers that are dropped for good by then."""
    storage.open()
    for ledger_id in (1, 2, 3):
        add(storage, ledger_id, count=30)
    checkpoint(storage)
    add(storage, 4, count=30)
    add(storage, 1, first=30, count=30)
    storage.journal.sync()
    garbage = storage.garbages[0]
    under_way = storage.begin_checkpoint()  # a flush that has the ledgers in it
    under_way.sync_entry_logs()
    garbage.deleted.mark([1, 4])
    under_way.write_index()
    garbage.deleted.write()
    yield {1, 4}
    garbage.drop([1, 4])
    under_way.apply_index()
    under_way.write_census()
    under_way.write_mark()
    under_way.remove_journals()
    storage.end_checkpoint(under_way)
    for log_id in garbage.left_logs():
        garbage.remove_dead([log_id])
    add(storage, 2, first=30, count=30)
    checkpoint(storage)
    garbage.deleted.mark([3])
    garbage.deleted.write()
    yield {1, 3, 4}
    garbage.drop([3])
    for log_id in garbage.left_logs():
        garbage.remove_dead([log_id])
    checkpoint(storage)


@pytest.mark.usefixtures("same_nonce")
@pytest.mark.parametrize("seed", range(4))
def test_whatever_step_is_the_last_dropped_ledgers_stay_dropped_and_others_whole(
    seed: int, passed: set[Hashable]
) -> None:
    """B16: a crash at every step, seed 0 of the process, the others of the machine."""
    left = _left_by_story()
    for step, (found, gone) in enumerate(left, 1):
        disk = copy_of(found)
        disk.crash(Random(1000 * seed + step)) if seed else disk.process_crash()
        case = (disk.state(), frozenset(gone))
        if case in passed:
            continue

        storage = opened(disk)

        _check(storage, gone)
        _collect_the_rest(storage)
        passed.add(case)
    assert len(left) > 100


@cache
def _left_by_story() -> list[tuple[SimulatedDisk, set[int]]]:
    """Return the disk and the dropped ledgers at each step of the story, and at its end."""
    disk = SimulatedDisk()
    storage = storage_on(disk, log_size_max=LOG_SIZE)
    gone: set[int] = set()

    def live() -> None:
        nonlocal gone
        for dropped in _story(storage):
            gone = dropped

    return left_by_crashes(disk, live, lambda: (copy_of(disk), gone))


def _check(storage: BookieStorage, gone: set[int]) -> None:
    assert not gone & set(storage.ledgers())
    assert all(storage.is_deleted(ledger_id) for ledger_id in gone)
    for ledger_id in storage.ledgers():
        info = storage.homes.info(ledger_id)
        assert info is not None
        assert not storage.is_deleted(ledger_id)
        for first in range(0, info.last_entry_id + 1, 30):
            ids = range(first, min(first + 30, info.last_entry_id + 1))
            assert read_all(storage, ledger_id, ids) == batch_of(ledger_id, ids, 50).body


def _collect_the_rest(storage: BookieStorage) -> None:
    """Whatever was left in the middle, the next round finishes."""
    add(storage, 9, count=30)
    checkpoint(storage)
    local = {*storage.ledgers()}
    for log_id in storage.garbages[0].left_logs():
        local |= {*storage.garbages[0].live_ids(log_id)}
    collect(storage, *local - {9})
    left = [storage.garbages[0].uses.use_of(log_id) for log_id in storage.garbages[0].left_logs()]
    assert all(not use.is_whole or list(use.ledger_ids) == [9] for use in left)
    assert storage.ledgers() == [9]


def test_a_crash_of_the_start_that_finishes_a_drop_is_survived(disk: SimulatedDisk) -> None:
    step, has_crashed = 0, True
    while has_crashed:
        step += 1
        disk = SimulatedDisk()
        storage = opened(disk)
        for ledger_id in (1, 2, 3):
            add(storage, ledger_id)
        checkpoint(storage)
        storage.garbages[0].deleted.mark([1, 3])
        storage.garbages[0].deleted.write()
        disk.process_crash()  # before the drop
        storage = storage_on(disk)
        disk.crash_at = disk.operation_count + step
        try:
            storage.open()
            has_crashed = False
        except SimulatedCrash:
            pass
        storage = opened(disk.crash(Random(step)))
        assert storage.ledgers() == [2]
        assert storage.ledger_count == 1
    assert step > 3


# ------------------------------------------------------------------ with adds and checkpoints


def test_twins_survive_the_garbage_of_others(disk: SimulatedDisk) -> None:
    bookie = TwinnedStorage(disk, log_size_max=LOG_SIZE)
    bookie.open()
    rng = Random(7)
    for round_no in range(30):
        ledger_id = rng.randrange(100 + 4 * round_no, 104 + 4 * round_no)
        bookie.add(ledger_id, range(20), 50)
        bookie.add(1, range(20 * round_no, 20 * round_no + 20), 50)
        bookie.sync()
        for _ in range(rng.randrange(8)):
            bookie.take_step()
        collect(bookie.storage, ledger_id)
        for twins in (bookie.attempted, bookie.written, bookie.promised):
            twins.pop(ledger_id, None)
        if rng.random() < 0.3:
            bookie.lose_power(rng)
            bookie.open()
            bookie.check()
    bookie.check()
