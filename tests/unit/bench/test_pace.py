"""When entries are due, and from when their latency counts."""

import threading

import pytest

from zbk.bench.pace import Pace
from zbk.system.clock import monotonic_s


def pace(**fields: float) -> Pace:
    return Pace(stop=threading.Event(), **{"started_s": monotonic_s(), **fields})


def test_as_fast_as_it_goes_latency_counts_from_now() -> None:
    before_s = monotonic_s()

    at_s = pace().begin(1_000_000)

    assert at_s is not None
    assert before_s <= at_s <= monotonic_s()


def test_an_entry_is_due_at_its_number_over_the_rate() -> None:
    assert pace(started_s=100.0, rate=50.0).due_s(25) == pytest.approx(100.5)


def test_latency_counts_from_when_an_entry_was_due_however_late_it_is() -> None:
    late = pace(started_s=monotonic_s() - 10, rate=1.0)

    assert late.begin(3) == late.due_s(3)


def test_an_entry_waits_until_it_is_due() -> None:
    coming = pace(rate=50.0)

    assert coming.begin(1) == coming.due_s(1)
    assert monotonic_s() >= coming.due_s(1)


def test_after_its_time_nothing_is_due() -> None:
    over = pace(started_s=monotonic_s() - 10, seconds=5)

    assert over.begin(0) is None


def test_what_was_due_within_the_time_is_begun_though_the_time_is_over() -> None:
    late = pace(started_s=monotonic_s() - 10, seconds=5, rate=1.0)

    assert late.begin(4) is not None
    assert late.begin(5) is None


def test_a_stop_ends_the_wait() -> None:
    stopped = pace(rate=1e-6)
    stopped.stop.set()

    assert stopped.begin(1) is None
