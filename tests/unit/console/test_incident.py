"""The overview names the dead bookie, the ledgers at risk and the time of the repair."""

from math import inf, nan
from typing import Any

import pytest

from tests.support.health import bookie_facts, cluster_facts
from zbk.console.history import Event
from zbk.console.incident import BOOKIE_COUNT_MAX, Incident, incident_of
from zbk.health.cluster_health import ClusterFacts
from zbk.metadata.values import AuditorStatus

LOST = Event(at_ms=5, lane="b-9", kind="lost", text="the bookie left the cluster")


def facts(*missing: str, **fields: Any) -> ClusterFacts:  # noqa: ANN401 - the struct's
    return cluster_facts(cookies=("b-1", "b-2", "b-3", *missing), **fields)


def status(**fields: Any) -> AuditorStatus:  # noqa: ANN401 - the struct's
    return AuditorStatus(candidate_id="host-1", told_ms=0, **fields)


def incident(
    found: ClusterFacts, told: AuditorStatus | None = None, completion_s: float = nan
) -> Incident:
    result = incident_of(found, told, [LOST], completion_s, now_ms=1_000)
    assert result is not None
    return result


def test_a_whole_cluster_has_no_incident() -> None:
    assert incident_of(facts(), status(), [], 0.0, 0) is None
    assert incident_of(facts(store_error="no answer"), None, [], nan, 0) is None


@pytest.mark.parametrize(
    ("fields", "told", "expected"),
    [
        ({}, status(), "the auditor counts its ledgers"),
        ({}, None, "the auditor counts its ledgers"),
        ({"brake": "too many"}, None, "the auditor waits: too many"),
        ({}, status(lost=("b-9",), pending=("b-9",)), "the auditor counts its ledgers"),
        (
            {},
            status(lost=("b-9",), pending=("b-9",), delay_ends_ms=61_000),
            "it has 1 min 0 s to return before its ledgers are counted",
        ),
        (
            {},
            status(lost=("b-9",), pending=("b-9",), delay_ends_ms=900),
            "the auditor counts its ledgers",
        ),
        (
            {},
            status(lost=("b-9",), pending=("b-9",), brake="3 vanished"),
            "the auditor waits: 3 vanished",
        ),
        ({}, status(lost=("b-9",)), "its ledgers are counted"),
        ({"auditor": None}, None, "no auditor counts its ledgers"),
        ({"is_autorecovery_enabled": False}, status(lost=("b-9",)), "autorecovery is off"),
    ],
)
def test_each_missing_bookie_has_its_time_and_what_happens_about_it(
    fields: dict[str, Any], told: AuditorStatus | None, expected: str
) -> None:
    (one,) = incident(facts("b-9", **fields), told).bookies
    assert (one.bookie_id, one.state, one.since_ms, one.text) == ("b-9", "missing", 5, expected)


def test_no_ledger_at_risk_counts_only_after_the_auditor_has_counted() -> None:
    early = incident(facts("b-9"), status(lost=("b-9",), pending=("b-9",)), 0.0)
    assert "not counted yet" in early.at_risk
    assert early.repair == "starts when the ledgers are counted"
    late = incident(facts("b-9"), status(lost=("b-9",)), 0.0)
    assert late.at_risk == "none: each ledger that was counted has all its copies"
    assert late.repair == "done"


@pytest.mark.parametrize(
    ("completion_s", "expected"),
    [
        (80.0, "done in about 1 min 20 s"),
        (nan, "under way; the time left is not known yet"),
        (inf, "under way; the time left is not known yet"),
    ],
)
def test_the_repair_has_its_time(completion_s: float, expected: str) -> None:
    found = facts("b-9", underreplicated_count=12, in_repair_count=2)
    one = incident(found, status(lost=("b-9",)), completion_s)
    assert one.at_risk == "12 ledgers with missing copies, 2 in repair"
    assert one.repair == expected


def test_ledgers_beyond_repair_do_not_look_like_a_repair() -> None:
    one = incident(facts(unrepairable_count=1), status(), 0.0)
    assert one.at_risk == "1 ledger beyond repair"
    assert one.repair == "waits until a bookie that holds the entries returns"


def test_with_autorecovery_off_nothing_is_promised() -> None:
    found = facts(underreplicated_count=1, is_autorecovery_enabled=False)
    assert incident(found, status(), 5.0).repair == "off: autorecovery is disabled"


def test_a_silent_bookie_is_away_too_and_the_list_is_bounded() -> None:
    silent = cluster_facts(bookie_facts("b-1", info=None, silence="no answer"))
    found = incident(silent, status(), 0.0)
    assert [(one.bookie_id, one.state) for one in found.bookies] == [("b-1", "silent")]
    assert "not counted yet" in found.at_risk
    assert found.repair != "done"
    many = incident(facts(*(f"c-{n}" for n in range(20))), status())
    assert (len(many.bookies), many.bookie_count) == (BOOKIE_COUNT_MAX, 20)
