"""The power goes at every step of an init: each way in which it can, and the next one ends it."""

from collections.abc import Callable
from random import Random

from tests.support.memory_store import MemoryTree
from tests.support.power_cuts import crashed_at_each_step, power_cuts
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.actors.identity.identity import check_identity, init_identity
from zbk.config import BookieConfig
from zbk.metadata.records.bookies import BookieRegistry
from zbk.storage.directory.identity import read_cookie

DIRECTORIES = ("/b/j", "/b/l")
CONFIG = BookieConfig(journal_dir="/b/j", ledger_dir="/b/l", listen="tcp://127.0.0.1:3181")


def test_a_power_cut_at_any_step_of_an_init_is_ended_by_the_next_one() -> None:
    """B40: a cookie that the cluster keeps is in all directories; else the init is done again."""
    trees: list[MemoryTree] = []

    def prepare(disk: SimulatedDisk) -> Callable[[], str]:
        trees.append(MemoryTree())
        return lambda: init(disk, trees[-1])

    for disk, step in crashed_at_each_step(prepare):
        for after in power_cuts(disk, Random(step)):
            check_whole(after, trees[-1])


def test_a_power_cut_after_an_init_that_ended_a_killed_one_finds_the_cookie() -> None:
    """B40: what the killed one left in the page cache is on the platter when the cluster knows."""
    for step in range(1, 40):
        disk, tree = SimulatedDisk(), MemoryTree()
        disk.crash_at = step
        try:
            init(disk, tree)
        except SimulatedCrash:
            init(disk.process_crash(), tree)
        for after in power_cuts(disk, Random(step)):
            check_whole(after, tree)


def init(disk: SimulatedDisk, tree: MemoryTree) -> str:
    store = tree.open_session()
    try:
        return init_identity(disk, store, CONFIG)
    finally:
        store.close()


def check_whole(disk: SimulatedDisk, tree: MemoryTree) -> None:
    """Initialise what is not; then directories and metadata agree. The metadata stay the same."""
    store = tree.open_session()
    registry = BookieRegistry(store)
    is_known = bool(registry.cookies())
    try:
        if not is_known:
            init_identity(disk, store, CONFIG)
        cookie = check_identity(disk, store, CONFIG)
        assert list(registry.cookies()) == [cookie.bookie_id]
        assert {read_cookie(disk, path) for path in DIRECTORIES} == {read_cookie(disk, "/b/l")}
        if not is_known:
            registry.delete_cookie(cookie.bookie_id)
    finally:
        store.close()
