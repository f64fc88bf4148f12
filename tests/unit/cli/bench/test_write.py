"""What `zbk bench write` refuses before it starts anything, and its live line."""

import pytest

from tests.support.cli import Run
from zbk.bench.samples import Sample
from zbk.cli.bench.live import line_of


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--count", "5", "--seconds", "5s"], "give one of them"),
        (["--rate", "5", "--window", "5"], "--window limits a load without --rate"),
        (["--outstanding", "2"], "--outstanding is for --api async"),
        (["--outstanding", "2", "--api", "async", "--window", "5"], "omit --window and --batch"),
        (["--outstanding", "2", "--api", "async", "--batch", "5"], "omit --window and --batch"),
        (["--outstanding", "2", "--api", "async", "--against-floor"], "compares batches"),
        (["--outstanding", "2", "--api", "async", "--rate", "5"], "omit --rate and --roll"),
        (["--rate", "5", "--against-floor"], "--against-floor compares"),
        (["--seconds", "5s", "--against-floor"], "--against-floor compares"),
        (["--seconds", "soon"], "is not a duration"),
        (["--processes", "2", "--samples"], "--samples reports one client"),
        (["--processes", "2", "--neighbor", "pd"], "--neighbor is beside one client"),
        (["--neighbor-client", "other"], "give both"),
        (["--processes", "2", "--against-floor"], "compares one client"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    run: Run, arguments: list[str], reason: str
) -> None:
    result = run("bench", "write", *arguments)

    assert result.exit_code == 2
    assert reason in result.stderr


def test_the_live_line_says_how_far_how_fast_and_how_late() -> None:
    sample = Sample(
        at_s=3.01,
        entry_count=1_234_567,
        entries_per_s=456_789.0,
        payload_mb_per_s=45.6789,
        latency_p50_ms=1.5,
        latency_p99_ms=12.25,
        client_cpu_us_per_entry=1.0,
        bookie_cpu_us_per_entry=3.0,
        client_rss_size=1,
        bookie_rss_size_max=64 * 1024 * 1024,
    )

    assert line_of(sample) == (
        "3 s  1,234,567 entries  457 k/s  45.7 MB/s  p50 1.50 ms  p99 12.25 ms  bookies 64.0 MiB"
    )
