"""The rule that decides whether a cluster is healthy: each finding, alone."""

import pytest

from tests.support.health import GIB, bookie_facts, bookie_info, cluster_facts
from zbk.health.bookie_scrape import BookieScrape
from zbk.health.cluster_health import BookieFacts, ClusterFacts, findings
from zbk.health.finding import has_problem


def with_info(**fields: object) -> ClusterFacts:
    """Return a cluster in which one bookie's info has these fields."""
    odd = bookie_facts("b-3", info=bookie_info("b-3", **fields))
    return cluster_facts(bookie_facts("b-1"), bookie_facts("b-2"), odd)


def with_third(**fields: object) -> ClusterFacts:
    return cluster_facts(*map(bookie_facts, ["b-1", "b-2", "b-4"]), bookie_facts("b-3", **fields))


def test_nothing_is_found_in_a_healthy_cluster() -> None:
    assert findings(cluster_facts()) == []


PROBLEMS = [
    ("store-unreachable", cluster_facts(store_error="timed out"), "zbk doctor", ()),
    ("metadata-damaged", cluster_facts(damage="/x: checksum"), "backup", ()),
    (
        "bookies-missing",
        cluster_facts(cookies=("b-0", "b-1", "b-2", "b-3")),
        "zbk bookie decommission b-0",
        ("b-0",),
    ),
    ("registrations-unreadable", cluster_facts(unreadable=("b-9",)), "zbk version", ("b-9",)),
    (
        "too-few-bookies",
        cluster_facts(*map(bookie_facts, ["b-1", "b-2"]), bookie_facts("b-3", is_readonly=True)),
        "zbk bookie run",
        (),
    ),
    ("bookies-readonly", with_third(is_readonly=True), "zbk bookie show b-3", ("b-3",)),
    ("bookies-readonly", with_info(is_readonly=True), "zbk bookie show b-3", ("b-3",)),
    (
        "bookies-silent",
        with_third(info=None, silence="timed out"),
        "zbk bookie show b-3",
        ("b-3",),
    ),
    ("bookies-in-limbo", with_info(limbo="power"), "zbk bookie show b-3", ("b-3",)),
    ("directories-out-of-service", with_info(out_of_service="/l2"), "show b-3", ("b-3",)),
    ("disks-low", with_info(free_size=GIB - 1), "show b-3", ("b-3",)),
    ("disks-low", with_info(journal_free_size=GIB - 1), "show b-3", ("b-3",)),
    ("reserves-missing", with_info(has_reserve=False), "show b-3", ("b-3",)),
    ("entries-damaged", with_info(scrub_file_count=1), "show b-3", ("b-3",)),
    ("entries-damaged", with_info(scrub_entry_count=1), "show b-3", ("b-3",)),
    ("autorecovery-disabled", cluster_facts(is_autorecovery_enabled=False), "enable", ()),
    ("no-auditor", cluster_facts(auditor=None), "zbk autorecovery run", ()),
    ("underreplicated", cluster_facts(underreplicated_count=2), "--watch", ()),
    ("unrepairable", cluster_facts(unrepairable_count=1), "zbk ledger underreplicated", ()),
]


@pytest.mark.parametrize(("kind", "facts", "command", "subjects"), PROBLEMS)
def test_a_problem_is_found_with_its_next_command(
    kind: str, facts: ClusterFacts, command: str, subjects: tuple[str, ...]
) -> None:
    found = {one.kind: one for one in findings(facts)}

    assert found[kind].is_problem
    assert command in found[kind].command
    assert found[kind].subjects == subjects
    assert found[kind].what
    assert found[kind].consequence
    assert found[kind].command
    assert "\n" not in str(found[kind])


NOTES = [
    ("journals-lag", with_third(scraped=BookieScrape(0, 0, 4_096, 11.0))),
    (
        "entry-logs-lag",
        with_third(scraped=BookieScrape(0, 0, 4_096, 0.0, log_unsynced_age_s=121.0)),
    ),
    ("bookies-not-asked", with_third(info=None)),
    ("versions-differ", with_third(version="0.2.0")),
    ("too-few-bookies", cluster_facts(bookie_facts("b-1"))),
    ("auditor-waits", cluster_facts(brake="the session is new")),
]


@pytest.mark.parametrize(("kind", "facts"), NOTES)
def test_a_note_is_no_problem(kind: str, facts: ClusterFacts) -> None:
    found = findings(facts)

    assert [one.kind for one in found] == [kind]
    assert not has_problem(found)


def test_entry_logs_may_wait_for_a_checkpoint() -> None:
    """Which comes every ten seconds, or up to a minute after the last one."""
    waiting = with_third(scraped=BookieScrape(0, 0, 4_096, 0.0, log_unsynced_age_s=75.0))
    assert findings(waiting) == []


def test_a_cluster_without_a_writable_bookie_says_so_once() -> None:
    kinds = [one.kind for one in findings(cluster_facts(bookie_facts("b-1", is_readonly=True)))]

    assert kinds == ["no-writable-bookie", "bookies-readonly"]


def test_an_auditor_that_waits_is_a_problem_while_bookies_are_missing() -> None:
    facts = cluster_facts(cookies=("b-0", "b-1", "b-2", "b-3"), brake="4 of 9 bookies are lost")

    assert [one.kind for one in findings(facts)] == ["bookies-missing", "auditor-waits"]
    assert all(one.is_problem for one in findings(facts))


def test_problems_come_first() -> None:
    facts = cluster_facts(
        *map(bookie_facts, ["b-1", "b-2"]), bookie_facts("b-3", version="0.2.0"), auditor=None
    )

    assert [one.is_problem for one in findings(facts)] == [True, False]


def test_without_the_store_nothing_else_is_claimed() -> None:
    assert len(findings(ClusterFacts(metadata="zk://h", store_error="timed out"))) == 1


def test_many_bookies_with_one_problem_are_one_short_line() -> None:
    many: list[BookieFacts] = [
        bookie_facts(f"b-{number:04}", info=None, silence="timed out") for number in range(2_000)
    ]

    (found,) = findings(cluster_facts(*many))

    assert len(found.subjects) == 2_000
    assert "2,000 bookies" in found.what
    assert len(str(found)) < 250
