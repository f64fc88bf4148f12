"""Log lines about what happens often: the first at once, then what was counted."""

import doctest

from zbk.system import report_pace
from zbk.system.report_pace import ReportPace


def test_a_flood_is_one_line_at_once_and_one_for_each_interval() -> None:
    pace = ReportPace[int](60_000)
    told = []
    for now_ms in range(0, 180_001, 100):
        pace.note(now_ms)
        due = pace.take_due(now_ms)
        if due is not None:
            told.append((now_ms, *due))

    assert told == [(0, 1, 0)] + [(at_ms, 600, at_ms) for at_ms in (60_000, 120_000, 180_000)]


def test_what_came_last_is_reported_though_nothing_follows() -> None:
    pace = ReportPace[str](60_000)
    pace.note("first")
    assert pace.take_due(0) == (1, "first")
    pace.note("second")

    assert pace.take_due(59_999) is None
    assert pace.take_due(60_000) == (1, "second")
    assert pace.take_due(200_000) is None


def test_the_example_runs() -> None:
    assert doctest.testmod(report_pace).failed == 0
