"""Striped VD ledgers at one bookie: what its sync cursor counts, also after a restart."""

from array import array
from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import KEY, LEDGER_ID, World, add, batch
from zbk.actors.serve import read_requests
from zbk.durability.limbo import LossReason
from zbk.errors import MalformedMessageError, ZbkError, from_wire
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.ledger.stripe import Stripe
from zbk.storage.journal.record import SyncedEntriesRecord
from zbk.wire.codec import encode_ids
from zbk.wire.messages import AddAnswer, GetLedgerInfo, LedgerInfo, Refused, Sync, SyncAnswer

JOURNALED, BYPASS = LedgerType.VD_JOURNAL, LedgerType.VD_BYPASS_JOURNAL
BOTH = pytest.mark.parametrize("kind", [JOURNALED, BYPASS])
STRIPE = Stripe(4, 2, 0)  # 0 3 4 7 8 11
OTHER = Stripe(4, 2, 2)  # 1 2 5 6 9 10
UNSET = msgspec.UNSET


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def bookie(disk: SimulatedDisk) -> World:
    return World(disk, "/b", segment_size=1 << 16)


def add_due(
    world: World,
    kind: LedgerType,
    ids: Sequence[int],
    stripe: Stripe | None = STRIPE,
    *,
    lac: int = NO_ENTRY,
    is_recovery: bool = False,
) -> None:
    """Send these entries, and write them."""
    payloads = [b"<%03d>" % one for one in ids]
    of = batch(ids[0], payloads, array("q", ids), lac=lac)
    request, *frames = add(of, kind=kind, lac=lac, is_recovery=is_recovery)
    request = msgspec.structs.replace(request, is_striped=True, stripe=stripe or UNSET)
    world.say(request, *frames, encode_ids(ids))
    world.written()


def sync(world: World, stripe: Stripe | None = STRIPE, *, lac: int = NO_ENTRY) -> int:
    """Sync; return the cursor that is answered."""
    world.say(
        Sync(request_id=9, ledger_id=LEDGER_ID, ledger_key=KEY, lac=lac, stripe=stripe or UNSET)
    )
    world.sync_logs()
    world.settle_journal()
    answer = world.answers[-1]
    assert isinstance(answer, SyncAnswer), answer
    return answer.last_add_synced


def shown(world: World, stripe: Stripe | None) -> int:
    """Return the cursor that a look at the ledger shows, without an fsync."""
    asked = GetLedgerInfo(
        request_id=8, ledger_id=LEDGER_ID, is_at_once=True, stripe=stripe or UNSET
    )
    world.say(asked)
    answer = world.answers[-1]
    assert isinstance(answer, LedgerInfo), answer
    return answer.last_add_synced


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


def test_a_look_at_a_pd_ledger_has_no_cursor(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_due(world, LedgerType.PD_JOURNAL, [0, 3, 4], None)
    world.settle()

    assert shown(world, STRIPE) == NO_ENTRY


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
