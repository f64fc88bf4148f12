"""Entries change while compaction moves them, or the index cannot be written down meanwhile."""

from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import storage_on
from tests.support.compacted_storage import (
    LOG_SIZE,
    PAYLOAD_SIZE,
    add,
    check,
    check_clean,
    checkpoint,
    delete,
    disk,
    half_dead,
    logs_of,
    opened,
)
from tests.support.compactions import Compactor
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.messages import AskCheckpoint, CheckpointEnded
from zbk.errors import NoSuchLedgerError
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.replay import add_batches

__all__ = ["disk"]


@pytest.mark.parametrize("step", range(1, 150, 4))
@pytest.mark.parametrize("is_deleted", [True, False])
def test_what_happens_to_entries_while_they_move_counts(
    disk: SimulatedDisk, step: int, is_deleted: bool
) -> None:
    """A ledger is deleted, or entries are stored once more elsewhere, at any step."""
    storage = half_dead(disk)
    add(storage, 5, 0, count=5)
    add(storage, 6, 0, count=40)
    checkpoint(storage)
    compactor = Compactor(storage)

    def meanwhile() -> None:
        if compactor.step_count == step:
            if is_deleted:
                delete_now(storage, 1)
            else:
                add_batches(
                    storage.homes, [batch_of(1, range(30, 60), PAYLOAD_SIZE)]
                )  # as a replay or a repair
            add(storage, 1 if not is_deleted else 7, 100)

    compactor.between = meanwhile
    compactor.major()

    if is_deleted and compactor.step_count >= step:
        with pytest.raises(NoSuchLedgerError):
            storage.homes.ledger(1).resolve(range(10), 1 << 20)
    else:
        check(storage, 1, 110 if compactor.step_count >= step else 100)
    checkpoint(storage)
    storage = opened(disk.crash(Random(step)))
    if not is_deleted:
        check(storage, 1, 100)
    check(storage, 5, 5)
    check(storage, 6, 40)


def delete_now(storage: BookieStorage, ledger_id: int) -> None:
    """Drop a ledger, and leave the logs alone: the collector is busy with compaction."""
    (garbage,) = storage.garbages
    assert garbage.deleted.mark([ledger_id])
    assert garbage.deleted.write()
    garbage.drop([ledger_id])


def test_an_index_that_cannot_be_written_down_keeps_the_sources(disk: SimulatedDisk) -> None:
    storage = half_dead(disk)
    compactor = Compactor(storage)
    waiting: list[AskCheckpoint] = []
    compactor.ask_checkpoint = waiting.append

    assert compactor.major() == 0

    assert logs_of(disk)[:7] == [1, 2, 3, 4, 5, 6, 7]
    assert compactor.rounds.is_open
    assert compactor.major() == 0
    assert "not on stable storage" in compactor.rounds.round_counts.gave_up
    check(storage, 1, 100)
    compactor.checkpoint()
    for asked in waiting:
        asked.reply_to.tell(CheckpointEnded(asked.wait_no))
    compactor.ask_checkpoint = compactor.checkpoint_now
    assert compactor.major() > 0
    check(storage, 1, 100)
    check_clean(disk)


def test_an_index_that_fills_up_while_entries_move_is_written_down_in_between() -> None:
    """And if it cannot be, they move on in a later round."""
    disk = SimulatedDisk()
    storage = storage_on(disk, log_size_max=LOG_SIZE, ledger_cache_size=9_000)  # of one page
    storage.open()
    for first in range(0, 100, 10):
        for ledger_id in (1, 2, 3):
            add(storage, ledger_id, first)
    checkpoint(storage)
    delete(storage, 2)
    compactor = Compactor(storage)
    compactor.ask_checkpoint = lambda _asked: None

    assert compactor.major() == 0
    assert compactor.rounds.is_open
    for ledger_id in (1, 3):
        check(storage, ledger_id, 100)

    compactor.ask_checkpoint = compactor.checkpoint_now
    assert compactor.major() > 0
    for ledger_id in (1, 3):
        check(storage, ledger_id, 100)
    check_clean(disk)
