"""One of several directories fails, and goes out of service."""

import errno
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from tests.support.memory_store import MemoryStore
from tests.support.served_directories import ALL, CONFIG, disk, empty, fill, started
from tests.support.several_directories import JOURNALS, LEDGERS
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.actors.identity.cookies import look
from zbk.actors.identity.identity import check_identity, in_service, init_identity, service_note
from zbk.actors.identity.offline import check, rebuild_index, wipe_bookie
from zbk.actors.identity.service import failed_directory, renew, retire, take_out
from zbk.config import BookieConfig
from zbk.durability.limbo import LossReason
from zbk.errors import (
    BookieError,
    CookieMismatchError,
    CorruptRecordError,
    DirectoryInUseError,
    InvalidOptionError,
    NoSpaceError,
    StorageFailedError,
    ZbkError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.directory.identity import lock_directory
from zbk.storage.directory.service_note import NOTE_NAME

__all__ = ["disk"]


# ---------------------------------------------------------------- which one


@pytest.mark.parametrize("directory", ALL)
def test_a_failed_write_tells_the_directory_that_it_lies_in(
    disk: SimulatedDisk, directory: str
) -> None:
    error = StorageFailedError(f"{directory}/logs/1.log", "fsync", "EIO")

    assert failed_directory(disk, CONFIG, error) == directory
    assert failed_directory(disk, CONFIG, StorageFailedError(directory, "open", "EIO")) == directory


@pytest.mark.parametrize(
    "error",
    [
        None,
        NoSpaceError("/l1/logs/1.log", "write", "ENOSPC"),
        CorruptRecordError("/l1/last_mark", 0, "damaged"),
        StorageFailedError("/l11/last_mark", "write", "EIO"),
        StorageFailedError("/elsewhere", "write", "EIO"),
    ],
)
def test_nothing_else_takes_a_directory_out(disk: SimulatedDisk, error: ZbkError | None) -> None:
    assert failed_directory(disk, CONFIG, error) is None


def test_the_last_of_its_kind_is_not_taken_out(disk: SimulatedDisk) -> None:
    one = BookieConfig(journal_dir="/j", ledger_dir="/l")
    assert failed_directory(disk, one, StorageFailedError("/l/x", "write", "EIO")) is None

    take_out(disk, CONFIG, "/l1", "EIO")
    assert failed_directory(disk, CONFIG, StorageFailedError("/l2/x", "write", "EIO")) is None
    assert failed_directory(disk, CONFIG, StorageFailedError("/l1/x", "write", "EIO")) is None
    assert failed_directory(disk, CONFIG, StorageFailedError("/j2/x", "write", "EIO")) == "/j2"


# ---------------------------------------------------------------- out of service


@pytest.mark.parametrize("directory", ALL)
def test_a_directory_that_was_taken_out_is_not_looked_at(
    disk: SimulatedDisk, store: MemoryStore, directory: str
) -> None:
    take_out(disk, CONFIG, directory, "fsync failed")
    empty(disk, directory)  # whatever became of it

    assert directory not in in_service(disk, CONFIG)
    assert check_identity(disk, store, CONFIG).journal_dirs == JOURNALS
    storage, losses = started(disk)
    assert losses.reasons == (LossReason.DIRECTORY_LOST,)
    for ledger_id in range(9):
        assert storage.limbo.limbo.is_miss_unknown(ledger_id, LedgerType.PD_JOURNAL)
        assert storage.limbo.limbo.may_lack_fence(ledger_id)
    assert not storage.limbo.limbo.is_miss_unknown(9, LedgerType.PD_JOURNAL)
    storage.close()
    assert not [path for path in disk.paths() if path.startswith(f"{directory}/")]


def test_the_note_is_in_all_the_others_and_says_what_happened(disk: SimulatedDisk) -> None:
    take_out(disk, CONFIG, "/l1", "fsync of /l1/x failed")

    assert [path for path in disk.paths(NOTE_NAME) if not path.endswith(".new")] == [
        f"{one}/{NOTE_NAME}" for one in ("/j1", "/j2", "/l2")
    ]
    (lost,) = service_note(disk, CONFIG).directories
    assert (lost.path, lost.kind, lost.reason) == ("/l1", "ledger", "fsync of /l1/x failed")


def test_ledgers_are_cleared_once_and_not_put_into_limbo_again(disk: SimulatedDisk) -> None:
    take_out(disk, CONFIG, "/l1", "EIO")
    storage, losses = started(disk, next_ledger_id=9)
    losses.clear([(0, 8)])
    storage.close()

    storage, losses = started(disk, next_ledger_id=20)

    assert losses.reasons == ()
    assert not storage.limbo.limbo.is_miss_unknown(15, LedgerType.PD_JOURNAL)
    assert storage.limbo.limbo.may_lack_fence(3)  # for ever
    storage.close()


def test_two_directories_may_go_one_after_the_other(disk: SimulatedDisk) -> None:
    take_out(disk, CONFIG, "/l1", "EIO")
    started(disk, next_ledger_id=9)[0].close()
    take_out(disk, CONFIG, "/j2", "EIO")
    storage, _ = started(disk, next_ledger_id=12)

    assert service_note(disk, CONFIG).paths == {"/l1", "/j2"}
    assert storage.limbo.limbo.is_miss_unknown(11, LedgerType.PD_JOURNAL)
    assert storage.ledger_dirs == ["/l2"]
    storage.close()


def taken_out_until_a_crash() -> Iterator[tuple[int, SimulatedDisk, bool]]:
    """Yield disks on which a crash ended the note at each of its steps, and one with the note."""
    step, is_done = 0, False
    while not is_done:
        step += 1
        disk = SimulatedDisk()
        for one in ALL:
            disk.make_dirs(one)
        disk.crash_at = disk.operation_count + step
        with suppress(SimulatedCrash):
            take_out(disk, CONFIG, "/l1", "EIO")
            is_done = True
        yield step, disk, is_done


def test_a_crash_while_the_note_is_written_leaves_the_old_state_or_the_new_one() -> None:
    for step, tried, is_done in taken_out_until_a_crash():
        tried.crash(Random(step))
        assert service_note(tried, CONFIG).paths in ({"/l1"}, set())
        assert not is_done or service_note(tried, CONFIG).paths
    assert step > 3


def test_a_note_that_a_killed_process_left_in_the_page_cache_is_kept() -> None:
    """A start goes on from what it has read, so that has to outlive a power loss."""
    for step, tried, _ in taken_out_until_a_crash():
        tried.process_crash()
        before = service_note(tried, CONFIG).paths
        storage, _ = started(tried)
        storage.close()
        tried.crash(Random(step))
        assert service_note(tried, CONFIG).paths == before


def test_a_damaged_note_is_refused_unless_another_directory_has_a_whole_one(
    disk: SimulatedDisk,
) -> None:
    take_out(disk, CONFIG, "/l1", "EIO")
    disk.flip_bit(f"/j1/{NOTE_NAME}", 8 * 60)
    assert service_note(disk, CONFIG).paths == {"/l1"}

    for one in ("/j2", "/l2"):
        disk.flip_bit(f"{one}/{NOTE_NAME}", 8 * 60)
    with pytest.raises(CorruptRecordError, match=NOTE_NAME):
        service_note(disk, CONFIG)


def test_another_directory_that_cannot_be_written_either_is_an_error(disk: SimulatedDisk) -> None:
    disk.faults = [Fault("create", errno.EROFS, path_part="/l2")]

    with pytest.raises(StorageFailedError, match="/l2"):
        take_out(disk, CONFIG, "/l1", "EIO")


# ---------------------------------------------------------------- taken out by an operator


def test_nothing_is_done_to_a_running_bookie(disk: SimulatedDisk) -> None:
    lock = lock_directory(disk, "/l2")
    with pytest.raises(DirectoryInUseError):
        retire(disk, CONFIG, "/l1")
    lock.close()
    retire(disk, CONFIG, "/l1")
    lock = lock_directory(disk, "/l2")
    with pytest.raises(DirectoryInUseError):
        renew(disk, CONFIG, "/l1")
    lock.close()


@pytest.mark.parametrize("directory", ALL)
def test_an_operator_takes_out_a_directory_whose_disk_is_gone(
    disk: SimulatedDisk, store: MemoryStore, directory: str
) -> None:
    empty(disk, directory)
    with pytest.raises(CookieMismatchError, match="retire-dir"):
        check_identity(disk, store, CONFIG)

    retire(disk, CONFIG, directory)

    check_identity(disk, store, CONFIG)
    started(disk)[0].close()
    with pytest.raises(InvalidOptionError, match="out of service already"):
        retire(disk, CONFIG, directory)
    other = next(one for one in ALL if one[1] == directory[1] and one != directory)
    with pytest.raises(BookieError, match="the last directory of its kind"):
        retire(disk, CONFIG, other)
    with pytest.raises(InvalidOptionError, match="the bookie has"):
        retire(disk, CONFIG, "/elsewhere")


# ---------------------------------------------------------------- commands for stopped bookies


def test_commands_leave_a_directory_out_of_service_alone(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    take_out(disk, CONFIG, "/l1", "fsync failed")
    empty(disk, "/l1")
    bookie_id = check_identity(disk, store, CONFIG).bookie_id

    with check(disk, store, CONFIG) as found:
        assert set(found.out_of_service) == {"/l1"}
    states = {one.place: one.state for one in look(disk, store, CONFIG, "")}
    assert states["/l1"] == "out of service: fsync failed"
    assert states["/l2"] == "fits"
    assert len(bookie_id) > 2
    wipe_bookie(disk, store, CONFIG)
    assert [path for path in disk.paths() if not path.startswith("/l1")] == []


def test_the_index_of_each_ledger_directory_is_made_anew(store: MemoryStore) -> None:
    disk = SimulatedDisk()
    bookie_id = init_identity(disk, store, CONFIG)
    storage = BookieStorage(
        disk,
        journal_dir=JOURNALS,
        ledger_dir=LEDGERS,
        bookie_id=bookie_id,
        limits=StorageLimits(segment_size=1 << 16),
    )
    storage.open()
    fill(storage, range(8))
    homes = [storage.homes.ledger(ledger_id).home.number for ledger_id in range(8)]
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    storage.close()
    for path in disk.paths(".idx"):
        if path.startswith("/l1"):
            disk.flip_bit(path, 8 * 8)

    reports = rebuild_index(disk, store, CONFIG, [], lambda _what, _count: None)

    assert [report.ledger_count for report in reports.values() if report is not None] == [4, 4]
    assert [report.entry_count for report in reports.values() if report is not None] == [20, 20]
    assert all(report is not None and not report.left_out_ids for report in reports.values())
    storage = BookieStorage(
        disk,
        journal_dir=JOURNALS,
        ledger_dir=LEDGERS,
        bookie_id=bookie_id,
        limits=StorageLimits(segment_size=1 << 16),
    )
    storage.open()
    assert [storage.homes.ledger(ledger_id).home.number for ledger_id in range(8)] == homes
    assert [storage.homes.ledger(ledger_id).index.last_entry_id for ledger_id in range(8)] == [
        4
    ] * 8
    storage.close()
