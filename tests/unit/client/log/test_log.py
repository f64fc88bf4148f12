"""Log, its driver and its gate: on a list in memory, and ledgers that know fencing."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

import pytest

from tests.support.fake_log_ledgers import FakeLedgers
from tests.support.interrupts import raising_handlers
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.waiting import wait_until
from zbk.client.log.driver import LedgerClient
from zbk.client.log.log import Log, LogSetup
from zbk.errors import (
    AccessDeniedError,
    CannotAdvanceError,
    LogClosedError,
    LogFencedError,
    MetadataUnavailableError,
    NotEnoughBookiesError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.records.logs import LogStore
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.log.position import LogPosition, LogRange


class Cluster:
    """A metadata store, ledgers, and logs on them."""

    def __init__(self) -> None:
        self.tree = MemoryTree("logs")
        self.ledgers = FakeLedgers()
        self.stores: list[MemoryStore] = []
        initialise(self.store())

    def store(self) -> MemoryStore:
        self.stores.append(self.tree.open_session())
        return self.stores[-1]

    def log(
        self, store: MemoryStore | None = None, *, roll_size: int = 10**9, roll_ms: int = 0
    ) -> Log:
        logs = LogStore(store or self.store(), pause=lambda _seconds: None)
        logs.create("orders", 0)
        return Log(
            LogSetup(
                name="orders",
                client=cast("LedgerClient", self.ledgers),
                store=logs,
                options={},
                roll_size=roll_size,
                roll_ms=roll_ms,
                default_timeout_s=10.0,
            )
        )

    def listed(self) -> tuple[int, ...]:
        return LogStore(self.stores[0]).read("orders")[0].ledger_ids

    def payloads(self) -> list[bytes]:
        return [p for ledger_id in self.listed() for p in self.ledgers.entries[ledger_id]]

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


def test_appends_get_positions(cluster: Cluster) -> None:
    log = cluster.log()

    assert log.append(b"a") == LogPosition(0, 0)
    assert log.append_async(b"b").result(5) == LogPosition(0, 1)
    assert log.append_many([b"c", b"d"]).result(5) == LogRange(0, range(2, 4))
    assert not log.append_many([]).result(5)
    assert cluster.payloads() == [b"a", b"b", b"c", b"d"]


def test_a_roll_puts_the_new_ledger_into_the_list_before_anything_goes_to_it(
    cluster: Cluster,
) -> None:
    log = cluster.log()
    log.append(b"a")
    listed_at_first: list[tuple[int, ...]] = []
    cluster.ledgers.on_append = lambda _ledger_id: listed_at_first.append(cluster.listed())

    log.roll()
    log.append(b"b")

    assert listed_at_first == [(0, 1)]
    assert cluster.ledgers.closed == {0}
    assert log.ledger_id == 1


def test_nothing_goes_to_the_new_ledger_before_the_old_one_has_answered(cluster: Cluster) -> None:
    log = cluster.log()
    cluster.ledgers.hold()
    first = log.append_async(b"a")
    rolled = threading.Thread(target=log.roll, daemon=True)
    rolled.start()
    wait_until(lambda: cluster.listed() == (0, 1), what="the new list")

    with pytest.raises(RequestTimeoutError, match="busy"):
        log.append_async(b"b", timeout=0.05)
    cluster.ledgers.release()
    rolled.join(10)

    assert first.result(5) == LogPosition(0, 0)
    assert log.append(b"b") == LogPosition(1, 0)


def test_an_append_that_fails_during_a_roll_ends_the_log(cluster: Cluster) -> None:
    log = cluster.log()
    cluster.ledgers.hold()
    first = log.append_async(b"a")
    failures: list[BaseException] = []

    def roll() -> None:
        try:
            log.roll()
        except LogFencedError as error:
            failures.append(error)

    rolling = threading.Thread(target=roll, daemon=True)
    rolling.start()
    wait_until(lambda: cluster.listed() == (0, 1), what="the new list")
    cluster.ledgers.fence(0)
    cluster.ledgers.release()
    rolling.join(10)

    assert isinstance(first.exception(5), LogFencedError)
    assert len(failures) == 1
    with pytest.raises(LogFencedError):
        log.append(b"b")
    assert cluster.ledgers.entries[1] == []


def test_the_loser_of_a_duel_gets_a_typed_error(cluster: Cluster) -> None:
    first = cluster.log()
    first.append(b"1")
    second = cluster.log()

    with pytest.raises(LogFencedError) as caught:
        first.append(b"lost?")
    assert caught.value.outcome == "unknown"
    assert second.append(b"2") == LogPosition(1, 0)
    for call in (lambda: first.append(b"x"), first.roll, first.sync, first.close):
        with pytest.raises(LogFencedError):
            cast("Callable[[], Any]", call)()
    assert cluster.payloads() == [b"1", b"2"]


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_take_over_whose_reply_was_lost_is_settled(cluster: Cluster, is_applied: bool) -> None:
    cluster.log().append(b"1")
    store = cluster.store()
    log_store = LogStore(store)
    create = cluster.ledgers.create_ledger

    def create_and_lose(**options: Any) -> Any:  # noqa: ANN401 - what create_ledger takes
        if is_applied:
            store.lose_next_reply()
        else:
            store.fail_next()  # the write that follows
        return create(**options)

    cluster.ledgers.create_ledger = create_and_lose  # type: ignore[method-assign]  # a fake's
    log = cluster.log(store)

    assert log.append(b"2") == LogPosition(1, 0)
    assert log_store.read("orders")[0].ledger_ids == (0, 1)


def test_a_ledger_made_for_nothing_is_deleted(cluster: Cluster) -> None:
    first = cluster.log()
    first.append(b"1")
    create = cluster.ledgers.create_ledger
    second: list[Log] = []

    def create_and_be_late(**options: Any) -> Any:  # noqa: ANN401 - what create_ledger takes
        made = create(**options)
        cluster.ledgers.create_ledger = create  # type: ignore[method-assign]  # a fake's
        second.append(cluster.log())
        return made

    cluster.ledgers.create_ledger = create_and_be_late  # type: ignore[method-assign]  # a fake's
    with pytest.raises(LogFencedError):
        first.roll()

    assert cluster.listed() == (0, 2)
    assert cluster.ledgers.deleted == {1}
    assert second[0].append(b"2") == LogPosition(2, 0)


def test_a_roll_that_finds_no_bookies_leaves_the_log_as_it_is(cluster: Cluster) -> None:
    log = cluster.log()
    log.append(b"a")
    cluster.ledgers.create_failure = NotEnoughBookiesError(3, 1, "for a ledger")

    with pytest.raises(NotEnoughBookiesError):
        log.roll()
    assert log.append(b"b") == LogPosition(0, 1)
    cluster.ledgers.create_failure = None
    log.roll()
    assert log.append(b"c") == LogPosition(1, 0)


def test_a_ledger_that_could_not_be_closed_is_closed_before_the_next_roll(
    cluster: Cluster,
) -> None:
    log = cluster.log()
    log.append(b"a")
    cluster.ledgers.close_failures = 1
    log.roll()
    assert cluster.ledgers.closed == set()
    log.append(b"b")
    log.roll()

    assert cluster.ledgers.closed == {0, 1}


def test_a_ledger_that_could_not_be_closed_is_closed_without_another_append(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers stop at its end, whatever is acknowledged after it."""
    monkeypatch.setattr("zbk.client.log.log.ROLL_RETRY_MS", 1)
    log = cluster.log()
    for older in range(2):
        log.append(b"a")
        cluster.ledgers.close_failures = 3
        log.roll()
        log.append(b"b")

        wait_until(partial(cluster.ledgers.closed.__contains__, older))

        assert log.ledger_id == older + 1


