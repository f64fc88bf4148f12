"""The garbage collection actor: what is deleted goes for good, a round at a time."""

import errno
from random import Random

import pytest

from tests.support.garbage_collector import ENTRY_COUNT, GarbageWorld, world
from tests.support.ledgers import metadata_maker
from tests.support.simulated_disk import Fault
from tests.support.storage_actor import OTHER_KEY, add, batch, read, read_lac
from zbk.actors.messages import AskStorage, ForgetLedgers
from zbk.actors.serve.storage import WatchesDue
from zbk.actors.upkeep.gc import GcAsked, GcDue
from zbk.errors import NoSuchLedgerError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.gc.garbage import LedgersInMemory
from zbk.wire.messages import ReadAnswer, Refused, Sync, WriteLac

__all__ = ["world"]


def test_a_healthy_first_round_says_nothing_and_does_nothing(
    world: GarbageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.round()
    ids = world.create(3)

    result = world.round()

    assert (result.local_count, result.listed_count, result.candidate_count) == (3, 3, 0)
    assert world.local() == ids
    assert [record for record in caplog.records if record.name.startswith("zbk")] == []


def test_deleted_ledgers_go_with_their_logs(world: GarbageWorld) -> None:
    first, second, third, last = world.create(4)
    world.delete(first, third)
    log_count = world.log_count()

    result = world.round()

    assert (result.candidate_count, result.dropped_count, result.gave_up) == (2, 2, "")
    assert world.local() == [second, last]
    assert world.log_count() == log_count - 2
    counts = world.gc.counts
    assert (counts.ledger_count, counts.log_count) == (2, 2)
    assert counts.freed_size > 2 * ENTRY_COUNT * 500
    world.bookie.say(read(0, ENTRY_COUNT - 1, ledger_id=second))
    world.bookie.fetched()
    assert isinstance(world.bookie.answers[-1], ReadAnswer)


@pytest.mark.parametrize("is_restarted", [None, "killed", "power lost"])
def test_a_deleted_ledger_takes_nothing_more_whoever_asks(
    world: GarbageWorld, is_restarted: str | None
) -> None:
    """B16, B19: late adds, recoveries, fences, LACs; after a restart, too."""
    deleted, _kept = world.create(2)
    world.bookie.say(read_lac(ledger_id=deleted, is_fencing=True))
    world.bookie.settle()
    world.delete(deleted)
    world.round()
    if is_restarted:
        world.gc.on_stop()
        world.disk.crash(Random(3)) if is_restarted == "power lost" else world.disk.process_crash()
        world.start()
    bookie, kind = world.bookie, LedgerType.PD_JOURNAL
    late = batch(ENTRY_COUNT, [b"late"], ledger_id=deleted)
    key = add(late)[0].ledger_key

    for request in (
        add(late),
        add(late, is_recovery=True),
        add(late, key=OTHER_KEY),
        add(late, kind=LedgerType.VD_JOURNAL),
        (read(0, 0, ledger_id=deleted),),
        (read(0, 0, ledger_id=deleted, is_fencing=True),),
        (read_lac(ledger_id=deleted),),
        (read_lac(ledger_id=deleted, is_fencing=True),),
        (WriteLac(request_id=1, ledger_id=deleted, ledger_key=key, ledger_type=kind, lac=3),),
        (Sync(request_id=1, ledger_id=deleted, ledger_key=key, lac=-1),),
    ):
        bookie.say_together(request)
        bookie.settle()
        assert bookie.last_error() is NoSuchLedgerError, request

    assert world.local() == [_kept]
    assert world.round().candidate_count == 0


def test_adds_on_their_way_when_their_ledger_is_dropped_are_answered_and_gone(
    world: GarbageWorld,
) -> None:
    deleted, kept = world.create(2)
    world.delete(deleted)
    world.begin_round()
    for request_id, ledger_id in ((11, deleted), (12, kept)):  # not yet in the journal
        late = batch(ENTRY_COUNT, [b"late"], ledger_id=ledger_id)
        world.bookie.say(*add(late, request_id=request_id))

    world.end_round()
    world.bookie.settle()
    world.bookie.checkpoint()

    assert [answer.request_id for answer in world.bookie.answers[-2:]] == [11, 12]
    assert world.local() == [kept]
    assert world.failures == world.bookie.failures == []


def test_a_volatile_ledger_that_is_synced_after_it_was_forgotten_hurts_nobody(
    world: GarbageWorld,
) -> None:
    (kept,) = world.create()
    deleted = world.ledgers.create(metadata_maker())[0].ledger_id
    world.bookie.say(*add(batch(0, [b"x"] * 50, ledger_id=deleted), kind=LedgerType.VD_JOURNAL))
    world.bookie.settle()
    world.delete(deleted)
    world.begin_round()
    while not any(isinstance(message, ForgetLedgers) for message in world.to_storage):
        if not world.go_on():
            world.tick()
    late = batch(50, [b"late"], ledger_id=deleted)
    world.bookie.say(*add(late, kind=LedgerType.VD_JOURNAL))

    world.end_round()
    world.bookie.settle()  # the cursor of a ledger moves that is not here any more
    world.bookie.tell(AskStorage(LedgersInMemory([])))  # hands on the cursors that moved
    world.bookie.checkpoint()

    assert world.local() == [kept]
    assert world.failures == world.bookie.failures == []


def test_a_reader_that_waits_for_the_lac_of_a_deleted_ledger_is_told(world: GarbageWorld) -> None:
    deleted, _ = world.create(2)
    world.bookie.say(read_lac(ledger_id=deleted, known_lac=100, wait_ms=60_000, request_id=77))
    world.delete(deleted)
    assert not isinstance(world.bookie.answers[-1], Refused)

    world.round()

    assert world.bookie.last_error() is NoSuchLedgerError
    assert world.bookie.answers[-1].request_id == 77
    world.bookie.tell(WatchesDue())
    assert world.bookie.ticker.callbacks == []


# ------------------------------------------------------------------ rounds


def test_who_asks_while_a_round_runs_gets_another_one(world: GarbageWorld) -> None:
    ids = world.create(3)
    world.delete(ids[0])
    world.begin_round()
    world.delete(ids[1])
    for _ in range(2):
        world.gc.on_receive(GcAsked(2))
        world.gc.on_receive(GcAsked(1))  # late news

    world.end_round()

    assert world.gc.counts.ended_round == 2
    assert world.local() == [ids[2]]


def test_rounds_that_are_due_do_not_pile_up(world: GarbageWorld) -> None:
    world.create(2)
    world.begin_round()
    for _ in range(5):
        world.gc.on_receive(GcDue())

    world.end_round()

    assert world.gc.counts.ended_round == 2


def test_the_storage_actor_is_asked_for_short_steps_only(world: GarbageWorld) -> None:
    ids = world.create(3)
    world.delete(*ids[:2])
    world.begin_round()
    disk = world.disk
    while world.go_on() or world.ticker.callbacks:
        if world.to_storage:
            before = disk.operation_count
            world.go_on()
            # at most: two index files go, and their directory is synced
            assert disk.operation_count - before <= 3
        elif world.gc.actor_inbox.empty():
            world.tick()
    assert world.local() == [ids[2]]


def test_ids_between_deleted_ones_are_asked_for_when_there_are_too_many_ranges(
    world: GarbageWorld,
) -> None:
    (first,) = world.create()
    elsewhere = world.ledgers.create(metadata_maker())[0].ledger_id  # has never come here
    (third,) = world.create()
    lives = world.ledgers.create(metadata_maker())[0].ledger_id  # nor has this one
    (fifth,) = world.create()
    world.create()
    deleted = world.bookie.storage.garbages[0].deleted
    deleted._range_count_max = 5
    world.delete(first, elsewhere, third, fifth)
    assert world.round().dropped_count == 3
    assert deleted.range_count == 3

    result = world.round()

    assert (result.candidate_count, result.dropped_count) == (1, 1)
    assert deleted.range_count == 2
    assert [one for one in range(fifth + 2) if one in deleted] == [first, elsewhere, third, fifth]
    assert lives not in deleted


def test_without_space_to_note_what_is_deleted_the_round_says_so(world: GarbageWorld) -> None:
    ids = world.create(3)
    world.delete(ids[0])
    world.disk.faults = [Fault("create", errno.ENOSPC, path_part="deleted_ledgers")]

    result = world.round()

    assert (result.candidate_count, result.dropped_count) == (1, 0)
    assert "no space" in result.gave_up
    assert world.round().dropped_count == 1, "by then the reserve has made room"


def test_when_no_more_ranges_can_be_remembered_ledgers_stay_and_are_taken_in(
    world: GarbageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    ids = world.create(5)
    world.bookie.storage.garbages[0].deleted._range_count_max = 1
    world.delete(ids[0], ids[2])

    result = world.round()

    assert (result.candidate_count, result.dropped_count, result.kept_count) == (2, 0, 2)
    assert world.local() == ids
    assert "too many ranges" in caplog.text
    assert "too many ranges" in result.gave_up
    world.write(ids[0], first=ENTRY_COUNT)
    assert not isinstance(world.bookie.answers[-1], Refused)
