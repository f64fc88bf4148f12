"""Following a ledger while it is written: what ``LedgerReader.tail`` returns."""

from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from zbk.client import arguments
from zbk.client.read.tail_body import TailBody, TailBox, TailSetup
from zbk.errors import RequestTimeoutError
from zbk.protocol.entry.entry import Entry
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.system.clock import monotonic_ms, monotonic_s
from zbk.system.deadline import within

WAIT_S_MAX: Final = 1.0
"""How long a tail sleeps before it looks whether its client is still there."""


class LedgerTail(Iterator[Entry]):
    """The entries of a ledger, those too that are still to come; ends when the ledger is closed.

    One thread at a time iterates. It sees each entry once it is confirmed, across ensemble
    changes, lost bookies and recoveries. With a ``timeout`` the wait for one entry ends with
    ``RequestTimeoutError``; the tail is as good as before, and the next call waits again.

    Until it has ended or is closed, a tail keeps a watch in the metadata store; closing its reader
    closes it too.

    Example:
        >>> import zbk
        >>> with zbk.connect() as client, client.open_ledger(7) as reader:  # doctest: +SKIP
        ...     for entry in reader.tail():
        ...         print(entry.entry_id, entry.payload)
    """

    def __init__(self, setup: TailSetup, first: int) -> None:
        self._setup = setup
        self._box = TailBox()
        self._body = TailBody(setup, first, self._box)
        self._entries: Iterator[Entry] = iter(())

    def __repr__(self) -> str:
        return f"<LedgerTail {self._body!r}>"

    def __iter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def last_add_confirmed(self) -> int:
        """How far the ledger was confirmed when last heard."""
        return self._body.lac

    def __next__(self) -> Entry:
        """Return the next entry; wait for it.

        Raises:
            RequestTimeoutError: none came within ``timeout``; call again to wait on.
            NoSuchLedgerError: the ledger was deleted.
            NotEnoughBookiesError, ...: the cluster was not to be reached for long.
        """
        while True:
            for entry in self._entries:
                return entry
            batch = self.next_batch()
            if batch is None:
                raise StopIteration
            self._entries = batch.entries()

    def batches(self) -> Iterator[ReadBatch]:
        """Yield the entries in batches, as they come."""
        while (batch := self.next_batch()) is not None:
            yield batch

    def next_batch(self, *, timeout: float | None = None) -> ReadBatch | None:
        """Return the next entries; wait for them; ``None``: the ledger is closed, that was all.

        ``timeout``, in seconds, is for this call, in place of the tail's own.
        """
        timeout_s = self._setup.timeout_s if timeout is None else arguments.seconds(timeout)
        with within(timeout_s):  # the first call looks into the metadata store
            return self._next_batch(timeout_s)

    def _next_batch(self, timeout_s: float | None) -> ReadBatch | None:
        deadline_s = None if timeout_s is None else monotonic_s() + timeout_s
        body = self._body
        while True:
            if body.error is not None:
                raise body.error
            if body.is_over:
                return None
            self._setup.check_usable()
            body.start()
            batch = body.next_batch()
            if batch is not None:
                return batch
            if not body.is_over:
                self._wait(deadline_s, timeout_s)

    def close(self) -> None:
        """End it. Twice is fine; any thread."""
        self._body.close()

    def _wait(self, deadline_s: float | None, timeout_s: float | None) -> None:
        """Handle what has come in, or note that time has passed."""
        left_s = WAIT_S_MAX if deadline_s is None else max(0.0, deadline_s - monotonic_s())
        wait_s = min(WAIT_S_MAX, left_s)
        due_ms = self._body.due_ms
        if due_ms is not None:
            wait_s = max(0.0, min(wait_s, (due_ms - monotonic_ms()) / 1000))
        came = self._box.next(wait_s)
        if came is not None:
            self._body.take(came[1])
        elif left_s == 0.0:
            raise RequestTimeoutError(f"tail of ledger {self._body.ledger_id}", timeout_s or 0.0)
        else:
            self._body.tick()
