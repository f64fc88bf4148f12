"""Metadata of ledgers, in both layouts, on a store in memory that fails on cue.

A test module that wants the fixture imports it by name.
"""

from collections.abc import Iterator

import pytest

from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.values import Layout, LedgerLayout


class Cluster:
    """A tree, two clients of it, and what pauses they made."""

    def __init__(self, layout: LedgerLayout) -> None:
        self.tree = MemoryTree("test")
        self.store = self.tree.open_session()
        self.other_store = self.tree.open_session()
        initialise(self.store, Layout(ledger_layout=layout))
        self.pauses_s: list[float] = []
        self.ledgers = self.client(self.store)
        self.others = self.client(self.other_store)

    def client(self, store: MemoryStore) -> LedgerStore:
        return LedgerStore(store, pause=self.pauses_s.append)

    def close(self) -> None:
        self.store.close()
        self.other_store.close()


@pytest.fixture(params=LedgerLayout)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster without ledgers, of each layout, and two clients of its tree."""
    cluster = Cluster(request.param)
    yield cluster
    cluster.close()
