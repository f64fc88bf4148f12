"""The close of a log: it is repeated after an interrupt or a failure, and ends older ledgers."""

import signal
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.support.interrupts import raising_handlers
from tests.support.log_cluster import Cluster, cluster
from zbk.errors import LogClosedError, LogFencedError, MetadataUnavailableError
from zbk.protocol.log.position import LogPosition

__all__ = ["cluster"]


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
