"""Striped VD ledgers at one bookie: what its sync cursor counts, also after a restart."""

from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, World, add, batch
from tests.support.striped_bookie import (
    BOTH,
    BYPASS,
    JOURNALED,
    OTHER,
    STRIPE,
    add_due,
    bookie,
    sync,
)
from zbk.durability.limbo import LossReason
from zbk.errors import MalformedMessageError, ZbkError, from_wire
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.ledger.stripe import Stripe
from zbk.storage.journal.record import SyncedEntriesRecord
from zbk.wire.messages import AddAnswer, Refused, Sync, SyncAnswer


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def errors(world: World) -> list[type[ZbkError]]:
    """Return what answers refused with."""
    refused = [one for one in world.answers if isinstance(one, Refused)]
    return [type(from_wire(one.code, tuple(one.fields))) for one in refused]


@BOTH
def test_what_is_due_elsewhere_is_no_hole(disk: SimulatedDisk, kind: LedgerType) -> None:
    world = bookie(disk)
    add_due(world, kind, [0, 3, 4])
    add_due(world, kind, [7, 8])

    assert sync(world) == 8


@BOTH
def test_what_is_due_here_and_absent_is_a_hole(disk: SimulatedDisk, kind: LedgerType) -> None:
    world = bookie(disk)
    add_due(world, kind, [0, 3])
    add_due(world, kind, [7, 8, 11])
    assert sync(world) == 3

    add_due(world, kind, [4])

    assert sync(world) == 11


@BOTH
def test_a_restart_counts_what_is_due_and_here(disk: SimulatedDisk, kind: LedgerType) -> None:
    world = bookie(disk)
    add_due(world, kind, [0, 3, 4])
    add_due(world, kind, [8, 11])
    sync(world)
    disk.process_crash()

    again = bookie(disk)

    assert sync(again) == 4
    add_due(again, kind, [7])
    assert sync(again) == 7
    add_due(again, kind, [8, 11])  # as a writer does that sees the hole
    assert sync(again) == 11


@BOTH
def test_what_lies_behind_a_hole_at_a_restart_counts_when_it_is_sent_again(
    disk: SimulatedDisk, kind: LedgerType
) -> None:
    world = bookie(disk)
    for first in (0, 4):
        world.say(*add(batch(first, [b"a", b"b"]), kind=kind))
    world.written()
    assert sync(world, None) == 1
    disk.process_crash()
    again = bookie(disk)

    for first in (2, 4):
        again.say(*add(batch(first, [b"a", b"b"]), kind=kind))

    assert sync(again, None) == 5


@BOTH
def test_a_bookie_that_returns_in_another_slot_counts_from_the_lac_on(
    disk: SimulatedDisk, kind: LedgerType
) -> None:
    world = bookie(disk)
    add_due(world, kind, [0, 3, 4, 7, 8])
    assert sync(world) == 8

    assert sync(world, OTHER, lac=2) == 2
    add_due(world, kind, [5, 6], OTHER, lac=2)
    assert sync(world, OTHER) == 6
    world.checkpoint()
    disk.process_crash()

    again = bookie(disk)
    assert sync(again, OTHER) == 6
    assert sync(again, STRIPE) == 8


@BOTH
def test_a_restart_keeps_no_cursor_of_the_slot_before(
    disk: SimulatedDisk, kind: LedgerType
) -> None:
    world = bookie(disk)
    add_due(world, kind, [0, 3, 4, 7, 8])
    assert sync(world) == 8
    world.storage.close()

    assert sync(bookie(disk), OTHER) == NO_ENTRY


@BOTH
def test_what_is_sent_again_counts_after_the_cursor_began_anew(
    disk: SimulatedDisk, kind: LedgerType
) -> None:
    world = bookie(disk)
    add_due(world, kind, [0, 3, 4])
    sync(world, OTHER)
    add_due(world, kind, [1, 2], OTHER)
    add_due(world, kind, [7])  # while 1 and 2 are not synced: the index does not tell what is
    assert sync(world) == NO_ENTRY

    add_due(world, kind, [0, 3, 4])

    assert sync(world) == 7


