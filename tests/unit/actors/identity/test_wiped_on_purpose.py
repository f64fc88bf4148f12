"""A bookie that was wiped on purpose starts when it is told so, and denies nothing of before."""

import copy
from random import Random

import pytest

from tests.support.bookie_starts import NEXT_LEDGER_ID, ONE_OF_EACH, Start, known, served, vanish
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.power_cuts import crashed_at_each_step, power_cuts
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.offline import wipe_bookie
from zbk.durability.limbo import LossReason
from zbk.errors import BookieError, LostHistoryError
from zbk.metadata.paths import cookie_path
from zbk.metadata.records.bookies import BookieRegistry
from zbk.storage.directory.identity import read_incarnation
from zbk.storage.directory.unfinished import was_wiped


@pytest.mark.parametrize("kept", [(), ("incarnation",)])
def test_wiped_on_purpose_it_starts_and_all_of_before_is_in_limbo(
    store: MemoryStore, kept: tuple[str, ...]
) -> None:
    disk = served(store)
    vanish(disk, "/j", "/l", kept=kept)

    start = Start(disk, store, is_wiped_on_purpose=True).run()

    assert start.history.incarnation == 3, "what an earlier life has acknowledged is void"
    assert start.losses.reasons == (LossReason.WIPED,)
    assert start.losses.left(has_lost_fences=True).ledger_count == NEXT_LEDGER_ID
    assert known(store) == (3, True)
    start.stop()
    again = Start(disk.process_crash(), store).run()
    assert again.losses.reasons == (LossReason.WIPED,), "without being told once more"


def test_an_older_copy_that_is_to_start_keeps_what_it_has_and_denies_nothing(
    store: MemoryStore,
) -> None:
    disk = served(store, start_count=2)
    older = copy.deepcopy(disk)
    Start(disk, store).run().stop()

    start = Start(older, store, is_wiped_on_purpose=True).run()

    assert start.storage.ledgers() == [0, 1]
    assert start.losses.reasons == (LossReason.WIPED,)
    assert start.history.incarnation == 4


def test_without_its_journal_it_starts_on_purpose_with_what_the_entry_logs_have(
    store: MemoryStore,
) -> None:
    disk = served(store)
    vanish(disk, "/j")

    start = Start(disk, store, is_wiped_on_purpose=True).run()

    assert start.storage.ledgers() == [0, 1]
    assert start.losses.reasons == (LossReason.WIPED,)
    start.stop()
    Start(disk.process_crash(), store).run()


def test_a_journal_that_cannot_be_read_without_the_mark_is_to_be_removed_first(
    store: MemoryStore,
) -> None:
    disk = served(store)
    vanish(disk, "/l")
    assert not disk.exists("/j/0000000000000001.journal")

    with pytest.raises(LostHistoryError, match=r"journal in /j cannot .* `zbk bookie format`"):
        Start(disk, store, is_wiped_on_purpose=True).open()

    assert known(store) == (2, True)
    wipe_bookie(disk.process_crash(), None, ONE_OF_EACH)
    start = Start(disk, store, is_wiped_on_purpose=True).run()
    assert start.losses.reasons == (LossReason.WIPED,)
    assert start.history.incarnation == 3


def test_a_formatted_bookie_is_refused_and_let_in_as_ever(store: MemoryStore) -> None:
    disk = served(store)
    wipe_bookie(disk, None, ONE_OF_EACH)

    with pytest.raises(BookieError, match="was wiped by `zbk bookie format`"):
        Start(disk, store).open()
    start = Start(disk, store, is_wiped_on_purpose=True).run()

    assert start.losses.reasons == (LossReason.WIPED,)
    start.stop()
    Start(disk.process_crash(), store).run()


@pytest.mark.parametrize("is_formatted", [False, True])
def test_after_a_power_cut_at_any_step_of_such_a_start_nothing_is_denied(
    *, is_formatted: bool
) -> None:
    """It starts when it is told so again; and once it starts by itself, the loss is noted."""
    store = MemoryTree().open_session()
    before = served(store)
    if is_formatted:
        wipe_bookie(before, None, ONE_OF_EACH)
    else:
        vanish(before, "/j", "/l")
    path = cookie_path(*BookieRegistry(store).cookies())
    value = store.get(path).value

    def prepare(disk: SimulatedDisk) -> "Start":
        disk.__dict__.update(copy.deepcopy(before).__dict__)
        store.set(path, value, store.get(path).version)
        return Start(disk, store, is_wiped_on_purpose=True)

    started_count = 0
    for disk, step in crashed_at_each_step(lambda disk: prepare(disk).run):
        kept = store.get(path).value
        for after in power_cuts(disk, Random(step), count_max=3):
            by_itself = Start(copy.deepcopy(after), store)
            try:
                by_itself.run()
            except BookieError:
                is_older = read_incarnation(after, "/l") < known(store)[0]
                assert is_older or was_wiped(after, "/l"), "it was let in, and its start counted"
            else:
                started_count += 1
                assert by_itself.losses.reasons == (LossReason.WIPED,)
            store.set(path, kept, store.get(path).version)
            told_so = Start(after, store, is_wiped_on_purpose=True).run()
            assert told_so.losses.reasons == (LossReason.WIPED,)
            store.set(path, kept, store.get(path).version)
    assert started_count
    store.close()
