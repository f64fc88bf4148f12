"""FragmentCopy: one copy against disks in memory; what it must see, and what it must not do.

Copies of entries that only a comparison can judge are in ``test_compared_copy``.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fragment_copies import Copy, closed, order
from tests.support.recovery_world import DIGEST, Q332
from tests.support.replica_world import LIMITS, original
from zbk.errors import BookieUnavailableError, DigestMismatchError, NoSuchEntryError
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.repair.copy_ids import LossNotes
from zbk.protocol.repair.copy_order import LostEntries
from zbk.protocol.repair.fragment_copy_events import CopyStopped, SendAdd
from zbk.protocol.repair.holdings import AskHoldings


@pytest.mark.parametrize("quorum", [Q332, Quorum(3, 2, 2), Quorum(5, 3, 2)], ids=str)
@pytest.mark.parametrize("digest", [DIGEST, None], ids=["verified", "compared"])
def test_the_target_holds_the_same_bytes_that_the_slot_is_due(
    quorum: Quorum, digest: DigestFunction | None
) -> None:
    world = closed(quorum, 50)
    copy = Copy(world, order(world), digest)

    result = copy.run()

    due = [i for i in range(50) if quorum.holds(0, i)]
    assert result.is_whole
    assert result.copied_count == len(due)
    assert world.disks["x0"] == {i: original(i) for i in due}
    assert result.copied_size == sum(len(original(i)) for i in due)


def test_what_is_on_its_way_is_bounded() -> None:
    world = closed(Q332, 200)
    copy = Copy(world, order(world))

    while copy.result is None:
        adds = [e for e in copy.waiting if isinstance(e, SendAdd)]
        reads_size = LIMITS.read_count_max * LIMITS.read_size
        assert sum(add.batch.size for add in adds) <= LIMITS.window_size + reads_size
        assert len(copy.waiting) - len(adds) <= LIMITS.read_count_max
        reads = [e for e in copy.waiting if not isinstance(e, SendAdd)]
        first = (reads or copy.waiting)[0]
        copy.waiting.remove(first)
        copy.say(copy.answer(first))
    assert copy.result.is_whole
    for batch in copy.batches():
        assert batch.count <= LIMITS.batch_count_max


def test_a_damaged_source_is_not_copied_and_another_one_is() -> None:
    """I27."""
    world = closed(Q332, 10)
    world.damage("b1", 4)
    copy = Copy(world, order(world))

    assert copy.run().is_whole
    assert world.disks["x0"][4] == original(4)


def test_an_entry_without_a_good_replica_is_lost_and_nothing_is_moved() -> None:
    """I27: what cannot be verified is told, and not copied."""
    world = closed(Q332, 10)
    for bookie in ("b1", "b2"):
        world.damage(bookie, 4)
        world.punch(bookie, 7)
    copy = Copy(world, order(world))

    result = copy.run()

    assert result.lost == (
        LostEntries(4, 4, 1, "no replica is undamaged"),
        LostEntries(7, 7, 1, "no bookie that answers has a replica"),
    )
    assert not result.is_whole
    assert not any(isinstance(effect, AskHoldings) for effect in copy.sent)


def test_lost_entries_are_noted_as_runs_and_counted() -> None:
    world = closed(Quorum(3, 3, 2), 20)
    notes = LossNotes(order(world, (0, 19)))
    for entry_id, reason in ((2, "a"), (3, "a"), (4, "a"), (5, "b"), (9, "b")):
        notes.note(entry_id, reason)

    assert notes.found == (
        LostEntries(2, 4, 3, "a"),
        LostEntries(5, 5, 1, "b"),
        LostEntries(9, 9, 1, "b"),
    )
    assert [one for one in range(12) if notes.has(one)] == [2, 3, 4, 5, 9]


def test_holes_are_filled_as_far_as_somebody_has_the_entries() -> None:
    world = closed(Q332, 10)
    for entry_id in (2, 3, 8):
        world.punch("b0", entry_id)
    world.punch("b1", 3)
    world.punch("b2", 3)
    copy = Copy(world, order(world, (2, 3), (8, 8), target="b0"))

    result = copy.run()

    assert [(lost.first_entry_id, lost.count) for lost in result.lost] == [(3, 1)]
    assert sorted(world.disks["b0"]) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_replica_that_does_not_answer_is_no_loss() -> None:
    world = closed(Q332, 10)
    world.punch("b1", 4)
    copy = Copy(world, order(world))
    copy.silent.add("b2")

    result = copy.run()

    assert result.lost == ()
    assert result.source_error is not None
    assert result.source_error.is_retriable or isinstance(result.source_error, NoSuchEntryError)


def test_a_target_that_does_not_take_entries_ends_the_copy() -> None:
    world = closed(Q332, 10)
    copy = Copy(world, order(world))
    copy.silent.add("x0")

    assert isinstance(copy.run().target_error, BookieUnavailableError)


def test_a_target_that_holds_less_than_it_answered_is_seen() -> None:
    world = closed(Q332, 10)
    copy = Copy(world, order(world))
    copy.lies = ((0, 3), (5, 9))

    error = copy.run().target_error

    assert isinstance(error, NoSuchEntryError)
    assert error.args[1] == 4


def test_a_target_that_gives_back_other_bytes_is_seen() -> None:
    """I27: a copy is looked at after it was written, too."""
    world = closed(Q332, 10)
    copy = Copy(world, order(world))
    copy.forged = b"something else"

    assert isinstance(copy.run().target_error, DigestMismatchError)


def test_a_copy_that_is_stopped_ends_at_once() -> None:
    world = closed(Q332, 10)
    copy = Copy(world, order(world))
    copy.say(CopyStopped())

    assert copy.result is not None
    assert copy.result.is_stopped
    assert not copy.result.is_whole
    assert copy.core.handle(CopyStopped(), 0) == []


def test_what_is_damaged_everywhere_is_lost_also_where_a_bookie_in_limbo_was_asked() -> None:
    """It answers: that it did not know of an earlier entry is no reason to wait for this one."""
    world = closed(Q332, 10)
    world.in_limbo.add("b2")
    world.punch("b2", 4)  # the second chunk begins with b2
    world.damage("b1", 8)
    world.damage("b2", 8)

    result = Copy(world, order(world)).run()

    assert result.source_error is None
    assert [lost.first_entry_id for lost in result.lost] == [8]


@given(data=st.data())
@pytest.mark.parametrize("quorum", [Q332, Quorum(5, 3, 2)], ids=str)
@pytest.mark.parametrize("digest", [DIGEST, None], ids=["verified", "compared"])
def test_in_whatever_order_answers_come_only_good_entries_are_copied(
    quorum: Quorum, digest: DigestFunction | None, data: st.DataObject
) -> None:
    """Seed 61001286: an answer to a read that was given up was taken for one of the next read."""
    world = closed(quorum, 12)
    due = list(quorum.entry_ids(0, 0, 11))
    for entry_id in due:
        world.punch("b0", entry_id)
    copy = Copy(world, order(world, target="b0"), digest)
    bad: set[tuple[str, int]] = set()
    for slot in range(1, quorum.ensemble_size):
        for entry_id in quorum.entry_ids(slot, 0, 11):
            fate = data.draw(st.sampled_from(["good", "good", "rotten", "gone"]))
            bookie_id = f"b{slot}"
            if fate == "good":
                continue
            bad.add((bookie_id, entry_id))
            if fate == "gone":
                world.punch(bookie_id, entry_id)
            else:
                copy.rotten.add((bookie_id, entry_id))
                whole = world.disks[bookie_id][entry_id]
                rot = bytes([whole[-1] ^ (1 + slot)])  # two are not damaged in the same way
                world.disks[bookie_id][entry_id] = whole[:-1] + rot

    while copy.result is None:
        at = data.draw(st.integers(0, len(copy.waiting) - 1))
        copy.say(copy.answer(copy.waiting.pop(at)))

    def is_good(entry_id: int) -> bool:
        slots = set(quorum.write_set(entry_id)) - {0}
        return any((f"b{slot}", entry_id) not in bad for slot in slots)

    assert world.disks["b0"] == {i: original(i) for i in due if is_good(i)}
    assert not copy.result.source_error
