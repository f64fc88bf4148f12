"""Copies of a simulated disk at each step of one run: what a crash at that step leaves.

A crash ends a run within the step that it hits, so a run that goes on has by then done the same.
One run therefore gives what a run for each step gives, and costs as much as one.
``test_crash_points_of_one_run.py`` compares both.
"""

import copy
from collections.abc import Callable
from typing import TypeVar

from tests.support.simulated_disk import SimulatedDisk

STEP_COUNT_MAX = 2_000
"""Steps that anything may take."""

T = TypeVar("T")


def copy_of(disk: SimulatedDisk) -> SimulatedDisk:
    """Return a copy of a disk with another life of its own."""
    return copy.deepcopy(disk)


def left_by_crashes(
    disk: SimulatedDisk,
    call: Callable[[], object],
    take: Callable[[], T],
    *,
    first: int = 1,
    stride: int = 1,
) -> list[T]:
    """Return what ``take`` copies at step ``first``, each ``stride`` steps later, and at the end.

    The end stands for the first step of that sequence that the call does not reach.
    """
    taken: list[T] = []
    step_count = 0

    def at_step() -> None:
        nonlocal step_count
        step_count += 1
        assert step_count <= STEP_COUNT_MAX, "the call ends"
        if step_count >= first and not (step_count - first) % stride:
            taken.append(take())

    disk.at_step = at_step
    try:
        call()
    finally:
        disk.at_step = None
    return [*taken, take()]
