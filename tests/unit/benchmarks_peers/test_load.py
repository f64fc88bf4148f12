"""What is asked of a peer, and the columns in which the answer is told."""

import pytest

from benchmarks.peers.load import (
    Api,
    Cost,
    Durability,
    Meter,
    PeerFailedError,
    PeerLoad,
    PeerRun,
    batch_sizes,
    check_kept,
    median_of,
    result_of,
    shaped,
)

COLUMNS_OF_BENCH_WRITE = {
    "measured",
    "entry_size",
    "entry_count",
    "api",
    "batch_count",
    "window",
    "seconds",
    "entries_per_s",
    "payload_mb_per_s",
    "latency_p50_ms",
    "latency_p95_ms",
    "latency_p99_ms",
    "latency_max_ms",
    "client_cpu_us_per_entry",
    "client_rss_size",
}


def a_load(entry_count: int = 2_500, api: Api = "many") -> PeerLoad:
    return PeerLoad(entry_size=100, entry_count=entry_count, api=api, batch_count=1_000, window=64)


def a_run(entry_count: int = 2_500) -> PeerRun:
    return PeerRun(
        seconds=0.5,
        latencies_s=[0.002, 0.001, 0.003],
        cost=Cost(
            client_cpu_us_per_entry=4.0,
            server_cpu_us_per_entry=10.0,
            client_rss_size=30_000_000,
            server_rss_size_max=20_000_000,
        ),
        entry_count=entry_count,
    )


@pytest.mark.parametrize("count", [1, 999, 1_000, 1_001, 2_500])
def test_batches_hold_all_entries_and_only_the_last_is_short(count: int) -> None:
    sizes = batch_sizes(a_load(count))

    assert sum(sizes) == count
    assert all(size == 1_000 for size in sizes[:-1])
    assert sizes[-1] > 0


def test_sync_has_one_entry_on_its_way_and_the_others_what_was_asked_for() -> None:
    sync = shaped(a_load(api="sync"))

    assert (sync.batch_count, sync.window) == (1, 1)
    assert shaped(a_load()) == a_load()
    assert shaped(a_load(api="async")) == a_load(api="async")


def test_a_result_has_the_columns_of_bench_write_and_those_of_the_servers() -> None:
    fields = result_of("redis", "7.0.15", Durability("WAIT 1", is_fsynced=True), a_load(), a_run())

    assert set(fields) >= COLUMNS_OF_BENCH_WRITE
    assert fields["measured"] == "redis"
    assert (fields["version"], fields["durability"]) == ("7.0.15", "WAIT 1")
    assert fields["is_fsynced"] is True
    assert (fields["server_cpu_us_per_entry"], fields["server_rss_size_max"]) == (10.0, 20_000_000)


def test_rates_come_from_entries_and_seconds() -> None:
    fields = result_of("nats", "2.9.10", Durability("R3", is_fsynced=False), a_load(), a_run())

    assert fields["entries_per_s"] == 5_000
    assert fields["payload_mb_per_s"] == 0.5
    assert (fields["latency_p50_ms"], fields["latency_max_ms"]) == (2.0, 3.0)


def test_a_load_that_goes_on_for_a_time_has_as_many_entries_as_were_confirmed() -> None:
    durability = Durability("R3", is_fsynced=False)

    fields = result_of("nats", "2.9.10", durability, a_load(), a_run(entry_count=50))

    assert fields["entry_count"] == 50
    assert fields["entries_per_s"] == 100


def test_fewer_entries_than_were_confirmed_are_an_error() -> None:
    check_kept("Redis", 10, 10)
    check_kept("Redis", 10, 11)

    with pytest.raises(PeerFailedError, match="confirmed 10 entries and has 9"):
        check_kept("Redis", 10, 9)


def test_medians_are_taken_field_by_field_of_what_is_a_figure() -> None:
    rounds = [
        {"version": "7.0.15", "is_fsynced": True, "entries_per_s": rate, "latency_p50_ms": latency}
        for rate, latency in ((10.0, 3.0), (30.0, 1.0), (20.0, 2.0))
    ]

    assert median_of(rounds) == {"entries_per_s": 20.0, "latency_p50_ms": 2.0}


def test_a_server_that_is_gone_costs_nothing_more() -> None:
    cost = Meter([2**22 + 1]).cost(10)  # above the highest process id that there can be

    assert cost.server_cpu_us_per_entry == 0
    assert cost.server_rss_size_max == 0
    assert cost.client_rss_size > 0
