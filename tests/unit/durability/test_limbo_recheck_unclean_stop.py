"""The re-check after an unclean stop: what peers hold is copied; silent ones are waited for."""

from tests.support.recheck_world import GRACE_MS, PD, VD, World, ids, ledger
from zbk.durability.limbo_recheck import LedgerRecheck, Patience, RecheckResult
from zbk.protocol.repair.holdings import AskHoldings, Holdings
from zbk.protocol.repair.repair_effects import CopyFragment, WaitUntil


def test_what_any_peer_holds_is_copied_before_the_ledger_is_cleared() -> None:
    world = World(ledger(kind=VD), a=ids((0, 4)), b=ids((0, 6)), c=ids((0, 4), (8, 8)))

    assert world.attempt(has_lost_fences=False) == RecheckResult(copied_count=3)

    assert world.asked == ["a", "b", "c"]
    assert world.held["a"] == ids((0, 6), (8, 8))


def test_a_pd_ledger_lost_nothing_and_is_cleared_without_a_question() -> None:
    world = World(ledger(kind=PD), b=ids((0, 6)))

    assert world.attempt(has_lost_fences=False) == RecheckResult()
    assert not world.asked


def test_a_silent_peer_is_waited_for_and_its_entries_are_copied_when_it_is_back() -> None:
    world = World(ledger(kind=VD), b=ids((0, 6)), c=set())
    world.silent = {"b"}
    recheck = LedgerRecheck("a", has_lost_fences=False, patience=world.patience)
    effect = recheck.begin()
    while not isinstance(effect, WaitUntil):
        assert effect is not None
        effect = recheck.answer(world.carry_out(effect))
    assert world.asked == ["a", "b", "c"]
    world.silent = set()

    asks = recheck.answer(world.carry_out(effect))

    assert asks == AskHoldings("b", (0, 2**63 - 1))
    copies = recheck.answer(Holdings(((0, 6),)))
    assert isinstance(copies, CopyFragment)
    assert copies.order.spans == ((0, 6),)


def test_a_peer_that_tells_what_it_holds_in_parts_is_asked_for_all_of_it() -> None:
    world = World(ledger(kind=VD), a=ids((2, 2)), b=ids((0, 0), (2, 2), (5, 6)), c=set())
    world.range_count_max = 1

    assert world.attempt(has_lost_fences=False) == RecheckResult(copied_count=3)

    assert world.asked == ["a", "b", "b", "b", "c"]


def test_a_peer_that_stays_silent_is_waited_for_no_longer_than_the_grace() -> None:
    world = World(ledger(kind=VD), b=ids((0, 6)), c=ids((0, 3)))
    world.silent = {"b"}

    end = world.attempt(has_lost_fences=False)

    assert end == RecheckResult(copied_count=4, silent=("b",))
    assert GRACE_MS <= world.now_ms < 2 * GRACE_MS


def test_the_grace_is_waited_for_once_and_not_at_every_ledger() -> None:
    world = World(ledger(kind=VD), b=ids((0, 6)), c=ids((0, 3)))
    world.silent = {"b"}
    world.attempt(has_lost_fences=False)
    waited_ms = world.now_ms

    assert world.attempt(has_lost_fences=False) == RecheckResult(silent=("b",))

    assert world.now_ms == waited_ms


def test_a_peer_that_answered_in_between_is_waited_for_again() -> None:
    patience = Patience(100)
    patience.silent("b", 0)
    assert patience.is_over("b", 100)

    patience.answered("b")
    patience.silent("b", 150)

    assert not patience.is_over("b", 249)
    assert patience.is_over("b", 250)


def test_what_a_peer_holds_and_does_not_give_keeps_the_ledger_in_limbo() -> None:
    world = World(ledger(kind=VD), b=ids((0, 6)), c=ids((0, 6)))
    world.unreadable = {5}

    end = world.attempt(has_lost_fences=False)

    assert not end.is_cleared
    assert "entry 5: gone" in end.reason
    assert end.is_hopeless
    assert end.copied_count == 6


def test_entries_behind_the_end_of_a_closed_ledger_are_not_copied() -> None:
    world = World(ledger(kind=VD, last=3), b=ids((0, 6)), c=ids((0, 3)))

    assert world.attempt(has_lost_fences=False) == RecheckResult(copied_count=4)
    assert world.held["a"] == ids((0, 3))
