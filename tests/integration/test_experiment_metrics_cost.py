"""The experiment with metrics on a small load: what they do is counted, and costs little."""

from pathlib import Path

from benchmarks.experiments.metrics_cost import CostLoad, RoundCost, Switch, run_metrics_cost
from zbk.metrics.buckets import Buckets
from zbk.metrics.deferred import Deferred
from zbk.transport.request_counts import RequestCounts
from zbk.wire.messages import Add


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
    buckets, counts = Buckets(), RequestCounts()
    deferred = Deferred[int](lambda rows: buckets.observe_all(rows))  # noqa: PLW0108 - as it is by then
    counts.keep_times()
    switch = Switch([], counts)

    def observe() -> list[int]:
        deferred.put(1)
        buckets.observe(1)
        deferred.count()
        if counts.answered is not None:  # as a connection does
            counts.answered.rows.append((Add, 1))
        return [sum(buckets.counts), sum(counts.times["add"].counts)]

    try:
        switch.turn("off")
        assert observe() == [0, 0]
    finally:
        switch.turn("on")
    assert observe() == [2, 1]
