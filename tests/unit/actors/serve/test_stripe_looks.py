"""How much of a striped VD ledger's index one request looks at, and what that counts."""

from array import array

import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.striped_bookie import (
    BOTH,
    JOURNALED,
    OTHER,
    STRIPE,
    add_due,
    bookie,
    shown,
    sync,
)
from zbk.actors.serve import add_requests, read_requests
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.ledger.stripe import Stripe
from zbk.storage.index.index_handle import IndexHandle


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@BOTH
def test_a_look_at_a_ledger_says_after_a_restart_what_is_synced_of_a_slot(
    disk: SimulatedDisk, kind: LedgerType
) -> None:
    world = bookie(disk)
    add_due(world, kind, [0, 3, 4])
    add_due(world, kind, [8, 11])
    sync(world)
    assert shown(world, STRIPE) == shown(world, None) == 4
    disk.process_crash()
    again = bookie(disk)

    assert shown(again, STRIPE) == 4
    assert shown(again, OTHER) == NO_ENTRY
    assert shown(again, None) == 0, "an older client names no slot: entry 1 is not here"
    add_due(again, kind, [7])
    assert shown(again, STRIPE) == 4, "it is not synced yet, and the look changes nothing"
    assert sync(again) == 7
    assert shown(again, STRIPE) == 7


@BOTH
def test_a_look_at_the_slot_of_another_cursor_counts_nothing_that_is_not_synced(
    disk: SimulatedDisk, kind: LedgerType
) -> None:
    world = bookie(disk)
    add_due(world, kind, [0, 3, 4])
    sync(world)
    add_due(world, kind, [1, 2, 5], OTHER)

    assert shown(world, STRIPE) == NO_ENTRY
    assert sync(world, OTHER) == 5
    assert shown(world, STRIPE) == 4


def test_a_look_goes_less_far_for_a_wide_stripe(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each entry of a round is looked at by itself: a question must not take seconds."""
    monkeypatch.setattr(read_requests, "LEDGER_INFO_ENTRY_COUNT_MAX", 64)
    add_due(world := bookie(disk), JOURNALED, range(100), None, is_recovery=True)
    world.settle()

    world = bookie(disk)

    assert shown(world, Stripe(5, 4, 3)) == 63
    assert shown(world, Stripe(66, 64, 63)) == 31


@BOTH
@pytest.mark.parametrize(
    ("stripe", "cursors"),
    [(Stripe(5, 4, 3), [63, 127, 148, 148]), (Stripe(66, 64, 63), [31, 63, 95, 127, 149, 149])],
    ids=["narrow", "wide"],
)
def test_one_sync_counts_so_much_of_another_stripe_and_the_next_one_goes_on(
    disk: SimulatedDisk,
    monkeypatch: pytest.MonkeyPatch,
    kind: LedgerType,
    stripe: Stripe,
    cursors: list[int],
) -> None:
    """A look at all entries of a large ledger would keep other clients waiting."""
    monkeypatch.setattr(add_requests, "CURSOR_LOOK_COUNT_MAX", 64)
    add_due(world := bookie(disk), kind, range(150), None, is_recovery=True)
    world.settle()
    sync(world)

    assert [sync(world, stripe) for _ in cursors] == cursors


@BOTH
def test_a_look_that_goes_on_ends_at_a_hole(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, kind: LedgerType
) -> None:
    monkeypatch.setattr(add_requests, "CURSOR_LOOK_COUNT_MAX", 8)
    world = bookie(disk)
    add_due(world, kind, [0, 3, 4, 7, 8])
    add_due(world, kind, [12, 15, 16, 19, 20])
    sync(world)
    sync(world, OTHER)

    assert [sync(world) for _ in range(3)] == [7, 8, 8]

    add_due(world, kind, [11])
    assert sync(world) == 11
    add_due(world, kind, [12, 15, 16, 19, 20])
    assert sync(world) == 20, "what lies behind counts when it is sent again"


@BOTH
def test_a_look_goes_on_only_while_all_of_the_ledger_is_on_stable_storage(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, kind: LedgerType
) -> None:
    monkeypatch.setattr(add_requests, "CURSOR_LOOK_COUNT_MAX", 4)
    world = bookie(disk)
    add_due(world, kind, [0, 3, 4, 7, 8, 11, 12, 15])
    sync(world)
    sync(world, OTHER)
    assert sync(world) == 3
    add_due(world, kind, [16])
    assert shown(world, STRIPE) == 7

    add_due(world, kind, [19])  # 16 is not synced
    assert shown(world, STRIPE) == 7

    assert [sync(world) for _ in range(3)] == [7, 11, 19]


@BOTH
def test_no_two_stripes_in_turn_have_more_looked_at(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, kind: LedgerType
) -> None:
    monkeypatch.setattr(add_requests, "CURSOR_LOOK_COUNT_MAX", 64)
    add_due(world := bookie(disk), kind, range(150), None, is_recovery=True)
    world.settle()
    looked: list[int] = []
    locations_of = IndexHandle.locations_of

    def count(index: IndexHandle, ids: range) -> "array[int]":
        looked.append(len(ids))
        return locations_of(index, ids)

    monkeypatch.setattr(IndexHandle, "locations_of", count)

    assert [sync(world, stripe) for stripe in (STRIPE, OTHER) * 2] == [63, 62, 63, 62]
    assert looked == [64] * 4


def test_a_look_at_a_pd_ledger_has_no_cursor(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_due(world, LedgerType.PD_JOURNAL, [0, 3, 4], None)
    world.settle()

    assert shown(world, STRIPE) == NO_ENTRY
