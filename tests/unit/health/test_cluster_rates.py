"""Rates between two samples of a cluster."""

from typing import Any

import pytest

from tests.support.health import bookie_info
from zbk.health.bookie_scrape import BookieScrape
from zbk.health.cluster_rates import (
    COUNTERS,
    BookieSample,
    ClusterSample,
    rates_between,
    total,
)


def bookie(
    bookie_id: str = "b-1",
    scraped: BookieScrape | None = None,
    **info: Any,  # noqa: ANN401 - of BookieInfo
) -> BookieSample:
    found = bookie_info(bookie_id, **info)
    return BookieSample(bookie_id=bookie_id, is_readonly=False, info=found, scraped=scraped)


def at(second: float, *bookies: BookieSample) -> ClusterSample:
    return ClusterSample(at_us=int(second * 1_000_000), bookies=bookies)


def test_a_rate_is_the_growth_of_a_counter_by_the_time_between() -> None:
    before = bookie(add_entry_count=100, add_size=1_000, journal_sync_count=1, cpu_ms=500)
    after = bookie(add_entry_count=300, add_size=5_000, journal_sync_count=11, cpu_ms=1_000)

    (found,) = rates_between(at(10, before), at(12, after))

    assert found.rates["adds_per_s"] == 100
    assert found.rates["add_bytes_per_s"] == 2_000
    assert found.rates["fsyncs_per_s"] == 5
    assert found.rates["reads_per_s"] == 0
    assert found.cpu_share == 0.25
    assert found.rates.keys() == COUNTERS.keys()


def test_the_mean_of_fsyncs_is_of_those_between_the_samples() -> None:
    before = bookie(scraped=BookieScrape(100, 1.0, 0, 0))
    after = bookie(scraped=BookieScrape(104, 1.02, 0, 0))

    assert rates_between(at(1, before), at(2, after))[0].fsync_ms == pytest.approx(5)
    assert rates_between(at(1, before), at(2, before))[0].fsync_ms is None
    assert rates_between(at(1, before), at(2, bookie()))[0].fsync_ms is None


def test_waits_of_the_journal_and_vd_adds_are_those_between_the_samples() -> None:
    before = bookie(scraped=BookieScrape(0, 0, 0, 0, 10, 1.0, 100, 0.5))
    after = bookie(scraped=BookieScrape(0, 0, 0, 0, 14, 1.02, 160, 0.75))

    (found,) = rates_between(at(1, before), at(3, after))

    assert found.queue_ms == pytest.approx(5)
    assert (found.vd_adds_per_s, found.disk_share) == (30, 0.75)
    (unknown,) = rates_between(at(1, bookie()), at(3, after))
    assert (unknown.vd_adds_per_s, unknown.queue_ms, unknown.disk_share) == (None, None, 0.75)


def test_a_bookie_that_restarted_or_is_new_has_no_rates_yet() -> None:
    old, restarted = bookie(incarnation=1, add_entry_count=9), bookie(incarnation=2)

    (first,) = rates_between(at(1, old), at(2, restarted))
    (second,) = rates_between(at(1), at(2, restarted))

    assert first.rates == second.rates == {}
    assert first.state == "writable"
    assert first.free_size


def test_a_silent_bookie_has_a_state_and_nothing_else() -> None:
    silent = BookieSample(bookie_id="b-1", is_readonly=False)

    (found,) = rates_between(at(1, bookie()), at(2, silent))

    assert (found.state, found.rates, found.free_size) == ("silent", {}, None)
    assert rates_between(at(1, silent), at(2, bookie()))[0].rates == {}


@pytest.mark.parametrize(
    ("info", "state"),
    [({}, "writable"), ({"is_readonly": True}, "read-only"), ({"limbo": "power"}, "limbo")],
)
def test_a_state_is_one_word(info: dict[str, Any], state: str) -> None:
    assert rates_between(at(1), at(2, bookie(**info)))[0].state == state


def test_the_total_leaves_out_what_is_not_known() -> None:
    silent = BookieSample(bookie_id="b-2", is_readonly=False)
    before, after = bookie(read_size=0), bookie(read_size=70)

    found = total(rates_between(at(1, before, silent), at(2, after, silent)))

    assert found["read_bytes_per_s"] == 70
    assert found["adds_per_s"] == 0
