"""Two journal and two ledger directories of a bookie that has served, and starts on them."""

import pytest

from tests.support.batches import batch_of
from tests.support.memory_store import MemoryStore
from tests.support.several_directories import JOURNALS, LEDGERS
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.identity import init_identity, service_note
from zbk.actors.identity.losses import Losses
from zbk.actors.identity.service import settle
from zbk.config import BookieConfig
from zbk.metadata.values import Cookie, decode
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.directory.identity import next_incarnation, read_cookie
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches

CONFIG = BookieConfig(journal_dir=JOURNALS, ledger_dir=LEDGERS)
ALL = [*JOURNALS, *LEDGERS]
KEY = bytes(16)


@pytest.fixture
def disk(store: MemoryStore) -> SimulatedDisk:
    """Directories of a bookie that has served four ledgers, and checkpointed."""
    disk = SimulatedDisk()
    init_identity(disk, store, CONFIG)
    storage = storage_of(disk)
    storage.open()
    next_incarnation(disk, *storage.ledger_dirs)
    fill(storage, range(4))
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    storage.close()
    return disk


def id_on(disk: SimulatedDisk) -> str:
    """Return the id in the cookies, if there are any."""
    found = next(filter(None, (read_cookie(disk, one) for one in (*JOURNALS, *LEDGERS))), None)
    return "b" if found is None else decode(Cookie, found, "cookie").bookie_id


def storage_of(disk: SimulatedDisk) -> BookieStorage:
    """Return storage over the directories that are in service, not open yet."""
    return BookieStorage(
        disk,
        journal_dir=JOURNALS,
        ledger_dir=LEDGERS,
        bookie_id=id_on(disk),
        out_of_service=service_note(disk, CONFIG).paths,
        limits=StorageLimits(segment_size=1 << 16),
    )


def fill(storage: BookieStorage, ledger_ids: range) -> None:
    """Add five entries to each of some new ledgers, and sync the journals."""
    for ledger_id in ledger_ids:
        storage.homes.place(ledger_id).home.cache.set_ledger_key(
            ledger_id, KEY, LedgerType.PD_JOURNAL
        )
        batch = batch_of(ledger_id, range(5))
        add_batches(storage.homes, [batch])
        journal = list(storage.journals)[storage.journals.of(ledger_id)]
        journal.append([LedgerKeyRecord(ledger_id, KEY, LedgerType.PD_JOURNAL)])
        journal.append([EntriesRecord(batch)])
        journal.sync()


def empty(disk: SimulatedDisk, directory: str) -> None:
    """Delete all that is in a directory."""
    for path in disk.paths():
        if path.startswith(f"{directory}/"):
            disk.remove_at_rest(path)


def started(disk: SimulatedDisk, next_ledger_id: int = 9) -> tuple[BookieStorage, Losses]:
    """Do what a start does."""
    storage = storage_of(disk)
    losses = Losses(disk, storage.limbo, storage.ledger_dirs, "boot")
    losses.find(lambda: next_ledger_id, is_wiped_on_purpose=False)
    settle(disk, CONFIG, service_note(disk, CONFIG), losses, lambda: next_ledger_id)
    storage.open()
    return storage, losses
