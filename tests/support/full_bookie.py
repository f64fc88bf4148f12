"""A storage actor on a simulated disk that is full, and the same disk after a loss of power."""

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import World, add, batch
from zbk.storage.journal.spares import SMALL_SEGMENT_SIZE

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
    """Start a bookie again on what a crash left of its disk, which has space now."""
    disk.capacity = None
    return World(disk.process_crash(), "", reserve_size=RESERVE_SIZE)
