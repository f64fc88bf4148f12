"""Compaction as the gc actor carries it out: when it is due, beside readers, after a start."""

from typing import Any

import pytest

from tests.support.garbage_collector import ENTRY_COUNT, PAYLOAD_SIZE, Box, GarbageWorld, world
from tests.support.ledgers import metadata_maker
from tests.support.simulated_disk import SimulatedCrash
from tests.support.storage_actor import add, batch, read
from zbk.actors.messages import Answered, AskCheckpoint, AskStorage, CheckpointEnded, EndCheckpoint
from zbk.actors.serve.read import RESOLVE_COUNT_MAX
from zbk.actors.upkeep.checkpoint import CheckpointActor, CheckpointDue
from zbk.actors.upkeep.gc import GcAsked, GcDue
from zbk.errors import EntryUnreadableError
from zbk.protocol.upkeep.compaction import CompactionKind, CompactionLimits
from zbk.wire.messages import ReadAnswer

__all__ = ["world"]

MAJOR, MINOR = CompactionKind.MAJOR, CompactionKind.MINOR
HOUR_MS = 3_600_000


def half_dead(world: GarbageWorld) -> list[int]:
    """Write logs with entries of two ledgers, one of them deleted; return those that live."""
    live, dead, last = (world.ledgers.create(metadata_maker())[0].ledger_id for _ in range(3))
    for first in range(0, 12, 3):
        for ledger_id in (live, dead):
            world.bookie.say(*add(batch(first, [b"x" * PAYLOAD_SIZE] * 3, ledger_id=ledger_id)))
            world.bookie.settle()
    world.write(last)
    world.delete(dead)
    return [live, last]


def ask(world: GarbageWorld, kind: CompactionKind | None) -> None:
    """Run a round with a compaction in it to its end."""
    world.bookie.checkpoint()
    world.gc.on_receive(GcAsked(world.gc.counts.begun_round + 1, kind))
    world.end_round()


def check_readable(world: GarbageWorld, live: int, last: int) -> None:
    for ledger_id, count in ((live, 12), (last, ENTRY_COUNT)):
        world.bookie.say(read(0, count - 1, ledger_id=ledger_id))
        world.bookie.fetched()
        answer = world.bookie.answers[-1]
        assert isinstance(answer, ReadAnswer)
        assert answer.count == count


def test_a_round_that_is_asked_for_it_compacts(world: GarbageWorld) -> None:
    ids = half_dead(world)
    ask(world, None)
    win = world.gc.compaction.wins[MAJOR]
    assert win.log_count >= 2
    assert world.gc.compaction.round_counts.log_count == 0
    log_count = world.log_count()

    ask(world, MAJOR)

    counts = world.gc.compaction.round_counts
    assert counts.log_count == win.log_count
    assert counts.freed_size > win.size * 0.9
    assert world.log_count() < log_count
    check_readable(world, *ids)
    ask(world, None)
    assert world.gc.compaction.round_counts.log_count == 0
    assert world.gc.compaction.wins[MAJOR].log_count == 0
    assert world.failures == world.bookie.failures == []


def test_what_is_dead_is_told_as_compaction_has_left_it(world: GarbageWorld) -> None:
    half_dead(world)
    ask(world, None)
    before = world.gc.counts.logs
    assert before.dead_size > 0

    ask(world, MAJOR)

    assert world.gc.counts.logs.dead_size == 0
    assert world.gc.counts.logs.log_count < before.log_count
    assert world.gc.counts.logs.size < before.size


def test_minor_leaves_alone_what_is_half_dead(world: GarbageWorld) -> None:
    half_dead(world)
    ask(world, MINOR)
    assert world.gc.compaction.round_counts.log_count == 0


def test_it_comes_by_itself_when_it_is_due(world: GarbageWorld) -> None:
    ids = half_dead(world)
    world.round()
    assert world.gc.compaction.counts.log_count == 0
    world.now_ms += 24 * HOUR_MS

    world.round()

    assert world.gc.compaction.counts.log_count >= 2
    check_readable(world, *ids)


def test_a_suspended_kind_stays_due_and_is_refused_on_request(world: GarbageWorld) -> None:
    ids = half_dead(world)
    world.gc.compaction.suspended = frozenset({MAJOR})
    world.now_ms += 24 * HOUR_MS
    world.round()
    assert world.gc.compaction.counts.log_count == 0

    ask(world, MAJOR)
    assert world.gc.compaction.counts.log_count == 0
    assert world.gc.compaction.round_counts.gave_up == "major compaction is suspended"

    world.gc.compaction.suspended = frozenset()
    world.round()
    assert world.gc.compaction.counts.log_count >= 2
    check_readable(world, *ids)


def test_one_that_runs_ends_after_the_log_under_way(world: GarbageWorld) -> None:
    half_dead(world)
    ask(world, None)
    assert world.gc.compaction.wins[MAJOR].log_count >= 2
    world.bookie.checkpoint()
    world.gc.on_receive(GcAsked(world.gc.counts.begun_round + 1, MAJOR))
    world.gc.compaction.suspended = frozenset({MAJOR})
    world.end_round()
    assert world.gc.compaction.wins[MAJOR].log_count >= 1


