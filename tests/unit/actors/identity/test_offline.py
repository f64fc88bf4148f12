"""Commands for a stopped bookie: whose directories, held by whom, and what becomes of them."""

from contextlib import suppress
from functools import partial
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.actors.identity.identity import check_identity, init_identity
from zbk.actors.identity.offline import check, rebuild_index, wipe_bookie
from zbk.config import BookieConfig
from zbk.errors import (
    BookieError,
    CookieMismatchError,
    DirectoryInUseError,
    InvalidOptionError,
    ZbkError,
)
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.ledgers import LedgerStore
from zbk.protocol.entry.digest import ledger_key, password_digest
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.directory.identity import lock_directory, next_incarnation
from zbk.storage.directory.wipe import remove_tree
from zbk.storage.journal.record import EntriesRecord, JournalRecord, LedgerKeyRecord
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.storage.replay import add_batches

CONFIG = BookieConfig(journal_dir="/j", ledger_dir="/l")
PASSWORD = b"s3cret"


@pytest.fixture
def disk(store: MemoryStore) -> SimulatedDisk:
    made = SimulatedDisk()
    fill(made, store)
    return made


def storage_of(disk: SimulatedDisk, bookie_id: str) -> BookieStorage:
    return BookieStorage(
        disk,
        journal_dir="/j",
        ledger_dir="/l",
        bookie_id=bookie_id,
        limits=StorageLimits(segment_size=SEGMENT_HEADER_SIZE + 4096),
    )


def metadata_of(password: bytes, ledger_id: int) -> LedgerMetadata:
    return LedgerMetadata(
        ledger_id=ledger_id,
        ensemble_size=1,
        write_quorum_size=1,
        ack_quorum_size=1,
        ledger_type=LedgerType.PD_JOURNAL,
        digest_type=DigestType.XXH3,
        password_digest=password_digest(password, ledger_id),
        fragments=(Fragment(0, ("b-1",)),),
        created_ms=0,
        creation_token="t",
    )


def fill(disk: SimulatedDisk, store: MemoryStore) -> str:
    """Make a bookie with an open ledger, one with a password, and one that was deleted."""
    bookie_id = init_identity(disk, store, CONFIG)
    next_incarnation(disk, "/l")
    storage = storage_of(disk, bookie_id)
    storage.open()
    for ledger_id, password in enumerate((b"", PASSWORD, b"")):
        made, _ = LedgerStore(store).create(partial(metadata_of, password))
        assert made.ledger_id == ledger_id
        key = ledger_key(password, ledger_id)
        batch = batch_of(ledger_id, range(100), payload_size=50)
        storage.homes.place(ledger_id).home.cache.set_ledger_key(
            ledger_id, key, LedgerType.PD_JOURNAL
        )
        add_batches(storage.homes, [batch])
        records: list[JournalRecord] = [
            LedgerKeyRecord(ledger_id, key, LedgerType.PD_JOURNAL),
            EntriesRecord(batch),
        ]
        storage.journal.append(records)
    LedgerStore(store).delete(2)
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    storage.close()
    return bookie_id


def lose_index(disk: SimulatedDisk) -> None:
    for path in [*disk.paths("/l/index/"), *disk.paths("index.flush")]:
        disk.remove_at_rest(path)
    remove_tree(disk, "/l/index")
    # with it, what the journal says of the beginnings of ledgers
    for path in disk.paths(".journal")[:-2]:
        disk.remove_at_rest(path)


def tell_nobody(_what: str, _count: int) -> None:
    return


