"""A start compares what the cluster knows of a bookie with what its directories show."""

import copy
from random import Random

import msgspec
import pytest

from tests.support.bookie_starts import (
    NEXT_LEDGER_ID,
    ONE_OF_EACH,
    TWO_OF_EACH,
    Start,
    known,
    refused,
    served,
    vanish,
)
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.power_cuts import crashed_at_each_step, power_cuts
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.identity import check_identity, in_service, init_identity
from zbk.actors.identity.offline import check
from zbk.actors.identity.service import renew, retire
from zbk.config import BookieConfig
from zbk.durability.limbo import LossReason
from zbk.errors import BookieError, CookieMismatchError, LostHistoryError, exit_code_of
from zbk.metadata.paths import cookie_path
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.values import StoredCookie, encode
from zbk.protocol.entry.words import LedgerType
from zbk.storage.directory.history import KnownHistory
from zbk.storage.directory.identity import read_incarnation

# ------------------------------------------------------------------ healthy starts


def test_each_start_is_known_to_the_cluster_before_it_serves(store: MemoryStore) -> None:
    disk = SimulatedDisk()
    init_identity(disk, store, ONE_OF_EACH)
    assert known(store) == (0, False)
    start = Start(disk, store)
    start.open()
    assert (read_incarnation(disk, "/l"), known(store)) == (1, (0, False)), "the disk comes first"

    start.history.claim()

    assert known(store) == (1, True)
    start.stop()
    again = Start(disk.process_crash(), store).run()
    assert (again.history.incarnation, known(store)) == (2, (2, True))
    assert not again.losses.reasons


def test_a_cluster_of_before_there_was_a_history_is_believed_once(store: MemoryStore) -> None:
    disk = served(store, start_count=3)
    cookie = check_identity(disk, store, ONE_OF_EACH)
    path = cookie_path(cookie.bookie_id)
    store.set(path, encode(cookie), store.get(path).version)
    assert known(store) == (0, False)

    Start(disk, store).run().stop()

    assert known(store) == (4, True)
    vanish(disk.process_crash(), "/j", "/l")
    assert "the cluster knows its incarnation 4 and that it has served" in refused(disk, store)


def test_a_cookie_with_a_history_is_the_one_in_the_directories(store: MemoryStore) -> None:
    disk = served(store)

    assert not isinstance(check_identity(disk, store, ONE_OF_EACH), StoredCookie)


@pytest.mark.parametrize("config", [ONE_OF_EACH, TWO_OF_EACH])
def test_after_a_power_cut_at_any_step_of_a_start_the_next_one_starts(
    config: BookieConfig,
) -> None:
    """The store is never ahead of the disk, and asks for nothing that is not durable."""
    tree = MemoryTree()
    store = tree.open_session()
    before = served(store, config)
    (bookie_id,) = BookieRegistry(store).cookies()
    path = cookie_path(bookie_id)
    value = store.get(path).value

    def prepare(disk: SimulatedDisk) -> "Start":
        disk.__dict__.update(copy.deepcopy(before).__dict__)
        store.set(path, value, store.get(path).version)
        return Start(disk, store, config)

    for disk, step in crashed_at_each_step(lambda disk: prepare(disk).run):
        kept = store.get(path).value
        for after in power_cuts(disk, Random(step), count_max=3):
            Start(after, store, config).run()
            store.set(path, kept, store.get(path).version)
    store.close()


def test_after_a_power_cut_at_any_step_of_the_first_start_the_next_one_starts() -> None:
    trees: list[MemoryStore] = []

    def prepare(disk: SimulatedDisk) -> "Start":
        trees.append(MemoryTree().open_session())
        init_identity(disk, trees[-1], ONE_OF_EACH)
        return Start(disk, trees[-1])

    for disk, step in crashed_at_each_step(lambda disk: prepare(disk).run):
        store = trees[-1]
        path = cookie_path(*BookieRegistry(store).cookies())
        kept = store.get(path).value
        for after in power_cuts(disk, Random(step), count_max=4):
            Start(after, store).run()
            store.set(path, kept, store.get(path).version)
    for store in trees:
        store.close()


# ------------------------------------------------------------------ what is gone


@pytest.mark.parametrize(
    ("gone", "kept", "told"),
    [
        (("/j", "/l"), (), "/l has no incarnation and no last log mark, and /j has no journal"),
        (("/j", "/l"), ("incarnation",), "/l has no last log mark, and /j has no journal"),
        (("/l",), (), "/l has no incarnation and no last log mark"),
        (("/l",), ("incarnation",), "/l has no last log mark"),
        (("/l",), ("last_mark",), "/l has no incarnation"),
        (("/j",), (), "/j has no journal"),
    ],
)
def test_a_bookie_whose_files_are_gone_and_whose_cookies_are_not_does_not_start(
    store: MemoryStore, gone: tuple[str, ...], kept: tuple[str, ...], told: str
) -> None:
    """B6: it would deny all that it has acknowledged."""
    disk = served(store)
    vanish(disk, *gone, kept=kept)

    text = refused(disk, store)

    assert told in text
    assert "the cluster knows its incarnation 2 and that it has served" in text
    assert "`zbk bookie run --wiped-on-purpose`" in text
    assert "zbk bookie cookie delete" in text
    assert text == refused(disk.process_crash(), store), "however often it is tried"


