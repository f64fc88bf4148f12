"""A replication worker without a cluster: a store, and bookies that answer reads or do not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, cast

import msgspec
import pytest

from tests.support.audit_ledgers import ledger
from tests.support.fake_holders import FakeHolders
from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.worker import ReplicationWorker
from zbk.client.cluster.ledger_calls import LedgerCalls
from zbk.client.cluster.requests import Requests
from zbk.config import AutorecoveryConfig, ClientConfig
from zbk.errors import RequestTimeoutError, UnknownLedgerStateError
from zbk.metadata.records.ledgers import LedgerStore, initialise
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.system.clock import monotonic_ms
from zbk.transport.events import Reply, Sink
from zbk.wire.messages import Message, Read

LEDGER_ID = 0
HOLD_MS = 500


class SilentBookies(Requests):
    """Get requests and do not answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Message]] = []

    def send(
        self,
        bookie_id: str,
        request: Message,
        frames: tuple[bytes, ...],
        box: Sink,
        key: object,
        *,
        wait_ms: int = 0,
        needs_own_try: bool = False,
    ) -> None:
        """Note a request."""
        del frames, box, key, wait_ms, needs_own_try
        self.asked.append((bookie_id, request))

    def ask(self, *_request: object, **_options: object) -> NoReturn:
        """Fail a request that is waited for."""
        raise RequestTimeoutError("a request", 0.1)

    def read_count(self) -> int:
        """Return how many reads have come."""
        return sum(isinstance(request, Read) for _bookie_id, request in self.asked)


class OnePlace:
    """There is one bookie that may take a place."""

    def replacements(
        self, ensemble: tuple[str, ...], slots: list[int], *, exclude: object, needs: object
    ) -> dict[int, str]:
        """Return the one bookie for each slot."""
        del ensemble, exclude, needs
        return dict.fromkeys(slots, "d")

    def note_failed(self, bookie_ids: list[str]) -> None:
        """Ignore bookies that have failed."""
        del bookie_ids


class NoPlace(OnePlace):
    """There is none."""

    def replacements(
        self, ensemble: tuple[str, ...], slots: list[int], *, exclude: object, needs: object
    ) -> dict[int, str]:
        """Return no bookie."""
        del ensemble, slots, exclude, needs
        return {}


class Holders(FakeHolders):
    """Answer at once; one in limbo says neither yes nor no of what it has not."""

    def send(
        self,
        bookie_id: str,
        request: Message,
        frames: tuple[bytes, ...],
        box: Sink,
        key: object,
        *,
        wait_ms: int = 0,
        needs_own_try: bool = False,
    ) -> None:
        """Answer at once."""
        is_first_held = not isinstance(request, Read) or (
            request.first_entry_id in self.entries[bookie_id]
        )
        if bookie_id in self.in_limbo and not is_first_held:
            box.deliver([Reply(bookie_id, key, UnknownLedgerStateError(LEDGER_ID, bookie_id), ())])
        else:
            super().send(bookie_id, request, frames, box, key, wait_ms=wait_ms)


class FakeConnection:
    """As ``ClusterConnection``: a session, and bookies b, c and d; a is lost."""

    def __init__(self, store: MemoryStore) -> None:
        self.config = ClientConfig()
        self.store = store
        self.ledgers = LedgerStore(store)
        self.tasks = UnderreplicationStore(store)
        self.requests = SilentBookies()
        self.placer = OnePlace()
        self.there = frozenset("bcd")

    def registered(self) -> frozenset[str]:
        """Return the bookies that are there."""
        return self.there

    def has_left_limbo(self, bookie_id: str, ledger_id: int) -> bool:
        """Return whether a bookie has left limbo, as it says."""
        return not LedgerCalls(self.requests, ledger_id).info(bookie_id).is_in_limbo

    def check_usable(self) -> None:
        """It always is."""


@pytest.fixture
def tree() -> MemoryTree:
    """Return the metadata of a cluster."""
    return MemoryTree("worker")


@pytest.fixture
def connection(tree: MemoryTree) -> Iterator[FakeConnection]:
    """Return a connection to a cluster with one closed ledger, of bookies a, b and c."""
    made = FakeConnection(tree.open_session())
    initialise(made.store)
    model = ledger(LEDGER_ID, ("a", "b", "c"))
    made.ledgers.create(lambda _number: msgspec.structs.replace(model, ledger_key=bytes(16)))
    yield made
    made.store.close()


@contextmanager
def worker_on(
    connection: FakeConnection, now_ms: Callable[[], int] = monotonic_ms
) -> Iterator[ReplicationWorker]:
    """Make a worker that retries soon; stop it at the end."""
    config = AutorecoveryConfig(
        worker_count=1,
        brake_hold_ms=HOLD_MS,
        repair_retry_ms_max=16,
        lost_bookie_delay_ms=0,
        open_ledger_grace_ms=0,
    )
    failures: list[BaseException] = []
    made = ReplicationWorker(
        cast("ClusterConnection", connection), "worker", config, failures.append, now_ms=now_ms
    )
    try:
        yield made
    finally:
        made.stop()
    assert not failures


@pytest.fixture
def worker(connection: FakeConnection) -> Iterator[ReplicationWorker]:
    """Return a worker that is not started yet."""
    with worker_on(connection) as made:
        yield made
