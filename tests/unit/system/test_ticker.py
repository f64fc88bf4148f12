"""Calls at intervals: not too early, again and again, and those of one interval together."""

import queue
from collections.abc import Callable, Iterator

import pytest

from zbk.system.clock import monotonic_ms
from zbk.system.ticker import Ticker, next_due_ms


@pytest.fixture
def ticker() -> Iterator[Ticker]:
    made = Ticker("test-ticker")
    yield made
    made.stop()


def test_calls_come_again_and_again_and_not_before_an_interval_has_passed(ticker: Ticker) -> None:
    called: queue.SimpleQueue[int] = queue.SimpleQueue()
    began_ms = monotonic_ms()

    ticker.every(20, lambda: called.put(monotonic_ms()))

    times_ms = [called.get(timeout=10) for _ in range(4)]
    assert times_ms[0] >= began_ms + 20
    assert times_ms == sorted(times_ms)


def test_hundreds_of_one_interval_are_called_together(ticker: Ticker) -> None:
    called: queue.SimpleQueue[int] = queue.SimpleQueue()

    def note(number: int) -> Callable[[], None]:
        return lambda: called.put(number)

    for number in range(200):
        ticker.every(50, note(number))

    rounds = [[called.get(timeout=10) for _ in range(200)] for _ in range(3)]
    assert all(sorted(one) == list(range(200)) for one in rounds[1:]), "each once a round"


def test_a_cancelled_call_comes_no_more(ticker: Ticker) -> None:
    called: queue.SimpleQueue[str] = queue.SimpleQueue()

    def gone() -> None:
        called.put("gone")

    ticker.every(500, gone)
    ticker.every(10, lambda: called.put("stays"))
    ticker.cancel(gone)

    assert {called.get(timeout=10) for _ in range(120)} == {"stays"}


def test_a_call_that_fails_is_told_and_the_others_go_on(
    ticker: Ticker, caplog: pytest.LogCaptureFixture
) -> None:
    called: queue.SimpleQueue[None] = queue.SimpleQueue()

    def fail() -> None:
        raise ValueError("no number")

    ticker.every(10, fail)
    ticker.every(10, lambda: called.put(None))

    for _ in range(3):
        called.get(timeout=10)
    assert "a timed call failed" in caplog.text


@pytest.mark.parametrize("interval_ms", [1, 7, 100, 1_000])
def test_short_intervals_begin_at_their_multiples(interval_ms: int) -> None:
    for now_ms in (0, 1, 99, 100, 12_345):
        due_ms = next_due_ms(now_ms, interval_ms)
        assert now_ms < due_ms <= now_ms + interval_ms
        assert due_ms % interval_ms == 0
