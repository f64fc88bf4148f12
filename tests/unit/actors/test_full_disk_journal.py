"""A journal actor without space refuses adds, and keeps what else waits in order."""

import errno

from tests.support.full_bookie import full_bookie, world_after_power_loss
from tests.support.simulated_disk import Fault, SimulatedDisk
from tests.support.storage_actor import World, add, batch, read_lac
from zbk.actors.serve.journal import JournalActor, NoteSynced
from zbk.actors.serve.journal_times import NONE
from zbk.actors.serve.sync_queue import AppendGroup, SyncQueue
from zbk.errors import LedgerFencedError
from zbk.wire.messages import AddAnswer, LacAnswer, Refused


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
