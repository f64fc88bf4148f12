"""What two readings of counters make of the second between them."""

import queue
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from tests.support.fake_client import FakeClient
from zbk.bench.histogram import Histogram
from zbk.bench.samples import Reading, Sample, Sampler, sample_between

if TYPE_CHECKING:
    from zbk.client.api import Client

EARLIER = Reading(
    at_s=101.0,
    entry_count=1_000,
    latencies=Histogram(),
    client_cpu_ms=50,
    client_rss_size=1,
    bookie_cpu_ms={"a": 10, "b": 20, "gone": 30},
    bookie_rss_size_max=1,
)


def later(**changes: object) -> Reading:
    return msgspec.structs.replace(EARLIER, **{"at_s": 103.0, "entry_count": 5_000, **changes})


def between(now: Reading) -> Sample:
    return sample_between(EARLIER, now, started_s=100.0, entry_size=500)


def test_rates_are_of_the_time_between() -> None:
    sample = between(later())

    assert sample.at_s == 3.0
    assert sample.entry_count == 5_000
    assert sample.entries_per_s == 2_000
    assert sample.payload_mb_per_s == pytest.approx(1.0)


def test_latencies_are_of_the_time_between() -> None:
    latencies = Histogram()
    latencies.record(0.004)

    sample = between(later(latencies=latencies))

    assert sample.latency_p50_ms == sample.latency_p99_ms == pytest.approx(4.0, rel=0.02)


def test_cpu_is_told_for_an_entry_and_of_bookies_that_answered_twice() -> None:
    sample = between(later(client_cpu_ms=58, bookie_cpu_ms={"a": 14, "b": 28, "new": 1_000}))

    assert sample.client_cpu_us_per_entry == pytest.approx(2.0)
    assert sample.bookie_cpu_us_per_entry == pytest.approx(3.0)


def test_a_second_without_entries_has_no_rate_and_no_error() -> None:
    sample = between(later(entry_count=1_000))

    assert sample.entries_per_s == 0
    assert sample.latency_p99_ms == 0


class FakeWriter:
    acked_count = 7
    latencies = Histogram()


def test_samples_are_told_while_the_block_runs() -> None:
    told: queue.SimpleQueue[Sample] = queue.SimpleQueue()
    client = cast("Client", FakeClient())
    sampler = Sampler(client, [FakeWriter()] * 2, 100, told.put)

    with sampler:
        sample = told.get(timeout=30)

    assert sample.entry_count == 14
    assert sample.client_rss_size > 0


def test_what_fails_while_it_tells_is_raised_at_the_end() -> None:
    asked: queue.SimpleQueue[None] = queue.SimpleQueue()

    def fail(_sample: Sample) -> None:
        asked.put(None)
        raise BrokenPipeError

    with (
        pytest.raises(BrokenPipeError),
        Sampler(cast("Client", FakeClient()), [FakeWriter()], 100, fail),
    ):
        asked.get(timeout=30)
