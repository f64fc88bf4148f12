"""The survey of a cluster: what it reads from the store, and what it makes of the answers."""

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.health import bookie_info
from zbk.errors import BookieUnavailableError, InvalidOptionError
from zbk.health.bookie_infos import BookieAnswer
from zbk.health.cluster_health import findings
from zbk.health.cluster_survey import survey_cluster
from zbk.metadata.paths import (
    AUDITOR_LEADER,
    LEDGERS,
    READONLY,
    UNDERREPLICATED_LEDGERS,
    registration_path,
)
from zbk.metadata.records.autorecovery_switches import AutorecoverySwitches
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.stores.connect import open_store, register_scheme
from zbk.metadata.stores.store import Create, MetadataStore, Node
from zbk.metadata.values import AuditorVote, BookieRegistration, Cookie, encode
from zbk.security.credentials import BookieDoors
from zbk.system.clock import monotonic_s


def answers(
    addresses: Mapping[str, BookieDoors], _instance_id: str, _timeout_s: float
) -> dict[str, BookieAnswer]:
    """Answer for every bookie but ``b-2``, which is silent, and ``b-3``, which is not asked."""
    found = {one: BookieAnswer(bookie_info(one), 3) for one in addresses}
    if "b-2" in found:
        found["b-2"] = BookieAnswer(BookieUnavailableError("b-2", "gone"))
    found.pop("b-3", None)
    return found


def registered(bookie_id: str, *, is_readonly: bool = False) -> Create:
    registration = BookieRegistration(
        bookie_id=bookie_id, address="tcp://h:1", incarnation=1, is_readonly=is_readonly,
        started_ms=0, version="0.1.0",
    )  # fmt: skip
    return Create(registration_path(bookie_id, is_readonly=is_readonly), encode(registration))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/metadata.db"


def test_it_reads_what_the_rule_judges(uri: str) -> None:
    store = open_store(uri)
    instance = initialise(store)
    for bookie_id in ("b-1", "b-2", "b-3", "b-4"):
        cookie = Cookie(
            bookie_id=bookie_id, instance_id=instance, journal_dirs=("/j",), ledger_dirs=("/l",),
            created_ms=0,
        )  # fmt: skip
        BookieRegistry(store).create_cookie(cookie)
    for bookie_id in ("b-1", "b-2", "b-3"):
        store.multi([registered(bookie_id, is_readonly=bookie_id == "b-3")])
    vote = AuditorVote(candidate_id="host-9", token="t", elected_ms=0)
    store.create(AUDITOR_LEADER, encode(vote))
    tasks = UnderreplicationStore(store)
    for ledger_id in (1, 2, 20_000):
        tasks.report(ledger_id, ["b-4"], MissingReason.LOST)
    assert tasks.lock(2, "w")
    AutorecoverySwitches(store).disable()

    facts = survey_cluster(uri, 5.0, answers)

    store.close()
    assert facts.missing == ("b-4",)
    assert [(one.bookie_id, one.is_readonly) for one in facts.bookies] == [
        ("b-1", False), ("b-2", False), ("b-3", True),
    ]  # fmt: skip
    assert [bool(one.info) for one in facts.bookies] == [True, False, False]
    assert "gone" in facts.bookies[1].silence
    assert [one.wire_version for one in facts.bookies] == [3, 0, 0]
    assert facts.bookies[2].silence == ""
    assert (facts.underreplicated_count, facts.in_repair_count) == (3, 1)
    assert (facts.auditor, facts.is_autorecovery_enabled) == ("host-9", False)


def with_cookies(uri: str, *bookie_ids: str) -> MetadataStore:
    store = open_store(uri)
    instance = initialise(store)
    for bookie_id in bookie_ids:
        cookie = Cookie(
            bookie_id=bookie_id, instance_id=instance, journal_dirs=("/j",), ledger_dirs=("/l",),
            created_ms=0,
        )  # fmt: skip
        BookieRegistry(store).create_cookie(cookie)
    return store


