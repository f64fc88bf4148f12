"""Looking after cookies: what is shown, and what is refused."""

from collections.abc import Iterator

import pytest

from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.cookies import delete, generate, look
from zbk.actors.identity.identity import check_identity, init_identity
from zbk.config import BookieConfig
from zbk.errors import BookieError, CookieMismatchError, DirectoryInUseError, InvalidOptionError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.values import BookieRegistration
from zbk.storage.directory.identity import lock_directory, next_incarnation
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.last_mark import LastMark, LogMark
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE, JournalPosition

CONFIG = BookieConfig(journal_dir="/j", ledger_dir="/l")


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def bookie_id(disk: SimulatedDisk, store: MemoryStore) -> str:
    made = init_identity(disk, store, CONFIG)
    mark = LogMark((JournalPosition(1, SEGMENT_HEADER_SIZE, 0, 0),), 0)
    LastMark(disk, "/l", FailStop()).write(mark)
    disk.open("/j/0000000000000001.journal", create=True).close()
    return made


@pytest.fixture
def registered(store: MemoryStore, bookie_id: str) -> Iterator[str]:
    registration = BookieRegistration(
        bookie_id=bookie_id,
        address="tcp://h:1",
        incarnation=1,
        is_readonly=False,
        started_ms=0,
        version="0",
    )
    held = BookieRegistry(store).register(registration)
    yield bookie_id
    held.close()


def states(disk: SimulatedDisk, store: MemoryStore | None) -> list[tuple[str, str]]:
    return [(one.place, one.state) for one in look(disk, store, CONFIG, "")]


def test_directories_and_metadata_are_shown_side_by_side(
    disk: SimulatedDisk, store: MemoryStore, bookie_id: str
) -> None:
    assert states(disk, store) == [
        ("/j", "fits"), ("/l", "fits"), (store.address, "not running"),
    ]  # fmt: skip
    everywhere = look(disk, store, BookieConfig(), "")
    assert {one.cookie.bookie_id for one in everywhere if one.cookie} == {bookie_id}
    assert states(disk, None) == [("/j", "not compared"), ("/l", "not compared")]


def test_what_does_not_fit_is_said_of_each_directory(
    disk: SimulatedDisk, store: MemoryStore, bookie_id: str
) -> None:
    disk.remove_at_rest("/j/cookie")
    assert states(disk, store)[:2] == [("/j", "no cookie"), ("/l", "fits")]

    delete(store, bookie_id)
    assert states(disk, store)[1:] == [
        ("/l", "unknown to the cluster"),
        (store.address, f"no cookie of bookie {bookie_id}"),
    ]
    disk.flip_bit("/l/cookie", 40)
    assert states(disk, store)[1][1].startswith("damaged: ")

    elsewhere = MemoryStore(MemoryTree())
    other = SimulatedDisk()
    init_identity(other, elsewhere, CONFIG)
    assert states(other, store)[0] == ("/j", "of another cluster")
    elsewhere.close()


@pytest.mark.usefixtures("bookie_id")
def test_a_moved_directory_fits_under_another_path(disk: SimulatedDisk, store: MemoryStore) -> None:
    disk.make_dirs("/elsewhere")
    disk.rename("/l/cookie", "/elsewhere/cookie")

    def state_of(path: str) -> str:
        return look(disk, store, BookieConfig(ledger_dir=path), "")[0].state

    assert state_of("/elsewhere") == "fits, under another path"
    assert state_of("/nowhere") == "no such directory"


