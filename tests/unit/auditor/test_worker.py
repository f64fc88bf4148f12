"""A replication worker: its locks, its attempts at a task, and its rest while there is none."""

from typing import cast

import pytest

from tests.support.lone_worker import (
    HOLD_MS,
    LEDGER_ID,
    FakeConnection,
    Holders,
    NoPlace,
    OnePlace,
    SilentBookies,
    connection,
    tree,
    worker,
    worker_on,
)
from tests.support.memory_store import MemoryTree
from tests.support.waiting import wait_until
from zbk.auditor.ledger_access import LedgerAccess
from zbk.auditor.repair_reports import WHOLE_REPORT_MS
from zbk.auditor.task_queue import POLL_S, QUIET_POLL_S
from zbk.auditor.worker import ReplicationWorker
from zbk.errors import RequestTimeoutError
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.system.clock import monotonic_ms

__all__ = ["connection", "tree", "worker"]


def test_a_worker_drops_its_ledger_while_its_session_is_in_doubt(
    tree: MemoryTree,
    connection: FakeConnection,
    worker: ReplicationWorker,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F19: another one takes the lock and the work; it is taken again when it is free."""
    caplog.set_level("INFO", "zbk.auditor")
    before = connection.ledgers.read(LEDGER_ID)
    connection.tasks.report(LEDGER_ID, ["a"], MissingReason.LOST)
    worker.start()
    wait_until(lambda: connection.requests.read_count() > 0, what="the copy to begin")
    assert connection.tasks.holds(LEDGER_ID)

    connection.store.suspend()
    connection.store.expire_session()  # it hears of it when it is heard again
    connection.store.settle()
    assert "1 repairs are dropped" in caplog.text
    read_count = connection.requests.read_count()
    session = tree.open_session()
    others = UnderreplicationStore(session)
    assert others.lock(LEDGER_ID, "another one")
    resumed_ms = monotonic_ms()
    connection.store.resume()
    wait_until(lambda: connection.tasks.locked() == {LEDGER_ID: "another one"})
    assert connection.requests.read_count() == read_count
    others.unlock(LEDGER_ID)

    wait_until(lambda: connection.requests.read_count() > read_count, what="another attempt")
    assert monotonic_ms() >= resumed_ms + HOLD_MS, "bookies are given time to come back"
    assert connection.tasks.holds(LEDGER_ID)
    assert connection.ledgers.read(LEDGER_ID) == before
    session.close()


def test_a_worker_looks_seldom_while_no_task_is_listed_and_hears_of_the_first_one(
    connection: FakeConnection, worker: ReplicationWorker
) -> None:
    worker.start()
    wait_until(lambda: worker._pause_s() == QUIET_POLL_S, what="it has found none")

    connection.tasks.report(LEDGER_ID, ["a"], MissingReason.LOST)

    wait_until(lambda: connection.requests.read_count() > 0, what="the copy to begin")
    assert worker._pause_s() == POLL_S


def test_damage_that_was_mended_in_place_is_not_mended_again_by_the_next_attempt(
    connection: FakeConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another slot keeps the task; the mended bookie is only compared from then on."""
    targets: list[str] = []

    def copy(_access: LedgerAccess, order: CopyOrder) -> CopyResult:
        targets.append(order.target)
        return CopyResult(copied_count=order.entry_count)

    monkeypatch.setattr(LedgerAccess, "copy", copy)
    metadata, _version = connection.ledgers.read(LEDGER_ID)
    connection.requests = cast("SilentBookies", Holders(metadata))
    connection.placer = cast("OnePlace", NoPlace())
    connection.there = frozenset("ac")
    connection.tasks.report(LEDGER_ID, ["a"], MissingReason.DAMAGED)
    connection.tasks.report(LEDGER_ID, ["b"], MissingReason.LOST)
    with worker_on(connection) as worker:
        worker.start()
        wait_until(lambda: failure_count_of(connection) > 1, what="the second attempt")

    found = connection.tasks.read(LEDGER_ID)
    assert found is not None
    assert targets == ["a"]
    assert found[0].missing == {"a": (MissingReason.CHECKED,), "b": (MissingReason.LOST,)}
    assert "need 1 bookies, have 0: to take the place of b" in found[0].failure


def failure_count_of(connection: FakeConnection) -> int:
    found = connection.tasks.read(LEDGER_ID)
    return 0 if found is None else found[0].failure_count


def test_a_bookie_that_is_to_be_compared_is_waited_for_and_then_given_up(
    connection: FakeConnection,
) -> None:
    """The auditor has reported the ledgers of b before this one came to need it."""
    metadata, _version = connection.ledgers.read(LEDGER_ID)
    holders = Holders(metadata)
    holders.errors["d"] = RequestTimeoutError("add", 5)  # so that the task stays
    connection.requests = cast("SilentBookies", holders)
    connection.there = frozenset({"a", "c", "d"})
    connection.tasks.report(LEDGER_ID, ["b"], MissingReason.NOT_WRITTEN, ranges={"b": [(3, 5)]})
    begun_ms = monotonic_ms()
    with worker_on(connection) as worker:
        worker.start()
        wait_until(lambda: MissingReason.LOST in missing_of(connection), what="the end of patience")

    assert monotonic_ms() >= begun_ms + HOLD_MS
    found = connection.tasks.read(LEDGER_ID)
    assert found is not None
    assert found[0].ranges == {"b": ((3, 5),)}


def missing_of(connection: FakeConnection) -> tuple[MissingReason, ...]:
    found = connection.tasks.read(LEDGER_ID)
    return found[0].missing["b"] if found is not None else ()


def test_ledgers_that_need_no_copy_are_reported_together(
    connection: FakeConnection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "zbk.auditor")
    clock_ms = [1_000_000]

    def reports() -> list[str]:
        return [message for message in caplog.messages if "whole" in message]

    with worker_on(connection, lambda: clock_ms[0]) as worker:
        for ledger_id in range(100, 120):  # of which nothing is left
            connection.tasks.report(ledger_id, ["a"], MissingReason.LOST)
        worker.start()
        wait_until(lambda: not list(connection.tasks.list()), what="the end of all tasks")
        assert [text.partition(" is ")[2] for text in reports()] == ["whole: it was deleted"]

        clock_ms[0] += WHOLE_REPORT_MS
        wait_until(lambda: len(reports()) > 1, what="the report")

    assert reports()[1].startswith("19 ledgers are whole, 0 entries copied; the last was ledger 1")
    assert len(reports()) == 2
