"""A bookie's storage for compaction, on a simulated disk: entries come, go and are read again."""

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import read_all
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_garbage import LOG_SIZE, PAYLOAD_SIZE, checkpoint, opened
from tests.support.storage_garbage import add as add_entries
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.gc.compaction_note import NOTE_NAME

__all__ = ["LOG_SIZE", "PAYLOAD_SIZE", "checkpoint", "opened"]  # and what is defined here


def add(storage: BookieStorage, ledger_id: int, first: int = 0, count: int = 10) -> None:
    """Store and journal entries."""
    add_entries(storage, ledger_id, first, count)


def delete(storage: BookieStorage, *ledger_ids: int) -> None:
    """Drop ledgers, and the logs that are dead then."""
    (garbage,) = storage.garbages
    assert garbage.deleted.mark(ledger_ids)
    assert garbage.deleted.write()
    garbage.drop(ledger_ids)
    for log_id in garbage.left_logs():
        garbage.remove_dead([log_id])


def logs_of(disk: SimulatedDisk) -> list[int]:
    """Return the ids of the entry logs on a disk."""
    return [int(path[-12:-4], 16) for path in disk.paths("/l/logs/") if path.endswith(".log")]


def check(storage: BookieStorage, ledger_id: int, count: int) -> None:
    """Read entries one by one and together."""
    ids = range(count)
    assert read_all(storage, ledger_id, ids) == batch_of(ledger_id, ids, PAYLOAD_SIZE).body


def check_clean(disk: SimulatedDisk) -> None:
    """Nothing of a compaction is left over."""
    assert disk.paths(".compacting") == []
    assert disk.paths(f"/l/{NOTE_NAME}") == []


@pytest.fixture
def disk() -> SimulatedDisk:
    """Return an empty disk."""
    return SimulatedDisk()


def half_dead(disk: SimulatedDisk) -> BookieStorage:
    """Return storage with six logs of which ledger 1 lives and ledger 2 does not, and one more."""
    storage = opened(disk)
    for first in range(0, 100, 10):
        add(storage, 1, first)
        add(storage, 2, first)
    checkpoint(storage)
    delete(storage, 2)
    assert logs_of(disk) == [1, 2, 3, 4, 5, 6, 7]
    return storage
