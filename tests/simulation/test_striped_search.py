"""Every interleaving of a small striped VD ledger; and what the search finds with a rule broken."""

import pytest

from tests.simulation import volatile_defects as volatile
from tests.simulation.striped_search import LARGE, Scope, StripedSearch
from zbk.durability.synced_lac import SyncedLac
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.catch_up import CatchUp
from zbk.protocol.write.ensemble_keeper import EnsembleKeeper
from zbk.protocol.write.moved_batches import MovedBatches
from zbk.protocol.write.write_path import WritePath

SMALL = Quorum(3, 2, 2)


def crash_of(slot: int, *, syncs_by_itself: bool = False) -> Scope:
    """Return the scope in which the bookie of a slot may crash, and be replaced."""
    return Scope(SMALL, 2, crashing=frozenset({slot}), syncs_by_itself=syncs_by_itself)


@pytest.mark.parametrize("slot", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_a_crash_and_a_change_of_the_ensemble_break_no_promise_in_any_order(slot: int) -> None:
    found = StripedSearch(crash_of(slot)).run()

    assert found.violation == "", "\n".join(found.story)
    assert found.changed_count > 100
    assert found.highest_lac == 1


def test_bookies_that_sync_by_themselves_break_no_promise() -> None:
    found = StripedSearch(Scope(SMALL, 2, crashing=frozenset())).run()

    assert found.violation == "", "\n".join(found.story)
    assert found.highest_lac == 1


@pytest.mark.soak
@pytest.mark.parametrize("scope", [*LARGE, Scope(SMALL, 2)])
def test_a_larger_ledger_breaks_no_promise(scope: Scope) -> None:
    found = StripedSearch(scope).run()

    assert found.violation == "", "\n".join(found.story)


@pytest.mark.soak
def test_bookies_that_stay_as_an_ack_quorum_break_no_promise() -> None:
    """The new bookie joins without what they have, or receives it, after a wait that may end."""
    scope = Scope(Quorum(4, 3, 2), 1, frozenset({0}), syncs_by_itself=False)

    found = StripedSearch(scope).run()

    assert found.violation == "", "\n".join(found.story)
    assert found.changed_count > 100
    assert found.highest_lac == 0


def test_what_a_failed_bookie_helped_to_acknowledge_is_seen_to_stay_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MovedBatches, "needed", volatile.counts_what_the_failed_have)

    found = StripedSearch(crash_of(0)).run()

    assert "is acknowledged" in found.violation


def test_a_lac_from_the_wrong_write_sets_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyncedLac, "_durable_until", volatile.takes_the_next_write_set)
    monkeypatch.setattr(SyncedLac, "_check", lambda *_: None)

    found = StripedSearch(Scope(SMALL, 1, crashing=frozenset(), has_change=False)).run()

    assert "is on the disks of" in found.violation
    assert len(found.story) < 12


@pytest.mark.soak
def test_what_a_replaced_bookie_has_synced_is_seen_to_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SyncedLac, "replaced", lambda *_: None)
    monkeypatch.setattr(SyncedLac, "_check", lambda *_: None)
    monkeypatch.setattr(WritePath, "_advance", volatile.advances_while_held)

    found = StripedSearch(crash_of(1, syncs_by_itself=True)).run()

    assert "is on the disks of" in found.violation


def test_a_new_bookie_without_what_is_acknowledged_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CatchUp, "__init__", volatile.catches_up_with_nothing)

    found = StripedSearch(crash_of(0)).run()

    assert "is acknowledged" in found.violation


def test_a_fragment_that_begins_after_what_is_acknowledged_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(EnsembleKeeper, "_change", volatile.changes_after_the_acknowledged)

    found = StripedSearch(crash_of(1)).run()

    assert "entry 0" in found.violation
