"""The re-check after a loss of everything: a ledger is cleared once all that is due is here."""

from tests.support.recheck_world import ABC, GRACE_MS, World, ids, ledger
from zbk.durability.limbo_recheck import RecheckResult
from zbk.protocol.ledger.metadata import Fragment
from zbk.protocol.ledger.quorum import Quorum


def test_a_closed_ledger_is_cleared_once_all_of_it_is_here() -> None:
    world = World(ledger(last=9), a=ids((2, 3)), b=ids((0, 9)), c=ids((0, 9)))

    assert world.attempt(has_lost_fences=True) == RecheckResult(copied_count=8)

    assert world.copied == [((0, 1), (4, 9))]
    assert world.held["a"] == ids((0, 9))
    assert world.asked == ["a"], "the metadata say what there was"


def test_an_empty_closed_ledger_is_cleared_without_a_question() -> None:
    world = World(ledger(last=-1))

    assert world.attempt(has_lost_fences=True) == RecheckResult()
    assert not world.asked


def test_what_nobody_has_any_more_keeps_the_ledger_in_limbo_and_the_rest_is_copied() -> None:
    world = World(ledger(last=9), b=ids((0, 4), (6, 9)), c=ids((0, 4), (6, 9)))

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert end.is_hopeless
    assert "entry 5: gone" in end.reason
    assert world.held["a"] == ids((0, 4), (6, 9))


def test_what_a_peer_in_limbo_does_not_know_of_does_not_keep_the_rest_from_being_copied() -> None:
    """Two bookies of three were wiped: the third one's entries are on all again, all the same."""
    world = World(ledger(last=9), b=set(), c=ids((0, 1), (4, 6), (8, 9)))
    world.not_known = {2, 3, 7}

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert not end.is_hopeless
    assert "bookie b may have lost" in end.reason
    assert end.copied_count == 7
    assert world.held["a"] == ids((0, 1), (4, 6), (8, 9))
    world.not_known = set()
    world.held["b"] = ids((0, 9))
    assert world.attempt(has_lost_fences=True) == RecheckResult(copied_count=3)


def test_a_peer_that_knows_of_nothing_is_not_asked_for_ever() -> None:
    world = World(ledger(last=999), b=set(), c=set())
    world.not_known = ids((0, 999))

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert len(world.copied) <= 20


def test_what_nobody_who_is_there_should_have_is_not_asked_for() -> None:
    """Of a striped ledger each entry has its own peers; those of some may all be away."""
    world = World(ledger(quorum=Quorum(3, 2, 2), last=8), b=ids((0, 8)), c=ids((0, 8)))
    world.silent = {"c"}

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert not end.is_hopeless
    assert "no peer is there that could give entries 0 .. 8" in end.reason
    world.silent = set()
    assert world.attempt(has_lost_fences=True) == RecheckResult(copied_count=6)


def test_without_peers_nothing_is_cleared_and_that_is_not_the_last_word() -> None:
    world = World(ledger(last=9), b=ids((0, 9)), c=ids((0, 9)))
    world.silent = {"b", "c"}

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert "no peer is there that could give entries 0 .. 9" in end.reason
    assert not end.is_hopeless


def test_no_waiting_clears_a_ledger_whose_last_ensemble_has_the_bookie() -> None:
    world = World(ledger(), b=ids((0, 9)), c=ids((0, 9)))

    for _ in range(3):
        end = world.attempt(has_lost_fences=True)
        assert not end.is_cleared
        assert "recover the ledger" in end.reason
        world.now_ms += 10 * GRACE_MS
    assert not world.copied

    assert world.metadata is not None
    world.metadata = world.metadata.with_recovery()
    assert not world.attempt(has_lost_fences=True).is_cleared
    world.metadata = world.metadata.with_closed_by_recovery((), 9, 0)
    assert world.attempt(has_lost_fences=True) == RecheckResult(copied_count=10)


def test_after_an_ensemble_change_the_fragments_that_have_an_end_are_enough() -> None:
    world = World(
        ledger(Fragment(0, ABC), Fragment(5, ("d", "b", "c"))), b=ids((0, 9)), c=ids((0, 9))
    )

    assert world.attempt(has_lost_fences=True) == RecheckResult(copied_count=5)
    assert world.held["a"] == ids((0, 4))


def test_of_an_open_ledger_the_closed_fragments_are_copied_all_the_same() -> None:
    world = World(
        ledger(Fragment(0, ABC), Fragment(5, ("a", "d", "c"))), b=ids((0, 4)), c=ids((0, 9))
    )

    end = world.attempt(has_lost_fences=True)

    assert not end.is_cleared
    assert not end.is_hopeless
    assert world.held["a"] == ids((0, 4))
