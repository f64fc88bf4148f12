"""Storage with small entry logs, of which ledgers and the logs that are dead then are dropped."""

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY, storage_on
from tests.support.simulated_disk import SimulatedDisk
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches

LOG_SIZE = 4000
PAYLOAD_SIZE = 50


def opened(
    disk: SimulatedDisk, *, log_size_max: int = LOG_SIZE, ledger_cache_size: int = 1 << 20
) -> BookieStorage:
    """Return storage that is open."""
    storage = storage_on(disk, log_size_max=log_size_max, ledger_cache_size=ledger_cache_size)
    storage.open()
    return storage


def add(storage: BookieStorage, ledger_id: int, first: int = 0, count: int = 20) -> None:
    """Store and journal entries of ``PAYLOAD_SIZE`` bytes."""
    batch = batch_of(ledger_id, range(first, first + count), PAYLOAD_SIZE)
    storage.homes.place(ledger_id).home.cache.set_ledger_key(ledger_id, KEY, LedgerType.PD_JOURNAL)
    add_batches(storage.homes, [batch])
    storage.journal.append(
        [LedgerKeyRecord(ledger_id, KEY, LedgerType.PD_JOURNAL), EntriesRecord(batch)]
    )


def checkpoint(storage: BookieStorage) -> None:
    """Carry out a checkpoint, from begin to end."""
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
    """Return the ids of the entry logs on the disk."""
    return [int(path[-12:-4], 16) for path in disk.paths("/l/logs/")]
