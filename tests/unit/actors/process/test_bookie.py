"""A whole bookie in this process, on a simulated disk: what its end says to its next start."""

import errno
from collections.abc import Iterator

import pytest

from tests.support.batches import batch_of
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.actors.identity.identity import check_identity, init_identity
from zbk.actors.process.bookie import Bookie
from zbk.client.api import connect
from zbk.config import BookieConfig
from zbk.errors import StorageFailedError
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.store import MetadataStore
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.directory import serving
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches

BOOT = "boot-1"
CONFIG = BookieConfig(
    metadata="memory://test-bookie",
    journal_dir="/j",
    ledger_dir="/l",
    listen="tcp://127.0.0.1:0",
    journal_segment_size=1 << 20,
    disk_reserve_size=2 << 20,
    disk_warn_free="0",
    disk_readonly_free="0",
    sync_interval_ms=0,
    boot_id=BOOT,
)


@pytest.fixture
def store() -> Iterator[MetadataStore]:
    opened = open_store(CONFIG.metadata)
    yield opened
    opened.close()


@pytest.fixture
def disk(store: MetadataStore) -> SimulatedDisk:
    disk = SimulatedDisk()
    init_identity(disk, store, CONFIG)
    return disk


def started(disk: SimulatedDisk) -> Bookie:
    bookie = Bookie(CONFIG, disk)
    bookie.start()
    return bookie


def stopped(bookie: Bookie) -> int:
    bookie.request_stop()
    return bookie.run_until_ended()


def is_loss_possible(disk: SimulatedDisk) -> bool:
    return serving.is_loss_possible(disk, "/l", BOOT)


def test_a_bookie_that_stops_in_good_order_has_lost_nothing(disk: SimulatedDisk) -> None:
    assert stopped(started(disk)) == 0
    assert not disk.exists(f"/l/{serving.SERVING_NAME}")


def test_an_fsync_that_fails_while_the_bookie_stops_may_have_lost_what_was_acknowledged(
    disk: SimulatedDisk,
) -> None:
    """Linux drops what it could not write: the next start in this boot must not trust it."""
    bookie = started(disk)
    with connect(CONFIG.metadata) as client:
        writer = client.create_ledger(
            ensemble_size=1,
            write_quorum_size=1,
            ack_quorum_size=1,
            ledger_type=LedgerType.VD_JOURNAL,
        )
        writer.append(b"acknowledged before an fsync")
        disk.faults = [Fault("sync", errno.EIO, path_part=".journal")]

        assert stopped(bookie) == 1

    assert is_loss_possible(disk)


def test_an_fsync_that_fails_while_the_journal_is_replayed_may_have_lost_it(
    disk: SimulatedDisk, store: MetadataStore
) -> None:
    """The same, of what an earlier life has acknowledged before an fsync."""
    bookie_id = check_identity(disk, store, CONFIG).bookie_id
    storage = BookieStorage(
        disk,
        journal_dir="/j",
        ledger_dir="/l",
        bookie_id=bookie_id,
        limits=StorageLimits(segment_size=1 << 20),
    )
    storage.open()
    serving.begin(disk, "/l", BOOT)
    storage.homes.place(0).home.cache.set_ledger_key(0, bytes(16), LedgerType.VD_JOURNAL)
    batch = batch_of(0, range(3))
    add_batches(storage.homes, [batch])
    key = LedgerKeyRecord(0, bytes(16), LedgerType.VD_JOURNAL)
    storage.journal.append([key, EntriesRecord(batch)])
    disk.process_crash()
    disk.faults = [Fault("sync", errno.EIO, path_part=".journal")]

    with pytest.raises(StorageFailedError):
        started(disk)

    assert is_loss_possible(disk)
