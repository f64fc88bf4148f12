"""The ahead actor: segments and entry logs, early."""

import errno

from tests.support.simulated_disk import Fault, SimulatedDisk
from tests.support.storage_actor import World, add, batch
from zbk.actors.upkeep.preparer import AheadActor, AheadDue
from zbk.storage.entry_logs.entry_log import EntryLogs
from zbk.storage.journal.segment import segment_ids

SEGMENT_SIZE = 64 * 1024


class Ahead:
    """The actor without its thread, beside a storage actor."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.world = World(self.disk, "", segment_size=SEGMENT_SIZE)
        self.logs: EntryLogs = self.world.storage.directories[0].logs
        self.logs._ahead_size = 10_000
        self.actor = AheadActor(
            self.world.storage, space=self.world.space, stop_bookie=self.world.failures.append
        )

    def write(self, size: int) -> None:
        self.world.say(*add(batch(0, [b"." * 500] * (size // 500))))
        self.world.settle()
        assert self.logs.written[1] >= size

    def tick(self) -> int:
        """Return how many operations on the disk that took."""
        before = self.disk.operation_count
        self.actor.on_receive(AheadDue())
        return self.disk.operation_count - before


def test_with_little_to_do_the_disk_is_left_alone() -> None:
    ahead = Ahead()
    assert ahead.tick() == 0
    ahead.write(1_000)
    assert ahead.tick() == 0


def test_a_segment_is_made_and_the_log_synced_once() -> None:
    ahead = Ahead()
    ahead.write(SEGMENT_SIZE * 2 // 3)
    assert segment_ids(ahead.disk, "/journal") == [1]

    assert ahead.tick() > 0
    assert segment_ids(ahead.disk, "/journal") == [1, 2]
    path = ahead.disk.paths(".log")[0]
    assert ahead.disk.inode(path).durable == ahead.disk.inode(path).visible
    assert ahead.tick() == 0


def test_a_bookie_without_space_has_its_logs_synced_and_no_segment_made() -> None:
    ahead = Ahead()
    ahead.write(SEGMENT_SIZE * 2 // 3)
    ahead.world.space.is_readonly = True

    assert ahead.tick() > 0
    assert segment_ids(ahead.disk, "/journal") == [1]


def test_a_failed_sync_stops_the_bookie() -> None:
    ahead = Ahead()
    ahead.write(20_000)
    ahead.disk.faults = [Fault("sync", errno.EIO, path_part=".log")]
    ahead.tick()

    assert len(ahead.world.failures) == 1
    assert ".log" in str(ahead.world.failures[0])
