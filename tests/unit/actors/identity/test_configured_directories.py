"""A bookie has the directories that it was made with, each at its place."""

import pytest

from tests.support.memory_store import MemoryStore
from tests.support.served_directories import ALL, CONFIG, disk, empty
from tests.support.several_directories import JOURNALS, LEDGERS
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.identity import check_identity, init_identity
from zbk.config import BookieConfig
from zbk.errors import CookieMismatchError, InvalidOptionError
from zbk.storage.directory.identity import read_cookie

__all__ = ["disk"]


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
