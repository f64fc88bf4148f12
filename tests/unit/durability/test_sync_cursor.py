"""SyncCursor against golden scripts and against a slow twin that keeps a set of entries."""

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.golden import run_script, scripts
from zbk.durability.sync_cursor import SyncCursor


class CursorScript:
    """The commands a golden script may use."""

    def __init__(self) -> None:
        self.cursor = SyncCursor()

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        return str(getattr(self, f"do_{name}")(*(int(arg) for arg in args)))

    def do_limit(self, count: int) -> str:
        self.cursor = SyncCursor(range_count_max=count)
        return f"at most {count} ranges"

    def do_add(self, first: int, last: int) -> str:
        self.cursor.add(first, last)
        return f"synced {first}..{last}  {self._state()}"

    def do_floor(self, lac: int) -> str:
        self.cursor.raise_floor(lac)
        return f"lac {lac}  {self._state()}"

    def _state(self) -> str:
        ranges = " ".join(f"{first}..{last}" for first, last in self.cursor.ranges)
        return f"las={self.cursor.last_add_synced} ranges={ranges or '-'}"


@pytest.mark.parametrize("script", scripts("sync_cursor"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite_golden: bool) -> None:
    run_script(script, CursorScript(), rewrite=rewrite_golden)


class CursorMachine(RuleBasedStateMachine):
    """Random ranges and floors; the twin keeps every entry in a set."""

    def __init__(self) -> None:
        super().__init__()
        self.cursor = SyncCursor()
        self.covered: set[int] = set()

    def _twin_las(self) -> int:
        las = -1
        while las + 1 in self.covered:
            las += 1
        return las

    @rule(first=st.integers(0, 40), count=st.integers(1, 8))
    def add(self, first: int, count: int) -> None:
        self.cursor.add(first, first + count - 1)
        self.covered |= set(range(first, first + count))

    @rule(lac=st.integers(-1, 45))
    def raise_floor(self, lac: int) -> None:
        self.cursor.raise_floor(lac)
        self.covered |= set(range(lac + 1))

    @invariant()
    def agrees_with_twin(self) -> None:
        las = self.cursor.last_add_synced
        in_ranges = {e for first, last in self.cursor.ranges for e in range(first, last + 1)}
        assert las == self._twin_las()
        assert set(range(las + 1)) | in_ranges == self.covered

    @invariant()
    def ranges_are_sorted_and_apart(self) -> None:
        bounds = [bound for pair in self.cursor.ranges for bound in pair]
        assert bounds == sorted(bounds)
        firsts, lasts = bounds[::2], bounds[1::2]
        before = [self.cursor.last_add_synced, *lasts]
        assert all(first > last + 1 for last, first in zip(before, firsts, strict=False))


class BoundedCursorMachine(RuleBasedStateMachine):
    """With few ranges allowed, the cursor may forget, and never says more than is true."""

    def __init__(self) -> None:
        super().__init__()
        self.cursor = SyncCursor(range_count_max=2)
        self.covered: set[int] = set()
        self.las = -1

    @rule(first=st.integers(0, 60), count=st.integers(1, 4))
    def add(self, first: int, count: int) -> None:
        self.cursor.add(first, first + count - 1)
        self.covered |= set(range(first, first + count))

    @rule(lac=st.integers(-1, 65))
    def raise_floor(self, lac: int) -> None:
        self.cursor.raise_floor(lac)
        self.covered |= set(range(lac + 1))

    @invariant()
    def never_says_too_much(self) -> None:
        las = self.cursor.last_add_synced
        assert las >= self.las, "LastAddSynced never goes down"
        self.las = las
        assert set(range(las + 1)) <= self.covered
        assert len(self.cursor.ranges) <= 2
        for first, last in self.cursor.ranges:
            assert set(range(first, last + 1)) <= self.covered


TestCursorMachine = CursorMachine.TestCase
TestBoundedCursorMachine = BoundedCursorMachine.TestCase
TestCursorMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBoundedCursorMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_a_cursor_starts_at_what_is_durable_after_a_restart() -> None:
    cursor = SyncCursor(9)

    cursor.add(10, 12)

    assert cursor.last_add_synced == 12


def test_what_is_forgotten_comes_back_when_it_is_synced_again() -> None:
    cursor = SyncCursor(range_count_max=1)
    cursor.add(2, 3)
    cursor.add(5, 6)

    cursor.add(0, 1)
    assert cursor.last_add_synced == 3
    cursor.add(0, 6)  # say, rebuilt from the index

    assert cursor.last_add_synced == 6
