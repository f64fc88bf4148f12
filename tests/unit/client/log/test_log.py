"""Appends to a log over its driver and its gate, and the take-over of a log by another owner."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

import pytest

from tests.support.log_cluster import Cluster, cluster
from zbk.client.log.log import Log
from zbk.errors import LogFencedError
from zbk.metadata.records.logs import LogStore
from zbk.protocol.log.position import LogPosition, LogRange

__all__ = ["cluster"]


def test_appends_get_positions(cluster: Cluster) -> None:
    log = cluster.log()

    assert log.append(b"a") == LogPosition(0, 0)
    assert log.append_async(b"b").result(5) == LogPosition(0, 1)
    assert log.append_many([b"c", b"d"]).result(5) == LogRange(0, range(2, 4))
    assert not log.append_many([]).result(5)
    assert cluster.payloads() == [b"a", b"b", b"c", b"d"]


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


def test_futures_cannot_be_cancelled(cluster: Cluster) -> None:
    log = cluster.log()
    cluster.ledgers.hold()
    future: Future[LogPosition] = log.append_async(b"a")

    assert not future.cancel()
    cluster.ledgers.release()
    assert future.result(5) == LogPosition(0, 0)
