"""A driver that loads data sets on a tree in memory, and a janitor that removes what loads leave.

A test module that wants the fixture imports it by name.
"""

from collections.abc import Iterator

import pytest

from tests.support.fake_data_sets import NAME, SCHEMA, Clock, FakeDataSetClient, write_ledger
from tests.support.hooked_store import HookedStore
from tests.support.memory_store import MemoryTree
from zbk.client.dataset.datasets import DataSets, LoadTicket
from zbk.metadata.records.ledgers import initialise
from zbk.protocol.dataset.dataset import LoadKind, LoadState


class World:
    """A tree in memory, a driver, and a janitor."""

    def __init__(self) -> None:
        self.tree = MemoryTree("data sets")
        self.payloads: dict[int, list[bytes]] = {}
        self.clock = Clock()
        self.stores: list[HookedStore] = []
        self.clients: list[FakeDataSetClient] = []
        self.driver = self.data_sets()
        initialise(self.stores[0])
        self.janitor = self.data_sets()

    def data_sets(self, password: bytes = b"") -> DataSets:
        """Return those of one more client."""
        self.stores.append(HookedStore(self.tree))
        self.clients.append(FakeDataSetClient(self.stores[-1], self.payloads))
        return self.clients[-1].data_sets(self.clock, password)

    def load(
        self, count: int = 1, kind: LoadKind = LoadKind.APPEND, *, failed_count: int = 0
    ) -> LoadTicket:
        """Commit a load of so many ledgers, beside which some attempts have failed."""
        ticket = self.driver.begin(NAME, kind)
        failed = [write_ledger(self.driver, ticket, attempt=n) for n in range(failed_count)]
        ledgers = [write_ledger(self.driver, ticket, attempt=len(failed)) for _ in range(count)]
        self.driver.commit(ticket, SCHEMA, ledgers)
        return ticket

    def state(self, ticket: LoadTicket) -> LoadState | None:
        found = self.janitor.loads(NAME).get(ticket.load_id)
        return None if found is None else found.state

    def ledger_ids(self) -> set[int]:
        return self.clients[0].ledger_ids()

    def readable(self) -> list[int]:
        """Return how many ledgers each version lists, all of which are there."""
        counts = []
        for version in self.janitor.history(NAME).versions:
            snapshot = self.janitor.read(NAME, version.version)
            assert {one.ledger_id for one in snapshot.ledgers} <= self.ledger_ids()
            counts.append(len(snapshot.ledgers))
        return counts

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.fixture
def world() -> Iterator[World]:
    """A driver and a janitor, who share one tree in memory."""
    world = World()
    yield world
    world.close()
