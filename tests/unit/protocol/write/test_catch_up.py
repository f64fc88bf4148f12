"""CatchUp: when a new bookie has what is acknowledged and not durable, and may join."""

from array import array

import pytest

from zbk.errors import BookieUnavailableError, BusyError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.write.catch_up import SILENCE_MS, CatchUp, SendCatchUp
from zbk.protocol.write.events import ChangeEnsemble

FIRST = EntryBatch(7, range(5, 8), array("I", [1, 1, 1]), b"abc", 0)
SECOND = EntryBatch(7, range(8, 10), array("I", [1, 1]), b"de", 0)
REPLACED = {1: ("b1", "n1"), 2: ("b2", "n2")}
GONE = BookieUnavailableError("n1", "gone")


def catch_up(*batches: EntryBatch) -> CatchUp:
    unsynced = dict.fromkeys(REPLACED, batches)
    change = ChangeEnsemble(3, 5, {1: "b1", 2: "b2"}, is_urgent=False, unsynced=unsynced)
    return CatchUp(change, REPLACED)


def finish(found: CatchUp, slot: int, last_add_synced: int = 9) -> None:
    found.added(slot, None)
    found.added(slot, None)
    found.synced(slot, last_add_synced)


def test_each_new_bookie_is_sent_all_and_a_sync_with_the_lac() -> None:
    found = catch_up(FIRST, SECOND)

    assert found.sends == [
        SendCatchUp(1, "n1", (FIRST, SECOND), 4),
        SendCatchUp(2, "n2", (FIRST, SECOND), 4),
    ]
    finish(found, 1)
    assert not found.is_over
    finish(found, 2)
    assert found.is_over
    assert found.caught_up == REPLACED


def test_where_all_is_durable_nothing_is_sent() -> None:
    found = catch_up()

    assert found.is_over
    assert found.sends == []
    assert found.caught_up == REPLACED


@pytest.mark.parametrize("cursor", [-1, 4, 8])
def test_a_bookie_that_has_synced_less_does_not_join(cursor: int) -> None:
    """It restarted in between, and lost what it had taken."""
    found = catch_up(FIRST, SECOND)

    finish(found, 1, cursor)
    finish(found, 2)

    assert found.is_over
    assert found.caught_up == {2: ("b2", "n2")}
    assert f"up to {cursor}" in str(found.failures["n1"])


def test_one_failure_is_enough_and_later_answers_of_that_bookie_are_late() -> None:
    found = catch_up(FIRST, SECOND)

    found.added(1, GONE)
    found.added(1, None)
    found.added(1, BusyError("late"))
    found.synced(1, 9)
    assert not found.is_over
    found.synced(2, BusyError("too much"))
    found.added(2, None)

    assert found.is_over
    assert found.caught_up == {}
    assert found.failures == {"n1": GONE, "n2": found.failures["n2"]}


def test_a_sync_that_is_answered_before_an_add_is_not_the_end() -> None:
    found = catch_up(FIRST, SECOND)
    finish(found, 2)

    found.synced(1, 9)
    found.added(1, None)
    assert not found.is_over
    found.added(1, None)

    assert found.is_over


def test_a_bookie_that_answers_nothing_is_given_up_soon() -> None:
    found = catch_up(FIRST, SECOND)
    assert found.due_ms == 0, "its time begins with the first tick"
    found.tick(10)
    assert found.due_ms == 10 + SILENCE_MS
    found.added(1, None)
    found.tick(10 + SILENCE_MS - 1)
    assert not found.failures

    found.tick(10 + SILENCE_MS)

    assert list(found.failures) == ["n2"]
    assert found.due_ms is None, "the other one has answered once"
    assert "answered nothing for 1 s" in str(found.failures["n2"])
    found.added(2, None)  # too late
    found.synced(2, 9)
    found.added(1, None)
    found.tick(10 + 10 * SILENCE_MS)  # the fsync of the other one may take long
    assert not found.is_over
    found.synced(1, 9)
    assert found.is_over
    assert found.caught_up == {1: REPLACED[1]}
