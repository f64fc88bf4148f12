"""A bookie without space: what the storage, journal, checkpoint and monitor actors make of it."""

import errno
import logging
from typing import Any

import pytest

from tests.support.simulated_disk import Fault, SimulatedDisk
from tests.support.storage_actor import LEDGER_ID, World, add, batch, read, read_lac, write_lac
from zbk.actors.messages import Answered, AskStorage, EndCheckpoint
from zbk.actors.serve.journal import JournalActor, NoteSynced
from zbk.actors.serve.journal_times import NONE
from zbk.actors.serve.sync_queue import AppendGroup, SyncQueue
from zbk.actors.space_gate import SpaceGate
from zbk.actors.upkeep.checkpoint import CheckpointActor, CheckpointDue
from zbk.actors.upkeep.disk_monitor import DiskMonitorActor, MeasureDue
from zbk.actors.upkeep.preparer import PrepareDue, PreparerActor
from zbk.config.units import FreeLimit
from zbk.errors import BookieReadOnlyError, LedgerFencedError, NoSuchEntryError
from zbk.protocol.entry.words import LedgerType
from zbk.storage.directory.disk_space import FENCE_ROOM_SIZE, HOLD_MS, DiskLimits, NoSpaceMet
from zbk.storage.journal.segment import spare_ids
from zbk.storage.journal.spares import SMALL_SEGMENT_SIZE
from zbk.wire.messages import AddAnswer, LacAnswer, ReadAnswer, Refused

VD = LedgerType.VD_JOURNAL
RESERVE_SIZE = 2 * SMALL_SEGMENT_SIZE


def full_bookie(*, left_size: int = 0) -> tuple[World, SimulatedDisk]:
    """Return a bookie with entry 0 of the ledger, on a disk with so many bytes left."""
    disk = SimulatedDisk()
    world = World(disk, "", reserve_size=RESERVE_SIZE)
    world.say(*add(batch(0, [b"a"])))
    world.settle()
    world.answers.clear()
    disk.capacity = disk.used_size + left_size
    return world, disk


def world_after_power_loss(disk: SimulatedDisk) -> World:
    disk.capacity = None
    return World(disk.process_crash(), "", reserve_size=RESERVE_SIZE)


# ---------------------------------------------------------------- the storage actor


def test_an_add_without_space_is_refused_and_leaves_nothing_behind() -> None:
    world, disk = full_bookie()
    world.say(*add(batch(1, [b"b"], lac=0), lac=0))
    world.settle()

    assert world.last_error() is BookieReadOnlyError
    assert world.space.is_readonly
    world.say(read(1, 1))
    assert world.last_error() is NoSuchEntryError
    world.say(read(0, 0))
    world.fetched()
    assert isinstance(world.answers[-1], ReadAnswer)
    assert world.actor.counts.batch_count == 1
    assert world.failures == []

    disk.capacity = None
    world.space.is_readonly = False
    world.say(*add(batch(1, [b"b"], lac=0), lac=0))
    world.settle()
    assert isinstance(world.answers[-1], AddAnswer), "the same add, later"


def test_all_ordinary_adds_of_a_turn_are_refused_and_its_recovery_adds_are_stored() -> None:
    world, _disk = full_bookie(left_size=20)
    world.say_together(
        add(batch(1, [b"b"]), request_id=1),
        add(batch(0, [b"r"], ledger_id=8), request_id=2, is_recovery=True),
        add(batch(0, [b"v"], ledger_id=9), kind=VD, request_id=3),
    )
    world.settle()

    refused = {a.request_id for a in world.answers if isinstance(a, Refused)}
    assert refused == {1, 3}
    assert [a.request_id for a in world.answers if isinstance(a, AddAnswer)] == [2]
    world.say(read(0, 0, ledger_id=8))
    world.fetched()
    assert isinstance(world.answers[-1], ReadAnswer)


