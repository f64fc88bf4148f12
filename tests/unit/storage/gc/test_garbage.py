"""What goes when ledgers are deleted: in the right order, for good, and nothing else."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import TwinnedStorage, read_all
from tests.support.simulated_disk import Fault, SimulatedDisk
from tests.support.storage_garbage import LOG_SIZE, add, checkpoint, collect, logs_of, opened
from zbk.errors import EntryUnreadableError, NoSuchLedgerError, StorageFailedError
from zbk.storage.journal.record import EntriesRecord, ExplicitLacRecord, FenceRecord


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
