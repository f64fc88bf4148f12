"""Arrivals: items from other threads, and how long their owner may wait."""

import threading

import pytest

from zbk.client.arrivals import Arrivals, pause_s
from zbk.system.clock import monotonic_ms, monotonic_s


def test_items_come_in_order_and_all_at_once() -> None:
    arrivals = Arrivals[int]()
    for number in range(3):
        arrivals.put(number)

    assert arrivals.next(0.0) == 0
    assert arrivals.take_all() == [1, 2]
    assert arrivals.take_all() == []
    assert arrivals.next(0.0) is None


def test_an_item_of_another_thread_ends_the_wait() -> None:
    arrivals = Arrivals[str]()
    thread = threading.Thread(target=arrivals.put, args=("x",))
    thread.start()

    assert arrivals.next(10.0) == "x"
    thread.join(5)


def test_a_pause_ends_at_the_limit_the_deadline_or_the_next_task() -> None:
    now_s, now_ms = monotonic_s(), monotonic_ms()

    assert pause_s(1.0, None, None) == 1.0
    assert pause_s(1.0, now_s + 60, now_ms + 60_000) == 1.0
    assert 50 < pause_s(100.0, now_s + 60, None) <= 60
    assert 20 < pause_s(100.0, now_s + 60, now_ms + 30_000) <= 30.001


@pytest.mark.parametrize("deadline_s", [None, -1.0])
def test_a_pause_is_never_negative(deadline_s: float | None) -> None:
    assert pause_s(1.0, deadline_s, -5) == 0.0
