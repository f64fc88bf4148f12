"""What a replication worker does when its session with the metadata store is in doubt."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, cast

import msgspec
import pytest

from tests.support.audit_ledgers import ledger
from tests.support.fake_holders import FakeHolders
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.ledger_access import LedgerAccess
from zbk.auditor.repair_reports import WHOLE_REPORT_MS
from zbk.auditor.task_queue import POLL_S, QUIET_POLL_S
from zbk.auditor.worker import ReplicationWorker
from zbk.client.cluster.ledger_calls import LedgerCalls
from zbk.client.cluster.requests import Requests
from zbk.config import AutorecoveryConfig, ClientConfig
from zbk.errors import RequestTimeoutError, UnknownLedgerStateError
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.records.underreplication import (
    MissingReason,
    UnderreplicationStore,
)
from zbk.protocol.ledger.changes import change_ensemble
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.system.clock import monotonic_ms
from zbk.transport.events import Reply, Sink
from zbk.wire.messages import Message, Read

LEDGER_ID = 0
HOLD_MS = 500


class SilentBookies(Requests):
    """Get requests and do not answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Message]] = []

    def send(
        self,
        bookie_id: str,
        request: Message,
        frames: tuple[bytes, ...],
        box: Sink,
        key: object,
        *,
        wait_ms: int = 0,
        needs_own_try: bool = False,
    ) -> None:
        """Take a request in."""
        del frames, box, key, wait_ms, needs_own_try
        self.asked.append((bookie_id, request))

    def ask(self, *_request: object, **_options: object) -> NoReturn:
        """Take a request in for which somebody waits."""
        raise RequestTimeoutError("a request", 0.1)

    def read_count(self) -> int:
        return sum(isinstance(request, Read) for _bookie_id, request in self.asked)


class OnePlace:
    """There is one bookie that may take a place."""

    def replacements(
        self, ensemble: tuple[str, ...], slots: list[int], *, exclude: object, needs: object
    ) -> dict[int, str]:
        del ensemble, exclude, needs
        return dict.fromkeys(slots, "d")

    def note_failed(self, bookie_ids: list[str]) -> None:
        del bookie_ids


class NoPlace(OnePlace):
    """There is none."""

    def replacements(
        self, ensemble: tuple[str, ...], slots: list[int], *, exclude: object, needs: object
    ) -> dict[int, str]:
        del ensemble, slots, exclude, needs
        return {}


class FakeConnection:
    """As ``ClusterConnection``: a session, and bookies b, c and d; a is lost."""

    def __init__(self, store: MemoryStore) -> None:
        self.config = ClientConfig()
        self.store = store
        self.ledgers = LedgerStore(store)
        self.tasks = UnderreplicationStore(store)
        self.requests = SilentBookies()
        self.placer = OnePlace()
        self.there = frozenset("bcd")

    def registered(self) -> frozenset[str]:
        return self.there

    def has_left_limbo(self, bookie_id: str, ledger_id: int) -> bool:
        return not LedgerCalls(self.requests, ledger_id).info(bookie_id).is_in_limbo

    def check_usable(self) -> None:
        """It always is."""


@pytest.fixture
def tree() -> MemoryTree:
    return MemoryTree("worker")


@pytest.fixture
def connection(tree: MemoryTree) -> Iterator[FakeConnection]:
    made = FakeConnection(tree.open_session())
    initialise(made.store)
    model = ledger(LEDGER_ID, ("a", "b", "c"))
    made.ledgers.create(lambda _number: msgspec.structs.replace(model, ledger_key=bytes(16)))
    yield made
    made.store.close()


@contextmanager
def worker_on(
    connection: FakeConnection, now_ms: Callable[[], int] = monotonic_ms
) -> Iterator[ReplicationWorker]:
    config = AutorecoveryConfig(
        worker_count=1,
        brake_hold_ms=HOLD_MS,
        repair_retry_ms_max=16,
        lost_bookie_delay_ms=0,
        open_ledger_grace_ms=0,
    )
    failures: list[BaseException] = []
    made = ReplicationWorker(
        cast("ClusterConnection", connection), "worker", config, failures.append, now_ms=now_ms
    )
    try:
        yield made
    finally:
        made.stop()
    assert not failures


@pytest.fixture
def worker(connection: FakeConnection) -> Iterator[ReplicationWorker]:
    with worker_on(connection) as made:
        yield made


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


class Holders(FakeHolders):
    """Answer at once; one in limbo says neither yes nor no of what it has not."""

    def send(
        self,
        bookie_id: str,
        request: Message,
        frames: tuple[bytes, ...],
        box: Sink,
        key: object,
        *,
        wait_ms: int = 0,
        needs_own_try: bool = False,
    ) -> None:
        is_first_held = not isinstance(request, Read) or (
            request.first_entry_id in self.entries[bookie_id]
        )
        if bookie_id in self.in_limbo and not is_first_held:
            box.deliver([Reply(bookie_id, key, UnknownLedgerStateError(LEDGER_ID, bookie_id), ())])
        else:
            super().send(bookie_id, request, frames, box, key, wait_ms=wait_ms)


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
