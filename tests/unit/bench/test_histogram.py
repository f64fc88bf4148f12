"""Latencies in a histogram: percentiles as a sorted list would have them, nearly."""

from random import Random

import pytest

from zbk.bench.histogram import Histogram, merged
from zbk.bench.percentiles import percentiles

ERROR_MAX = 1 / 64


def histogram_of(latencies_s: list[float]) -> Histogram:
    histogram = Histogram()
    for latency_s in latencies_s:
        histogram.record(latency_s)
    return histogram


def drawn(seed: int, count: int = 3_000) -> list[float]:
    random = Random(seed)
    return [random.lognormvariate(-6, 1.5) for _ in range(count)]


def test_nothing_counted_is_all_zero() -> None:
    assert Histogram().percentiles() == percentiles([])
    assert Histogram().buckets() == []


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_at_most_a_bucket_above_those_of_a_sorted_list(seed: int) -> None:
    latencies_s = drawn(seed)

    found = histogram_of(latencies_s).percentiles()

    exact = percentiles(latencies_s)
    assert found.count == exact.count
    assert found.max_ms == pytest.approx(exact.max_ms, abs=1e-4)
    for name in ("p50_ms", "p95_ms", "p99_ms", "p999_ms"):
        true_ms = getattr(exact, name)
        assert true_ms - 1e-4 <= getattr(found, name) <= true_ms * (1 + ERROR_MAX) + 1e-4


@pytest.mark.parametrize("latency_s", [1e-9, 127e-9, 128e-9, 1e-6, 0.00999, 0.5, 12.0, 299.0])
def test_the_bound_of_a_bucket_is_hardly_above_what_is_in_it(latency_s: float) -> None:
    [(bound_ms, count)] = histogram_of([latency_s]).buckets()

    assert count == 1
    assert latency_s * 1000 - 1e-6 <= bound_ms <= latency_s * 1000 * (1 + ERROR_MAX)


def test_buckets_come_in_order_and_hold_everything() -> None:
    buckets = histogram_of(drawn(7)).buckets()

    assert sum(count for _bound_ms, count in buckets) == 3_000
    assert [bound_ms for bound_ms, _count in buckets] == sorted(bound for bound, _ in buckets)


def test_what_is_longer_than_the_longest_counts_as_that() -> None:
    found = histogram_of([1e9, -1.0]).percentiles()

    assert found.count == 2
    assert found.p50_ms == 0.0
    assert found.max_ms > 3_600_000


def test_a_snapshot_does_not_change() -> None:
    histogram = histogram_of([0.001])
    earlier = histogram.snapshot()

    histogram.record(0.002)

    assert earlier.percentiles().count == 1


def test_what_was_counted_since_leaves_out_what_was_before() -> None:
    histogram = histogram_of([5.0] * 100)
    earlier = histogram.snapshot()
    for latency_s in (0.001, 0.002, 0.003):
        histogram.record(latency_s)

    found = histogram.since(earlier).percentiles()

    assert found.count == 3
    assert found.p50_ms == pytest.approx(2.0, rel=ERROR_MAX)
    assert found.max_ms == pytest.approx(3.0, rel=ERROR_MAX)


def test_several_merged_are_as_one_that_counted_all() -> None:
    one, other = drawn(1, 100), drawn(2, 100)

    whole = merged([histogram_of(one), histogram_of(other)])

    assert whole.percentiles() == histogram_of(one + other).percentiles()


def test_its_size_does_not_grow_with_what_it_counts() -> None:
    histogram = histogram_of(drawn(1, 10_000))

    assert len(histogram.buckets()) < 2_000