def test_a_ledger_that_could_not_be_closed_is_left_to_others_when_the_client_is_closed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("zbk.client.log.log.ROLL_RETRY_MS", 1)
    log = cluster.log()
    log.append(b"a")
    cluster.ledgers.close_failures = 10**9
    cluster.ledgers.is_closed = True

    log._driver.roll()
    log._begin_closing_older()

    wait_until(lambda: not log._is_closing_older)
    assert cluster.ledgers.closed == set()
    assert caplog.records == []


def test_a_log_is_not_closed_before_a_ledger_that_is_being_recovered(cluster: Cluster) -> None:
    """Its recoverer died: a log that is closed would read short."""
    log = cluster.log()
    log.append(b"a")
    cluster.ledgers.close_failures = 1
    log.roll()
    log.append(b"b")
    cluster.ledgers.fence(0)

    log.close()

    assert cluster.ledgers.closed == {0, 1}


def test_a_sync_beside_a_roll_does_not_lose_the_log(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The roll has closed, and so synced, the ledger that the sync began with."""
    log = cluster.log()
    last = log.append(b"a")
    sync = cluster.ledgers.sync

    def roll_first(ledger_id: int) -> None:
        monkeypatch.setattr(cluster.ledgers, "sync", sync)
        log.roll()
        sync(ledger_id)

    monkeypatch.setattr(cluster.ledgers, "sync", roll_first)

    assert log.sync() == last
    assert log.append(b"b") == LogPosition(1, 0)


def test_nothing_goes_to_the_new_ledger_before_the_old_vd_ledger_is_synced(
    cluster: Cluster,
) -> None:
    """The close that follows the switch syncs as well, but it may fail."""
    cluster.ledgers.ledger_type = LedgerType.VD_JOURNAL
    log = cluster.log()
    log.append(b"a")
    durable_at_append: list[list[bytes]] = []
    cluster.ledgers.on_append = lambda _ledger_id: durable_at_append.append(
        cluster.ledgers.durable[0]
    )
    cluster.ledgers.close_failures = 1

    log.roll()
    assert cluster.ledgers.closed == set()
    assert log.append(b"b") == LogPosition(1, 0)

    assert durable_at_append == [[b"a"]]


def test_a_vd_ledger_that_cannot_be_synced_is_not_left(cluster: Cluster) -> None:
    cluster.ledgers.ledger_type = LedgerType.VD_JOURNAL
    log = cluster.log()
    log.append(b"a")
    cluster.ledgers.sync_failure = CannotAdvanceError(0, -1, 0, "two bookies are silent")

    with pytest.raises(CannotAdvanceError):
        log.roll()
    assert log.append(b"b") == LogPosition(0, 1)

    cluster.ledgers.sync_failure = None
    log.roll()
    assert log.append(b"c") == LogPosition(1, 0)
    assert cluster.ledgers.durable[0] == [b"a", b"b"]


def test_a_log_rolls_by_itself_when_enough_was_appended(cluster: Cluster) -> None:
    log = cluster.log(roll_size=10)
    for _ in range(3):
        log.append(b"1234")
    wait_until(lambda: log.ledger_id == 1, what="the roll")

    assert log.append(b"x") == LogPosition(1, 0)


def test_an_empty_ledger_is_not_rolled(cluster: Cluster) -> None:
    log = cluster.log()
    log.roll()
    assert cluster.listed() == (0,)

    log.append(b"a")
    log.roll()
    log.roll()
    assert cluster.listed() == (0, 1)


def test_a_truncation_deletes_the_ledgers_before_the_position_and_no_other(
    cluster: Cluster,
) -> None:
    log = cluster.log()
    positions = []
    for payload in (b"a", b"b", b"c", b"d"):
        positions.append(log.append(payload))
        log.roll()

    assert log.truncate(positions[0]) == 0
    assert log.truncate(positions[2]) == 2

    assert cluster.ledgers.deleted == {0, 1}
    assert cluster.payloads() == [b"c", b"d"]
    assert log.truncate(log.append(b"e")) == 2, "those before the current one are closed"
    assert cluster.payloads() == [b"e"]


def test_a_truncation_leaves_a_ledger_that_is_not_closed_and_all_after_it(
    cluster: Cluster,
) -> None:
    """Its owner may have died in the roll: the next one recovers it."""
    log = cluster.log()
    log.append(b"a")
    log.roll()
    log.append(b"b")
    cluster.ledgers.close_failures = 1
    log.roll()
    last = log.append(b"c")

    assert log.truncate(last) == 1
    assert cluster.payloads() == [b"b", b"c"]


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (AccessDeniedError(1, "bob", "delete"), {1}),
        (MetadataUnavailableError("memory://", "no answer"), {1, 2, 3}),
    ],
)
def test_a_truncation_names_the_ledgers_that_it_could_not_delete(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, error: ZbkError, left: set[int]
) -> None:
    """The log does not name them any more, so no later truncation finds them."""
    log = cluster.log()
    for payload in (b"a", b"b", b"c", b"d"):
        log.append(payload)
        log.roll()
    last = log.append(b"e")
    delete = cluster.ledgers.delete_ledger

    def refuse_one(ledger_id: int) -> None:
        if ledger_id == 1:
            raise error
        delete(ledger_id)

    monkeypatch.setattr(cluster.ledgers, "delete_ledger", refuse_one)
    with pytest.raises(type(error)) as raised:
        log.truncate(last)

    assert cluster.ledgers.deleted == {0, 1, 2, 3} - left
    assert f"not deleted yet: {', '.join(map(str, sorted(left)))};" in raised.value.__notes__[0]


def test_close_closes_the_current_ledger_and_refuses_appends(cluster: Cluster) -> None:
    with cluster.log() as log:
        log.append(b"a")
        assert log.sync() == LogPosition(0, 0)
    log.close()

    assert cluster.ledgers.closed == {0}
    for call in (lambda: log.append(b"b"), log.roll, log.sync, log.read):
        with pytest.raises(LogClosedError):
            cast("Callable[[], Any]", call)()


class InterruptedCondition(threading.Condition):
    """One interrupt arrives as soon as its lock is acquired."""

    is_interrupted = False

    def __enter__(self) -> bool:
        is_acquired = super().__enter__()
        if not self.is_interrupted:
            self.is_interrupted = True
            signal.raise_signal(signal.SIGINT)
        return is_acquired


def test_a_close_that_was_interrupted_is_repeated(cluster: Cluster) -> None:
    log = cluster.log()
    log.append(b"a")
    log._closed._cond = InterruptedCondition(threading.Lock())  # type: ignore[attr-defined]
    with raising_handlers(), pytest.raises(KeyboardInterrupt):
        log.close()

    log.close()

    assert cluster.ledgers.closed == {0}


def test_a_close_that_failed_is_tried_again(cluster: Cluster) -> None:
    log = cluster.log()
    log.append(b"a")
    cluster.ledgers.close_failures = 2
    for _ in range(2):
        with pytest.raises(MetadataUnavailableError):
            log.close()
    assert cluster.ledgers.closed == set()

    log.close()

    assert cluster.ledgers.closed == {0}
    log.close()


def test_a_log_that_is_lost_after_a_close_that_failed_says_so(cluster: Cluster) -> None:
    first = cluster.log()
    first.append(b"a")
    cluster.ledgers.close_failures = 1
    with pytest.raises(MetadataUnavailableError):
        first.close()
    cluster.log().append(b"b")

    for _ in range(2):
        with pytest.raises(LogFencedError):
            first.close()
    assert cluster.payloads() == [b"a", b"b"]


def test_futures_cannot_be_cancelled(cluster: Cluster) -> None:
    log = cluster.log()
    cluster.ledgers.hold()
    future: Future[LogPosition] = log.append_async(b"a")

    assert not future.cancel()
    cluster.ledgers.release()
    assert future.result(5) == LogPosition(0, 0)