@BOTH
def test_an_answer_is_for_the_stripe_of_its_request(disk: SimulatedDisk, kind: LedgerType) -> None:
    world = bookie(disk)
    add_due(world, kind, [0, 3, 4])
    sync(world)
    for stripe in (STRIPE, OTHER):
        world.say(
            Sync(request_id=9, ledger_id=LEDGER_ID, ledger_key=KEY, lac=NO_ENTRY, stripe=stripe)
        )
    world.sync_logs()
    world.settle_journal()

    told = [one.last_add_synced for one in world.answers if isinstance(one, SyncAnswer)]
    assert told[-2:] == [NO_ENTRY, NO_ENTRY]  # the cursor of the first is gone by then


def test_a_copy_without_a_stripe_counts_only_itself(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_due(world, JOURNALED, [0, 3, 4], None, is_recovery=True)
    world.settle()

    assert [one.last_add_synced for one in world.answers if isinstance(one, AddAnswer)] == [-1]
    assert sync(world, None) == 0
    assert sync(world) == 4


def test_an_add_with_a_gap_in_its_stripe_is_malformed(disk: SimulatedDisk) -> None:
    world = bookie(disk)

    add_due(world, JOURNALED, [0, 4])

    assert errors(world) == [MalformedMessageError]


def test_a_sync_journals_one_record_for_a_run_of_a_stripe(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_due(world, BYPASS, [0, 3, 4])
    add_due(world, BYPASS, [7, 8])
    sync(world)

    (record,) = [r for g in world.groups for r in g.records if isinstance(r, SyncedEntriesRecord)]
    assert record == SyncedEntriesRecord(LEDGER_ID, 0, 8, STRIPE)


@pytest.mark.parametrize("is_log_lost", [False, True])
def test_a_start_knows_of_each_due_entry_whether_it_must_be_there(
    disk: SimulatedDisk, is_log_lost: bool
) -> None:
    world = bookie(disk)
    add_due(world, BYPASS, [0, 3, 4])
    sync(world)
    add_due(world, BYPASS, [7])
    sync(world)
    disk.crash(Random(1))
    if is_log_lost:
        disk.remove_at_rest("/b/ledgers/logs/00000001.log")

    limbo = bookie(disk).storage.limbo.limbo

    assert limbo.reasons == ((LossReason.INDEX_LOST,) if is_log_lost else ())


@BOTH
@pytest.mark.parametrize(
    ("stripe", "first", "count"),
    [
        (Stripe(3, 2, 1), 2**63 - 2, 3),
        (Stripe(3, 2, 2), 2**63 - 1, 2),
        (Stripe(64, 63, 62), 0, 1 << 24),
    ],
    ids=["ends at 2^63", "begins below 2^63", "more than the sizes"],
)
def test_an_add_with_impossible_ids_is_refused_before_its_stripe_is_looked_at(
    disk: SimulatedDisk,
    monkeypatch: pytest.MonkeyPatch,
    kind: LedgerType,
    stripe: Stripe,
    first: int,
    count: int,
) -> None:
    world = bookie(disk)
    request, *frames = add(batch(7, [b"x"]), kind=kind)
    hostile = msgspec.structs.replace(request, first_entry_id=first, count=count, stripe=stripe)

    def fail(_stripe: Stripe, _ids: Sequence[int]) -> bool:
        pytest.fail("that takes the memory of so many ids")

    with monkeypatch.context() as patch:
        patch.setattr(Stripe, "is_run", fail)
        world.say(hostile, *frames)

    answer = world.answers[-1]
    assert isinstance(answer, Refused)
    assert answer.code == MalformedMessageError.code


@BOTH
def test_an_add_at_the_last_id_of_the_wire_does_not_stop_the_bookie(
    disk: SimulatedDisk, kind: LedgerType
) -> None:
    world = bookie(disk)
    request, *frames = add(batch(7, [b"x"]), kind=kind)
    hostile = msgspec.structs.replace(
        request, first_entry_id=2**63 - 1, count=2, stripe=Stripe(3, 2, 2)
    )

    world.say(hostile, *frames)

    answer = world.answers[-1]
    assert isinstance(answer, Refused)
    assert answer.code == MalformedMessageError.code
