"""Crash at every step of a bookie's storage: the promised is there, nothing wrong is served."""

from array import array
from collections.abc import Callable, Iterator
from functools import cache
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.bookie_storages import TwinnedStorage
from tests.support.crash_points import left_by_crashes
from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk

ONE_PAGE = 9000


def story(bookie: TwinnedStorage) -> Iterator[None]:
    """Live a life that meets every kind of step; yield between two."""
    bookie.open()
    yield
    bookie.add(1, range(6))
    yield
    bookie.sync()
    bookie.add(2, array("q", [0, 2, 4, 9]))  # striped
    bookie.add(1, range(6, 20))
    bookie.take_step()  # a checkpoint begins, and adds go on
    yield
    bookie.add(1, range(20, 30))
    bookie.sync()
    bookie.take_step()
    bookie.add(3, range(1000, 1040), 60)  # over a page border; rolls log and journal
    bookie.take_step()
    bookie.storage.journal.prepare_next()
    yield
    bookie.fence(1)
    bookie.take_step()
    bookie.set_lac(2, 7)
    bookie.sync()
    bookie.finish_checkpoint()
    yield
    bookie.add(2, range(10, 40), 50)
    bookie.storage.journal.note_synced()
    bookie.add(4, range(3), 5000)  # larger than a segment and than a log
    bookie.sync()
    bookie.storage.journal.note_synced()
    bookie.fence(3)
    bookie.finish_checkpoint()  # ledgers that have files by now: through the flush file
    yield
    bookie.add(2, range(2040, 2060))
    bookie.sync()
    bookie.add(2, range(3000, 3010))


@cache
def lives(cache_size: int) -> list[TwinnedStorage]:
    """Return what a crash at each step of the story leaves, and the end."""
    bookie = TwinnedStorage(SimulatedDisk(), ledger_cache_size=cache_size, log_size_max=4000)

    def live() -> None:
        for _ in story(bookie):
            pass

    return left_by_crashes(bookie.disk, live, bookie.copy)


def killed(bookie: TwinnedStorage, _seed: int) -> None:
    bookie.kill()


def power_lost(bookie: TwinnedStorage, seed: int) -> None:
    bookie.lose_power(Random(seed))


@pytest.mark.parametrize("cache_size", [ONE_PAGE, 1 << 20], ids=["one page", "roomy"])
@pytest.mark.parametrize(("crash", "seed"), [(killed, 0), (power_lost, 1), (power_lost, 2)])
def test_whatever_step_is_the_last_nothing_promised_is_lost(
    crash: Callable[[TwinnedStorage, int], None], seed: int, cache_size: int
) -> None:
    """B35, B39: a crash at every step of adds, flushes and checkpoints."""
    step = 0
    for step, left in enumerate(lives(cache_size), 1):
        bookie = left.copy()
        crash(bookie, 1000 * seed + step)
        bookie.open()
        bookie.check()
        if step % 4 == seed:
            _go_on(bookie)
    assert step > 80


def _go_on(bookie: TwinnedStorage) -> None:
    """The store is as good as new: it takes adds and keeps them."""
    bookie.add(9, range(5))
    bookie.sync()
    bookie.finish_checkpoint()
    bookie.lose_power(Random(1))
    bookie.open()
    bookie.check()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_step_of_the_restart_is_the_last_nothing_promised_is_lost(seed: int) -> None:
    for first_step in (40 + seed, 75 + seed, 100 + seed, 10_000):
        bookie = lives(ONE_PAGE)[:first_step][-1].copy()
        power_lost(bookie, seed + first_step)
        stopped = left_by_crashes(bookie.disk, bookie.open, bookie.copy)[:-1]
        for step, again in enumerate(stopped, 1):
            power_lost(again, seed + step)
            again.open()
            again.check()
        bookie.check()
        assert len(stopped) >= 5


def test_a_restart_leaves_nothing_to_replay() -> None:
    bookie = lives(1 << 20)[-1].copy()
    bookie.kill()
    assert bookie.open().entry_count > 0
    bookie.kill()

    recovery = bookie.open()

    assert (recovery.record_count, recovery.entry_count) == (0, 0)
    bookie.check()


class StorageMachine(RuleBasedStateMachine):
    """Adds, syncs, checkpoints in steps and crashes in any order, against the twin."""

    @initialize(cache_size=st.sampled_from([ONE_PAGE, 5 * ONE_PAGE]))
    def begin(self, cache_size: int) -> None:
        self.bookie = TwinnedStorage(
            SimulatedDisk(), ledger_cache_size=cache_size, log_size_max=6000
        )
        self.bookie.open()
        self.next_id = dict.fromkeys(range(3), 0)

    @rule(
        ledger_id=st.integers(0, 2),
        count=st.integers(1, 30),
        step=st.sampled_from([1, 1, 2]),
        gap=st.sampled_from([0, 0, 1, 1000]),
        is_synced=st.booleans(),
    )
    def add(self, ledger_id: int, count: int, step: int, gap: int, is_synced: bool) -> None:
        first = self.next_id[ledger_id] + gap
        last = first + step * (count - 1)
        ids = range(first, last + 1) if step == 1 else array("q", range(first, last + 1, step))
        self.next_id[ledger_id] = last + 1
        self.bookie.add(ledger_id, ids)
        if is_synced:
            self.bookie.sync()

    @rule(ledger_id=st.integers(0, 2), lac=st.integers(0, 50))
    def set_lac(self, ledger_id: int, lac: int) -> None:
        if ledger_id in self.bookie.attempted:
            self.bookie.set_lac(ledger_id, lac)

    @rule(ledger_id=st.integers(0, 2))
    def fence(self, ledger_id: int) -> None:
        if ledger_id in self.bookie.attempted:
            self.bookie.fence(ledger_id)

    @rule(count=st.integers(1, 8))
    def checkpoint(self, count: int) -> None:
        for _ in range(count):
            self.bookie.take_step()

    @precondition(lambda self: sum(self.next_id.values()) > 40)
    @rule(is_killed=st.booleans(), seed=st.integers(0, 2**32), restart_step=st.integers(0, 15))
    def crash(self, is_killed: bool, seed: int, restart_step: int) -> None:
        if is_killed:
            self.bookie.kill()
        else:
            self.bookie.lose_power(Random(seed))
        if restart_step:
            disk = self.bookie.disk
            disk.crash_at = disk.operation_count + restart_step
            try:
                self.bookie.open()
            except SimulatedCrash:
                self.bookie.lose_power(Random(seed + 1))
                self.bookie.open()
            disk.crash_at = None
        else:
            self.bookie.open()
        self.bookie.check()

    @invariant()
    def files_are_bounded(self) -> None:
        if hasattr(self, "bookie"):
            storage = self.bookie.storage
            # files that wait for the next sync
            logs = [one for one in storage.directories[0].logs._unsynced.values() if one.is_full]
            waiting = [*storage.journal._rolled, *logs]
            assert self.bookie.disk.open_count <= 4 + 3 + len(waiting)


StorageMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=20, deadline=None)
TestStorageMachine = StorageMachine.TestCase
