"""The auditor's body on metadata in memory, with bookies that are only registered."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from tests.support.audit_ledgers import ledger
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.recorder import Recorder
from tests.support.waiting import wait_until
from zbk.auditor.auditor import AuditorThread
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.config import AutorecoveryConfig
from zbk.errors import MetadataUnavailableError
from zbk.metadata.paths import AVAILABLE, COOKIES, READONLY
from zbk.metadata.records.auditor_notes import AuditorNotes
from zbk.metadata.records.election import AuditorElection
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.stores.store import MetadataStore
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.clock import wall_ms

BOOKIES = ["a", "b", "c", "d"]
CONFIG = AutorecoveryConfig(
    lost_bookie_delay_ms=0,
    brake_hold_ms=20,
    brake_window_ms=0,
    bookie_check_interval_ms=0,
    ledger_check_interval_ms=0,
    replicas_check_interval_ms=0,
)


class Cluster:
    """Metadata of a cluster, and the bookies that are registered there."""

    def __init__(self) -> None:
        self.tree = MemoryTree("audit")
        self.store = self.tree.open_session()
        initialise(self.store)
        for bookie_id in BOOKIES:
            self.store.create(f"{COOKIES}/{bookie_id}")
            self.store.create(f"{AVAILABLE}/{bookie_id}")
        self.ledgers = LedgerStore(self.store)
        self.tasks = UnderreplicationStore(self.store)
        self.failures: Recorder[BaseException] = Recorder()
        self.auditors: list[AuditorThread] = []
        self.sessions: list[MemoryStore] = []

    def add_ledger(self, *bookie_ids: str, last: int = 9) -> int:
        def make(ledger_id: int) -> LedgerMetadata:
            return ledger(ledger_id, bookie_ids, last=last)

        return self.ledgers.create(make)[0].ledger_id

    def start(self, name: str, config: AutorecoveryConfig = CONFIG) -> MemoryStore:
        store = self.tree.open_session()
        connection = SimpleNamespace(
            store=store,
            ledgers=LedgerStore(store),
            tasks=UnderreplicationStore(store),
            requests=None,
            directory=SimpleNamespace(registrations=list),
        )
        auditor = AuditorThread(
            cast("ClusterConnection", connection), name, config, self.failures, retry_ms=50
        )
        self.sessions.append(store)
        self.auditors.append(auditor)
        auditor.start()
        return store

    def brake(self) -> str:
        """Return what the auditor says about the brake."""
        told = AuditorNotes(self.store).status()
        return "nothing was said yet" if told is None else told.brake

    def wait_settled(self) -> None:
        """Wait until the first hold of a term is over."""
        wait_until(lambda: not self.brake(), what="the end of the hold")

    def reported(self) -> dict[int, set[str]]:
        found = {}
        for ledger_id in self.tasks.list():
            task = self.tasks.read(ledger_id)
            if task is not None:
                found[ledger_id] = set(task[0].missing)
        return found

    def close(self) -> None:
        for auditor in self.auditors:
            auditor.stop()
        for store in [*self.sessions, self.store]:
            store.close()
        assert self.failures.items == []


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


def test_every_ledger_of_a_lost_bookie_is_reported_also_empty_ones(cluster: Cluster) -> None:
    """B21, B25: an empty ledger has nothing to copy, and must stay openable."""
    one = cluster.add_ledger("a", "b")
    cluster.add_ledger("a", "c")
    empty = cluster.add_ledger("b", "d", last=-1)
    cluster.start("first")
    cluster.wait_settled()

    cluster.store.delete(f"{AVAILABLE}/b")

    wait_until(lambda: cluster.reported() == {one: {"b"}, empty: {"b"}})
    found = cluster.tasks.read(one)
    assert found is not None
    assert found[0].missing == {"b": (MissingReason.LOST,)}


def test_a_read_only_bookie_is_there(cluster: Cluster) -> None:
    cluster.add_ledger("a", "b")
    other = cluster.add_ledger("a", "c")
    cluster.start("first")
    cluster.wait_settled()

    cluster.store.create(f"{READONLY}/b")
    cluster.store.delete(f"{AVAILABLE}/b")
    cluster.store.delete(f"{AVAILABLE}/c")

    wait_until(lambda: bool(cluster.reported()))
    assert cluster.reported() == {other: {"c"}}


def test_the_next_auditor_goes_on(cluster: Cluster) -> None:
    one = cluster.add_ledger("a", "b")
    first = cluster.start("first")
    cluster.wait_settled()
    cluster.start("second")
    first.close()  # its process is gone

    cluster.store.delete(f"{AVAILABLE}/b")

    wait_until(lambda: cluster.reported() == {one: {"b"}})
    told = AuditorNotes(cluster.store).status()
    assert told is not None
    assert told.candidate_id == "second"


def test_an_error_of_the_store_holds_the_audit_up_and_does_not_end_it(cluster: Cluster) -> None:
    ids = [cluster.add_ledger("a", "b") for _ in range(20)]
    store = cluster.start("first")
    cluster.wait_settled()
    store.fail_next(6)

    cluster.store.delete(f"{AVAILABLE}/b")

    wait_until(lambda: list(cluster.reported()) == ids)


def test_disabled_it_reports_nothing_until_it_is_enabled(cluster: Cluster) -> None:
    one = cluster.add_ledger("a", "b")
    cluster.start("first")
    cluster.wait_settled()
    cluster.tasks.disable()
    cluster.store.delete(f"{AVAILABLE}/b")
    assert cluster.reported() == {}

    cluster.tasks.enable()

    wait_until(lambda: cluster.reported() == {one: {"b"}})


def test_a_delay_from_the_metadata_store_counts_until_somebody_triggers(cluster: Cluster) -> None:
    one = cluster.add_ledger("a", "b")
    cluster.tasks.set_lost_bookie_delay_ms(3_600_000)
    cluster.start("first")
    cluster.wait_settled()
    cluster.store.delete(f"{AVAILABLE}/b")

    def sees_the_loss() -> bool:
        cluster.tasks.trigger()
        return cluster.reported() == {one: {"b"}}

    assert cluster.reported() == {}
    wait_until(sees_the_loss)


def test_the_end_of_the_delay_is_told_until_the_bookie_is_back(cluster: Cluster) -> None:
    cluster.add_ledger("a", "b")
    cluster.start("first", msgspec.structs.replace(CONFIG, lost_bookie_delay_ms=3_600_000))
    cluster.wait_settled()

    def delay_ends_ms() -> object:
        told = AuditorNotes(cluster.store).status()
        return None if told is None else told.delay_ends_ms

    before_ms = wall_ms()
    cluster.store.delete(f"{AVAILABLE}/b")
    wait_until(lambda: isinstance(delay_ends_ms(), int), what="the end of the delay")
    ends_ms = delay_ends_ms()
    assert isinstance(ends_ms, int)
    assert before_ms + 3_600_000 - 1_000 <= ends_ms <= wall_ms() + 3_600_000
    assert cluster.reported() == {}

    cluster.store.create(f"{AVAILABLE}/b")
    wait_until(lambda: delay_ends_ms() is msgspec.UNSET, what="the bookie to be seen")


def test_a_suspended_session_is_no_time_to_report(cluster: Cluster) -> None:
    cluster.add_ledger("a", "b")
    store = cluster.start("first")
    cluster.wait_settled()

    store.suspend()
    cluster.store.delete(f"{AVAILABLE}/b")
    assert cluster.auditors[0]._term() is None
    store.resume()

    wait_until(lambda: bool(cluster.reported()))


def test_a_ledger_whose_metadata_are_damaged_holds_up_no_other(cluster: Cluster) -> None:
    one = cluster.add_ledger("a", "b")
    two = cluster.add_ledger("a", "b")
    cluster.store.set("/ledgers/00/0000/L0000", b"nonsense", 0)
    assert one == 0
    cluster.start("first")
    cluster.wait_settled()

    cluster.store.delete(f"{AVAILABLE}/b")

    wait_until(lambda: cluster.reported() == {two: {"b"}})


def test_checks_end_and_are_remembered(cluster: Cluster) -> None:
    cluster.add_ledger("a", "b")
    config = msgspec.structs.replace(
        CONFIG, bookie_check_interval_ms=50, placement_check_interval_ms=50
    )

    cluster.start("first", config)

    notes = AuditorNotes(cluster.store)
    wait_until(lambda: set(notes.check_times()) == {"bookies", "placement"})
    first = notes.check_times()
    wait_until(lambda: all(at > first[kind] for kind, at in notes.check_times().items()))


def test_a_term_that_begins_before_the_election_is_known_is_not_lost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first steps were dropped as those of a term that is over, and no check ever came."""

    class Slow(AuditorElection):
        def __init__(
            self, store: MetadataStore, name: str, on_change: Callable[[int | None], None]
        ) -> None:
            super().__init__(store, name, on_change)
            wait_until(lambda: self.term() is not None)
            threading.Event().wait(0.1)  # what it would do wrong, it does meanwhile

    monkeypatch.setattr("zbk.auditor.auditor.AuditorElection", Slow)
    cluster.start("first", msgspec.structs.replace(CONFIG, placement_check_interval_ms=50))

    notes = AuditorNotes(cluster.store)
    wait_until(lambda: set(notes.check_times()) == {"placement"})


