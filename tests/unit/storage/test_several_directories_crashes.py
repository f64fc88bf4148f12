"""Crashes of storage over two journal and two ledger directories: marks, flushes, segments."""

from collections.abc import Callable, Hashable, Iterator
from random import Random

import pytest

from tests.support.bookie_storages import disk
from tests.support.crash_points import left_by_crashes
from tests.support.several_directories import SeveralTwin, filled
from tests.support.simulated_disk import SimulatedDisk
from zbk.storage.checkpoint import DirectoryFlush

__all__ = ["disk"]

pytestmark = pytest.mark.usefixtures("same_nonce")


def interleavings(first: list[int], second: list[int]) -> Iterator[list[int]]:
    if not first or not second:
        yield first + second
        return
    for rest in interleavings(first[1:], second):
        yield [first[0], *rest]
    for rest in interleavings(first, second[1:]):
        yield [second[0], *rest]


def steps_of(flush: DirectoryFlush) -> list[Callable[[], None]]:
    def apply() -> None:  # as one step: each more makes several times as many orders
        flush.apply_index()
        flush.write_census()

    return [flush.sync_entry_logs, flush.write_index, apply, flush.write_mark]


@pytest.mark.parametrize("is_power_lost", [True, False])
def test_a_crash_behind_any_step_of_flushes_in_any_order_loses_nothing(
    *, is_power_lost: bool
) -> None:
    """B39: each mark follows its own flush, and segments wait for the marks of all directories."""
    orders = list(interleavings([0] * 4, [1] * 4))
    assert len(orders) == 70
    tried: set[Hashable] = set()  # what was left: what follows is the same on all alike
    for number, order in enumerate(orders):
        for left in left_by_flushes(order):
            if is_power_lost:
                left.lose_power(Random(number))
            else:
                left.kill()
            state = left.state()
            if state in tried:
                continue
            tried.add(state)
            left.open()
            left.check()


def left_by_flushes(order: list[int]) -> list[SeveralTwin]:
    """Return what a crash before the flushes leaves, and one after each step of them, in order."""
    twin = filled(SimulatedDisk())
    twin.finish_checkpoint()
    for ledger_id in range(4):
        twin.add(ledger_id, range(5, 8))
        twin.fence(ledger_id)
    twin.sync()
    checkpoint = twin.storage.begin_checkpoint()
    for ledger_id in range(4):
        twin.add(ledger_id, range(8, 10))  # behind the mark
    twin.sync()
    steps = [steps_of(one) for one in checkpoint.flushes]
    left = [twin.copy()]
    for directory in order:
        steps[directory].pop(0)()
        if len(left) == len(order):
            checkpoint.remove_journals()
        left.append(twin.copy())
    return left


@pytest.mark.parametrize("seed", range(6))
def test_a_power_loss_at_any_operation_of_a_checkpoint_loses_nothing(seed: int) -> None:
    """B35, B39: with two journals and two ledger directories."""
    twin = filled(SimulatedDisk())
    twin.finish_checkpoint()
    for ledger_id in range(4):
        twin.add(ledger_id, range(5, 8))
    twin.sync()
    check_after_power_losses(twin, twin.finish_checkpoint, seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_power_loss_at_any_operation_of_a_start_loses_nothing(seed: int) -> None:
    twin = filled(SimulatedDisk())
    twin.kill()
    check_after_power_losses(twin, twin.open, seed)


def check_after_power_losses(twin: SeveralTwin, call: Callable[[], object], seed: int) -> None:
    """Lose power at each step of a call, and at its end: what was promised is there."""
    left = left_by_crashes(twin.disk, call, twin.copy)
    for step, one in enumerate(left, 1):
        one.lose_power(Random(1_000 * seed + step))
        one.open()
        one.check()
    assert len(left) > 10


def test_segments_stay_until_the_marks_of_all_ledger_directories_have_passed(
    disk: SimulatedDisk,
) -> None:
    """B39: the mark of one directory says nothing of another one's entries."""
    twin = filled(disk)
    for n in range(20):  # several segments
        twin.add(0, range(100 * n + 5, 100 * n + 100))
        twin.add(1, range(100 * n + 5, 100 * n + 100))
    twin.sync()
    before = disk.paths(".journal")
    checkpoint = twin.storage.begin_checkpoint()
    first, second = checkpoint.flushes
    for step in steps_of(first):
        step()
    with pytest.raises(AssertionError):
        checkpoint.remove_journals()
    assert disk.paths(".journal") == before
    assert twin.storage.last_mark != twin.storage.journals.positions()

    for step in steps_of(second):
        step()
    checkpoint.remove_journals()

    assert len(disk.paths(".journal")) == 2
    assert checkpoint.removed_count == len(before) - 2
    assert twin.storage.last_mark == twin.storage.journals.positions()


def test_each_journal_has_a_mark_of_its_own(disk: SimulatedDisk) -> None:
    twin = filled(disk)
    twin.finish_checkpoint()
    first, second = twin.storage.last_mark
    twin.add(1, range(5, 50))  # in the second journal
    twin.sync()
    twin.finish_checkpoint()

    assert twin.storage.last_mark[0] == first
    assert twin.storage.last_mark[1] > second
