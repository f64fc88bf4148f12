"""A replication worker puts ledgers aside that cannot be repaired, and names a way out."""

from typing import cast

import msgspec
import pytest

from tests.support.audit_ledgers import ledger
from tests.support.lone_worker import (
    LEDGER_ID,
    FakeConnection,
    Holders,
    SilentBookies,
    connection,
    tree,
    worker,
    worker_on,
)
from tests.support.memory_store import MemoryStore
from tests.support.waiting import wait_until
from zbk.auditor.worker import ReplicationWorker
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.protocol.ledger.changes import change_ensemble

__all__ = ["connection", "tree", "worker"]


def test_a_ledger_is_not_put_aside_when_its_bookie_comes_back_just_then(
    connection: FakeConnection, worker: ReplicationWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The auditor has handed out again what was put aside, and this was not yet."""
    alone = msgspec.structs.replace(ledger(1, ("a",)), ledger_key=bytes(16))
    ledger_id = connection.ledgers.create(lambda _number: alone)[0].ledger_id
    put_aside = connection.tasks.mark_unrepairable

    def comes_back(
        ledger_id: int, version: int, why: str, *, ledger_version: int | msgspec.UnsetType
    ) -> bool:
        is_done = put_aside(ledger_id, version, why, ledger_version=ledger_version)
        connection.there |= {"a"}
        return is_done

    monkeypatch.setattr(connection.tasks, "mark_unrepairable", comes_back)
    connection.tasks.report(ledger_id, ["a"], MissingReason.LOST)
    worker.start()

    wait_until(lambda: "a" in connection.there, what="the third attempt")
    wait_until(lambda: not list(connection.tasks.list_unrepairable()), what="another attempt")
    assert list(connection.tasks.list()) == [ledger_id]


def in_limbo_alone(connection: FakeConnection) -> Holders:
    """Lose b and c, too: a is all that is left, in limbo, without any entry."""
    metadata, _version = connection.ledgers.read(LEDGER_ID)
    holders = Holders(metadata)
    holders.entries["a"].clear()
    holders.in_limbo.add("a")
    connection.requests = cast("SilentBookies", holders)
    connection.there = frozenset({"a", "d"})
    return holders


def test_a_ledger_whose_last_holder_is_in_limbo_is_put_aside_with_a_way_out(
    connection: FakeConnection, caplog: pytest.LogCaptureFixture
) -> None:
    """Seed 7300606: it was tried for ever, as that bookie waits for peers that are not there."""
    in_limbo_alone(connection)
    connection.tasks.report(LEDGER_ID, ["b", "c"], MissingReason.LOST)
    with worker_on(connection) as worker:
        worker.start()
        wait_until(lambda: "ledger 0 cannot be repaired" in caplog.text, what="the end")

    task = connection.tasks.read_unrepairable(LEDGER_ID)
    assert task is not None
    assert "10 entries, 0 .. 9: no available bookie has a replica; a lost data" in (
        task.unrepairable
    )
    assert "start b, c again" in task.unrepairable
    assert "zbk ledger cat 0 --first N --last M" in task.unrepairable
    assert "zbk ledger delete 0" in task.unrepairable


def test_an_open_ledger_whose_bookies_are_gone_is_put_aside_and_tried_when_they_are_back(
    connection: FakeConnection, caplog: pytest.LogCaptureFixture
) -> None:
    """Seed 56000615: its recovery was tried for ever."""
    made, _version = connection.ledgers.create(
        lambda number: msgspec.structs.replace(
            ledger(number, ("a", "b", "c"), last=None), ledger_key=bytes(16)
        )
    )
    connection.there = frozenset({"c", "d"})
    connection.tasks.report(made.ledger_id, ["a", "b"], MissingReason.LOST)
    with worker_on(connection) as worker:
        worker.start()
        text = f"ledger {made.ledger_id} cannot be repaired"
        wait_until(lambda: text in caplog.text, what="the end")

    task = connection.tasks.read_unrepairable(made.ledger_id)
    assert task is not None
    assert "cannot be without a, b, which have the entries written from 0 on" in (task.unrepairable)
    assert "start a, b again" in task.unrepairable
    assert connection.tasks.retry_unrepairable() == 1


def test_an_open_ledger_that_was_put_aside_is_repaired_after_its_writer_moved_on(
    connection: FakeConnection, caplog: pytest.LogCaptureFixture
) -> None:
    """The fragment that was open is closed then; each day the auditor reports the same bookies."""
    made, _version = connection.ledgers.create(
        lambda number: msgspec.structs.replace(
            ledger(number, ("a", "b", "c"), last=None), ledger_key=bytes(16)
        )
    )
    connection.there = frozenset({"c"})
    connection.tasks.report(made.ledger_id, ["a", "b"], MissingReason.LOST)
    with worker_on(connection) as worker:
        worker.start()
        text = f"ledger {made.ledger_id} cannot be repaired"
        wait_until(lambda: text in caplog.text, what="the end")
    assert not connection.tasks.report(made.ledger_id, ["a", "b"], MissingReason.LOST)

    connection.there = frozenset("cdef")
    replaced = {0: ("a", "e"), 1: ("b", "f")}
    connection.ledgers.update(made.ledger_id, lambda now: change_ensemble(now, 10, replaced))
    assert connection.tasks.report(made.ledger_id, ["a", "b"], MissingReason.LOST)

    with worker_on(connection) as worker:
        worker.start()
        wait_until(lambda: connection.requests.read_count() > 0, what="the copy to begin")


class LeavesLimbo(UnderreplicationStore):
    """Just before a task is put aside, the bookie in limbo learns what it had."""

    def __init__(self, store: MemoryStore, holders: Holders) -> None:
        super().__init__(store)
        self._holders = holders
        self.count = 0

    def mark_unrepairable(
        self,
        ledger_id: int,
        version: int,
        why: str,
        *,
        ledger_version: int | msgspec.UnsetType = msgspec.UNSET,
    ) -> bool:
        self.count += 1
        self._holders.in_limbo.clear()
        return super().mark_unrepairable(ledger_id, version, why, ledger_version=ledger_version)


def test_a_ledger_is_not_put_aside_when_a_bookie_leaves_limbo_just_then(
    connection: FakeConnection,
) -> None:
    """What it got back it had handed out again if that had been put aside then."""
    connection.tasks = tasks = LeavesLimbo(connection.store, in_limbo_alone(connection))
    connection.tasks.report(LEDGER_ID, ["b", "c"], MissingReason.LOST)
    with worker_on(connection) as worker:
        worker.start()
        wait_until(lambda: tasks.count == 2, what="another three attempts")
