import pytest

from benchmarks import figures
from tests.support.bench_lines import floor_line, sample_line, zbk_line


def test_the_ratio_is_of_the_field_that_has_the_goal() -> None:
    lines = {"zbk": [zbk_line(payload_mb_per_s=150.0), floor_line(payload_mb_per_s=200.0)]}

    read = figures.against_floor("payload_mb_per_s")(lines)

    assert (read["zbk"], read["floor"], read["ratio"]) == (150.0, 200.0, 0.75)


def test_a_lone_append_is_compared_with_fsync_at_p50_and_with_the_floor_at_p99() -> None:
    zbk = zbk_line(latency_p50_ms=0.75, latency_p99_ms=6.0)
    floor = floor_line(fsync_entry_p50_ms=0.25, latency_p99_ms=2.0)

    read = figures.lone({"zbk": [zbk], "floor": [floor]})

    assert read["over_fsync_ms"] == 0.5
    assert read["p99_ratio"] == 3.0


def test_shares_are_of_the_same_round() -> None:
    lines = {"alone": [zbk_line(entries_per_s=200.0)], "eight": [zbk_line(entries_per_s=150.0)]}

    assert figures.shares("alone", "eight")(lines) == {
        "alone": 200.0, "eight": 150.0, "eight_share": 0.75,
    }  # fmt: skip


def test_rates_early_and_late_are_read_off_the_samples() -> None:
    seen = [sample_line(n / 10, n * 1_000_000) for n in range(1, 10)]  # 10 M/s
    seen.append(sample_line(2.9, 11_000_000))  # the last two million: 1 M/s

    read = figures.length({"zbk": [*seen, zbk_line(entry_count=11_000_000, seconds=2.9)]})

    assert read["early_entries_per_s"] == pytest.approx(10_000_000)
    assert read["late_entries_per_s"] == pytest.approx(1_000_000)
    assert read["late_share"] == pytest.approx(0.1)


def test_a_run_too_short_for_samples_has_one_rate() -> None:
    read = figures.length({"zbk": [zbk_line(entry_count=1000, seconds=0.5)]})

    assert read["early_entries_per_s"] == pytest.approx(2000)
    assert read["late_share"] == pytest.approx(1.0)


def test_memory_is_counted_from_a_share_of_the_entries_on() -> None:
    seen = [
        sample_line(1.0, 500_000, client_rss_size=10, bookie_rss_size_max=50),
        sample_line(2.0, 700_000, client_rss_size=20, bookie_rss_size_max=100),
    ]
    result = zbk_line(client_rss_size=20, bookie_rss_size_max=104)

    read = figures.memory(0.69)({"zbk": [*seen, result]})

    assert (read["client_rss_size_grown"], read["bookie_rss_size_max_grown"]) == (0, 4)
    assert read["bookie_rss_size_max_grown_share"] == pytest.approx(0.04)


def test_a_long_run_tells_whether_its_second_half_is_slower() -> None:
    seen = [sample_line(1.0, 500_000), sample_line(3.0, 1_000_000)]

    read = figures.long_run({"zbk": [*seen, zbk_line(seconds=3.0)]})

    assert read["second_half_share"] == pytest.approx(0.5)


def test_offered_load_has_percentiles_of_each_step() -> None:
    read = figures.offered_load({"1000": [zbk_line(entries_per_s=999.0, latency_p999_ms=7.0)]})

    assert (read["1000_entries_per_s"], read["1000_latency_p999_ms"]) == (999.0, 7.0)
