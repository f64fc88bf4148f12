"""Reading a log from any position, ledger by ledger.

The reader moves to the next ledger only when the present one is closed, so that its end is known:
the entries read are always a prefix of the log. Nothing here fences.

Runs in the thread that iterates.
"""

from collections.abc import Callable, Generator, Iterator

from zbk.client.log.driver import LedgerClient
from zbk.client.log.tail import LogTail, log_entries
from zbk.errors import NoSuchLedgerError, NoSuchLogError, ZbkError
from zbk.metadata.records.logs import LogStore
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.position import LogEntry, LogPosition
from zbk.system.deadline import within


class LogReading:
    """One log to read. ``confirmed`` returns the LAC of a ledger as far as it is known already."""

    def __init__(
        self,
        name: str,
        client: LedgerClient,
        store: LogStore,
        password: bytes,
        *,
        confirmed: Callable[[int], int] = lambda _ledger_id: NO_ENTRY,
    ) -> None:
        self._name = name
        self._client = client
        self._store = store
        self._password = password
        self._confirmed = confirmed

    def entries(self, start: LogPosition | None = None) -> Iterator[LogEntry]:
        """Yield the entries from ``start`` on, up to the present LAC. As ``batches``."""
        for batch in self.batches(start):
            yield from log_entries(batch)

    def batches(self, start: LogPosition | None = None) -> Iterator[ReadBatch]:
        """Yield the entries from ``start`` on in batches, each of one ledger, in order.

        Stops at the LAC of the first ledger that is not closed.

        Raises:
            NoSuchLogError: there is no such log.
            LogTruncatedError: the next entries were truncated.
            InvalidOptionError: the log has no such ledger as ``start`` names.
        """
        log, _ = self._store.read(self._name)
        index = log.first_index if start is None else log.place_of(start)
        first = 0 if start is None else start.entry_id
        while (ledger_id := log.ledger_at(index)) is not None:
            try:
                is_closed = yield from self._ledger(ledger_id, first)
            except NoSuchLedgerError as error:
                raise gone(self._refresh(log), index, error) from error
            if not is_closed:
                return
            index, first = index + 1, 0
            if log.ledger_at(index) is None:
                log = self._refresh(log)

    def tail(self, start: LogPosition | None = None, *, timeout: float | None = None) -> LogTail:
        """Return an iterator over the entries from ``start`` on, including those to come."""
        with within(timeout):
            log, _ = self._store.read(self._name)
        return LogTail(log, self._client, self._store, self._password, start, timeout)

    def _ledger(self, ledger_id: int, first: int) -> Generator[ReadBatch, None, bool]:
        """Yield the confirmed entries of a ledger; return whether the ledger is closed."""
        with self._client.open_ledger(ledger_id, self._password) as reader:
            is_closed = reader.is_closed_ledger
            if not is_closed:
                reader.learn(reader.metadata, self._confirmed(ledger_id))
            last = reader.last_add_confirmed
            if first <= last:
                yield from reader.read_batches(first, last)
        return is_closed

    def _refresh(self, known: LogMetadata) -> LogMetadata:
        log, _ = self._store.read(self._name)
        if log.log_id != known.log_id:  # deleted; this is a new one with its name
            raise NoSuchLogError(self._name)
        return log


def gone(log: LogMetadata, index: int, error: NoSuchLedgerError) -> ZbkError:
    """Return why a ledger of a log does not exist: truncated, or deleted by hand."""
    try:
        log.ledger_at(index)
    except ZbkError as truncated:
        return truncated
    return error
