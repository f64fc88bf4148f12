"""The steps of an audit: what they do within their term, and not after it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.hooked_store import HookedStore
from tests.support.memory_store import MemoryTree
from zbk.auditor.audit_steps import AuditSteps
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.errors import MetadataConflictError
from zbk.metadata.paths import AVAILABLE, COOKIES, READONLY, UNDERREPLICATED_LEDGERS, task_path
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.repair.audit_events import Bookies, BookiesSeen, JobAnswered, Publish, Report
from zbk.protocol.repair.underreplicated import MissingReason

TERM = 7
JOB = 3


class Auditor:
    """The steps of one auditor, whose term the test ends."""

    def __init__(self) -> None:
        self.term: int | None = TERM
        self.store = HookedStore(MemoryTree("steps"))
        initialise(self.store)
        self.tasks = UnderreplicationStore(self.store)
        connection = SimpleNamespace(
            store=self.store, ledgers=LedgerStore(self.store), tasks=self.tasks, requests=None
        )
        self._pool = ThreadPoolExecutor(1)  # one report after another
        self.steps = AuditSteps(
            cast("ClusterConnection", connection), self._pool, lambda: self.term, is_full=False
        )

    def end_term(self, next_term: int | None) -> Callable[[], None]:
        def end() -> None:
            self.term = next_term

        return end

    def close(self) -> None:
        self._pool.shutdown()
        self.store.close()


@pytest.fixture
def auditor() -> Iterator[Auditor]:
    made = Auditor()
    yield made
    made.close()


def publish(*ledger_ids: int) -> Publish:
    reports = tuple(Report(one, ("b",), MissingReason.LOST) for one in ledger_ids)
    return Publish(JOB, TERM, reports)


def assert_refused(answer: JobAnswered) -> None:
    assert isinstance(answer.value, MetadataConflictError)
    assert str(answer.value) == "the term of the auditor: it is over"


def test_reports_are_published_within_their_term(auditor: Auditor) -> None:
    assert auditor.steps.take(publish(1, 2, 3)) == JobAnswered(JOB, None)
    assert sorted(auditor.tasks.list()) == [1, 2, 3]


@pytest.mark.parametrize("next_term", [None, TERM + 1])
def test_a_term_that_ends_between_two_reports_stops_the_second(
    auditor: Auditor, next_term: int | None
) -> None:
    first = task_path(UNDERREPLICATED_LEDGERS, 1)
    auditor.store.interrupt(auditor.end_term(next_term), path_part=first)

    assert_refused(auditor.steps.take(publish(1, 2, 3)))
    assert list(auditor.tasks.list()) == [1]


@pytest.mark.parametrize("next_term", [None, TERM + 1])
def test_nothing_is_published_after_the_term(auditor: Auditor, next_term: int | None) -> None:
    auditor.term = next_term

    assert_refused(auditor.steps.take(publish(1)))
    assert list(auditor.tasks.list()) == []


def test_a_look_at_the_bookies_counts_only_if_one_term_covers_it(auditor: Auditor) -> None:
    for path in (COOKIES, AVAILABLE):
        auditor.store.create(f"{path}/a")
    seen = BookiesSeen(1, Bookies(frozenset({"a"}), frozenset({"a"})))
    failed = BookiesSeen(1, None)
    assert auditor.steps.look(1, TERM) == seen

    auditor.store.interrupt(auditor.end_term(TERM + 1), "children", READONLY)
    assert auditor.steps.look(1, TERM) == failed, "the term ended meanwhile"
    assert auditor.steps.look(1, TERM) == failed, "it ended before"
    assert auditor.steps.look(1, None) == seen, "one without a term"