def test_the_lac_of_an_add_that_was_refused_is_not_told_as_durable() -> None:
    world, disk = full_bookie()
    world.say_together(add(batch(1, [b"b"], lac=0), lac=0), (read_lac(is_fencing=True),))
    world.settle()
    assert [type(a) for a in world.answers] == [Refused, LacAnswer]

    before = world.answers[-1]
    world.say(read_lac())
    told = world.answers[-1]
    assert isinstance(told, LacAnswer)
    world = world_after_power_loss(disk)
    world.say(read_lac())
    answer = world.answers[-1]
    assert isinstance(answer, LacAnswer)
    assert answer.lac >= told.lac
    assert isinstance(before, LacAnswer)


def test_a_read_only_bookie_serves_reads_fences_lacs_and_recoveries() -> None:
    """B8: fences need no room in entry log or index, only in the journal."""
    world, disk = full_bookie()
    world.space.is_readonly = True
    world.say(*add(batch(1, [b"b"])))
    assert world.last_error() is BookieReadOnlyError
    world.say(*add(batch(0, [b"b"], ledger_id=8)))
    assert world.last_error() is BookieReadOnlyError
    world.say(write_lac(0))
    world.settle()
    assert isinstance(world.answers[-1], LacAnswer)
    world.say(read_lac(is_fencing=True))
    world.settle()
    assert isinstance(world.answers[-1], LacAnswer)
    world.say(*add(batch(1, [b"r"]), is_recovery=True))
    world.settle()
    assert isinstance(world.answers[-1], AddAnswer)
    world.say(read_lac(ledger_id=99, is_fencing=True))
    world.settle()
    assert isinstance(world.answers[-1], LacAnswer), "also of a ledger that it has never seen"

    disk.capacity = None
    for ledger_id in (LEDGER_ID, 99):
        world = world_after_power_loss(disk)
        world.say(*add(batch(7, [b"late"], ledger_id=ledger_id)))
        assert world.last_error() is LedgerFencedError


def test_the_writer_of_a_fenced_ledger_is_told_so_and_not_sent_to_another_bookie() -> None:
    world, _disk = full_bookie()
    world.say(read_lac(is_fencing=True))
    world.settle()
    world.space.is_readonly = True
    world.say(*add(batch(1, [b"b"])))
    assert world.last_error() is LedgerFencedError


@pytest.mark.parametrize(
    "left_size",
    [
        pytest.param(100_000, id="the entry log finds no space"),
        pytest.param(SMALL_SEGMENT_SIZE - 1, id="the journal has no room for another segment"),
    ],
)
def test_recoveries_are_refused_before_fences_when_the_reserve_is_used_up(left_size: int) -> None:
    world, disk = full_bookie()
    world.space.is_readonly = True
    for reserve in world.storage.reserves:
        reserve.release()
    disk.capacity = disk.used_size + left_size  # somebody else has taken the rest
    number = 0
    while True:
        number += 1
        world.say(*add(batch(number, [b"." * 1_000]), is_recovery=True))
        world.settle()
        if not isinstance(world.answers[-1], AddAnswer):
            break
    assert number > 50, "there was room for some"
    assert world.last_error() is BookieReadOnlyError
    assert world.storage.journals.room_size >= FENCE_ROOM_SIZE
    for ledger_id in range(100, 300):
        world.say(read_lac(ledger_id=ledger_id, is_fencing=True))
        world.settle()
        assert isinstance(world.answers[-1], LacAnswer)
    assert world.failures == []


@pytest.mark.parametrize("step", [1, -1], ids=["ascending", "descending"])
def test_recoveries_of_one_turn_leave_room_for_fences_together(step: int) -> None:
    world, disk = full_bookie()
    world.space.is_readonly = True
    for reserve in world.storage.reserves:
        reserve.release()
    disk.capacity = disk.used_size + SMALL_SEGMENT_SIZE - 1
    entry_ids = range(1, 1 + 900)[::step]

    world.say_together(
        *(add(batch(n, [b"." * 1_000]), request_id=n, is_recovery=True) for n in entry_ids)
    )
    world.settle()

    taken = [a.request_id for a in world.answers if isinstance(a, AddAnswer)]
    refused = [a.request_id for a in world.answers if isinstance(a, Refused)]
    assert len(taken) > 100
    assert sorted(taken + refused) == sorted(entry_ids)
    assert world.storage.journals.room_size >= FENCE_ROOM_SIZE


# ---------------------------------------------------------------- the journal actor


