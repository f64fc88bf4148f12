"""A ledger's end and the report of what it lacks: both or neither, whatever the store does."""

import logging
from collections.abc import Iterator, Sequence

import pytest

from tests.support.ledgers import metadata_maker
from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.errors import (
    BadVersionError,
    LedgerFencedError,
    MetadataAccessError,
    MetadataUnavailableError,
    NoNodeError,
)
from zbk.metadata.paths import TASK_COUNTER, UNDERREPLICATED_LEDGERS, UNDERREPLICATION, task_path
from zbk.metadata.records.ledger_closing import LedgerCloser, MissingReport
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.stores.arguments import parent_of
from zbk.metadata.stores.store import Create, Operation, SetValue
from zbk.protocol.ledger.changes import close_by_writer
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.underreplicated import UnderreplicatedLedger

NOT_WRITTEN = (MissingReason.NOT_WRITTEN,)
MISSING = MissingReport.not_written({"b3": ((2, 4),)})


class Cluster:
    """An open ledger, the one that closes it, and somebody else in another session."""

    def __init__(self) -> None:
        tree = MemoryTree("closing")
        self.store, self.other_store = tree.open_session(), tree.open_session()
        initialise(self.store)
        self.ledgers = LedgerStore(self.store, pause=lambda _s: None)
        self.others = LedgerStore(self.other_store)
        self.tasks = UnderreplicationStore(self.other_store)
        self.closer = LedgerCloser(self.ledgers, UnderreplicationStore(self.store))
        made, _version = self.ledgers.create(metadata_maker())
        self.ledger_id = made.ledger_id

    def close_ledger(self, report: MissingReport = MISSING) -> LedgerMetadata:
        return self.closer.close(
            self.ledger_id, lambda now: close_by_writer(now, 9, 90), lambda _closed: report
        )

    def task(self) -> UnderreplicatedLedger | None:
        found = self.tasks.read(self.ledger_id)
        return None if found is None else found[0]

    def is_closed(self) -> bool:
        return self.others.read(self.ledger_id)[0].is_closed


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.store.close()
    cluster.other_store.close()


def test_a_ledger_that_lacks_something_is_closed_and_reported(cluster: Cluster) -> None:
    cluster.tasks.report(cluster.ledger_id + 1, ["b1"], MissingReason.LOST)
    before = cluster.store.get(TASK_COUNTER).value

    assert cluster.close_ledger().last_entry_id == 9

    task = cluster.task()
    assert task is not None
    assert task.missing == {"b3": NOT_WRITTEN}
    assert task.ranges == {"b3": ((2, 4),)}
    assert cluster.is_closed()
    assert cluster.store.get(TASK_COUNTER).value != before, "workers are told"


def test_a_ledger_that_is_whole_is_only_closed(cluster: Cluster) -> None:
    cluster.close_ledger(MissingReport.not_written({}))

    assert cluster.is_closed()
    assert cluster.task() is None


def test_a_store_that_does_not_answer_has_done_neither_and_both_come_later(
    cluster: Cluster,
) -> None:
    cluster.store.suspend()
    with pytest.raises(MetadataUnavailableError):
        cluster.close_ledger()
    assert not cluster.is_closed()
    assert cluster.task() is None
    cluster.store.resume()

    cluster.close_ledger()

    assert cluster.is_closed()
    assert cluster.task() is not None


@pytest.mark.parametrize("lost_count", [1, 2, 3])
def test_a_lost_reply_is_read_back(cluster: Cluster, lost_count: int) -> None:
    cluster.store.lose_next_reply(lost_count)  # of the parents, of the close, of the news

    assert cluster.close_ledger().last_entry_id == 9

    task = cluster.task()
    assert task is not None
    assert task.report_count == 1


def test_what_is_reported_already_is_merged(cluster: Cluster) -> None:
    cluster.tasks.report(cluster.ledger_id, ["b1"], MissingReason.LOST)

    cluster.close_ledger()

    task = cluster.task()
    assert task is not None
    assert task.missing == {"b1": (MissingReason.LOST,), "b3": NOT_WRITTEN}


def test_news_at_the_close_makes_failures_count_from_the_beginning(cluster: Cluster) -> None:
    cluster.tasks.report(cluster.ledger_id, ["b1"], MissingReason.LOST)
    cluster.tasks.lock(cluster.ledger_id, "w1")
    cluster.tasks.note_failure(cluster.ledger_id, 0, "nobody has it")

    cluster.close_ledger()  # which lacks entries on b3

    task = cluster.task()
    assert task is not None
    assert task.failure_count == 0


def test_what_was_put_aside_is_handed_out_again(cluster: Cluster) -> None:
    cluster.tasks.report(cluster.ledger_id, ["b1"], MissingReason.LOST)
    cluster.tasks.lock(cluster.ledger_id, "w1")
    assert cluster.tasks.mark_unrepairable(cluster.ledger_id, 0, "nobody has it")

    cluster.close_ledger()

    assert cluster.task() is not None
    assert cluster.tasks.read_unrepairable(cluster.ledger_id) is None


