"""A bookie gets more directories, all of them empty."""

import errno
from random import Random

import pytest

from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.served_directories import fill
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.actors.identity.expansion import check_expansion, expand
from zbk.actors.identity.identity import check_identity, init_identity, local_cookie
from zbk.actors.identity.service import take_out
from zbk.config import BookieConfig
from zbk.errors import (
    BookieError,
    CookieMismatchError,
    DirectoryInUseError,
    InvalidOptionError,
    StorageFailedError,
    ZbkError,
)
from zbk.metadata.records.bookies import BookieRegistry
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.directory import serving, unfinished
from zbk.storage.directory.history import KnownHistory, missing_history
from zbk.storage.directory.identity import lock_directory, next_incarnation, read_place
from zbk.system.files import File

ONE = BookieConfig(journal_dir="/j1", ledger_dir="/l1")
MORE = BookieConfig(journal_dir=("/j1", "/j2"), ledger_dir=("/l1", "/l2", "/l3"))
LEDGERS_ONLY = BookieConfig(journal_dir="/j1", ledger_dir=("/l1", "/l2"))
JOURNALS_ONLY = BookieConfig(journal_dir=("/j1", "/j2"), ledger_dir="/l1")
NEW = ("/j2", "/l2", "/l3")


@pytest.fixture
def disk(store: MemoryStore) -> SimulatedDisk:
    return served(store)


def served(store: MemoryStore, disk: SimulatedDisk | None = None) -> SimulatedDisk:
    """Return directories of a bookie that has served four ledgers."""
    disk = SimulatedDisk() if disk is None else disk
    bookie_id = init_identity(disk, store, ONE)
    storage = opened(disk, ONE)
    next_incarnation(disk, "/l1")
    BookieRegistry(store).raise_incarnation(bookie_id, 1, has_served=True)
    fill(storage, range(4))
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)
    fill(storage, range(4, 6))  # in the journal only
    storage.close()
    for path in NEW:
        disk.make_dirs(path)
    return disk


def opened(disk: SimulatedDisk, config: BookieConfig) -> BookieStorage:
    storage = BookieStorage(
        disk,
        journal_dir=config.journal_dir,
        ledger_dir=config.ledger_dir,
        bookie_id=local_cookie(disk, config).bookie_id,
        limits=StorageLimits(segment_size=1 << 16),
    )
    storage.open()
    return storage


@pytest.mark.parametrize("config", [MORE, LEDGERS_ONLY, JOURNALS_ONLY])
def test_new_directories_serve_and_old_ledgers_stay(
    disk: SimulatedDisk, store: MemoryStore, config: BookieConfig
) -> None:
    found = expand(disk, store, config)

    assert set(found.new) == {*config.journal_dirs, *config.ledger_dirs} - {"/j1", "/l1"}
    cookie = check_identity(disk, store, config)
    assert (cookie.journal_dirs, cookie.ledger_dirs) == (config.journal_dirs, config.ledger_dirs)
    known = BookieRegistry(store).read_stored_cookie(cookie.bookie_id)
    assert known is not None
    assert (known.incarnation, known.has_served) == (1, True)
    journals = dict(enumerate(config.journal_dirs))
    history = KnownHistory(known.incarnation, known.has_served)
    assert missing_history(disk, journals, config.ledger_dirs, history) == []
    storage = opened(disk, config)
    assert storage.ledgers() == list(range(6))
    assert {storage.homes.ledger(one).home.number for one in range(4)} == {0}
    fill(storage, range(6, 18))
    homes = {storage.homes.ledger(one).home.number for one in range(6, 18)}
    assert homes == set(range(len(config.ledger_dirs)))
    storage.close()
    storage = opened(disk, config)
    assert storage.ledgers() == list(range(18))
    assert [storage.homes.ledger(one).index.last_entry_id for one in range(18)] == [4] * 18
    storage.close()


