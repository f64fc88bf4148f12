"""Logs on a metadata store in memory, and ledgers that know fencing.

A test module that wants the fixture imports it by name.
"""

from collections.abc import Iterator
from typing import cast

import pytest

from tests.support.fake_log_ledgers import FakeLedgers
from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.client.log.driver import LedgerClient
from zbk.client.log.log import Log, LogSetup
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.records.logs import LogStore


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
    """A metadata store and ledgers, without any log."""
    cluster = Cluster()
    yield cluster
    cluster.close()
