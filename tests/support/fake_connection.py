"""The connection of a repairing process without a cluster: a store, and no bookie that answers."""

from collections.abc import Callable
from typing import Any

from zbk.errors import BookieUnavailableError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.store import MetadataStore
from zbk.wire.messages import CollectGarbage, GarbageStatus, Message


class FakeRequests:
    """Answers what a test gives it."""

    def __init__(self) -> None:
        self.garbage = GarbageStatus(request_id=0, awaited_round=3, ended_round=2)

    def call(self, bookie_id: str, request: Message, _kind: type[Message]) -> Message:
        if not isinstance(request, CollectGarbage):
            raise BookieUnavailableError(bookie_id, "it is a fake")
        assert not request.is_round_wanted
        return self.garbage


class FakeConnection:
    """What operations use of a ``ClusterConnection``."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self.registry = BookieRegistry(store)
        self.tasks = UnderreplicationStore(store)
        self.ledgers = LedgerStore(store)
        self.requests = FakeRequests()
        self.placer: Any = None
        self.on_registered: Callable[[], None] = lambda: None

    def registered(self) -> frozenset[str]:
        self.on_registered()
        return frozenset(self.registry.available())

    def close(self) -> None:
        self.store.close()
