"""One of several directories fails, goes out of service, and comes back empty."""

import errno
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.memory_store import MemoryStore
from tests.support.simulated_disk import Fault, SimulatedCrash, SimulatedDisk
from zbk.actors.identity.cookies import look
from zbk.actors.identity.identity import check_identity, in_service, init_identity, service_note
from zbk.actors.identity.losses import Losses
from zbk.actors.identity.offline import check, rebuild_index, wipe_bookie
from zbk.actors.identity.service import failed_directory, renew, retire, settle, take_out
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
from zbk.metadata.values import Cookie, decode
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.directory.identity import lock_directory, next_incarnation, read_cookie
from zbk.storage.directory.service_note import NOTE_NAME
from zbk.storage.entry_logs.new_logs import NEW_LOGS_NAME
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.replay import add_batches

JOURNALS, LEDGERS = ("/j1", "/j2"), ("/l1", "/l2")
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
    return BookieStorage(
        disk,
        journal_dir=JOURNALS,
        ledger_dir=LEDGERS,
        bookie_id=id_on(disk),
        out_of_service=service_note(disk, CONFIG).paths,
        limits=StorageLimits(segment_size=1 << 16),
    )


def fill(storage: BookieStorage, ledger_ids: range) -> None:
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


# ---------------------------------------------------------------- back again


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


# ---------------------------------------------------------------- identity


@pytest.mark.parametrize(
    "config",
    [
        BookieConfig(journal_dir=JOURNALS, ledger_dir="/l1"),
        BookieConfig(journal_dir="/j1", ledger_dir=LEDGERS),
        BookieConfig(journal_dir=JOURNALS, ledger_dir=(*LEDGERS, "/l3")),
        BookieConfig(journal_dir=(*JOURNALS, "/j3"), ledger_dir=LEDGERS),
        BookieConfig(journal_dir=JOURNALS, ledger_dir=("/l2", "/l1")),
        BookieConfig(journal_dir=("/j2", "/j1"), ledger_dir=LEDGERS),
    ],
)
def test_directories_that_were_added_left_out_or_moved_are_refused(
    disk: SimulatedDisk, store: MemoryStore, config: BookieConfig
) -> None:
    """B40: with the reason, and the cure."""
    cookie = read_cookie(disk, "/j1")
    assert cookie is not None
    for new in ("/l3", "/j3"):
        disk.make_dirs(new)
        file = disk.open(f"{new}/cookie", create=True)
        file.pwrite([cookie], 0)
        file.close()

    with pytest.raises(CookieMismatchError, match="none can be added, left out or moved"):
        check_identity(disk, store, config)


@pytest.mark.parametrize("pair", [JOURNALS, LEDGERS])
def test_disks_that_were_swapped_are_refused(
    disk: SimulatedDisk, store: MemoryStore, pair: tuple[str, str]
) -> None:
    """B40: their cookies are the same, their places are not."""
    one, other = (disk.content(f"{path}/place") for path in pair)
    disk.set_content(f"{pair[0]}/place", other)
    disk.set_content(f"{pair[1]}/place", one)

    with pytest.raises(CookieMismatchError, match="swapped with another one"):
        check_identity(disk, store, CONFIG)


@pytest.mark.parametrize("directory", ALL)
def test_one_wiped_directory_of_several_is_refused(
    disk: SimulatedDisk, store: MemoryStore, directory: str
) -> None:
    """B40: a wiped one of two."""
    empty(disk, directory)

    with pytest.raises(CookieMismatchError, match="a disk was swapped or wiped"):
        check_identity(disk, store, CONFIG)


def test_a_path_has_one_use(disk: SimulatedDisk, store: MemoryStore) -> None:
    for journal, ledger in ((("/a", "/b"), "/a"), ("/a", ("/a", "/b"))):
        with pytest.raises(InvalidOptionError, match="a path of its own"):
            init_identity(disk, store, BookieConfig(journal_dir=journal, ledger_dir=ledger))
    with pytest.raises(InvalidOptionError, match="there twice"):
        BookieConfig(journal_dir=("/a", "/a"), ledger_dir="/b")


def test_one_of_each_leaves_no_trace_of_several(store: MemoryStore) -> None:
    disk = SimulatedDisk()
    init_identity(disk, store, BookieConfig(journal_dir="/j", ledger_dir="/l"))

    assert disk.paths() == ["/j/cookie", "/l/cookie"]