def test_a_ledger_that_somebody_has_closed_at_this_end_is_not_reported(cluster: Cluster) -> None:
    """It was this client, whose reply was lost, or one that has reported it itself."""
    cluster.others.update(cluster.ledger_id, lambda now: now.with_closed(9, 90))

    assert cluster.close_ledger().is_closed

    assert cluster.task() is None


def test_a_ledger_that_is_somebody_elses_to_close_is_not_reported(cluster: Cluster) -> None:
    cluster.others.update(cluster.ledger_id, LedgerMetadata.with_recovery)

    with pytest.raises(LedgerFencedError):
        cluster.close_ledger()

    assert cluster.task() is None


def test_a_damaged_task_keeps_no_ledger_open(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    path = task_path(UNDERREPLICATED_LEDGERS, cluster.ledger_id)
    cluster.other_store.create(path, b"nonsense", make_parents=True)

    with caplog.at_level(logging.WARNING, "zbk.metadata"):
        cluster.close_ledger()

    assert cluster.is_closed()
    (line,) = caplog.messages
    assert f"ledger {cluster.ledger_id} is closed" in line
    assert "bookie b3: entries 2 .. 4" in line
    assert f"zbk ledger check --full {cluster.ledger_id}" in line


class TornTasks(UnderreplicationStore):
    """Tasks that somebody else changes all the time."""

    def report_operations(self, *args: object, **kwargs: object) -> list[Operation]:
        del args, kwargs
        return [SetValue(UNDERREPLICATED_LEDGERS, b"", 1_000)]


def test_a_task_that_others_change_all_the_time_keeps_no_ledger_open(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.closer = LedgerCloser(cluster.ledgers, TornTasks(cluster.store))
    with pytest.raises(BadVersionError):
        cluster.store.multi([SetValue(UNDERREPLICATED_LEDGERS, b"", 1_000)])

    with caplog.at_level(logging.WARNING, "zbk.metadata"):
        cluster.close_ledger()

    assert cluster.is_closed()
    assert "bookie b3: entries 2 .. 4" in caplog.text


class ClosedTasks:
    """The changes of a session whose user may read tasks, and not change them."""

    def __init__(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self._address = store.address
        create, multi = store.create, store.multi

        def refused_create(
            path: str,
            value: bytes = b"",
            *,
            is_ephemeral: bool = False,
            make_parents: bool = False,
        ) -> None:
            self._check([path])
            create(path, value, is_ephemeral=is_ephemeral, make_parents=make_parents)

        def refused_multi(operations: Sequence[Operation]) -> None:
            for one in operations:  # as ZooKeeper: a missing parent is found before the right
                if isinstance(one, Create):
                    store.get(parent_of(one.path))
            self._check([one.path for one in operations])
            multi(operations)

        monkeypatch.setattr(store, "create", refused_create)
        monkeypatch.setattr(store, "multi", refused_multi)

    def _check(self, changed: Sequence[str]) -> None:
        if any(path.startswith(f"{UNDERREPLICATION}/") for path in changed):
            raise MetadataAccessError(self._address, "refused")


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_client_that_may_not_report_closes_the_ledger(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    has_folder: bool,
) -> None:
    if has_folder:
        cluster.tasks.report(cluster.ledger_id + 1, ["b1"], MissingReason.LOST)
    ClosedTasks(cluster.store, monkeypatch)

    with caplog.at_level(logging.WARNING, "zbk.metadata"):
        assert cluster.close_ledger().last_entry_id == 9

    assert cluster.is_closed()
    (line,) = caplog.messages
    assert "bookie b3: entries 2 .. 4" in line
    assert line.endswith("refused"), "the cause is not that others were faster"


def test_a_folder_that_vanishes_while_it_is_made_costs_no_report(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ZooKeeper makes the folders of a path one by one, and a worker removes empty ones."""
    create = cluster.store.create
    failures = [NoNodeError("/folder", "another client removed it")]

    def made(
        path: str, value: bytes = b"", *, is_ephemeral: bool = False, make_parents: bool = False
    ) -> None:
        if make_parents and failures:
            raise failures.pop()
        create(path, value, is_ephemeral=is_ephemeral, make_parents=make_parents)

    monkeypatch.setattr(cluster.store, "create", made)

    cluster.close_ledger()

    task = cluster.task()
    assert not failures
    assert task is not None
    assert task.ranges == {"b3": ((2, 4),)}
    assert cluster.is_closed()
    assert not caplog.records


def test_a_folder_that_vanishes_is_made_again(cluster: Cluster) -> None:
    """A worker that finishes the last task in it removes it."""
    cluster.tasks.report(cluster.ledger_id + 1, ["b1"], MissingReason.LOST)
    cluster.tasks.lock(cluster.ledger_id + 1, "w1")
    assert cluster.tasks.finish(cluster.ledger_id + 1, 0)

    cluster.close_ledger()

    assert cluster.task() is not None
