"""Ledgers as logs use them: made, appended to, fenced, closed, deleted; in memory."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from tests.support.ledgers import metadata_maker
from zbk.errors import (
    ClientClosedError,
    LedgerClosedError,
    LedgerFencedError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    ZbkError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata


class FakeLedgerWriter:
    """Appends at once; answers at once, or when what is held is released."""

    def __init__(self, ledgers: "FakeLedgers", ledger_id: int) -> None:
        self._ledgers = ledgers
        self.ledger_id = ledger_id
        self.metadata = ledgers.new_metadata(ledger_id)

    @property
    def last_add_pushed(self) -> int:
        return len(self._ledgers.entries[self.ledger_id]) - 1

    last_add_confirmed = last_add_pushed

    def append_async(self, payload: bytes, *, timeout: float | None = None) -> "Future[int]":
        return self._ledgers.append(self.ledger_id, [payload], lambda ids: ids.start)

    def append_many(
        self, payloads: Iterable[bytes], *, timeout: float | None = None
    ) -> "Future[range]":
        return self._ledgers.append(self.ledger_id, list(payloads), lambda ids: ids)

    def sync(self, *, timeout: float | None = None) -> int:
        self._ledgers.sync(self.ledger_id)
        return self.last_add_pushed

    def close(self, *, timeout: float | None = None) -> int:
        return self._ledgers.close(self.ledger_id)


class FakeReader:
    def close(self) -> None:
        """Give nothing back."""


class FakeLedgers:
    """What a client does with ledgers. ``durable`` has what a sync or a close has covered."""

    def __init__(self) -> None:
        self.ledger_type = LedgerType.PD_JOURNAL
        self.entries: dict[int, list[bytes]] = {}
        self.durable: dict[int, list[bytes]] = {}
        self.fenced: set[int] = set()
        self.closed: set[int] = set()
        self.deleted: set[int] = set()
        self.create_failure: ZbkError | None = None
        self.sync_failure: ZbkError | None = None
        self.close_failures = 0
        self.is_closed = False
        self.on_append: Callable[[int], None] = lambda _ledger_id: None
        self._lock = threading.RLock()
        self._held: list[Callable[[], None]] | None = None
        self._next_id = 0

    def check_usable(self) -> None:
        if self.is_closed:
            raise ClientClosedError

    def create_ledger(self, **options: Any) -> FakeLedgerWriter:  # noqa: ANN401 - create's
        if self.create_failure is not None:
            raise self.create_failure
        ledger_id = self._next_id
        self._next_id += 1
        self.entries[ledger_id] = []
        self.durable[ledger_id] = []
        return FakeLedgerWriter(self, ledger_id)

    def recover_ledger(self, ledger_id: int, password: bytes = b"") -> FakeReader:
        self.check_usable()
        if ledger_id not in self.entries:
            raise NoSuchLedgerError(ledger_id)
        self.fenced.add(ledger_id)
        self.closed.add(ledger_id)
        return FakeReader()

    def get_ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        metadata = self.new_metadata(ledger_id)
        return metadata.with_closed(-1, 0) if ledger_id in self.closed else metadata

    def new_metadata(self, ledger_id: int) -> LedgerMetadata:
        """Return the metadata of a ledger without entries."""
        return metadata_maker(ledger_type=self.ledger_type)(ledger_id)

    def delete_ledger(self, ledger_id: int) -> None:
        del self.entries[ledger_id]
        self.deleted.add(ledger_id)

    def fence(self, ledger_id: int) -> None:
        self.fenced.add(ledger_id)

    def check(self, ledger_id: int) -> None:
        if ledger_id in self.fenced:
            raise LedgerFencedError(ledger_id)

    def sync(self, ledger_id: int) -> None:
        self.check(ledger_id)
        if self.sync_failure is not None:
            raise self.sync_failure
        self.durable[ledger_id] = list(self.entries[ledger_id])

    def close(self, ledger_id: int) -> int:
        if self.close_failures:
            self.close_failures -= 1
            raise MetadataUnavailableError("memory://", "the reply was lost")
        if ledger_id in self.fenced:
            raise LedgerClosedError(ledger_id)
        self.fenced.add(ledger_id)
        self.closed.add(ledger_id)
        self.durable[ledger_id] = list(self.entries[ledger_id])
        return len(self.entries[ledger_id]) - 1

    def hold(self) -> None:
        """Answer nothing until ``release``."""
        self._held = []

    def release(self) -> None:
        with self._lock:
            held, self._held = self._held or [], None
            for answer in held:
                answer()

    def append(
        self, ledger_id: int, payloads: list[bytes], result: Callable[[range], Any]
    ) -> "Future[Any]":
        future: Future[Any] = Future()

        def answer() -> None:
            if ledger_id in self.fenced:
                future.set_exception(LedgerFencedError(ledger_id))
                return
            entries = self.entries[ledger_id]
            ids = range(len(entries), len(entries) + len(payloads))
            entries += payloads
            future.set_result(result(ids))

        self.on_append(ledger_id)
        with self._lock:
            if self._held is None:
                answer()
            else:
                self._held.append(answer)
        return future
