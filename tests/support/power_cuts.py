"""Every way in which a loss of power can leave a simulated disk: what was kept, and what was not.

A *unit* is what a disk keeps or loses as a whole: a sector of a write, a change of a file's length,
a change of names. Of few units all subsets are tried; of many the two ends, each unit kept alone
and each lost alone up to a number, and subsets by chance.
"""

import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from random import Random

from tests.support.crash_points import STEP_COUNT_MAX
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk, _apply
from tests.support.simulated_inode import SECTOR_SIZE, Inode, Write, put, resize

ALL_COUNT_MAX = 6
"""Units of which all subsets are tried."""


class NothingKept(Random):
    """A loss of power that takes everything that was not synced."""

    def choice(self, _shares: object) -> float:  # type: ignore[override] # the share that is kept
        return 0.0


def crashed_at_each_step(
    prepare: Callable[[SimulatedDisk], Callable[[], object]],
) -> Iterator[tuple[SimulatedDisk, int]]:
    """Yield disks on which a call ended after its first step, its second ... and at its end."""
    for step in range(1, STEP_COUNT_MAX):
        disk = SimulatedDisk()
        call = prepare(disk)
        disk.crash_at = disk.operation_count + step
        try:
            call()
        except SimulatedCrash:
            disk.crash_at = None
            yield disk, step
            continue
        disk.crash_at = None
        yield disk, step
        return
    raise AssertionError("the call ends")


def power_cuts(disk: SimulatedDisk, rng: Random, count_max: int = 8) -> Iterator[SimulatedDisk]:
    """Yield copies of a disk after the power was lost; at most ``count_max`` of many units."""
    units = _units(disk)
    for kept in _subsets(len(units), rng, count_max):
        after = copy.deepcopy(disk)
        _lose(after, [units[unit] for unit in sorted(kept)])
        yield after


def _subsets(unit_count: int, rng: Random, count_max: int) -> Iterator[Collection[int]]:
    everything = range(unit_count)
    if unit_count <= ALL_COUNT_MAX:
        for bits in range(1 << unit_count):
            yield [unit for unit in everything if bits >> unit & 1]
        return
    yield everything
    yield ()
    for turn in range(count_max - 2):
        one = rng.randrange(unit_count)
        match turn % 3:
            case 0:
                yield [unit for unit in everything if unit != one]
            case 1:
                yield [one]
            case _:
                yield [unit for unit in everything if rng.random() < 0.5]


def _inodes(disk: SimulatedDisk) -> list[Inode]:
    """Return all files that have or had a name, in an order that a copy keeps."""
    found = {id(inode): inode for _, inode in sorted(disk._durable_names.items())}
    for change in disk._pending_names:
        found |= {id(inode): inode for inode in change.values() if inode is not None}
    return list(found.values())


def _units(disk: SimulatedDisk) -> list[tuple[int, int, int]]:
    """Return units as numbers: of the inode (-1: names), of its change, and of the sector."""
    units = [(-1, number, 0) for number in range(len(disk._pending_names))]
    for inode_no, inode in enumerate(_inodes(disk)):
        for number, change in enumerate(inode.pending):
            size = len(change.data) if isinstance(change, Write) else 1
            units += [(inode_no, number, at) for at in range(0, size, SECTOR_SIZE)]
    return units


def _lose(disk: SimulatedDisk, kept: Sequence[tuple[int, int, int]]) -> None:
    inodes = _inodes(disk)
    for inode_no, number, at in kept:
        if inode_no < 0:
            _apply(disk._durable_names, disk._pending_names[number])
            continue
        inode = inodes[inode_no]
        change = inode.pending[number]
        if isinstance(change, Write):
            sector = change.data[at : at + SECTOR_SIZE]
            inode.durable = put(inode.durable, change.offset + at, sector)
        else:
            inode.durable = resize(inode.durable, change.size)
    for inode in inodes:
        inode.pending = []
        inode.show_durable()
    disk._names = dict(disk._durable_names)
    disk._pending_names = []
    disk.process_crash()