def test_the_places_of_all_directories_are_noted(disk: SimulatedDisk, store: MemoryStore) -> None:
    expand(disk, store, LEDGERS_ONLY)
    expand(disk, store, MORE)

    assert read_place(disk, "/l1") == "ledger directory 1 of 3"
    assert read_place(disk, "/l3") == "ledger directory 3 of 3"
    assert read_place(disk, "/j1") == "journal directory 1 of 2"


def test_a_lone_directory_that_has_moved_can_get_another(store: MemoryStore) -> None:
    disk = SimulatedDisk()
    init_identity(disk, store, ONE)
    for path in list(disk.paths()):
        if path.startswith("/l1/"):
            disk.make_dirs("/moved")
            disk.open(path.replace("/l1", "/moved"), create=True).close()
            disk.set_content(path.replace("/l1", "/moved"), disk.content(path))
    disk.make_dirs("/l2")
    config = BookieConfig(journal_dir="/j1", ledger_dir=("/moved", "/l2"))

    expand(disk, store, config)

    assert check_identity(disk, store, config).ledger_dirs == ("/moved", "/l2")


def test_a_crash_at_any_step_lets_it_be_run_again() -> None:
    step, is_done, refused_count = 0, False, 0
    while not is_done:
        step += 1
        store = MemoryStore(MemoryTree())
        disk = served(store)
        disk.crash_at = disk.operation_count + step
        try:
            expand(disk, store, MORE)
            is_done = True
        except SimulatedCrash:
            pass
        disk.crash(Random(step))
        refused_count += not starts_with_one_or_not_at_all(disk, store)
        if is_complete(disk, store):
            with pytest.raises(InvalidOptionError, match="none is new"):
                expand(disk, store, MORE)
        else:
            expand(disk, store, MORE)
        check_identity(disk, store, MORE)
        storage = opened(disk, MORE)
        assert storage.ledgers() == list(range(6))
        storage.close()
        store.close()
    assert step > 40
    assert refused_count > 30


def is_complete(disk: SimulatedDisk, store: MemoryStore) -> bool:
    (cookie,) = BookieRegistry(store).cookies().values()
    return cookie.ledger_dirs == MORE.ledger_dirs and not disk.paths("/unfinished")


def starts_with_one_or_not_at_all(disk: SimulatedDisk, store: MemoryStore) -> bool:
    """Return whether one of the two configurations is accepted; both never are."""
    accepted = []
    for config in (ONE, MORE):
        try:
            check_identity(disk, store, config)
            unfinished.check_finished(disk, "/l1")
        except BookieError:
            continue
        accepted.append(config)
    assert len(accepted) < 2
    return bool(accepted)


def test_a_start_in_between_names_the_command(disk: SimulatedDisk, store: MemoryStore) -> None:
    unfinished.begin(disk, "/l1", "zbk bookie expand-storage")

    for config in (ONE, MORE):
        with pytest.raises(BookieError, match="`zbk bookie expand-storage` was interrupted"):
            check_identity(disk, store, config)
    expand(disk, store, MORE)
    check_identity(disk, store, MORE)


@pytest.mark.parametrize(
    ("config", "error", "told"),
    [
        (ONE, InvalidOptionError, "none is new"),
        (BookieConfig(journal_dir="/j1", ledger_dir=("/l2", "/l1")), CookieMismatchError, "first"),
        (BookieConfig(journal_dir=("/j2", "/j1"), ledger_dir="/l1"), CookieMismatchError, "/j2"),
        (
            BookieConfig(journal_dir="/j1", ledger_dir=("/l1", "/absent")),
            BookieError,
            "/absent is not there",
        ),
    ],
)
def test_what_is_no_expansion_is_refused_and_changes_nothing(
    disk: SimulatedDisk,
    store: MemoryStore,
    config: BookieConfig,
    error: type[ZbkError],
    told: str,
) -> None:
    before = {path: disk.content(path) for path in disk.paths() if not path.endswith("/lock")}

    with pytest.raises(error, match=told):
        expand(disk, store, config)

    after = {path: disk.content(path) for path in disk.paths() if not path.endswith("/lock")}
    assert after == before
    check_identity(disk, store, ONE)