def test_a_history_that_a_directory_lacks_is_said_beside_what_the_cluster_knows(
    disk: SimulatedDisk, store: MemoryStore, bookie_id: str
) -> None:
    next_incarnation(disk, "/l")
    BookieRegistry(store).raise_incarnation(bookie_id, 1, has_served=True)
    rows = look(disk, store, CONFIG, "")
    assert [(one.incarnation, one.has_served, one.state) for one in rows] == [
        (None, None, "fits"), (1, None, "fits"), (1, True, "not running"),
    ]  # fmt: skip

    disk.remove_at_rest("/j/0000000000000001.journal")
    disk.remove_at_rest("/l/last_mark")
    disk.remove_at_rest("/l/incarnation")

    cluster = "the cluster knows its incarnation 1 and that it has served"
    assert states(disk, store)[:2] == [
        ("/j", f"fits, but has no journal: {cluster}"),
        ("/l", f"fits, but has no incarnation and no last log mark: {cluster}"),
    ]
    assert states(disk, None) == [("/j", "not compared"), ("/l", "not compared")]


def test_a_history_that_is_damaged_is_said_where_it_is(
    disk: SimulatedDisk, store: MemoryStore, bookie_id: str
) -> None:
    BookieRegistry(store).raise_incarnation(bookie_id, 1, has_served=True)
    disk.set_content("/l/last_mark", b"")

    (journal, ledgers, _) = look(disk, store, CONFIG, "")

    assert journal.state == "fits"
    assert ledgers.state.startswith("fits, but its history cannot be compared: /l/last_mark")


def test_deleting_is_refused_while_the_bookie_is_registered(
    store: MemoryStore, registered: str
) -> None:
    with pytest.raises(BookieError, match=r"is registered at tcp://h:1: stop it first"):
        delete(store, registered)
    assert BookieRegistry(store).read_cookie(registered) is not None


def test_a_deleted_cookie_keeps_the_bookie_from_starting(
    disk: SimulatedDisk, store: MemoryStore, bookie_id: str
) -> None:
    """B40: the cluster has given its entries up; it may not come back with them."""
    delete(store, bookie_id)

    with pytest.raises(CookieMismatchError, match="removed from the cluster"):
        check_identity(disk, store, CONFIG)
    with pytest.raises(InvalidOptionError, match="no cookie for such a bookie"):
        delete(store, bookie_id)


@pytest.mark.parametrize("directory", ["/j", "/l"])
def test_a_restored_directory_gets_the_very_same_cookie(
    disk: SimulatedDisk, store: MemoryStore, bookie_id: str, directory: str
) -> None:
    before = disk.content(f"{directory}/cookie")
    disk.remove_at_rest(f"{directory}/cookie")

    generate(disk, store, bookie_id, directory)

    assert disk.content(f"{directory}/cookie") == before
    assert check_identity(disk, store, CONFIG).bookie_id == bookie_id


@pytest.mark.parametrize("directory", ["/j", "/l"])
def test_a_wiped_directory_gets_no_cookie(
    disk: SimulatedDisk, store: MemoryStore, bookie_id: str, directory: str
) -> None:
    """B40: a cookie in an empty directory would hide that its data are gone."""
    for path in disk.paths(f"{directory}/"):
        disk.remove_at_rest(path)

    with pytest.raises(BookieError, match="its data were not restored"):
        generate(disk, store, bookie_id, directory)


def test_generating_is_refused_wherever_it_would_be_wrong(
    disk: SimulatedDisk, store: MemoryStore, bookie_id: str
) -> None:
    with pytest.raises(CookieMismatchError, match="has a cookie"):
        generate(disk, store, bookie_id, "/l")
    with pytest.raises(InvalidOptionError, match=f"bookie {bookie_id} has /j and /l"):
        generate(disk, store, bookie_id, "/other")
    with pytest.raises(InvalidOptionError, match="no cookie for such a bookie"):
        generate(disk, store, "b-none", "/l")
    disk.remove_at_rest("/l/cookie")
    lock = lock_directory(disk, "/l")
    with pytest.raises(DirectoryInUseError):
        generate(disk, store, bookie_id, "/l")
    lock.close()


def test_generating_is_refused_while_the_bookie_is_registered(
    disk: SimulatedDisk, store: MemoryStore, registered: str
) -> None:
    disk.remove_at_rest("/l/cookie")

    with pytest.raises(BookieError, match="stop it first"):
        generate(disk, store, registered, "/l")