def test_a_registration_of_a_newer_zbk_is_no_missing_bookie(uri: str) -> None:
    """The cure of a missing bookie is its decommissioning; this one runs."""
    store = with_cookies(uri, "b-1", "b-4", "b-5")
    store.multi([registered("b-1")])
    store.create(registration_path("b-4", is_readonly=False), b"what a newer zbk writes")

    facts = survey_cluster(uri, 5.0, answers)

    store.close()
    assert (facts.missing, facts.unreadable) == (("b-5",), ("b-4",))
    (found,) = [one for one in findings(facts) if one.subjects == ("b-4",)]
    assert found.is_problem
    assert "decommission" not in str(found)


def test_a_bookie_that_becomes_readonly_between_two_listings_is_there(uri: str) -> None:
    store = with_cookies(uri, "b-1")
    store.multi([registered("b-1")])

    class MovedBetween:
        """The bookie moves after the first listing of read-only ones."""

        is_moved = False

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def children(self, path: str) -> list[str]:
            names = store.children(path)
            if path == READONLY and not self.is_moved:
                self.is_moved = True
                store.multi([registered("b-1", is_readonly=True)])
                store.delete(registration_path("b-1", is_readonly=False))
            return names

    register_scheme("moved", lambda _rest: MovedBetween())  # type: ignore[arg-type, return-value]

    facts = survey_cluster("moved://store", 5.0, answers)

    assert (facts.missing, [one.bookie_id for one in facts.bookies]) == ((), ["b-1"])


def test_a_damaged_vote_is_a_fact_and_no_error(uri: str) -> None:
    store = open_store(uri)
    initialise(store)
    store.create(AUDITOR_LEADER, b"no value of zbk")
    store.close()

    facts = survey_cluster(uri, 5.0, answers)

    assert AUDITOR_LEADER in facts.damage


def test_a_store_that_does_not_answer_is_a_fact() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        facts = survey_cluster(f"zk://127.0.0.1:{silent.getsockname()[1]}/zbk", 0.2, answers)

    assert facts.store_error


def test_a_store_without_a_cluster_is_an_error(uri: str) -> None:
    open_store(uri).close()

    with pytest.raises(InvalidOptionError, match="holds no cluster"):
        survey_cluster(uri, 5.0, answers)


class LargeStore:
    """A store with a million ledgers and 2,000 bookies; counts its calls."""

    def __init__(self, inner: MetadataStore) -> None:
        self._inner = inner
        self.listing_count = self.reading_count = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def children(self, path: str) -> list[str]:
        self.listing_count += 1
        for root in (LEDGERS, UNDERREPLICATED_LEDGERS):
            if path == root:
                return ["00"]
            if path == f"{root}/00":
                return [f"{number:04}" for number in range(100)]
            if path.startswith(f"{root}/00/"):
                return [f"L{number:04}" for number in range(10_000)]
        return self._inner.children(path)

    def get(self, path: str, *, is_fresh: bool = False) -> Node:
        self.reading_count += 1
        return self._inner.get(path, is_fresh=is_fresh)


def test_a_million_ledgers_are_counted_from_names(uri: str) -> None:
    store = open_store(uri)
    initialise(store)
    for first in range(0, 2_000, 100):
        store.multi([registered(f"b-{number:04}") for number in range(first, first + 100)])
    large = LargeStore(store)
    register_scheme("large", lambda _rest: large)  # type: ignore[arg-type, return-value]  # duck
    started_s = monotonic_s()

    facts = survey_cluster("large://store", 60.0, answers)

    assert (facts.ledger_count, facts.underreplicated_count) == (1_000_000, 1_000_000)
    assert len(facts.bookies) == 2_000
    assert large.listing_count < 220
    assert large.reading_count < 2_020
    assert monotonic_s() - started_s < 20
