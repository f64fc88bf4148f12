"""Deadlines: the nearest one counts, each thread has its own, and none outlives its block."""

import threading

import pytest

from zbk.system.deadline import left_s, wait_s, within


def test_without_a_deadline_a_step_has_its_own_limit() -> None:
    with within(None):
        assert left_s(60.0) == 60.0
        assert wait_s() is None


def test_the_nearest_deadline_counts() -> None:
    with within(100.0):
        with within(1_000.0):
            assert left_s(60.0) == 60.0
            assert 60.0 < left_s(1_000.0) <= 100.0
        with within(0.0):
            assert (left_s(60.0), wait_s()) == (0.0, 0.0)
        assert left_s(60.0) == 60.0


def test_a_deadline_ends_with_its_block_whatever_ends_that() -> None:
    with pytest.raises(KeyError), within(0.0):
        raise KeyError

    assert wait_s() is None


def test_another_thread_has_no_deadline() -> None:
    found: list[float | None] = []
    with within(0.0):
        thread = threading.Thread(target=lambda: found.append(wait_s()))
        thread.start()
        thread.join(10)

    assert found == [None]
