"""Storage over two journal and two ledger directories: where ledgers live, and failed writes."""

import errno
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY, disk, read_all
from tests.support.several_directories import LEDGERS, SeveralTwin, filled, home, opened
from tests.support.simulated_disk import Fault, SimulatedDisk
from zbk.errors import NoSpaceError, NoSuchLedgerError, StorageFailedError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.record import LedgerKeyRecord
from zbk.storage.replay import add_batches

__all__ = ["disk"]

pytestmark = pytest.mark.usefixtures("same_nonce")


# ---------------------------------------------------------------- where things live


def test_a_ledger_is_in_one_ledger_directory_and_in_one_journal(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    twin.finish_checkpoint()

    index_files = {path: path.split("/")[1] for path in disk.paths(".idx")}
    assert sorted(index_files.values()) == ["l1", "l1", "l2", "l2"]
    assert {home(twin.storage, ledger_id) for ledger_id in range(4)} == set(LEDGERS)
    assert twin.storage.ledgers() == [0, 1, 2, 3]
    assert twin.storage.ledger_count == 4
    twin.check()


def test_a_ledger_stays_where_it_is_when_its_directory_is_avoided(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    before = [home(twin.storage, ledger_id) for ledger_id in range(4)]
    twin.finish_checkpoint()
    twin.storage.homes.avoid(["/l1"])

    twin.add(0, range(5, 9))
    twin.add(4, range(3))
    twin.add(6, range(3))

    assert before[0] == "/l1"
    assert [home(twin.storage, ledger_id) for ledger_id in range(4)] == before
    assert home(twin.storage, 4) == home(twin.storage, 6) == "/l2"
    twin.check()


def test_new_ledgers_go_somewhere_even_if_all_directories_are_avoided(disk: SimulatedDisk) -> None:
    storage = opened(disk)
    storage.homes.avoid(LEDGERS)

    storage.homes.place(1).home.cache.set_ledger_key(1, KEY, LedgerType.PD_JOURNAL)

    assert storage.homes.info(1) is not None


@pytest.mark.parametrize("is_stopped_well", [False, True])
def test_a_bypass_ledger_is_found_again_in_the_directory_that_has_its_entries(
    disk: SimulatedDisk, *, is_stopped_well: bool
) -> None:
    """The choice by its id leads to another directory; the journal has its key, and no entry."""
    storage = opened(disk)
    storage.homes.avoid(["/l1"])
    storage.homes.place(0).home.cache.set_ledger_key(0, KEY, LedgerType.VD_BYPASS_JOURNAL)
    ledger, batch = storage.homes.ledger(0), batch_of(0, range(5))
    ledger.index.prepare(batch.entry_ids)
    ledger.home.add([batch], [ledger.index], bypass_ids={0})
    key = LedgerKeyRecord(0, KEY, LedgerType.VD_BYPASS_JOURNAL)
    storage.journals.by_number[0].append([key])
    if is_stopped_well:  # without a last checkpoint, as on a full disk
        storage.close()
    disk.process_crash()

    storage = opened(disk)

    assert home(storage, 0) == "/l2"
    assert read_all(storage, 0, range(5)) == batch.body


def test_a_ledger_that_is_nowhere_is_in_no_directory(disk: SimulatedDisk) -> None:
    storage = opened(disk)

    assert storage.homes.info(7) is None
    with pytest.raises(NoSuchLedgerError):
        storage.homes.ledger(7).resolve(range(1), 100)


def test_a_deleted_ledger_is_taken_in_by_no_directory(disk: SimulatedDisk) -> None:
    """B16: whichever directory a late record would choose."""
    twin = filled(disk)
    assert twin.storage.mark_deleted([0])
    assert all(garbage.deleted.write() for garbage in twin.storage.garbages)
    assert sum(garbage.drop([0]) for garbage in twin.storage.garbages) == 1
    twin.kill()

    found = twin.open()

    assert found.orphan_count > 0
    assert twin.storage.is_deleted(0)
    assert twin.storage.ledgers() == [1, 2, 3]


def test_where_a_ledger_lives_is_found_again_when_it_was_forgotten(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zbk.storage.ledger_homes.HOME_COUNT_MAX", 1)
    twin = filled(disk)
    twin.add(0, range(5, 9))
    twin.add(1, range(5, 9))
    twin.sync()

    twin.check()


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("path_part", ["/j1", "/j2", "/l1", "/l2"])
@pytest.mark.parametrize("operation", ["pwrite", "sync"])
def test_a_failed_write_names_its_directory_and_ends_everything(
    disk: SimulatedDisk, operation: str, path_part: str
) -> None:
    """One failed fsync, of whichever directory, is the end of all promises."""
    twin = filled(disk)
    disk.faults = [Fault(operation, errno.EIO, path_part=path_part)]

    def go_on() -> None:
        for ledger_id in range(4):
            twin.add(ledger_id, range(5, 8))
        twin.sync()
        twin.finish_checkpoint()

    with pytest.raises(StorageFailedError) as failed:
        go_on()

    assert failed.value.args[0].startswith(path_part)
    for ledger_id in range(4):
        with pytest.raises(StorageFailedError):
            twin.add(ledger_id, range(10, 12))


def test_no_space_in_one_directory_is_met_by_its_own_ledgers_only(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    storage = twin.storage
    (one, *_) = [n for n in range(4) if home(storage, n) == "/l1"]
    (other, *_) = [n for n in range(4) if home(storage, n) == "/l2"]
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part="/l1")]

    with pytest.raises(NoSpaceError):
        add_batches(storage.homes, [batch_of(one, range(5, 8))])
    add_batches(storage.homes, [batch_of(other, range(5, 8))])

    assert storage.homes.ledger(one).index.last_entry_id == 4
    assert storage.homes.ledger(other).index.last_entry_id == 7


@pytest.mark.parametrize("full", LEDGERS)
def test_a_checkpoint_that_finds_no_space_in_one_directory_may_be_begun_again(
    disk: SimulatedDisk, full: str
) -> None:
    """The flush of the other directory was begun already, and in the way of the next attempt."""
    twin = SeveralTwin(disk, ledger_cache_size=64 * 1024)
    twin.open()
    for ledger_id in range(4):
        twin.add(ledger_id, range(5))
    twin.finish_checkpoint()
    (other, *_) = [n for n in range(4) if home(twin.storage, n) != full]
    (growing, *_) = [n for n in range(4) if home(twin.storage, n) == full]
    twin.add(other, range(5, 9))
    # for the flush that makes room, and for the checkpoint
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part=f"{full}/index") for _ in range(2)]
    first = 5
    while len(disk.faults) == 2:
        twin.add(growing, range(first, first + 1024), 1)
        first += 1024
    with pytest.raises(NoSpaceError):
        twin.storage.begin_checkpoint()
    assert disk.faults == []

    twin.add(other, range(9, 12))
    twin.sync()
    twin.finish_checkpoint()

    twin.check()
    twin.lose_power(Random(1))
    twin.storage.open()
    twin.check()
