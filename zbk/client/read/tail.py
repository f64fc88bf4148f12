"""Following a ledger while it is written: what ``LedgerReader.tail`` returns."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Final, TypeVar

from zbk.client import arguments
from zbk.client.arrivals import pause_s
from zbk.client.read.tail_body import TailBody, TailBox, TailSetup
from zbk.errors import RequestTimeoutError
from zbk.protocol.entry.entry import Entry
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.system.clock import monotonic_s
from zbk.system.deadline import within
from zbk.system.handle import Handle

EntryT = TypeVar("EntryT")

WAIT_S_MAX: Final = 1.0
"""The longest wait before a tail checks that its client is still open."""


class EntryTail(Handle, Iterator[EntryT]):
    """Entries that are followed while they are written, one by one or in batches."""

    def __init__(self) -> None:
        self._entries: Iterator[EntryT] = iter(())

    def __next__(self) -> EntryT:
        """Return the next entry; wait for it. Raises as ``next_batch``."""
        while True:
            for entry in self._entries:
                return entry
            batch = self.next_batch()
            if batch is None:
                raise StopIteration
            self._entries = self._entries_of(batch)

    def batches(self) -> Iterator[ReadBatch]:
        """Yield the entries in batches, each of one ledger, as they come."""
        while (batch := self.next_batch()) is not None:
            yield batch

    @abstractmethod
    def next_batch(self) -> ReadBatch | None:
        """Return the next entries; wait for them; ``None`` at the end."""

    @abstractmethod
    def _entries_of(self, batch: ReadBatch) -> Iterator[EntryT]: ...


class LedgerTail(EntryTail[Entry]):
    """The entries of a ledger, including those still to come; ends when the ledger is closed.

    One thread at a time iterates. It receives each entry once it is confirmed, across ensemble
    changes, lost bookies and recoveries. With a ``timeout`` the wait for one entry ends with
    ``RequestTimeoutError``; the tail is as good as before, and the next call waits again.

    Until it has ended or is closed, a tail keeps a watch in the metadata store. Closing its reader
    closes it too.

    Examples:
        >>> import zbk
        >>> with zbk.connect() as client, client.open_ledger(7) as reader:  # doctest: +SKIP
        ...     for entry in reader.tail():
        ...         print(entry.entry_id, entry.payload)
    """

    def __init__(self, setup: TailSetup, first: int) -> None:
        super().__init__()
        self._setup = setup
        self._box = TailBox()
        self._body = TailBody(setup, first, self._box)

    def __repr__(self) -> str:
        return f"<LedgerTail {self._body!r}>"

    @property
    def last_add_confirmed(self) -> int:
        """The LAC of the ledger as this tail knows it; -1 is none."""
        return self._body.lac

    def next_batch(self, *, timeout: float | None = None) -> ReadBatch | None:
        """Return the next entries; wait for them; ``None`` after the end of a closed ledger.

        ``timeout``, in seconds, is for this call, in place of the tail's own.

        Raises:
            RequestTimeoutError: none came within ``timeout``; call again to wait on.
            NoSuchLedgerError: the ledger was deleted.
            NotEnoughBookiesError, ...: the cluster could not be reached for long.
        """
        timeout_s = self._setup.timeout_s if timeout is None else arguments.seconds(timeout)
        with within(timeout_s):  # the first call reads the metadata store
            return self._next_batch(timeout_s)

    def close(self) -> None:
        """End the tail. Closing twice is allowed. Any thread."""
        self._body.close()

    def _entries_of(self, batch: ReadBatch) -> Iterator[Entry]:
        return batch.entries()

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
            if body.is_over:
                continue
            came = self._box.next(pause_s(WAIT_S_MAX, deadline_s, body.due_ms))
            if came is not None:
                body.take(came[1])
            elif deadline_s is not None and monotonic_s() >= deadline_s:
                raise RequestTimeoutError(f"tail of ledger {body.ledger_id}", timeout_s or 0.0)
            else:
                body.tick()