def test_a_refused_start_has_an_exit_code_of_its_own() -> None:
    assert exit_code_of(LostHistoryError) == 7
    assert exit_code_of(BookieError) == 6


def test_what_starts_the_directories_later_without_comparing_is_in_limbo(
    store: MemoryStore,
) -> None:
    disk = served(store)
    vanish(disk, "/j", "/l")
    refused(disk, store)

    later = Start(disk.crash(Random(1)), store)
    later.storage.open()

    assert later.storage.limbo.limbo.reasons == (LossReason.WIPED,)
    assert later.storage.limbo.limbo.is_miss_unknown(NEXT_LEDGER_ID - 1, LedgerType.PD_JOURNAL)


def test_a_whole_ledger_directory_is_not_put_in_limbo_for_a_journal_that_may_come_back(
    store: MemoryStore,
) -> None:
    """A loss that is noted is noted for ever; the journal's disk may be mounted elsewhere."""
    disk = served(store)
    mounted = copy.deepcopy(disk)
    vanish(disk, "/j")
    refused(disk, store)
    assert not disk.exists("/l/limbo")

    start = Start(mounted, store).run()

    assert not start.losses.reasons


# ------------------------------------------------------------------ several directories


def test_one_of_several_ledger_directories_that_was_wiped_is_named_with_its_cure(
    store: MemoryStore,
) -> None:
    disk = served(store, TWO_OF_EACH)
    vanish(disk, "/l2")

    text = refused(disk, store, TWO_OF_EACH)

    assert "/l2 has no incarnation and no last log mark" in text
    assert "`zbk bookie retire-dir /l2`" in text
    assert "--wiped-on-purpose" not in text
    assert not disk.exists("/l1/limbo"), "its disk may be mounted yet"
    with pytest.raises(LostHistoryError, match="retire-dir /l2"):
        Start(disk, store, TWO_OF_EACH, is_wiped_on_purpose=True).open()

    retire(disk.process_crash(), TWO_OF_EACH, "/l2")
    start = Start(disk, store, TWO_OF_EACH).run()

    assert start.losses.reasons == (LossReason.DIRECTORY_LOST,)
    start.stop()


@pytest.mark.parametrize("directory", ["/j1", "/j2", "/l1", "/l2"])
def test_a_directory_that_is_taken_out_and_brought_back_empty_is_no_loss_of_history(
    store: MemoryStore, directory: str
) -> None:
    disk = served(store, TWO_OF_EACH)
    retire(disk, TWO_OF_EACH, directory)
    Start(disk, store, TWO_OF_EACH).run().stop()
    vanish(disk.process_crash(), directory)

    renew(disk, TWO_OF_EACH, directory)
    start = Start(disk.process_crash(), store, TWO_OF_EACH).run()

    assert directory in in_service(disk, TWO_OF_EACH)
    start.stop()
    vanish(disk.process_crash(), directory)
    assert directory in refused(disk, store, TWO_OF_EACH)


# ------------------------------------------------------------------ removed bookies


def test_a_bookie_that_is_removed_from_the_cluster_while_it_starts_does_not_serve(
    store: MemoryStore,
) -> None:
    start = Start(served(store), store)
    start.open()
    BookieRegistry(store).delete_cookie(*BookieRegistry(store).cookies())

    with pytest.raises(CookieMismatchError, match="was removed from the cluster"):
        start.history.claim()


# ------------------------------------------------------------------ stopped bookies


def test_a_check_of_its_files_tells_what_the_cluster_knows(store: MemoryStore) -> None:
    disk = served(store)
    with check(disk, store, ONE_OF_EACH) as found:
        assert list(found.problems()) == []
    vanish(disk, "/j", "/l")

    with check(disk, store, ONE_OF_EACH) as found:
        problems = {one.path: one.reason for one in found.problems()}

    cluster = f"but the cluster knows {KnownHistory(2, has_served=True)}"
    assert problems["/l"] == f"has no incarnation and no last log mark, {cluster}"
    assert problems["/j"] == f"has no journal, {cluster}"


def test_a_loss_in_a_cluster_without_ledgers_is_refused_all_the_same(store: MemoryStore) -> None:
    disk = served(store)
    vanish(disk, "/j", "/l")

    with pytest.raises(LostHistoryError):
        Start(disk, store, next_ledger_id=0).open()

    start = Start(disk, store, next_ledger_id=0, is_wiped_on_purpose=True).run()
    assert not start.losses.reasons
    assert msgspec.structs.asdict(start.storage.limbo.limbo)["losses"] == ()
