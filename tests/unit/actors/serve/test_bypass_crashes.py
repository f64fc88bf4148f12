"""After a crash, a start finds what a bookie has promised of ledgers that bypass the journal."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from tests.support.bypass_ledgers import (
    BYPASS,
    SYNC,
    add_some,
    bookie,
    cursors,
    empty_disk,
    held,
    sync_all,
)
from tests.support.power_cuts import crashed_at_each_step, power_cuts
from tests.support.simulated_disk import Fault, SimulatedDisk
from tests.support.storage_actor import LEDGER_ID, World
from zbk.durability.limbo import LossReason
from zbk.errors import StorageFailedError
from zbk.wire.messages import AddAnswer

__all__ = ["empty_disk"]

LOG_PATH = "/b/ledgers/logs/00000001.log"


def test_a_killed_process_loses_nothing_that_was_acknowledged(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    add_some(world, 3, 2)
    disk.process_crash()

    assert held(bookie(disk).storage) == [(0, 4)]


def test_entries_after_a_checkpoint_are_found_behind_those_that_it_covers(
    disk: SimulatedDisk,
) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    world.checkpoint()
    add_some(world, 3, 2)
    disk.process_crash()

    assert held(bookie(disk).storage) == [(0, 4)]


def test_what_is_found_outlives_the_next_loss_of_power(disk: SimulatedDisk) -> None:
    add_some(bookie(disk), 0, 3)
    disk.process_crash()
    bookie(disk)
    disk.crash(Random(2))

    assert held(bookie(disk).storage) == [(0, 2)]


@pytest.mark.parametrize("is_synced", [True, False])
def test_what_is_found_after_a_failed_fsync_outlives_the_next_loss_of_power(
    disk: SimulatedDisk, is_synced: bool
) -> None:
    """The failed fsync left clean pages: another one writes nothing, and reports nothing."""
    world = bookie(disk)
    add_some(world, 0, 2)
    if is_synced:
        world.say(SYNC)
        sync_all(world)
    for first in range(2, 40, 2):
        add_some(world, first, 2)
    world.say(SYNC)
    disk.faults = [Fault("sync", errno.EIO, path_part="/logs/")]
    with pytest.raises(StorageFailedError):
        sync_all(world)
    disk.process_crash()
    assert held(bookie(disk).storage) == [(0, 39)]
    disk.crash(Random(2))

    assert held(bookie(disk).storage) == [(0, 39)]


def test_a_ledger_that_was_deleted_is_not_found_again(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    add_some(world, 0, 3)
    world.checkpoint()
    add_some(world, 3, 3)
    assert world.storage.mark_deleted([LEDGER_ID])
    assert world.storage.garbages[0].deleted.write()
    world.storage.garbages[0].drop([LEDGER_ID])
    disk.process_crash()

    assert held(bookie(disk).storage) == []


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_a_start_without_synced_entries_puts_their_ledger_in_limbo(
    disk: SimulatedDisk, damage: str
) -> None:
    """Their log is newer than the census, so only the journal knows that they were there."""
    world = bookie(disk)
    add_some(world, 0, 3)
    add_some(world, 0, 1, ledger_id=8)
    world.say(SYNC)
    sync_all(world)
    add_some(world, 1, 1, ledger_id=8)  # not synced: it may be lost
    disk.process_crash()
    if damage == "removed":
        disk.remove_at_rest(LOG_PATH)
    else:
        with_closed_end(disk, 200)

    limbo = bookie(disk).storage.limbo.limbo

    assert limbo.reasons == (LossReason.INDEX_LOST,)
    assert limbo.is_miss_unknown(LEDGER_ID, BYPASS)
    assert not limbo.is_miss_unknown(77, BYPASS)


def with_closed_end(disk: SimulatedDisk, size: int) -> None:
    """Cut a log to a size."""
    file = disk.open(LOG_PATH)
    file.truncate(size)
    file.close()


def test_damage_in_an_un_synced_block_hides_only_that_block(disk: SimulatedDisk) -> None:
    world = bookie(disk)
    for entry_id in range(4):
        add_some(world, entry_id, 1)
    (_, location) = places(world)
    disk.process_crash()
    file = disk.open(LOG_PATH)
    file.pwrite([b"?"], location)
    file.close()

    assert held(bookie(disk).storage) == [(0, 0), (2, 3)]


def places(world: World) -> tuple[int, int]:
    """Return the places of the last bytes of entries 0 and 1 in the log."""
    locations = world.storage.homes.ledger(LEDGER_ID).index.locations_of(range(3))
    offsets = [one & 0xFFFFFFFF for one in locations]
    return offsets[1] - 49, offsets[2] - 49


Call = Callable[[], object]


def life_of_a_ledger(disk: SimulatedDisk) -> tuple[World, Call]:
    """Return a bookie that waits, and all steps from the first add to an answered sync."""
    world = World(disk, "/b", segment_size=1 << 16, log_size_max=1_000)

    def live() -> None:
        add_some(world, 0, 3)
        world.say(SYNC)
        sync_all(world)
        for entry_id in range(3, 12):  # they roll the log, and seal one
            add_some(world, entry_id, 1)
        world.checkpoint()
        add_some(world, 12, 2)
        world.say(SYNC)
        sync_all(world)
        add_some(world, 14, 2)

    return world, live


def test_a_loss_of_power_at_each_step_takes_nothing_that_a_sync_answered() -> None:
    """Issue of relaxed durability: add, sync, roll, seal, checkpoint and start."""
    worlds: list[World] = []
    cut_count = 0

    def prepare(disk: SimulatedDisk) -> Call:
        world, live = life_of_a_ledger(disk)
        worlds.append(world)
        return live

    for disk, step in crashed_at_each_step(prepare):
        promised = max(cursors(worlds[-1].answers), default=-1)
        acknowledged = sum(isinstance(one, AddAnswer) for one in worlds[-1].answers)
        for after in power_cuts(disk, Random(step), 6):
            cut_count += 1
            storage = World(after, "/b", segment_size=1 << 16).storage
            assert not storage.limbo.limbo.losses, "a cut is no loss of files"
            ranges = held(storage)
            if promised >= 0:
                assert ranges
                assert ranges[0][0] == 0
                assert ranges[0][1] >= promised, f"step {step}"
            after.crash(Random(step))
            again = held(World(after, "/b", segment_size=1 << 16).storage)
            assert again == ranges, "what was found once stays"
        disk.process_crash()
        count = sum(last - first + 1 for first, last in held(bookie(disk).storage))
        assert count >= min(acknowledged, 1) * (acknowledged + 2)
    assert cut_count > 200
