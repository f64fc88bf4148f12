"""The experiment with metrics on a small load: what they do is counted, and costs little."""

from pathlib import Path

from benchmarks.experiments.metrics_cost import CostLoad, RoundCost, Switch, run_metrics_cost
from benchmarks.experiments.metrics_switch import KeptTimes, Mode, switchable
from zbk.actors.serve.journal_times import NO_WRITE, NONE, JournalTimes
from zbk.metrics.buckets import Buckets
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
    buckets, times, counts = Buckets(), JournalTimes(), RequestCounts()
    times.keep()
    counts.keep_times()
    switch, kept = Switch([], counts), KeptTimes()
    kept.add([times])

    def turn(mode: Mode) -> None:
        switch.turn(mode)
        kept.turn(mode)

    def observe() -> None:
        buckets.observe(1)
        if times.observed is not None:  # as a journal does
            times.observed.put((*NO_WRITE, 1, (), NONE))
        if counts.answered is not None:  # as a connection does
            counts.answered.count(Add, took_ms=1, now_ms=1)

    def seen() -> list[int]:
        return [sum(one.counts) for one in (buckets, times.fsyncs, counts.times["add"])]

    with switchable():
        turn("off")
        observe()
        turn("on")
        assert seen() == [0, 0, 0]
        observe()
        turn("off")
        observe()
        turn("on")
        assert seen() == [1, 1, 1]
    observe()
    assert seen() == [2, 2, 2]
