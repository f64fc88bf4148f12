"""Following many ledgers in one thread: what ``Client.tail_group`` returns."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from zbk.client import arguments
from zbk.client.arrivals import pause_s
from zbk.client.deadlines import Deadlines
from zbk.client.read.ledger_reader import LedgerReader
from zbk.client.read.tail_body import TailBody, TailBox
from zbk.errors import RequestTimeoutError, ZbkError
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.system.clock import monotonic_ms, monotonic_s
from zbk.system.handle import Handle

WAIT_S_MAX: Final = 1.0
"""The longest wait before a group checks that its client is still open."""


class TailedBatch(msgspec.Struct, frozen=True):
    """Entries of one ledger of a group, or the end of that ledger if ``batch`` is ``None``.

    ``error`` says why the ledger cannot be followed any more. If it is ``None`` at the end, the
    ledger is closed and all of its entries were delivered.
    """

    reader: LedgerReader
    batch: ReadBatch | None
    error: ZbkError | None = None

    @property
    def is_last(self) -> bool:
        """True when no more items of this ledger follow."""
        return self.batch is None


class TailGroup(Handle, Iterator[TailedBatch]):
    """Many ledgers that one thread follows while they are written.

    Their entries come in batches, those of each ledger in order; ledgers take turns. All of them
    share one request to each bookie, so a ledger without new entries costs memory only. When a
    ledger is closed and all of it was delivered, or when it cannot be followed any more, a last
    item without entries reports that, and the others continue. The iteration ends when no ledger
    is left.

    One thread at a time uses a group. Closing a reader takes its ledger out of the group, without
    a last item.

    Examples:
        >>> import zbk
        >>> with zbk.connect() as client, client.tail_group() as group:  # doctest: +SKIP
        ...     for ledger_id in (7, 8, 9):
        ...         group.add(client.open_ledger(ledger_id))
        ...     for item in group:
        ...         for entry in item.batch.entries() if item.batch else ():
        ...             print(entry.ledger_id, entry.entry_id, entry.payload)
    """

    def __init__(self, check_usable: Callable[[], None]) -> None:
        self._check_usable = check_usable
        self._box = TailBox()
        self._readers: dict[TailBody, LedgerReader] = {}
        self._ready: dict[TailBody, None] = {}  # those that may have entries
        self._deadlines = Deadlines[TailBody]()

    def __repr__(self) -> str:
        return f"<TailGroup of {len(self._readers)} ledgers>"

    def __len__(self) -> int:
        """Return the number of ledgers in the group."""
        return len(self._readers)

    def add(self, reader: LedgerReader, first: int = 0) -> None:
        """Follow a reader's ledger from the entry ``first`` on.

        Raises:
            ReaderClosedError: the reader was closed.
        """
        reader = arguments.instance("reader", reader, LedgerReader)
        body = reader.begin_tail(first, self._box)
        self._readers[body] = reader
        self._ready[body] = None

    def __next__(self) -> TailedBatch:
        """Return the next entries of any ledger; wait for them."""
        item = self.next_item()
        if item is None:
            raise StopIteration
        return item

    def next_item(self, *, timeout: float | None = None) -> TailedBatch | None:
        """Return the next entries of any ledger; wait for them; ``None`` if no ledger is left.

        Raises:
            RequestTimeoutError: none came within ``timeout`` seconds; call again to wait on.
            ClientClosedError: the client was closed.
        """
        timeout_s = arguments.optional_seconds(timeout)
        deadline_s = None if timeout_s is None else monotonic_s() + timeout_s
        while True:
            self._check_usable()
            item = self._next_ready()
            if item is not None or not self._readers:
                return item
            self._wait(deadline_s, timeout_s)

    def close(self) -> None:
        """End all tails; the readers stay open. Closing twice is allowed."""
        for body in self._readers:
            body.close()
        self._readers.clear()
        self._ready.clear()

    # ------------------------------------------------------------------ private

    def _next_ready(self) -> TailedBatch | None:
        """Return the entries of the next ledger that has any, or its last item."""
        while self._ready:
            body = next(iter(self._ready))
            del self._ready[body]
            reader = self._readers.get(body)
            if reader is None:
                continue
            try:
                body.start()
            except ZbkError as error:  # the metadata cannot be watched
                body.close()
                del self._readers[body]
                return TailedBatch(reader, None, error)
            batch = body.next_batch()
            if batch is not None:
                self._ready[body] = None  # after the others
                return TailedBatch(reader, batch)
            self._deadlines.put(body, body.due_ms)
            if body.is_over:
                del self._readers[body]
                if body.error is not None or not reader.is_closed:
                    return TailedBatch(reader, None, body.error)
        return None

    def _wait(self, deadline_s: float | None, timeout_s: float | None) -> None:
        """Handle the items that arrived, and the tails that are due."""
        came = self._box.next(pause_s(WAIT_S_MAX, deadline_s, self._deadlines.next_ms))
        if came is not None:
            for body, item in (came, *self._box.take_all()):
                body.take(item)
                self._ready[body] = None
        elif deadline_s is not None and monotonic_s() >= deadline_s:
            raise RequestTimeoutError(f"tail of {len(self)} ledgers", timeout_s or 0.0)
        for body in self._deadlines.take_due(monotonic_ms()):
            body.tick()
            self._ready[body] = None
