"""ForcedMove: it states what is lost, and drops nothing that another bookie provides."""

from collections.abc import Sequence

import msgspec
import pytest

from zbk.errors import BookieUnavailableError, NoSuchLedgerError, ZbkError
from zbk.protocol.entry.words import DigestType, LedgerState, LedgerType
from zbk.protocol.ledger.changes import replace_bookie
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.copy_order import LostEntries
from zbk.protocol.repair.forced_move import ForcedMove, ForcedMoveResult
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.holdings import AskHoldings, Holdings
from zbk.protocol.repair.repair_effects import (
    BookieReplaced,
    ChooseTarget,
    CopyFragment,
    LedgerSeen,
    LookAtLedger,
    RepairAim,
    RepairEffect,
    ReplaceBookie,
    TargetChosen,
)

AIM = RepairAim(ledger_id=7, suspects=frozenset("a"), to_leave=frozenset("a"))


class World:
    """A ledger of ten entries on a, b and c; ``held`` are the entries of registered bookies."""

    def __init__(self, write_size: int = 3, **held: Sequence[int]) -> None:
        self.metadata = LedgerMetadata(
            ledger_id=7,
            ensemble_size=3,
            write_quorum_size=write_size,
            ack_quorum_size=1,
            ledger_type=LedgerType.PD_JOURNAL,
            digest_type=DigestType.XXH3,
            password_digest=b"",
            fragments=(Fragment(0, ("a", "b", "c")),),
            created_ms=0,
            creation_token="t",
            state=LedgerState.CLOSED,
            last_entry_id=9,
            length=10,
            ledger_key=b"k" * 16,
        )
        self.held = {name: set(ids) for name, ids in held.items()}
        self.held["t"] = set()
        self.damaged: set[int] = set()
        self.failure: dict[type, ZbkError] = {}
        self.target: str | None = "t"

    def run(self, confirmed: Sequence[LostEntries] | None = None) -> ForcedMoveResult:
        forced = ForcedMove(AIM, confirmed)
        effect = forced.begin()
        while effect is not None:
            effect = forced.resume(self._carry_out)
        return forced.result

    def force(self) -> ForcedMoveResult:
        """Confirm what is stated."""
        before = self.metadata
        stated = self.run()
        assert self.metadata == before
        assert self.run(stated.lost) == stated
        return stated

    @property
    def bookies(self) -> tuple[str, ...]:
        return self.metadata.last_fragment.bookies

    def _carry_out(self, effect: RepairEffect) -> object:
        if type(effect) in self.failure:
            raise self.failure[type(effect)]
        match effect:
            case LookAtLedger():
                return LedgerSeen(self.metadata, frozenset(self.held), 0, 0)
            case ChooseTarget():
                return TargetChosen(self.target)
            case AskHoldings(name, (first, last)):
                return Holdings(
                    tuple((one, one) for one in sorted(self.held[name]) if first <= one <= last)
                )
            case CopyFragment(order):
                quorum = order.metadata.quorum
                ids = {
                    one
                    for first, last in order.spans
                    for one in quorum.entry_ids(order.slot, first, last)
                }
                sources = [self.held[order.fragment.bookies[slot]] for slot in order.sources]
                assert all(any(one in source for source in sources) for one in ids)
                bad = sorted(ids & self.damaged)
                if not bad:
                    self.held[order.target] |= ids
                if len(bad) > 2:  # as a copy with very many losses: the last one covers others
                    merged = LostEntries(bad[1], bad[-1], len(bad) - 1, "damaged")
                    return CopyResult(lost=(LostEntries(bad[0], bad[0], 1, "damaged"), merged))
                return CopyResult(lost=tuple(LostEntries(one, one, 1, "damaged") for one in bad))
            case ReplaceBookie(first, slot, old, new):
                changed = replace_bookie(self.metadata, first, slot, old, new)
                assert changed is not None
                self.metadata = changed
                return BookieReplaced(changed)
        raise AssertionError(effect)


def ranges(result: ForcedMoveResult) -> list[tuple[int, int, int]]:
    return [(one.first_entry_id, one.last_entry_id, one.count) for one in result.lost]


def test_what_any_bookie_provides_is_copied_and_the_rest_is_stated() -> None:
    world = World(b=[0, 1, 2], c=[2, 3, 7])
    stated = world.force()
    assert ranges(stated) == [(4, 6, 3), (8, 9, 2)]
    assert {one.reason for one in stated.lost} == {"no bookie has a replica"}
    assert world.bookies == ("t", "b", "c")
    assert world.held["t"] == {0, 1, 2, 3, 7}
    assert (world.metadata.last_entry_id, world.metadata.is_closed) == (9, True)


def test_a_bookie_that_is_away_is_named_and_keeps_its_place() -> None:
    world = World(b=range(5))
    stated = world.force()
    assert ranges(stated) == [(5, 9, 5)]
    assert "c may have, and stays named" in stated.lost[0].reason
    assert world.bookies == ("t", "b", "c")


def test_a_sole_replica_is_given_up_whole() -> None:
    assert ranges(World().force()) == [(0, 9, 10)]


def test_in_a_striped_ledger_only_the_due_entries_are_lost() -> None:
    """On slot 0 are 0, 2, 3, 5, 6, 8, 9; b holds 0, 3, 6, 9 of them."""
    world = World(2, b=[0, 1, 3, 4, 6, 7, 9])
    assert ranges(world.force()) == [(2, 2, 1), (5, 5, 1), (8, 8, 1)]
    assert world.held["t"] == {0, 3, 6, 9}


def test_an_entry_that_is_damaged_everywhere_is_lost_and_the_others_are_copied() -> None:
    world = World(b=range(10), c=[])
    world.damaged = {0, 4, 6, 9}
    assert ranges(world.force()) == [(0, 0, 1), (4, 4, 1), (6, 6, 1), (9, 9, 1)]
    assert world.held["t"] == set(range(10)) - world.damaged


def test_no_more_is_given_up_than_was_confirmed() -> None:
    world = World(b=range(5), c=[])
    stated = world.run()
    world.held["b"].discard(2)
    result = world.run(stated.lost)
    assert "more is lost than was confirmed: entry 2" in result.refusal
    assert world.bookies == ("a", "b", "c")


def test_less_may_be_lost_than_was_confirmed() -> None:
    world = World(b=range(5), c=[])
    stated = world.run()
    world.held["c"] = {6}
    assert ranges(world.run(stated.lost)) == [(5, 5, 1), (7, 9, 3)]
    assert world.held["t"] == {*range(5), 6}


@pytest.mark.parametrize("effect", [AskHoldings, CopyFragment, ReplaceBookie, LookAtLedger])
def test_a_failure_that_may_pass_gives_nothing_up(effect: type) -> None:
    world = World(b=range(5), c=[])
    stated = world.run()
    world.failure = {effect: BookieUnavailableError("b", "silent")}
    assert "silent" in world.run(stated.lost).refusal
    assert world.bookies == ("a", "b", "c")


def test_a_running_bookie_an_open_ledger_and_a_missing_target_are_refused() -> None:
    world = World(a=[], b=[])
    assert "running" in world.run(()).refusal
    world = World(b=[])
    world.target = None
    assert "take the place of a" in world.run(()).refusal
    world = World(b=[])
    world.metadata = msgspec.structs.replace(
        world.metadata, state=LedgerState.OPEN, last_entry_id=None, length=None
    )
    assert "not closed" in world.run(()).refusal
    world.failure = {LookAtLedger: NoSuchLedgerError(7)}
    assert world.run(()) == ForcedMoveResult()
