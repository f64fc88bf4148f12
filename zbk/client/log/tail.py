"""Following a log while it is written, from ledger to ledger and from owner to owner.

Runs in the thread that iterates; changes of the list come from the metadata store's thread.
"""

import threading
from collections.abc import Iterator
from typing import Final

from zbk.client.log.driver import LedgerClient
from zbk.client.read.ledger_reader import LedgerReader
from zbk.client.read.tail import EntryTail, LedgerTail
from zbk.errors import (
    MetadataUnavailableError,
    NoSuchLedgerError,
    NoSuchLogError,
    RequestTimeoutError,
    UnavailableError,
    ZbkError,
)
from zbk.metadata.records.logs import LogStore
from zbk.metadata.stores.store import Watch
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.position import LogEntry, LogPosition
from zbk.system.clock import monotonic_s
from zbk.system.deadline import left_s, within

LOOK_S: Final = 5.0
"""The interval at which the list is read even if no change was reported."""

OPEN_PAUSE_MIN_S: Final = 0.05
OPEN_PAUSE_MAX_S: Final = 1.0
OUTAGE_S: Final = 60.0
"""The time for which a ledger that cannot be opened is retried."""


class _LatestList:
    """The latest list that the metadata store reported."""

    def __init__(self, log: LogMetadata) -> None:
        self._changed = threading.Condition()
        self._log: LogMetadata | None = log
        self._version = -1

    def see(self, found: tuple[LogMetadata, int] | None) -> None:
        """Record a list and its version; ``None``: the log was deleted."""
        with self._changed:
            if found is None:
                self._log = None
            elif self._log is not None and found[1] > self._version:
                self._log, self._version = found
            self._changed.notify_all()

    def wait(self, known: LogMetadata, timeout_s: float) -> LogMetadata | None:
        """Return a list other than ``known``, or ``known`` if none comes in time."""
        with self._changed:
            if self._log == known:
                self._changed.wait(timeout_s)
            return self._log

    def wake(self) -> None:
        """Wake the waiting thread."""
        with self._changed:
            self._changed.notify_all()


class LogTail(EntryTail[LogEntry]):
    """The entries of a log, including those still to come. It never ends by itself.

    One thread at a time iterates. The tail moves to the next ledger when the present one is closed:
    by its owner, soon after the log was rolled, or by the next owner, which recovers it. With a
    ``timeout`` the wait for one entry ends with ``RequestTimeoutError``; the tail is as good as
    before, and the next call waits again.

    Until it is closed a tail keeps a watch in the metadata store.
    """

    def __init__(
        self,
        log: LogMetadata,
        client: LedgerClient,
        store: LogStore,
        password: bytes,
        start: LogPosition | None,
        timeout_s: float | None,
    ) -> None:
        super().__init__()
        self._log = log
        self._client = client
        self._store = store
        self._password = password
        self._timeout_s = timeout_s
        self._index = log.first_index if start is None else log.place_of(start)
        self._first = 0 if start is None else start.entry_id
        self._latest = _LatestList(log)
        self._watch: Watch = store.watch(log, self._latest.see)
        self._reader: LedgerReader | None = None
        self._tail: LedgerTail | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<LogTail {self._log.name} in ledger number {self._index}>"

    def next_batch(self) -> ReadBatch | None:
        """Return the next entries; wait for them; ``None`` after the tail was closed.

        Raises:
            RequestTimeoutError: none came within ``timeout``; call again to wait on.
            LogTruncatedError: the next entries were truncated.
            NoSuchLogError: the log was deleted.
        """
        with within(self._timeout_s):
            return self._next_batch()

    def _entries_of(self, batch: ReadBatch) -> Iterator[LogEntry]:
        return log_entries(batch)

    def _next_batch(self) -> ReadBatch | None:
        deadline_s = None if self._timeout_s is None else monotonic_s() + self._timeout_s
        while not self._is_closed:
            self._client.check_usable()
            if self._tail is None:
                self._enter(deadline_s)
                continue
            try:
                batch = self._tail.next_batch(timeout=_left_s(deadline_s))
            except NoSuchLedgerError as error:
                self._leave()
                raise self._gone(error) from error
            except ZbkError as error:
                if isinstance(error, RequestTimeoutError):
                    self._check_deadline(deadline_s)  # the ledger's tail is as good as before
                self._leave()
                raise
            if batch is not None:
                self._first = batch.last_entry_id + 1
                return batch
            self._leave()
            if not self._is_closed:  # the ledger is closed, and all of it was read
                self._index, self._first = self._index + 1, 0
        return None

    def close(self) -> None:
        """End the tail. Closing twice is allowed. Any thread."""
        self._is_closed = True
        self._watch.cancel()
        self._latest.wake()
        self._leave()

    # ------------------------------------------------------------------ private

    def _enter(self, deadline_s: float | None) -> None:
        """Open the next ledger, or wait until there is one."""
        ledger_id = self._log.ledger_at(self._index)
        if ledger_id is None:
            self._check_deadline(deadline_s)
            left_s = _left_s(deadline_s)
            self._wait_for_list(LOOK_S if left_s is None else min(LOOK_S, left_s))
            return
        reader = self._open(ledger_id, deadline_s)
        if reader is not None:
            self._reader = reader
            self._tail = reader.tail(self._first)

    def _open(self, ledger_id: int, deadline_s: float | None) -> LedgerReader | None:
        """Open a ledger; retry while bookies or metadata do not answer."""
        outage_s = monotonic_s() + OUTAGE_S
        pause = threading.Event()
        pause_s = OPEN_PAUSE_MIN_S
        while not self._is_closed:
            self._client.check_usable()
            try:
                return self._client.open_ledger(ledger_id, self._password)
            except NoSuchLedgerError as error:
                raise self._gone(error) from error
            except UnavailableError:
                if monotonic_s() > outage_s:
                    raise
            self._check_deadline(deadline_s)
            pause.wait(left_s(pause_s))
            pause_s = min(OPEN_PAUSE_MAX_S, 2 * pause_s)
        return None

    def _leave(self) -> None:
        reader, self._reader, self._tail = self._reader, None, None
        if reader is not None:
            reader.close()

    def _wait_for_list(self, timeout_s: float) -> None:
        known = self._log
        found = self._latest.wait(known, timeout_s)
        if found == known:
            try:
                found = self._read_list()
            except MetadataUnavailableError:
                return
        if found is None:
            raise NoSuchLogError(known.name)
        self._log = found

    def _read_list(self) -> LogMetadata | None:
        found, version = self._store.read(self._log.name)
        if found.log_id != self._log.log_id:
            return None
        self._latest.see((found, version))
        return found

    def _gone(self, error: NoSuchLedgerError) -> ZbkError:
        """Return why the present ledger does not exist: truncated, or deleted by hand."""
        try:
            log = self._read_list()
            if log is None:
                return NoSuchLogError(self._log.name)
            log.ledger_at(self._index)
        except ZbkError as reason:
            return reason
        return error

    def _check_deadline(self, deadline_s: float | None) -> None:
        if deadline_s is not None and monotonic_s() >= deadline_s:
            raise RequestTimeoutError(f"tail of log {self._log.name}", self._timeout_s or 0.0)


def log_entries(batch: ReadBatch) -> Iterator[LogEntry]:
    """Yield the entries of a batch with their positions in the log."""
    ledger_id = batch.ledger_id
    for entry_id, payload in zip(batch.entry_ids, batch, strict=True):
        yield LogEntry(LogPosition(ledger_id, entry_id), payload)


def _left_s(deadline_s: float | None) -> float | None:
    return None if deadline_s is None else max(0.0, deadline_s - monotonic_s())
