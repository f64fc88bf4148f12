"""A start that has many index files to write serves first: the journal has what they lack."""

from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY, read_all, storage_on
from tests.support.simulated_disk import SimulatedDisk
from zbk.protocol.entry.words import LedgerType
from zbk.storage import bookie_storage
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import EntriesRecord, JournalRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches

LEDGERS = range(1, 7)


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie_storage, "LEDGERS_AT_START_MAX", 5)


def crashed() -> SimulatedDisk:
    """Return the disk of a bookie that died with six ledgers in its journal only."""
    disk = SimulatedDisk()
    storage = storage_on(disk)
    storage.open()
    batches = [batch_of(ledger_id, range(3)) for ledger_id in LEDGERS]
    records: list[JournalRecord] = []
    for batch in batches:
        storage.homes.place(batch.ledger_id).home.cache.set_ledger_key(
            batch.ledger_id, KEY, LedgerType.PD_JOURNAL
        )
        records += [
            LedgerKeyRecord(batch.ledger_id, KEY, LedgerType.PD_JOURNAL),
            EntriesRecord(batch),
        ]
    add_batches(storage.homes, batches)
    storage.journal.append(records)
    storage.journal.sync()
    return disk.crash(Random(1))


def check(storage: BookieStorage) -> None:
    for ledger_id in LEDGERS:
        assert read_all(storage, ledger_id, range(3)) == batch_of(ledger_id, range(3)).body


def test_it_serves_ahead_of_its_first_checkpoint() -> None:
    disk = crashed()
    storage = storage_on(disk)

    found = storage.open()

    assert found.entry_count == 18
    assert storage.open_checkpoint is not None
    assert disk.paths(".idx") == []
    check(storage)


@pytest.mark.parametrize("seed", range(5))
def test_a_crash_before_that_one_ends_loses_nothing(seed: int) -> None:
    """B35: until the mark moves, the journal is replayed again."""
    disk = crashed()
    storage = storage_on(disk)
    storage.open()
    checkpoint = storage.open_checkpoint
    assert checkpoint is not None
    for step in (checkpoint.sync_entry_logs, checkpoint.write_index, checkpoint.apply_index)[:seed]:
        step()

    storage = storage_on(disk.crash(Random(seed)))
    storage.open()

    check(storage)


def test_it_is_ended_as_any_other() -> None:
    disk = crashed()
    storage = storage_on(disk)
    storage.open()
    checkpoint = storage.open_checkpoint
    assert checkpoint is not None

    checkpoint.run()
    storage.end_checkpoint(checkpoint)

    assert len(disk.paths(".idx")) == 6
    storage.close()
    storage = storage_on(disk.crash(Random(2)))
    assert storage.open().entry_count == 0
    check(storage)
