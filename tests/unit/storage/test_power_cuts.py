"""The power goes at every step of what storage does beside adds: each way in which it can is tried.

Of few un-synced writes every subset reaches the platter, of many some by chance. Afterwards a start
has all that was promised, and nothing that was never written; and so it has after a second cut.
"""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from tests.support.bookie_storages import BOOKIE_ID
from tests.support.crash_points import left_by_crashes
from tests.support.power_cuts import crashed_at_each_step, power_cuts
from tests.support.scrubbing import Scrubber
from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_lives import (
    ACTS,
    PD,
    Act,
    Life,
    Tried,
    adds,
    checkpoint,
    compact,
    delete_and_collect,
    evict,
    roll,
    stop_and_start,
)
from zbk.storage.directory.identity import next_incarnation
from zbk.storage.directory.lost_files import look
from zbk.storage.index.index_file import ledger_ids

pytestmark = pytest.mark.usefixtures("same_nonce")

KILL_STRIDE = 3
"""Every so many steps of a whole life a kill is tried."""


def after_each_power_cut(act: Act, count_max: int = 8) -> Iterator[Life]:
    """Yield lives, not started yet, after the power went at each step of an act."""
    life = Life(SimulatedDisk())
    for before in ACTS[: ACTS.index(act)]:
        before(life)
    stopped = left_by_crashes(life.disk, lambda: act(life), life.stopped)
    for step, one in enumerate(stopped, 1):
        for after in power_cuts(one.disk, Random(step), count_max):
            yield one.reborn(after, is_power_lost=True)


def killed_at_each(stride: int) -> Iterator[tuple[Life, int]]:
    """Yield lives, not started yet, that were killed every so many steps, and the step."""
    life = Life(SimulatedDisk())

    def live() -> None:
        for act in ACTS:
            act(life)

    stopped = left_by_crashes(life.disk, live, life.stopped, stride=stride)
    for number, one in enumerate(stopped):
        one.disk.process_crash()
        yield one, 1 + number * stride


def start(again: Life) -> None:
    """Start on what the cut left: what went of its own accord is not missed there."""
    assert not look(again.disk, "/l", BOOKIE_ID.encode()).is_any
    again.start()


@pytest.mark.parametrize("act", [Life.start, checkpoint, roll, evict, delete_and_collect, compact])
def test_a_power_cut_at_any_step_loses_nothing_that_was_promised(act: Act) -> None:
    """B35, B39: the start, checkpoints, the roll of logs and journals, eviction, collection.

    B30: and compaction.
    """
    cut_count = 0
    tried = Tried()
    for again in after_each_power_cut(act):
        cut_count += 1
        if tried.is_new(again):
            start(again)
            again.check()
    assert cut_count > 100


@pytest.mark.parametrize("act", [adds, roll])
def test_what_a_power_cut_took_of_a_log_is_no_damage_and_keeps_it_no_longer(act: Act) -> None:
    """Nothing of it was promised: the scrubber sees that nobody misses it, and the log goes."""
    taken_count = 0
    tried = Tried()
    for again in filter(tried.is_new, after_each_power_cut(act, count_max=4)):
        start(again)
        again.add(PD, 6_000)
        again.checkpoint()
        (view,), (garbage,) = again.storage.scrubs, again.storage.garbages
        left_ids = garbage.left_logs()

        assert not Scrubber(view).run().is_damage_found

        taken_count += any(view.lost.of(log_id) for log_id in left_ids)
        assert not any(garbage.uses.use_of(log_id).is_damaged for log_id in left_ids)
        again.check()
        compact(again)
        again.check()
        for ledger_id in again.storage.ledgers():
            again.delete(ledger_id)
        again.checkpoint()
        assert [one for one in garbage.left_logs() if one in left_ids] == []
    assert taken_count > 10


def test_a_power_cut_after_a_kill_loses_nothing_either() -> None:
    """What a killed process left in the page cache is not built on before it is on the platter."""
    tried = Tried()
    for again, kill_step in killed_at_each(KILL_STRIDE):
        again.start()
        stop_and_start(again)
        for after in power_cuts(again.disk, Random(kill_step), count_max=3):
            last = again.reborn(after, is_power_lost=True)
            if tried.is_new(last):
                last.start()
                last.check()


def test_no_power_cut_lets_an_incarnation_come_twice() -> None:
    """B24: two lives with one number would take each other's acknowledgements for their own."""

    def prepare(disk: SimulatedDisk) -> Callable[[], int]:
        disk.make_dirs("/l")
        assert next_incarnation(disk, "/l") == 1
        return lambda: next_incarnation(disk, "/l")

    for disk, step in crashed_at_each_step(prepare):
        for after in power_cuts(disk, Random(step)):
            assert next_incarnation(after, "/l") in {2, 3}
        killed = next_incarnation(disk.process_crash(), "/l")
        for after in power_cuts(disk, Random(step)):
            assert next_incarnation(after, "/l") == killed + 1


def test_a_file_that_goes_after_a_kill_at_any_step_is_missed() -> None:
    """B3: what is there is in the census of the next checkpoint, and nothing that went of itself.

    Every so many steps of checkpoints, collection and compaction.
    """
    for again, _ in killed_at_each(3 * KILL_STRIDE):
        assert not look(again.disk, "/l", BOOKIE_ID.encode()).is_any
        again.start()
        again.checkpoint()
        again.disk.process_crash()
        here = ledger_ids(again.disk, "/l/index")
        logs = again.disk.paths("/l/logs/")
        for path in (*again.disk.paths(".idx"), *logs):
            again.disk.remove_at_rest(path)
        lost = look(again.disk, "/l", BOOKIE_ID.encode())
        assert list(lost.ledger_ids) == here
        assert [one.path for one in lost.logs] == logs
