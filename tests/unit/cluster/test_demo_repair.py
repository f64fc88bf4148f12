"""The demo's act in which a lost bookie's ledgers become whole, without a cluster."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from tests.support.audit_ledgers import ledger
from zbk.cluster.demo_repair import LostForGood, MadeWhole, QueueLength, SecondLost, repair
from zbk.cluster.local import LocalBookie
from zbk.errors import UnavailableError
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.protocol.ledger.metadata import LedgerMetadata

if TYPE_CHECKING:
    from zbk.client.api import Client
    from zbk.cluster.local import LocalCluster

NAMES = ("b0", "b1", "b2", "b3")


class Cluster:
    """Four bookies that are not there, and metadata that are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metadata_uri = f"sqlite://{folder}/metadata.db"
        self.killed: list[int] = []
        self.options: dict[str, int] = {}
        self.bookies = [
            LocalBookie(
                index=index, bookie_id=name, pid=1, address="", incarnation=1, folder=folder
            )
            for index, name in enumerate(NAMES)
        ]

    def start_autorecovery(self, options: dict[str, int]) -> None:
        self.options = options

    def kill(self, index: int) -> None:
        self.killed.append(index)


class Ledgers:
    """A client's view of two ledgers, of which one names bookie 3."""

    def __init__(self) -> None:
        self.found = {1: ledger(1, NAMES[1:]), 2: ledger(2, NAMES[:3])}

    def list_ledgers(self) -> Iterator[int]:
        return iter(self.found)

    def get_ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        return self.found[ledger_id]


def test_the_queue_is_told_until_nobody_names_the_lost_bookie(tmp_path: Path) -> None:
    cluster, client = Cluster(tmp_path), Ledgers()
    with closing(open_store(cluster.metadata_uri)) as store:
        initialise(store)
        tasks = UnderreplicationStore(store)
        acts = repair(
            cast("LocalCluster", cluster),
            cast("Client", client),
            cluster.bookies[3],
            lambda _what, _count: None,
        )

        assert next(acts) == LostForGood(3, "b3", 1)
        assert cluster.options
        tasks.report(1, ["b3"], MissingReason.LOST)
        first = next(acts)
        assert isinstance(first, QueueLength)
        assert first.task_count == 1
        assert tasks.lock(1, "worker")
        assert tasks.finish(1, 0)
        client.found[1] = ledger(1, NAMES[:3])
        last, whole, second = acts

    assert isinstance(last, QueueLength)
    assert last.task_count == 0
    assert isinstance(whole, MadeWhole)
    assert (whole.ledger_count, whole.indexes) == (1, [0, 1, 2])
    assert second == SecondLost(0, "b0")
    assert cluster.killed == [0]


def test_a_repair_that_does_not_end_names_the_log(tmp_path: Path) -> None:
    cluster, client = Cluster(tmp_path), Ledgers()
    with closing(open_store(cluster.metadata_uri)) as store:
        initialise(store)
    acts = repair(
        cast("LocalCluster", cluster),
        cast("Client", client),
        cluster.bookies[3],
        lambda _what, _count: None,
        timeout_s=0.0,
    )

    next(acts)
    with pytest.raises(UnavailableError, match=r"autorecovery\.log"):
        next(acts)
    assert cluster.killed == []
