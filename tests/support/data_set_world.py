"""Data sets on a tree in memory: those of a driver, and those of others who work on the same ones.

A test module that wants the fixture imports it by name.
"""

from collections.abc import Iterator

import pytest

from tests.support.fake_data_sets import NAME, SCHEMA, Clock, FakeDataSetClient, write_ledger
from tests.support.hooked_store import HookedStore
from tests.support.memory_store import MemoryTree
from zbk.client.dataset.datasets import DataSets
from zbk.metadata.records.ledgers import initialise
from zbk.protocol.dataset.dataset import DataSet, LoadKind


class World:
    """A tree in memory, a driver, and others who work on the same data sets."""

    def __init__(self) -> None:
        self.tree = MemoryTree("data sets")
        self.store = HookedStore(self.tree)  # the driver's
        self.other_store = self.tree.open_session()
        initialise(self.other_store)
        self.payloads: dict[int, list[bytes]] = {}
        self.clock = Clock()
        self.client = FakeDataSetClient(self.store, self.payloads)
        self.other_client = FakeDataSetClient(self.other_store, self.payloads)
        self.sets = self.client.data_sets(self.clock)
        self.others = self.other_client.data_sets(self.clock)

    def load(
        self, ledger_count: int = 1, kind: LoadKind = LoadKind.APPEND, sets: DataSets | None = None
    ) -> DataSet:
        """Load so many ledgers, a row each; return the data set afterwards."""
        by = sets or self.others
        ticket = by.begin(NAME, kind)
        ledgers = [write_ledger(by, ticket, partition=n) for n in range(ledger_count)]
        return by.commit(ticket, SCHEMA, ledgers)

    def ledger_ids(self) -> set[int]:
        return self.other_client.ledger_ids()

    def close(self) -> None:
        self.store.close()
        self.other_store.close()


@pytest.fixture
def world() -> Iterator[World]:
    """A driver and others, who share one tree in memory."""
    world = World()
    yield world
    world.close()
