"""FragmentCopy without a digest: which replica it copies when it can only compare them."""

import msgspec

from tests.support.fragment_copies import Copy, closed, order
from tests.support.recovery_world import Q332
from tests.support.replica_world import original
from zbk.errors import BookieUnavailableError, UnknownLedgerStateError
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.repair.fragment_copy_events import SendRead


def test_without_a_digest_two_of_three_agree() -> None:
    world = closed(Quorum(4, 4, 2), 10)
    world.damage("b1", 4)
    copy = Copy(world, order(world), None)

    assert copy.run().is_whole
    assert world.disks["x0"][4] == original(4)


def test_without_a_digest_of_two_that_differ_the_one_is_copied_that_is_sound() -> None:
    world = closed(Q332, 10)
    world.damage("b1", 4)
    copy = Copy(world, order(world), None)
    copy.rotten.add(("b1", 4))

    assert copy.run().is_whole
    assert world.disks["x0"][4] == original(4)


def test_without_a_digest_two_that_agree_are_right_whatever_is_damaged_around_them() -> None:
    world = closed(Q332, 10)
    copy = Copy(world, order(world), None)
    copy.rotten.update((bookie_id, entry_id) for bookie_id in ("b1", "b2") for entry_id in (3, 4))

    assert copy.run().is_whole
    assert not any(wanted.is_checked for wanted in copy.sent if isinstance(wanted, SendRead))


def test_without_a_digest_a_lone_replica_that_its_bookie_finds_damaged_is_no_source() -> None:
    """Seed 54001847: damage spread, and the good replica of an absent bookie was forgotten."""
    world = closed(Q332, 10)
    world.punch("b2", 4)
    world.damage("b1", 4)
    copy = Copy(world, order(world), None)
    copy.rotten.add(("b1", 4))

    result = copy.run()

    assert [(lost.first_entry_id, lost.reason) for lost in result.lost] == [
        (4, "no replica is undamaged")
    ]
    assert 4 not in world.disks["x0"]


def test_a_lone_damaged_replica_is_no_loss_while_another_bookie_is_silent() -> None:
    world = closed(Q332, 10)
    copy = Copy(world, order(world), None)
    copy.rotten.add(("b1", 4))
    copy.silent.add("b2")

    result = copy.run()

    assert isinstance(result.source_error, BookieUnavailableError)
    assert not result.lost


def test_a_lone_source_is_asked_for_what_it_finds_sound_at_once() -> None:
    world = closed(Q332, 10)
    copy = Copy(world, msgspec.structs.replace(order(world), sources=(1,)), None)
    copy.rotten.update((("b1", 4), ("b1", 5)))

    result = copy.run()

    assert [(lost.first_entry_id, lost.last_entry_id) for lost in result.lost] == [(4, 5)]
    from_source = [one for one in copy.sent if isinstance(one, SendRead) and one.bookie_id == "b1"]
    assert all(one.is_checked for one in from_source)


def test_without_a_digest_two_that_differ_are_no_source() -> None:
    """I27: nobody can tell which one is right, so none is copied: both are as they were stored."""
    world = closed(Q332, 10)
    world.damage("b1", 4)
    copy = Copy(world, order(world), None)

    result = copy.run()

    assert [(lost.first_entry_id, lost.reason) for lost in result.lost] == [
        (4, "no replica is undamaged")
    ]
    assert 4 not in world.disks["x0"]


def test_without_a_digest_the_only_replica_is_taken_if_its_header_is_right() -> None:
    world = closed(Q332, 10)
    for entry_id in range(10):
        world.punch("b2", entry_id)
    wrong = original(5)
    world.disks["b1"][4] = wrong
    copy = Copy(world, order(world), None)

    result = copy.run()

    assert [lost.first_entry_id for lost in result.lost] == [4]


def test_without_a_digest_a_silent_second_replica_is_waited_for() -> None:
    world = closed(Q332, 10)
    copy = Copy(world, order(world), None)
    copy.silent.add("b2")

    result = copy.run()

    assert isinstance(result.source_error, BookieUnavailableError)
    assert not world.disks["x0"]


def test_a_lone_source_is_enough_without_a_digest() -> None:
    world = closed(Q332, 10)
    lone = msgspec.structs.replace(order(world), sources=(1,))
    copy = Copy(world, lone, None)

    assert copy.run().is_whole
    assert world.disks["x0"] == {i: original(i) for i in range(10)}


def test_without_a_digest_a_bookie_in_limbo_is_no_second_replica() -> None:
    """Seed 9300084: two in limbo waited for each other, and a third one had the entries."""
    world = closed(Q332, 10)
    world.in_limbo.add("b2")
    for entry_id in (2, 3, 7):
        world.punch("b2", entry_id)
    copy = Copy(world, order(world), None)

    assert copy.run().is_whole
    assert world.disks["x0"] == {i: original(i) for i in range(10)}


def test_without_a_digest_what_a_bookie_in_limbo_has_is_compared() -> None:
    world = closed(Q332, 10)
    world.in_limbo.add("b2")
    world.punch("b2", 2)
    world.damage("b2", 4)
    copy = Copy(world, order(world), None)

    assert [lost.first_entry_id for lost in copy.run().lost] == [4], "two that differ"


def test_without_a_digest_what_only_bookies_in_limbo_could_have_is_not_known_to_be_lost() -> None:
    world = closed(Q332, 10)
    world.in_limbo.update(("b1", "b2"))
    for bookie_id in ("b1", "b2"):
        world.punch(bookie_id, 4)
    copy = Copy(world, order(world), None)

    result = copy.run()

    assert isinstance(result.source_error, UnknownLedgerStateError)
    assert not result.lost
