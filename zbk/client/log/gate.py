"""The gate of a log's appends: they enter one ledger at a time, in order.

An append holds the gate while it is handed to the current ledger's writer. A *switch* to the next
ledger holds it, too, until all appends to the old one are answered; other appends wait meanwhile.
So no entry of the new ledger is acknowledged before an older one of the old ledger.

Any thread.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final

from zbk.client.write.ledger_writer import LedgerWriter
from zbk.durability.level import level_of
from zbk.errors import RequestTimeoutError, ZbkError
from zbk.protocol.log.position import LogPosition
from zbk.system.clock import monotonic_ms, monotonic_s
from zbk.system.interrupts import held

DRAIN_WAIT_S: Final = 1.0
"""The longest wait before a switch checks that its client is still open."""


class AppendGate:
    """Admits appends to the current ledger's writer."""

    def __init__(self, check_usable: Callable[[], None]) -> None:
        self._check_usable = check_usable
        self._lock = threading.RLock()
        self._writer: LedgerWriter | None = None
        self._last: Future[Any] | None = None  # of the last append: they are answered in order
        self.last_position: LogPosition | None = None  # written here before the current ledger
        self._end: ZbkError | None = None
        self.entry_count = 0  # appended to the current ledger
        self.size = 0  # bytes of payload, likewise
        self._first_ms = 0

    @property
    def writer(self) -> LedgerWriter:
        """The writer of the current ledger.

        Raises:
            ZbkError: the gate is closed.
        """
        if self._end is not None:
            raise self._end
        assert self._writer is not None, "the take-over has ended"
        return self._writer

    @property
    def age_ms(self) -> int:
        """The time since the first append to the current ledger; 0 without any."""
        return monotonic_ms() - self._first_ms if self.entry_count else 0

    def append(
        self,
        send: "Callable[[LedgerWriter, float], Future[Any]]",
        payloads: Sequence[bytes],
        timeout_s: float,
    ) -> "tuple[int, Future[Any]]":
        """Append entries to the current ledger by ``send``; return its id and the future.

        ``send`` receives the writer and the rest of ``timeout_s``.

        Raises:
            RequestTimeoutError: the gate was held for ``timeout_s``; nothing was appended.
            ZbkError: the gate is closed, or ``send`` failed.
        """
        with self._held(timeout_s) as left_s:
            writer = self.writer
            future = send(writer, left_s)
            self._last = future
            if not self.entry_count:
                self._first_ms = monotonic_ms()
            self.entry_count += len(payloads)
            self.size += sum(map(len, payloads))
            return writer.ledger_id, future

    def switch(self, new: LedgerWriter) -> None:
        """Wait for all appends to the current ledger; later ones go to ``new``.

        Raises:
            CannotAdvanceError, RequestTimeoutError: a VD ledger could not be synced.
            ZbkError: an append failed.
        """
        with self._lock:
            old = self._writer
            if old is not None and self._last is not None:
                self._drain(old, self._last)
                self.last_position = LogPosition(old.ledger_id, old.last_add_pushed)
            self._writer = new
            self._last = None
            self.entry_count = self.size = 0

    def close(self, error: ZbkError) -> None:
        """Refuse every later append. The first error stays."""
        if self._end is None:
            self._end = error

    def _drain(self, writer: LedgerWriter, last: "Future[Any]") -> None:
        while not last.done():
            self._check_usable()
            try:
                last.exception(DRAIN_WAIT_S)
            except TimeoutError:
                continue
        error = last.exception()
        if error is not None:
            raise error
        if level_of(writer.metadata.ledger_type).has_sync_cursor:
            writer.sync()

    @contextmanager
    def _held(self, timeout_s: float) -> Iterator[float]:
        """Hold the gate; yield the rest of ``timeout_s``."""
        deadline_s = monotonic_s() + timeout_s
        with held(self._lock, timeout_s) as is_held:
            if not is_held:
                raise RequestTimeoutError("append to a busy log", timeout_s)
            yield max(0.0, deadline_s - monotonic_s())
