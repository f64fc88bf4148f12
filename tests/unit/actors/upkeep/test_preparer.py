"""The preparer actor: segments and entry logs, in advance."""

import errno

from tests.support.entry_logs import shared_log
from tests.support.simulated_disk import Fault, SimulatedDisk
from tests.support.storage_actor import World, add, batch
from zbk.actors.upkeep.preparer import PrepareDue, PreparerActor
from zbk.storage.entry_logs.entry_log import EntryLogs
from zbk.storage.journal.segment import segment_ids

SEGMENT_SIZE = 64 * 1024


class Preparing:
    """The actor without its thread, beside a storage actor."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.world = World(self.disk, "", segment_size=SEGMENT_SIZE)
        self.logs: EntryLogs = self.world.storage.directories[0].logs
        self.logs._ahead_size = 10_000
        self.actor = PreparerActor(
            self.world.storage, space=self.world.space, stop_bookie=self.world.failures.append
        )

    def write(self, size: int) -> None:
        self.world.say(*add(batch(0, [b"." * 500] * (size // 500))))
        self.world.settle()
        assert shared_log(self.logs)[1] >= size

    def tick(self) -> int:
        """Return how many operations on the disk that took."""
        before = self.disk.operation_count
        self.actor.on_receive(PrepareDue())
        return self.disk.operation_count - before


def test_with_little_to_do_the_disk_is_left_alone() -> None:
    preparer = Preparing()
    assert preparer.tick() == 0
    preparer.write(1_000)
    assert preparer.tick() == 0


def test_a_segment_is_made_and_the_log_synced_once() -> None:
    preparer = Preparing()
    preparer.write(SEGMENT_SIZE * 2 // 3)
    assert segment_ids(preparer.disk, "/journal") == [1]

    assert preparer.tick() > 0
    assert segment_ids(preparer.disk, "/journal") == [1, 2]
    path = preparer.disk.paths(".log")[0]
    assert preparer.disk.inode(path).durable == preparer.disk.inode(path).visible
    assert preparer.tick() == 0


def test_storage_asks_for_it_when_a_log_has_grown() -> None:
    preparer = Preparing()
    asked: list[PrepareDue] = []
    preparer.world.storage.when_logs_grow(lambda: asked.append(PrepareDue()))

    preparer.write(1_000)
    assert asked == []
    preparer.write(12_000)

    assert asked == [PrepareDue()]
    assert preparer.tick() > 0


def test_a_bookie_without_space_has_its_logs_synced_and_no_segment_made() -> None:
    preparer = Preparing()
    preparer.write(SEGMENT_SIZE * 2 // 3)
    preparer.world.space.is_readonly = True

    assert preparer.tick() > 0
    assert segment_ids(preparer.disk, "/journal") == [1]


def test_a_failed_sync_stops_the_bookie() -> None:
    preparer = Preparing()
    preparer.write(20_000)
    preparer.disk.faults = [Fault("sync", errno.EIO, path_part=".log")]
    preparer.tick()

    assert len(preparer.world.failures) == 1
    assert ".log" in str(preparer.world.failures[0])
