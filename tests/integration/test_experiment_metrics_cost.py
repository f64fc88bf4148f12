"""The experiment with metrics on a small load: what they do is counted, and costs little."""

from pathlib import Path

from benchmarks.experiments.metrics_cost import CostLoad, RoundCost, run_metrics_cost
from benchmarks.experiments.metrics_switch import switch_metrics
from zbk.metrics.buckets import Buckets
from zbk.metrics.deferred import Deferred


def test_metrics_do_under_one_percent_of_the_work_of_an_append(tmp_path: Path) -> None:
    load = CostLoad(
        pair_count=3,
        entry_count=4_000,
        lone_count=20,
        counted_round_count=10,
        counted_lone_count=200,
    )

    found = run_metrics_cost(tmp_path, load)

    for field in RoundCost.__struct_fields__:
        difference = found.differences[field]
        assert difference.on_us > 0
        assert difference.off_us > 0
    assert set(found.counted_us) == {"many_us", "lone_us"}
    for field, counted_us in found.counted_us.items():
        assert 0 < counted_us < found.differences[field].off_us / 100


def test_a_process_without_metrics_observes_nothing() -> None:
    buckets = Buckets()
    deferred = Deferred[int](lambda rows: buckets.observe_all(rows))  # noqa: PLW0108 - as it is by then
    try:
        switch_metrics("off")
        deferred.put(1)
        buckets.observe(1)
        deferred.count()
        assert sum(buckets.counts) == 0
    finally:
        switch_metrics("on")
    deferred.put(1)
    buckets.observe(1)
    deferred.count()
    assert sum(buckets.counts) == 2
