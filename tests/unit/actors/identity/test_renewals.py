"""A directory that was taken out of service comes back empty."""

from random import Random

import pytest

from tests.support.memory_store import MemoryStore
from tests.support.served_directories import ALL, CONFIG, disk, empty, fill, started, storage_of
from tests.support.several_directories import LEDGERS
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.actors.identity.identity import check_identity, in_service, init_identity, service_note
from zbk.actors.identity.service import renew, take_out
from zbk.errors import BookieError, InvalidOptionError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.directory.identity import next_incarnation
from zbk.storage.entry_logs.new_logs import NEW_LOGS_NAME

__all__ = ["disk"]


@pytest.mark.parametrize("directory", ALL)
def test_a_renewed_directory_is_in_service_and_empty(
    disk: SimulatedDisk, store: MemoryStore, directory: str
) -> None:
    take_out(disk, CONFIG, directory, "EIO")
    storage, _ = started(disk)
    fill(storage, range(10, 14))
    storage.close()

    renew(disk, CONFIG, directory)

    check_identity(disk, store, CONFIG)
    assert in_service(disk, CONFIG) == ALL
    assert {f"{one}/{NEW_LOGS_NAME}" for one in LEDGERS} <= set(disk.paths()), "it may be killed"
    storage, _ = started(disk, next_ledger_id=20)
    held = storage.ledgers()
    assert {10, 11, 12, 13} <= set(held)
    assert storage.limbo.limbo.is_miss_unknown(0, LedgerType.PD_JOURNAL)  # what is lost is lost
    assert not storage.limbo.limbo.is_miss_unknown(15, LedgerType.PD_JOURNAL)
    fill(storage, range(14, 18))
    storage.close()
    storage, _ = started(disk, next_ledger_id=20)
    assert storage.ledgers() == [*held, 14, 15, 16, 17]
    storage.close()
    assert next_incarnation(disk, *LEDGERS) == 2


def test_a_crash_at_any_step_of_a_renewal_lets_it_be_run_again(store: MemoryStore) -> None:
    for directory in ("/j1", "/l1"):
        step, is_done = 0, False
        while not is_done:
            step += 1
            disk = SimulatedDisk()
            init_identity(disk, store, CONFIG)
            storage = storage_of(disk)
            storage.open()
            fill(storage, range(4))
            storage.close()
            take_out(disk, CONFIG, directory, "EIO")
            started(disk)[0].close()
            disk.crash_at = disk.operation_count + step
            try:
                renew(disk, CONFIG, directory)
                is_done = True
            except SimulatedCrash:
                pass
            disk.crash(Random(step))
            storage, _ = started(disk)
            storage.close()
            if service_note(disk, CONFIG).paths:
                renew(disk, CONFIG, directory)
            assert in_service(disk, CONFIG) == ALL
            check_identity(disk, store, CONFIG)
            storage, _ = started(disk)
            assert storage.limbo.limbo.is_miss_unknown(0, LedgerType.PD_JOURNAL)
            storage.close()
        assert step > 10


def test_only_what_is_out_of_service_is_renewed(disk: SimulatedDisk) -> None:
    with pytest.raises(InvalidOptionError, match="not out of service"):
        renew(disk, CONFIG, "/l1")


def test_a_directory_with_somebody_elses_files_is_not_renewed(disk: SimulatedDisk) -> None:
    take_out(disk, CONFIG, "/l1", "EIO")
    empty(disk, "/l1")
    disk.open("/l1/letters", create=True).close()
    with pytest.raises(BookieError, match="is not empty"):
        renew(disk, CONFIG, "/l1")

    empty(disk, "/l1")
    file = disk.open("/l1/cookie", create=True)
    file.pwrite([b"another one's"], 0)
    file.close()
    with pytest.raises(BookieError, match="another bookie"):
        renew(disk, CONFIG, "/l1")
