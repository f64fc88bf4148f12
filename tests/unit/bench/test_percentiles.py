"""Percentiles by nearest rank."""

import pytest

from zbk.bench.percentiles import percentiles


def test_nothing_measured_is_all_zero() -> None:
    assert percentiles([]).count == 0
    assert percentiles([]).max_ms == 0.0


@pytest.mark.parametrize("count", [1, 2, 10, 100, 1000])
def test_ranks_are_values_that_were_measured(count: int) -> None:
    found = percentiles([n / 1000 for n in range(count, 0, -1)])

    assert found.max_ms == count
    assert found.p50_ms == (count + 1) // 2
    assert found.p50_ms <= found.p95_ms <= found.p99_ms <= found.p999_ms <= found.max_ms


def test_of_ten_thousand_ten_are_above_the_last_per_mille() -> None:
    found = percentiles([n / 1000 for n in range(1, 10_001)])

    assert found.p99_ms == 9_900
    assert found.p999_ms == 9_990
