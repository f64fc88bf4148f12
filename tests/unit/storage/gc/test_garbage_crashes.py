"""A crash while ledgers are dropped: they stay dropped, and the others are whole."""

from collections.abc import Hashable, Iterator
from functools import cache
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import read_all, storage_on
from tests.support.crash_points import copy_of, left_by_crashes
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.support.storage_garbage import LOG_SIZE, add, checkpoint, collect, opened
from zbk.storage.bookie_storage import BookieStorage


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
