"""Who a bookie is, and whom the cluster takes it for."""

from typing import Any

import msgspec
import pytest

from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.identity import check_identity, init_identity
from zbk.config import BookieConfig
from zbk.errors import BookieError, CookieMismatchError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.storage.directory.identity import next_incarnation, read_cookie

CONFIG = BookieConfig(journal_dir="/j", ledger_dir="/l", listen="tcp://127.0.0.1:3181")


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def wipe(disk: SimulatedDisk, directory: str) -> None:
    for path in disk.paths(f"{directory}/"):
        disk.remove_at_rest(path)


def test_a_bookie_that_was_made_is_known(disk: SimulatedDisk, store: MemoryStore) -> None:
    bookie_id = init_identity(disk, store, CONFIG)

    assert check_identity(disk, store, CONFIG).bookie_id == bookie_id


def test_a_bookie_made_anew_at_the_same_address_is_another_bookie(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    """B5: ensembles name ids, so a writer that still knows the old one does not reach it."""
    old = init_identity(disk, store, CONFIG)

    assert init_identity(SimulatedDisk(), store, CONFIG) != old


@pytest.mark.parametrize(
    "change",
    [{"created_ms": 1}, {"journal_dirs": ("/other",)}, {"ledger_dirs": ("/other",)}],
    ids=["time", "journal", "ledgers"],
)
def test_a_bookie_whose_cookie_is_not_the_one_in_the_cluster_does_not_start(
    disk: SimulatedDisk, store: MemoryStore, change: dict[str, Any]
) -> None:
    """The cluster knows this id from another init, with other directories."""
    init_identity(disk, store, CONFIG)
    cookie = check_identity(disk, store, CONFIG)
    BookieRegistry(store).delete_cookie(cookie.bookie_id)
    BookieRegistry(store).create_cookie(msgspec.structs.replace(cookie, **change))

    with pytest.raises(CookieMismatchError, match="not the one that the cluster has for bookie"):
        check_identity(disk, store, CONFIG)


def test_a_bookie_whose_disks_are_empty_does_not_start(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    """B6: it would say "no such entry" of all that it has lost."""
    init_identity(disk, store, CONFIG)
    wipe(disk, "/j")
    wipe(disk, "/l")

    with pytest.raises(CookieMismatchError, match="not a bookie's directory"):
        check_identity(disk, store, CONFIG)


@pytest.mark.parametrize("directory", ["/j", "/l"])
def test_a_bookie_with_one_wiped_directory_neither_starts_nor_is_made_again(
    disk: SimulatedDisk, store: MemoryStore, directory: str
) -> None:
    """B40: a new cookie in the empty directory would hide that half of the data is gone."""
    init_identity(disk, store, CONFIG)
    wipe(disk, directory)

    with pytest.raises(CookieMismatchError, match="a disk was swapped or wiped"):
        check_identity(disk, store, CONFIG)
    with pytest.raises(CookieMismatchError, match="a disk was swapped or wiped"):
        init_identity(disk, store, CONFIG)


def test_a_bookie_that_was_removed_from_the_cluster_does_not_come_back_with_its_data(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    """B40: its cookie is gone from the metadata, its directories are full."""
    bookie_id = init_identity(disk, store, CONFIG)
    next_incarnation(disk, "/l")
    BookieRegistry(store).delete_cookie(bookie_id)

    with pytest.raises(CookieMismatchError, match="removed from the cluster"):
        check_identity(disk, store, CONFIG)
    with pytest.raises(BookieError, match="is not empty"):
        init_identity(disk, store, CONFIG)
    assert BookieRegistry(store).read_cookie(bookie_id) is None


def test_one_wiped_directory_and_no_cookie_in_the_metadata_make_no_new_bookie(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    """B40: the hole that BookKeeper still has."""
    bookie_id = init_identity(disk, store, CONFIG)
    next_incarnation(disk, "/l")  # it has started: an init that was cut short is another matter
    BookieRegistry(store).delete_cookie(bookie_id)
    wipe(disk, "/j")

    for try_it in (check_identity, init_identity):
        with pytest.raises(CookieMismatchError):
            try_it(disk, store, CONFIG)


def test_after_an_interrupted_init_the_next_one_makes_another_bookie(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    """B40: it looks as a bookie does that was removed, and whose files but the cookies are gone."""
    old = init_identity(disk, store, CONFIG)
    BookieRegistry(store).delete_cookie(old)  # as if it had not come so far

    bookie_id = init_identity(disk, store, CONFIG)

    assert bookie_id != old, "under its old id it would deny what it had"
    assert check_identity(disk, store, CONFIG).bookie_id == bookie_id
    assert list(BookieRegistry(store).cookies()) == [bookie_id]


def test_cookies_of_another_cluster_are_not_taken_for_an_interrupted_init(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    init_identity(disk, store, CONFIG)
    elsewhere = MemoryStore(MemoryTree())
    before = read_cookie(disk, "/l")

    with pytest.raises(CookieMismatchError, match="belongs to bookie"):
        init_identity(disk, elsewhere, CONFIG)

    assert read_cookie(disk, "/l") == before
    elsewhere.close()


def test_directories_of_two_bookies_are_refused(disk: SimulatedDisk, store: MemoryStore) -> None:
    init_identity(disk, store, CONFIG)
    other = SimulatedDisk()
    init_identity(other, store, CONFIG)
    cookie = read_cookie(other, "/l")
    assert cookie is not None
    disk.set_content("/l/cookie", cookie)

    with pytest.raises(CookieMismatchError, match="different bookies"):
        check_identity(disk, store, CONFIG)


def test_a_bookie_of_another_cluster_is_refused(disk: SimulatedDisk, store: MemoryStore) -> None:
    init_identity(disk, store, CONFIG)
    elsewhere = MemoryStore(MemoryTree())
    init_identity(SimulatedDisk(), elsewhere, CONFIG)

    with pytest.raises(CookieMismatchError, match="belongs to cluster"):
        check_identity(disk, elsewhere, CONFIG)
    elsewhere.close()


def test_each_way_in_which_directories_can_be_wrong_names_the_place_and_the_cure(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    bookie_id = init_identity(disk, store, CONFIG)

    with pytest.raises(CookieMismatchError, match=r"/none is not there while /j .* mounted\?"):
        check_identity(disk, store, BookieConfig(journal_dir="/j", ledger_dir="/none"))
    other = SimulatedDisk()
    other_id = init_identity(other, store, CONFIG)
    kept = disk.content("/l/cookie")
    disk.set_content("/l/cookie", other.content("/l/cookie"))
    with pytest.raises(CookieMismatchError, match=f"/j to {bookie_id}, /l to {other_id}"):
        check_identity(disk, store, CONFIG)
    disk.set_content("/l/cookie", b"rubbish")
    with pytest.raises(CookieMismatchError, match="its cookie is damaged"):
        check_identity(disk, store, CONFIG)
    disk.set_content("/l/cookie", kept)
    wipe(disk, "/l")
    with pytest.raises(CookieMismatchError, match="`zbk bookie cookie generate`"):
        check_identity(disk, store, CONFIG)


def test_wiped_disks_name_the_bookie_that_they_were(
    disk: SimulatedDisk, store: MemoryStore
) -> None:
    """B6: so that nobody takes them for new ones."""
    bookie_id = init_identity(disk, store, CONFIG)
    wipe(disk, "/j")
    wipe(disk, "/l")

    with pytest.raises(CookieMismatchError, match=f"if this was bookie {bookie_id}"):
        check_identity(disk, store, CONFIG)
