"""Checkpoints and new segments wait for space, and the disk monitor tells when there is some."""

import errno
import logging
from typing import Any

import pytest

from tests.support.full_bookie import full_bookie
from tests.support.simulated_disk import Fault
from tests.support.storage_actor import World, add, batch
from zbk.actors.messages import Answered, AskStorage, EndCheckpoint
from zbk.actors.space_gate import SpaceGate
from zbk.actors.upkeep.checkpoint import CheckpointActor, CheckpointDue
from zbk.actors.upkeep.disk_monitor import DiskMonitorActor, MeasureDue
from zbk.actors.upkeep.preparer import PrepareDue, PreparerActor
from zbk.config.units import FreeLimit
from zbk.storage.directory.disk_space import HOLD_MS, DiskLimits, NoSpaceMet
from zbk.storage.journal.segment import spare_ids
from zbk.wire.messages import AddAnswer

# ------------------------------------------------------------------ checkpoints and segments


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


# ------------------------------------------------------------------ the monitor


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