def test_the_metadata_tell_of_ledgers_whose_index_is_lost(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    """B8: and they are fenced, because the metadata do not know whether they were."""
    lose_index(disk)

    report = rebuild_index(disk, store, CONFIG, [b"wrong", PASSWORD], tell_nobody)["/l"]

    assert report is not None
    known = set(report.fenced_ids) | set(report.left_out_ids)
    assert 0 in report.fenced_ids
    storage = storage_of(disk, check_identity(disk, store, CONFIG).bookie_id)
    storage.open()
    for ledger_id, password in ((0, b""), (1, PASSWORD)):
        info = storage.homes.info(ledger_id)
        assert info is not None
        assert info.ledger_key == ledger_key(password, ledger_id)
        assert info.is_fenced == (ledger_id in known)
        assert info.last_entry_id == 99
    storage.close()


def test_a_password_that_is_needed_is_asked_for(disk: SimulatedDisk, store: MemoryStore) -> None:
    for path in disk.paths(".journal"):
        disk.remove_at_rest(path)
    lose_index(disk)

    with pytest.raises(InvalidOptionError, match=r"index of ledger 1 is lost.*--password-file"):
        rebuild_index(disk, store, CONFIG, [b"wrong"], tell_nobody)
    with pytest.raises(InvalidOptionError, match="the metadata have its key"):
        rebuild_index(disk, None, CONFIG, [PASSWORD], tell_nobody)
    report = rebuild_index(disk, store, CONFIG, [PASSWORD], tell_nobody)["/l"]
    assert report is not None
    assert (report.fenced_ids, report.left_out_ids) == ((0, 1), (2,))


def test_nothing_is_done_to_a_running_bookie(disk: SimulatedDisk, store: MemoryStore) -> None:
    lock = lock_directory(disk, "/l")
    before = disk.content("/l/last_mark")

    with pytest.raises(DirectoryInUseError):
        rebuild_index(disk, None, CONFIG, [], tell_nobody)
    with pytest.raises(DirectoryInUseError):
        wipe_bookie(disk, store, CONFIG)
    with pytest.raises(DirectoryInUseError), check(disk, None, CONFIG):
        pass
    assert disk.content("/l/last_mark") == before
    lock.close()


def test_nothing_is_done_to_directories_of_two_bookies(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    disk.remove_at_rest("/j/cookie")

    with pytest.raises(CookieMismatchError):
        rebuild_index(disk, store, CONFIG, [], tell_nobody)
    with pytest.raises(CookieMismatchError):
        wipe_bookie(disk, None, CONFIG)
    with pytest.raises(CookieMismatchError), check(disk, store, CONFIG):
        pass


def test_a_check_lends_the_files(disk: SimulatedDisk, store: MemoryStore) -> None:
    with check(disk, store, CONFIG) as found:
        assert list(found.problems()) == []
        assert found.entry_count == 300


def test_a_wiped_bookie_does_not_start_under_its_old_id(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    """B6: it would deny all that it has acknowledged, and recoveries would believe it."""
    wipe_bookie(disk, None, CONFIG)

    cookie = check_identity(disk, store, CONFIG)
    assert disk.list_dir("/l") == ["cookie", "incarnation", "lock", "wiped"]
    with pytest.raises(BookieError, match="was wiped by `zbk bookie format`"):
        storage_of(disk, cookie.bookie_id).open()
    with pytest.raises(CookieMismatchError, match="belongs to bookie"):
        init_identity(disk, store, CONFIG)


def test_wiped_with_its_cookie_it_is_free_for_another_bookie(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    """B5: the next one has another id."""
    old = check_identity(disk, store, CONFIG).bookie_id

    wipe_bookie(disk, store, CONFIG)

    assert disk.list_dir("/l") == disk.list_dir("/j") == []
    assert BookieRegistry(store).read_cookie(old) is None
    assert init_identity(disk, store, CONFIG) != old


def test_a_wipe_with_the_metadata_of_another_cluster_changes_nothing(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    """Its own cluster would keep the cookie of a bookie that is gone, and name it as missing."""
    other = MemoryTree().open_session()
    initialise(other)
    before = {*disk.list_dir("/l"), "lock"}

    with pytest.raises(CookieMismatchError, match="check --metadata"):
        wipe_bookie(disk, other, CONFIG)

    assert set(disk.list_dir("/l")) == before
    check_identity(disk, store, CONFIG)
    other.close()


@pytest.mark.parametrize("with_cookie", [False, True])
def test_a_wipe_that_a_crash_cut_short_is_ended_by_the_next_one(
    store: MemoryStore, *, with_cookie: bool
) -> None:
    """B40: and in between the bookie does not start with half of its data."""
    wiping_store = store if with_cookie else None
    for step in range(1, 60):
        disk = SimulatedDisk()
        bookie_id = fill_again(disk, store)
        disk.crash_at = disk.operation_count + step
        try:
            wipe_bookie(disk, wiping_store, CONFIG)
        except SimulatedCrash:
            disk.crash(Random(step))
        else:
            assert step > 10
            return
        check_start(disk, store, bookie_id)
        try:
            wipe_bookie(disk, wiping_store, CONFIG)
        except CookieMismatchError:
            assert with_cookie, "all cookies had gone"
        assert disk.list_dir("/l") == ([] if with_cookie else EMPTY), step
    raise AssertionError("there are more steps")


EMPTY = ["cookie", "incarnation", "lock", "wiped"]


def fill_again(disk: SimulatedDisk, store: MemoryStore) -> str:
    bookie_id = init_identity(disk, store, CONFIG)
    next_incarnation(disk, "/l")
    storage = storage_of(disk, bookie_id)
    storage.open()
    storage.close()
    return bookie_id


def check_start(disk: SimulatedDisk, store: MemoryStore, bookie_id: str) -> None:
    """Start the bookie: with all that it had, or not at all."""
    had_mark = disk.exists("/l/last_mark")
    with suppress(ZbkError):
        check_identity(disk, store, CONFIG)
        storage = storage_of(disk, bookie_id)
        storage.open()
        assert had_mark, "it started without its data"
        storage.close()
    disk.process_crash()
