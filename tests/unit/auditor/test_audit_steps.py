"""The steps of an audit: what they do within their term, and not after it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from tests.support.audit_ledgers import ledger
from tests.support.fake_holders import FakeHolders
from tests.support.hooked_store import HookedStore
from tests.support.memory_store import MemoryTree
from zbk.auditor import audit_steps
from zbk.auditor.audit_steps import SILENT_MS, AuditSteps
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.config import ClientConfig
from zbk.errors import MetadataConflictError, RequestTimeoutError
from zbk.metadata.paths import AVAILABLE, COOKIES, READONLY, UNDERREPLICATED_LEDGERS, task_path
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.repair.audit_events import (
    Bookies,
    BookiesSeen,
    CheckKind,
    CheckLedgers,
    JobAnswered,
    LedgersChecked,
    Publish,
    Report,
)
from zbk.protocol.repair.underreplicated import MissingReason

TERM = 7
JOB = 3
TIMEOUT_MS = ClientConfig().request_timeout_ms
LEDGER = msgspec.structs.replace(ledger(7, ("a", "b", "c")), ledger_key=b"k" * 16)


class SlowBookies(FakeHolders):
    """Each holds what it should of any ledger; an error comes after a time-out."""

    def __init__(self, auditor: "Auditor") -> None:
        super().__init__(LEDGER)
        self._auditor = auditor

    def note_asked(self, bookie_id: str) -> None:
        super().note_asked(bookie_id)
        if bookie_id in self.errors:
            self._auditor.now_ms += TIMEOUT_MS


class Auditor:
    """The steps of one auditor, whose term the test ends."""

    def __init__(self) -> None:
        self.term: int | None = TERM
        self.store = HookedStore(MemoryTree("steps"))
        initialise(self.store)
        self.tasks = UnderreplicationStore(self.store)
        self.now_ms = 0
        self.bookies = SlowBookies(self)
        self.ledgers = LedgerStore(self.store)
        connection = SimpleNamespace(
            store=self.store,
            ledgers=self.ledgers,
            tasks=self.tasks,
            requests=self.bookies,
            directory=SimpleNamespace(registrations=list),
        )
        self._pool = ThreadPoolExecutor(1)  # one report after another
        self.steps = AuditSteps(
            cast("ClusterConnection", connection), self._pool, lambda: self.term, is_full=False
        )

    def end_term(self, next_term: int | None) -> Callable[[], None]:
        def end() -> None:
            self.term = next_term

        return end

    def check_all(self) -> LedgersChecked:
        """Check the holdings of all ledgers, step by step; return the answer of the last step."""
        after = -1
        while True:
            effect = CheckLedgers(JOB, CheckKind.REPLICAS, after, frozenset())
            checked = self.steps.take(effect).value
            assert isinstance(checked, LedgersChecked)
            if checked.is_last:
                return checked
            after = checked.last_ledger_id

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


def test_a_bookie_that_hangs_costs_no_timeout_for_each_ledger(
    auditor: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One time-out is as long as a step may be."""
    monkeypatch.setattr(audit_steps, "monotonic_ms", lambda: auditor.now_ms)
    for _ in range(20):
        auditor.ledgers.create(lambda number: msgspec.structs.replace(LEDGER, ledger_id=number))
    auditor.bookies.errors["a"] = RequestTimeoutError("a request", 5)

    checked = auditor.check_all()

    assert auditor.bookies.asked.count("a") == 1
    assert checked.undecided_count == checked.ledger_count == 19, "the others are in this step"
    auditor.now_ms += SILENT_MS
    auditor.check_all()
    assert auditor.bookies.asked.count("a") == 2, "it may answer again"


def test_a_step_reads_no_names_of_ledgers_before_it(auditor: Auditor) -> None:
    for _ in range(3):
        auditor.ledgers.create(lambda number: msgspec.structs.replace(LEDGER, ledger_id=number))
    first_ids: list[int] = []
    names = auditor.ledgers.list

    def list_from(first_id: int = 0) -> Iterator[int]:
        first_ids.append(first_id)
        return names(first_id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditor.ledgers, "list", list_from)
        auditor.steps.take(CheckLedgers(JOB, CheckKind.REPLICAS, 1, frozenset()))

    assert first_ids == [2]