class Writer:
    """A journal actor without its thread, on the storage of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sent: list[object] = []
        queue = SyncQueue(world.storage.journal, self, self._send, world.progress)
        self.actor = JournalActor(
            queue,
            self,  # syncs are run by hand
            world.space,
            unsynced_size_max=1 << 20,
            stop_bookie=world.failures.append,
        )
        self._queue = queue
        self.times = queue.times

    def tell(self, message: object) -> None:
        self.sent.append(message)

    def _send(self, outbounds: object) -> None:
        self.sent += [one.answer for one in outbounds]  # type: ignore[attr-defined]  # Outbound

    def say(self, message: AppendGroup | NoteSynced) -> None:
        self.actor.on_receive(message)
        self._queue.run()

    def answers(self, kind: type) -> list[object]:
        return [one for one in self.sent if isinstance(one, kind)]


def add_and_fence(fault_count: int) -> tuple[World, SimulatedDisk, Writer]:
    """Return an add and a fence as the last groups; so many writes to the journal find it full."""
    world, disk = full_bookie(left_size=100_000)
    world.say(*add(batch(1, [b"b"])))
    world.say(read_lac(is_fencing=True))
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part="journal") for _ in range(fault_count)]
    return world, disk, Writer(world)


def test_each_write_of_groups_that_only_fit_singly_is_observed() -> None:
    world, disk, writer = add_and_fence(3)
    first, second = world.groups[-2:]
    writer.say(first)
    observed = writer.times.keep()

    writer.say(second)  # both do not fit at once

    assert disk.faults == []
    assert sum(row[2] != NONE for row in observed.rows) == 2
    assert len(writer.answers(LacAnswer)) == 1


def test_groups_without_space_wait_in_order_and_their_adds_are_refused() -> None:
    world, disk, writer = add_and_fence(4)
    for group in world.groups[-2:]:
        writer.say(group)
    assert len(writer.answers(Refused)) == 1
    assert writer.answers(LacAnswer) == [], "no fence is answered that is not durable"
    assert writer.answers(AddAnswer) == []

    disk.faults = []
    writer.say(NoteSynced())

    assert len(writer.answers(LacAnswer)) == 1
    assert writer.answers(AddAnswer) == [], "it was refused"
    world = world_after_power_loss(disk)
    world.say(*add(batch(2, [b"late"])))
    assert world.last_error() is LedgerFencedError


def test_the_reserve_is_tried_before_anything_waits() -> None:
    world, disk = full_bookie(left_size=100_000)
    writer = Writer(world)
    world.say(*add(batch(1, [b"b"])))
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part="journal")]
    writer.say(world.groups[-1])
    assert len(writer.answers(AddAnswer)) == 1
    assert world.space.is_readonly
    assert not world.storage.has_reserve


# ---------------------------------------------------------------- the checkpoint actor


class DirectCheckpointActor(CheckpointActor):
    """Takes at once what it tells itself."""

    actor_ref: Any = None


class Checkpoints:
    """A checkpoint actor without its thread."""

    def __init__(self, world: World) -> None:
        self.now_ms = 10_000
        self._world = world
        self.actor = DirectCheckpointActor(
            world.storage,
            self,
            interval_ms=100,
            journal_size=1 << 30,
            stop_bookie=world.failures.append,
            now_ms=lambda: self.now_ms,
        )
        self.actor.actor_ref = self

    def tell(self, message: object) -> None:
        match message:
            case AskStorage(question, _, wait_no):
                self.actor.on_receive(Answered(wait_no, question.answer()))
            case EndCheckpoint(checkpoint):
                self._world.storage.end_checkpoint(checkpoint)
                self.actor.on_receive(Answered(0, None))
            case _:
                self.actor.on_receive(message)

    def tick(self) -> None:
        self.now_ms += 1_000
        self.tell(CheckpointDue())


def test_a_checkpoint_without_space_is_tried_again_until_there_is_some() -> None:
    world, disk = full_bookie()
    checkpoints = Checkpoints(world)
    mark = world.storage.last_mark
    disk.faults = [Fault("pwrite", errno.ENOSPC, path_part="idx") for _ in range(2)]
    for _ in range(3):  # the first time the disk is full, without a fault of its own
        checkpoints.tick()
        assert world.storage.last_mark == mark
        assert world.space.is_readonly

    checkpoints.tick()
    assert world.storage.last_mark > mark
    assert world.storage.open_checkpoint is None
    assert checkpoints.actor.checkpoint_count == 1
    assert world.failures == []


def test_a_segment_that_cannot_be_prepared_is_no_failure() -> None:
    world, disk = full_bookie(left_size=1 << 20)
    preparer = PreparerActor(world.storage, space=world.space, stop_bookie=world.failures.append)
    for n in range(1, 10):
        world.say(*add(batch(n * 100, [b"." * 900] * 70)))
        world.settle()
    room_size = world.storage.journal.room_size
    disk.capacity = disk.used_size
    preparer.on_receive(PrepareDue())
    assert world.failures == []
    assert world.space.is_readonly

    disk.capacity = None
    preparer.on_receive(PrepareDue())
    assert world.storage.journal.room_size == room_size, "none is made while the gate is shut"
    world.space.is_readonly = False
    preparer.on_receive(PrepareDue())
    assert world.storage.journal.room_size > room_size


# ---------------------------------------------------------------- the monitor


class Monitor:
    """A disk monitor without its thread."""

    def __init__(self, world: World) -> None:
        self.now_ms = 0
        self.modes: list[bool] = []
        limits = DiskLimits(FreeLimit(size=2_000), FreeLimit(size=1_000), margin_size=0)
        self.actor = DiskMonitorActor(
            world.storage,
            world.storage._files,
            limits,
            world.space,
            lambda: self.modes.append(world.space.is_readonly),
            world.failures.append,
            now_ms=lambda: self.now_ms,
        )
        world.space.watch(lambda path: self.actor.on_receive(NoSpaceMet(path)))

    def look(self) -> None:
        self.now_ms += HOLD_MS
        self.actor.on_receive(MeasureDue())


def test_a_full_disk_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    world, disk = full_bookie()
    disk.capacity = None
    monitor = Monitor(world)
    with caplog.at_level(logging.INFO, logger="zbk.bookie"):
        monitor.look()
        assert caplog.records == [], "nothing is said in health"

        disk.capacity = disk.used_size
        world.say(*add(batch(1, [b"b"])))
        world.say(*add(batch(1, [b"b"])))
        monitor.look()
        assert monitor.modes == [True]
        assert [r.levelname for r in caplog.records] == ["WARNING"]

        disk.capacity = None
        monitor.look()
        assert monitor.modes == [True, False]
        assert [r.levelname for r in caplog.records] == ["WARNING", "INFO"]
    assert world.storage.has_reserve
    world.say(*add(batch(1, [b"b"])))
    world.settle()
    assert isinstance(world.answers[-1], AddAnswer)


def test_a_bookie_that_cannot_make_its_reserve_stays_read_only() -> None:
    world, disk = full_bookie()
    monitor = Monitor(world)
    world.say(*add(batch(1, [b"b"])))
    disk.capacity = None
    disk.faults = [Fault("allocate", errno.EDQUOT)]
    monitor.look()
    assert world.space.is_readonly
    monitor.look()
    assert not world.space.is_readonly


def test_a_bookie_without_space_gives_up_the_journals_spares() -> None:
    """They held back what makes it writable again."""
    world, disk = full_bookie()
    disk.capacity = None
    monitor = Monitor(world)
    journal = world.storage.journal
    for n in range(1, 60):
        world.say(*add(batch(n * 100, [b"." * 900] * 70)))
        world.settle()
    journal.remove_before(journal.position)
    assert spare_ids(disk, "/journal")
    disk.capacity = disk.used_size

    monitor.look()
    assert world.space.is_readonly
    assert spare_ids(disk, "/journal") == []

    monitor.look()
    assert not world.space.is_readonly
    assert world.failures == []


def test_what_was_met_before_anybody_watched_is_told_later() -> None:
    gate = SpaceGate("b")
    told: list[str] = []
    gate.met_no_space("/d/x")
    gate.watch(told.append)
    assert told == ["/d/x"]
