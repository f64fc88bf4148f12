"""The job of a decommissioning that is stopped."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.fake_connection import FakeConnection
from tests.support.memory_store import MemoryTree
from tests.support.waiting import wait_until
from zbk.admin.cluster import Cluster
from zbk.admin.jobs import Jobs
from zbk.admin.moves import decommission_bookie
from zbk.auditor.manual import Decommission, LedgerLoss
from zbk.errors import BookieInUseError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import initialise
from zbk.metadata.values import Cookie

GIVEN = {
    "bookie_src": "b-1",
    "delete_cookie": True,
    "give_up_count": 0,
    "password": b"",
    "grace_ms": 0,
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    store = MemoryTree().open_session()
    cookie = Cookie(
        bookie_id="b-1",
        instance_id=initialise(store),
        journal_dirs=(),
        ledger_dirs=(),
        created_ms=1,
    )
    BookieRegistry(store).create_cookie(cookie)
    made = cast("Cluster", SimpleNamespace(jobs=Jobs(), connection=FakeConnection(store)))
    yield made
    made.jobs.close()
    store.close()


def test_a_job_that_is_stopped_while_it_states_losses_is_stopped(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_leaving: Decommission) -> list[LedgerLoss]:
        cluster.jobs.stop(1)
        raise BookieInUseError("b-1", "it was stopped")

    monkeypatch.setattr(Decommission, "losses", stopped)
    decommission_bookie(cluster, GIVEN)
    (job,) = cluster.jobs.list()
    wait_until(lambda: job.ended_ms is not None)
    assert (job.state, job.error) == ("stopped", "")
    assert cluster.connection.registry.read_cookie("b-1") is not None


def test_a_job_that_cannot_state_losses_is_failed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_leaving: Decommission) -> list[LedgerLoss]:
        raise BookieInUseError("b-1", "it is running")

    monkeypatch.setattr(Decommission, "losses", refused)
    decommission_bookie(cluster, GIVEN)
    (job,) = cluster.jobs.list()
    wait_until(lambda: job.ended_ms is not None)
    assert job.state == "failed"