@pytest.mark.parametrize("limits", [CompactionLimits(0, 1, 0, 1), CompactionLimits(1, 0, 1, 0)])
def test_what_is_off_never_comes(limits: CompactionLimits) -> None:
    world = GarbageWorld()
    world.limits = limits
    world.start()
    half_dead(world)
    world.now_ms += 1_000 * HOUR_MS
    world.round()
    assert world.gc.compaction.counts.log_count == 0
    ask(world, MAJOR)
    assert (world.gc.compaction.counts.log_count > 0) is (limits.major_threshold > 0)
    world.close()


def test_one_that_is_due_lets_another_round_go_first_and_goes_on(world: GarbageWorld) -> None:
    """It makes one log of several, each time, and is done when there is nothing left to do."""
    ids = half_dead(world)
    world.room_size = 1_800  # for the copy of one log
    world.now_ms += 24 * HOUR_MS
    world.begin_round()
    world.gc.on_receive(GcDue())
    found: list[int] = []
    while world.gc.counts.ended_round < 2:
        if not world.go_on():
            world.tick()
        if len(found) < world.gc.counts.ended_round:
            found.append(world.gc.compaction.counts.log_count)

    assert found == [1, 4]
    check_readable(world, *ids)


def test_what_a_crash_cut_short_is_finished_before_the_first_round(world: GarbageWorld) -> None:
    ids = half_dead(world)
    ask(world, None)
    found_open = False
    for step in range(1, 60):
        world.disk.crash_at = world.disk.operation_count + step
        try:
            ask(world, MAJOR)
            world.disk.crash_at = None
            break
        except SimulatedCrash:
            world.gc.on_stop()
            world.disk.process_crash()
            world.start()
        found_open |= world.gc.compaction.is_open
        world.gc.on_start()
        world.end_round()
        assert not world.gc.compaction.is_open
        assert not world.disk.paths("compact")
    assert found_open
    check_readable(world, *ids)


# ------------------------------------------------------------------ readers


def test_a_read_on_its_way_finds_its_entries_where_they_are_now(world: GarbageWorld) -> None:
    live, last = half_dead(world)
    ask(world, None)
    world.bookie.say(read(0, 11, ledger_id=live))  # looked up, not yet read
    assert world.bookie.fetches
    ask(world, MAJOR)

    world.bookie.fetched()
    assert world.bookie.fetches, "it is looked up once more"
    world.bookie.fetched()

    answer = world.bookie.answers[-1]
    assert isinstance(answer, ReadAnswer)
    assert answer.count == 12
    check_readable(world, live, last)


def test_a_log_that_the_disk_has_lost_is_damage_after_few_looks(world: GarbageWorld) -> None:
    live, _ = half_dead(world)
    ask(world, None)
    world.bookie.say(read(0, 11, ledger_id=live))
    for path in world.disk.paths(".log"):
        world.disk.remove_at_rest(path)
    for _ in range(RESOLVE_COUNT_MAX):
        world.bookie.fetched()
        assert world.bookie.fetches
    world.bookie.fetched()
    assert not world.bookie.fetches
    assert world.bookie.last_error() is EntryUnreadableError


def test_a_ledger_deleted_while_a_read_is_looked_up_again_is_no_damage(world: GarbageWorld) -> None:
    live, _ = half_dead(world)
    ask(world, None)
    world.bookie.say(read(0, 11, ledger_id=live))
    world.delete(live)
    ask(world, MAJOR)
    while world.bookie.fetches:
        world.bookie.fetched()
    assert world.bookie.last_error().__name__ == "NoSuchLedgerError"


# ------------------------------------------------------------------ checkpoints


class _Storage:
    def __init__(self) -> None:
        self.steps: list[Any] = []

    def tell(self, message: AskStorage | EndCheckpoint) -> None:
        self.steps.append(message)


def test_a_checkpoint_that_was_asked_for_begins_after_that_and_tells_its_end(
    world: GarbageWorld,
) -> None:
    """One that is under way already does not count."""
    ref = _Storage()
    actor = CheckpointActor(
        world.bookie.storage,
        ref,
        interval_ms=1 << 40,
        journal_size=1 << 40,
        stop_bookie=world.failures.append,
        now_ms=lambda: 0,
    )

    def go_on() -> None:
        """Do what both actors do, until both wait."""
        while ref.steps or not actor.actor_inbox.empty():
            if ref.steps:
                world.bookie.tell(ref.steps.pop(0))
            else:
                actor.on_receive(actor.actor_inbox.get().message)

    told: list[CheckpointEnded] = []
    actor.on_receive(AskCheckpoint(Box(told), 1))
    world.bookie.tell(ref.steps.pop(0))  # it has begun
    actor.on_receive(AskCheckpoint(Box(told), 2))
    begun = actor.actor_inbox.get().message
    assert isinstance(begun, Answered)
    actor.on_receive(begun)
    world.bookie.tell(ref.steps.pop(0))
    ended = actor.actor_inbox.get().message
    assert isinstance(ended, Answered)
    actor.on_receive(ended)
    assert told == [CheckpointEnded(1)]
    actor.on_receive(CheckpointDue())
    go_on()
    assert told == [CheckpointEnded(1), CheckpointEnded(2)]
    actor.on_receive(CheckpointDue())
    go_on()
    assert actor.checkpoint_count == 2, "nobody asks, nothing was written"