@pytest.mark.parametrize(
    "config",
    [
        BookieConfig(journal_dir="/j1", ledger_dir=("/l1", "/l3", "/l2", "/l4")),
        BookieConfig(journal_dir="/j1", ledger_dir=("/l1", "/l3")),
    ],
)
def test_directories_are_only_added_after_the_old_ones(
    disk: SimulatedDisk, store: MemoryStore, config: BookieConfig
) -> None:
    expand(disk, store, LEDGERS_ONLY)
    disk.make_dirs("/l4")

    with pytest.raises(InvalidOptionError, match="must begin with /l1, /l2"):
        check_expansion(disk, store, config)


def test_a_directory_with_files_is_refused_also_after_an_interruption(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    disk.open("/l2/letters", create=True).close()
    with pytest.raises(BookieError, match="/l2 is not empty"):
        expand(disk, store, LEDGERS_ONLY)

    unfinished.begin(disk, "/l1", "zbk bookie expand-storage")
    with pytest.raises(BookieError, match="/l2 is not empty"):
        expand(disk, store, LEDGERS_ONLY)
    assert disk.exists("/l2/letters")


def test_the_directory_of_another_bookie_is_refused(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    init_identity(disk, store, BookieConfig(journal_dir="/j9", ledger_dir="/l2"))

    with pytest.raises(BookieError, match="belongs to a bookie already"):
        expand(disk, store, LEDGERS_ONLY)


def test_other_directories_than_before_the_interruption_are_refused(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    disk.crash_at = disk.operation_count + 60
    with pytest.raises(SimulatedCrash):
        expand(disk, store, MORE)
    disk.process_crash()

    with pytest.raises((BookieError, CookieMismatchError)):
        expand(disk, store, LEDGERS_ONLY)
    expand(disk, store, MORE)


def test_a_running_bookie_is_refused(disk: SimulatedDisk, store: MemoryStore) -> None:
    lock = lock_directory(disk, "/l1")
    with pytest.raises(DirectoryInUseError):
        expand(disk, store, LEDGERS_ONLY)
    lock.close()


class NotOurs(SimulatedDisk):
    """A disk with a directory of another user."""

    def lock(self, path: str) -> File | None:
        if path.startswith("/l2/"):
            raise PermissionError(errno.EACCES, "simulated", path)
        return super().lock(path)


def test_a_directory_of_another_user_is_a_typed_error(store: MemoryStore) -> None:
    disk = served(store, NotOurs())

    with pytest.raises(StorageFailedError, match="/l2"):
        expand(disk, store, LEDGERS_ONLY)


def test_a_directory_out_of_service_comes_back_first(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    expand(disk, store, LEDGERS_ONLY)
    take_out(disk, LEDGERS_ONLY, "/l2", "EIO")

    with pytest.raises(BookieError, match="renew-dir"):
        expand(disk, store, MORE)


def test_another_unfinished_command_comes_first(disk: SimulatedDisk, store: MemoryStore) -> None:
    unfinished.begin(disk, "/l1", "zbk bookie rebuild-index")

    with pytest.raises(BookieError, match="`zbk bookie rebuild-index` was interrupted"):
        expand(disk, store, LEDGERS_ONLY)


def test_a_bookie_that_did_not_stop_in_good_order_starts_first(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    """Entries of bypass ledgers that only its logs have are found in their own directory only."""
    serving.begin(disk, "/l1", "boot")
    with pytest.raises(BookieError, match="did not stop in good order"):
        expand(disk, store, LEDGERS_ONLY)

    serving.end(disk, "/l1")
    expand(disk, store, LEDGERS_ONLY)
