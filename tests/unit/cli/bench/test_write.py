"""What `zbk bench write` refuses before it starts anything, and its live line."""

import pytest

from tests.support.cli import Run
from zbk.bench.samples import Sample
from zbk.cli.bench.live import line_of
from zbk.cli.bench.write import slow_programs


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--count", "5", "--seconds", "5s"], "give one of them"),
        (["--rate", "5", "--window", "5"], "--window is for as fast as it goes"),
        (["--outstanding", "2"], "--outstanding is for --api async"),
        (["--outstanding", "2", "--api", "async", "--window", "5"], "leave --window and --batch"),
        (["--outstanding", "2", "--api", "async", "--batch", "5"], "leave --window and --batch"),
        (["--outstanding", "2", "--api", "async", "--against-floor"], "compares batches"),
        (["--outstanding", "2", "--api", "async", "--rate", "5"], "leave --rate and --roll out"),
        (
            ["--outstanding", "2", "--api", "async", "--slow-bookie", "1s", "--slow-disks", "1s"],
            "--slow-bookie is for one bookie",
        ),
        (["--rate", "5", "--against-floor"], "--against-floor compares"),
        (["--seconds", "5s", "--against-floor"], "--against-floor compares"),
        (["--slow-bookie", "5ms", "--metadata", "sqlite:///x/y.db"], "temporary cluster"),
        (["--slow-disks", "5ms", "--metadata", "sqlite:///x/y.db"], "temporary cluster"),
        (["--slow-disks", "5ms", "--slow-bookie", "5ms"], "give one of them"),
        (["--seconds", "soon"], "is no duration"),
        (["--processes", "2", "--samples"], "--samples tells of one client"),
        (["--processes", "2", "--neighbor", "pd"], "--neighbor is in the client"),
        (["--processes", "2", "--slow-bookie", "5ms"], "--slow-bookie watches"),
        (["--processes", "2", "--against-floor"], "compares one client"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    run: Run, arguments: list[str], reason: str
) -> None:
    result = run("bench", "write", *arguments)

    assert result.exit_code == 2
    assert reason in result.stderr


def test_one_bookie_is_slow_or_all_are_or_none_is() -> None:
    assert slow_programs(0, 0) is None
    one, every = slow_programs(40, 0), slow_programs(0, 50)
    assert one is not None
    assert every is not None
    assert {number: program[-1] for number, program in one.items()} == {2: "40ms"}
    assert {number: program[-1] for number, program in every.items()} == dict.fromkeys(
        range(3), "50ms"
    )


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
