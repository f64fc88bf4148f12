"""A crash between the notes of two ledger directories: a deletion is carried out whole, or not."""

from random import Random

import pytest

from tests.support.crash_points import left_by_crashes
from tests.support.several_directories import LEDGERS, SeveralTwin, filled, home
from tests.support.simulated_disk import SimulatedDisk

pytestmark = pytest.mark.usefixtures("same_nonce")

DELETED = (0, 2)
"""Each is in another ledger directory; entries 5 to 7 are in the journal only."""


@pytest.fixture
def twin() -> SeveralTwin:
    made = filled(SimulatedDisk())
    made.finish_checkpoint()
    for ledger_id in range(4):
        made.add(ledger_id, range(5, 8))
    made.sync()
    assert {home(made.storage, one) for one in DELETED} == set(LEDGERS)
    assert made.storage.mark_deleted(DELETED)
    return made


def note_and_drop(twin: SeveralTwin) -> None:
    """Do what a round of garbage collection does."""
    assert all(garbage.deleted.write() for garbage in twin.storage.garbages)
    assert sum(garbage.drop(DELETED) for garbage in twin.storage.garbages) == len(DELETED)


def forget(twin: SeveralTwin) -> None:
    for one in DELETED:
        for known in (twin.attempted, twin.written, twin.promised):
            known.pop(one, None)


@pytest.mark.parametrize("noted", [0, 1])
def test_what_one_directory_has_noted_is_dropped_from_all_at_the_start(
    twin: SeveralTwin, noted: int
) -> None:
    assert twin.storage.garbages[noted].deleted.write()
    twin.kill()

    twin.open()

    forget(twin)
    assert twin.storage.ledgers() == [1, 3]
    assert len(twin.disk.paths(".idx")) == 2
    for garbage in twin.storage.garbages:
        assert all(one in garbage.deleted.noted for one in DELETED)
    twin.check()


@pytest.mark.parametrize("is_power_lost", [False, True])
def test_a_crash_at_any_step_leaves_each_ledger_whole_or_gone(
    twin: SeveralTwin, *, is_power_lost: bool
) -> None:
    left = left_by_crashes(twin.disk, lambda: note_and_drop(twin), twin.copy)
    gone_count = 0
    for step, one in enumerate(left):
        if is_power_lost:
            one.lose_power(Random(step))
        else:
            one.kill()
        one.open()
        if one.storage.is_deleted(0):
            forget(one)
            gone_count += 1
        one.check()
    assert 0 < gone_count < len(left)


def test_a_crash_at_any_step_of_such_a_start_leaves_each_ledger_gone(twin: SeveralTwin) -> None:
    assert twin.storage.garbages[0].deleted.write()
    twin.kill()
    left = left_by_crashes(twin.disk, twin.open, twin.copy)
    for step, one in enumerate(left):
        one.lose_power(Random(step))
        one.open()
        assert one.storage.ledgers() == [1, 3]
        forget(one)
        one.check()
    assert len(left) > 10
