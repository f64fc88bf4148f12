"""Latencies as bars: one line per bucket, with its bound, its count, and the share up to it."""

import shutil
from bisect import bisect_left
from collections.abc import Sequence
from math import ceil, log10
from typing import Final

import click

LINE_COUNT_MAX: Final = 25
STEPS_PER_DECADE: Final = (40, 20, 10, 5, 2, 1)
"""Numbers of bounds per decade, as preferred numbers: ten are 1, 1.26, 1.58, 2, 2.51 ..."""

TEXT_WIDTH: Final = 36  # of a line without its bar


def print_histogram(buckets: Sequence[tuple[float, int]]) -> None:
    """Print buckets, given as upper bounds in milliseconds and counts, as bars."""
    width = shutil.get_terminal_size().columns
    for line in histogram_lines(buckets, width):
        click.echo(line)


def histogram_lines(buckets: Sequence[tuple[float, int]], width: int) -> list[str]:
    """Return a heading and at most ``LINE_COUNT_MAX`` lines, each at most ``width`` long."""
    counted = [(bound_ms, count) for bound_ms, count in buckets if count]
    if not counted:
        return []
    bounds_ms = _bounds_ms(counted[0][0], counted[-1][0])
    counts = [0] * len(bounds_ms)
    for bound_ms, count in counted:
        counts[min(bisect_left(bounds_ms, bound_ms), len(counts) - 1)] += count
    whole = sum(counts)
    bar_width = max(1, width - TEXT_WIDTH)
    lines = [f"{'up to':>12}  {'':<{bar_width}}  {'count':>10}  {'share':>8}"]
    seen = 0
    for bound_ms, count in zip(bounds_ms, counts, strict=True):
        seen += count
        bar = "#" * ceil(bar_width * count / max(counts))
        share = f"{100 * seen / whole:.2f} %"
        lines.append(f"{f'{bound_ms:.4g}':>9} ms  {bar:<{bar_width}}  {count:>10}  {share:>8}")
    return lines


def _bounds_ms(least_ms: float, most_ms: float) -> list[float]:
    """Return round bounds from the first bucket's to the last one's, as many as fit."""
    least_ms = max(least_ms, 1e-6)  # a nanosecond
    most_ms = max(most_ms, least_ms)
    for steps in STEPS_PER_DECADE:
        first, last = ceil(log10(least_ms) * steps), ceil(log10(most_ms) * steps)
        if last - first < LINE_COUNT_MAX:
            return [10 ** (number / steps) for number in range(first, last + 1)]
    raise AssertionError("a nanosecond to an hour are fewer decades than lines")
