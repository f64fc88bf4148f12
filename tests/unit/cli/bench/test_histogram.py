"""Latencies as bars in a terminal."""

import pytest

from zbk.cli.bench.histogram import LINE_COUNT_MAX, histogram_lines

WIDE = [(0.001 * 1.1**n, n + 1) for n in range(150)]  # a microsecond to a second and a half


def test_nothing_counted_has_no_lines() -> None:
    assert histogram_lines([], 80) == []
    assert histogram_lines([(1.0, 0)], 80) == []


def test_a_single_bucket_is_a_line_with_everything() -> None:
    _head, line = histogram_lines([(2.5, 8)], 80)

    assert line.split()[-3:] == ["8", "100.00", "%"]
    assert float(line.split()[0]) >= 2.5


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit_the_terminal(width: int) -> None:
    lines = histogram_lines(WIDE, width)

    assert max(map(len, lines)) <= width
    assert 2 <= len(lines) <= LINE_COUNT_MAX + 1


def test_bounds_grow_and_every_latency_is_in_one_of_the_lines() -> None:
    lines = [line.split() for line in histogram_lines(WIDE, 80)[1:]]

    bounds_ms = [float(line[0]) for line in lines]
    assert bounds_ms == sorted(bounds_ms)
    assert bounds_ms[-1] >= WIDE[-1][0] * 0.999  # as it is rounded
    assert sum(int(line[-3]) for line in lines) == sum(count for _bound_ms, count in WIDE)


def test_the_longest_bar_is_where_most_are_and_none_is_invisible() -> None:
    lines = histogram_lines([(1.0, 1), (1.5, 100_000), (9.0, 1)], 80)[1:]
    bars = {line.split()[-3]: line.count("#") for line in lines}

    assert bars["100000"] == max(bars.values())
    assert bars["1"] == 1
    assert bars["0"] == 0


def test_shares_add_up_from_line_to_line() -> None:
    lines = histogram_lines([(1.0, 1), (2.0, 3)], 80)[1:]

    assert [lines[0].split()[-2], lines[-1].split()[-2]] == ["25.00", "100.00"]
