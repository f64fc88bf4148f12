"""Metrics that a real process shows for a moment only, or after a failing disk."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.bookie_here import BookieHere
from zbk.actors.process.bookie_metrics import BookieMetrics
from zbk.metrics.samples import Samples
from zbk.metrics.table import metrics_of
from zbk.protocol.upkeep.scrub import Findings


@pytest.fixture
def here() -> Iterator[BookieHere]:
    running = BookieHere()
    yield running
    running.close()


@pytest.fixture
def metrics(here: BookieHere) -> BookieMetrics:
    return here.bookie.metrics()


def read(metrics: BookieMetrics) -> Samples:
    samples = Samples()
    metrics.read(samples)
    return samples


def value(metrics: BookieMetrics, name: str) -> float:
    return sum(read(metrics).values[name].values())


def test_a_bookie_gives_a_value_for_each_of_its_metrics(metrics: BookieMetrics) -> None:
    samples = read(metrics)
    given = {*samples.values, *samples.histograms}
    assert given == {metric.name for metric in metrics_of("bookie")} - {"zbk_build_info"}


def front(metrics: BookieMetrics) -> Any:  # noqa: ANN401 - of pykka
    return metrics._front


def scrubber(metrics: BookieMetrics) -> Any:  # noqa: ANN401 - of pykka
    return metrics._status.actors["scrub"]


def collector(metrics: BookieMetrics) -> Any:  # noqa: ANN401 - of pykka
    return metrics._status.actors["gc"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("zbk_bookie_in_flight_bytes", lambda m: setattr(front(m)._peers, "in_flight_size", 7)),
        (
            "zbk_bookie_dropped_answers_total",
            lambda m: setattr(front(m).counts, "dropped_answer_count", 7),
        ),
        ("zbk_bookie_failed_directories", lambda m: m._status.failed_directories.append("/gone")),
        ("zbk_gc_gave_up", lambda m: setattr(collector(m).counts.result, "gave_up", "why")),
        ("zbk_scrub_running", lambda m: setattr(scrubber(m).counts, "begun_pass", 1)),
        ("zbk_scrub_progress_ratio", lambda m: setattr(scrubber(m).counts, "share", 0.5)),
        ("zbk_scrub_damaged_files", lambda m: setattr(scrubber(m).findings, "file_count", 1)),
        (
            "zbk_scrub_unreported_ledgers",
            lambda m: setattr(scrubber(m), "queue", SimpleNamespace(pending_count=3)),
        ),
    ],
)
def test_a_metric_follows_the_number_of_its_owner(
    metrics: BookieMetrics, name: str, change: Callable[[BookieMetrics], None]
) -> None:
    assert value(metrics, name) == 0
    change(metrics)
    assert value(metrics, name) > 0
    front(metrics)._peers.in_flight_size = 0


@pytest.mark.parametrize("kind", ["file", "ledger", "entry"])
def test_damage_that_was_found_shows_until_the_next_scrub_has_ended(
    metrics: BookieMetrics, kind: str
) -> None:
    name = {"entry": "zbk_scrub_damaged_entries"}.get(kind, f"zbk_scrub_damaged_{kind}s")
    found, none = Findings(), Findings()
    setattr(found, f"{kind}_count", 3)
    owner = scrubber(metrics)

    owner.findings = owner.ended_findings = found
    assert value(metrics, name) == 3
    owner.findings = none  # as when the next begins
    assert value(metrics, name) == 3
    owner.ended_findings = none
    assert value(metrics, name) == 0


def test_the_reserve_is_missing_while_it_is_in_use(metrics: BookieMetrics) -> None:
    assert value(metrics, "zbk_disk_reserve_missing") == 0
    reserve = metrics._storage.reserves[0]
    reserve.release()
    assert value(metrics, "zbk_disk_reserve_missing") == 1
    assert reserve.make()
    assert value(metrics, "zbk_disk_reserve_missing") == 0
