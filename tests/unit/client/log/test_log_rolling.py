"""Rolls of a log to a new ledger: the list, the old ledger's answers, its sync and its close."""

import threading
from functools import partial

import pytest

from tests.support.log_cluster import Cluster, cluster
from tests.support.waiting import wait_until
from zbk.errors import (
    CannotAdvanceError,
    LogFencedError,
    NotEnoughBookiesError,
    RequestTimeoutError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.log.position import LogPosition

__all__ = ["cluster"]


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