def test_bookies_without_a_cookie_that_ledgers_name_are_lost_as_well(cluster: Cluster) -> None:
    one = cluster.add_ledger("a", "x")
    cluster.start("first")
    cluster.wait_settled()

    cluster.tasks.trigger()

    wait_until(lambda: cluster.reported() == {one: {"x"}})


def test_no_repair_storm_when_all_sessions_end_and_come_back(cluster: Cluster) -> None:
    """The store was away for longer than any session: all bookies vanish, and register again."""
    cluster.add_ledger("a", "b")
    config = msgspec.structs.replace(CONFIG, brake_hold_ms=400, brake_window_ms=60_000)
    store = cluster.start("first", config)
    cluster.wait_settled()

    for bookie_id in BOOKIES:
        cluster.store.delete(f"{AVAILABLE}/{bookie_id}")
    wait_until(lambda: "vanished" in cluster.brake(), what="the brake")
    store.expire_session()
    wait_until(lambda: "new" in cluster.brake(), what="the next term")
    for bookie_id in BOOKIES:
        cluster.store.create(f"{AVAILABLE}/{bookie_id}")
    wait_until(lambda: not cluster.brake(), what="the end of the hold")

    assert cluster.reported() == {}
    cluster.store.delete(f"{AVAILABLE}/b")
    wait_until(lambda: bool(cluster.reported()), what="a loss that is one")


def test_a_retry_that_met_no_store_is_made_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bookie that returned in an outage would wait for the next bookie that returns."""
    outcomes = [MetadataUnavailableError("store", "it is away")]
    is_retried = threading.Event()

    def retry(_tasks: UnderreplicationStore) -> int:
        if outcomes:
            raise outcomes.pop()
        is_retried.set()
        return 0

    monkeypatch.setattr(UnderreplicationStore, "retry_unrepairable", retry)
    cluster.start("first")

    assert is_retried.wait(30)
