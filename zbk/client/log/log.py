"""The handle of an application that owns a log: what ``Client.open_log`` returns."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import msgspec

from zbk.client import arguments
from zbk.client.log.driver import LedgerClient, LogDriver
from zbk.client.log.gate import AppendGate
from zbk.client.log.reader import LogReading
from zbk.client.log.tail import LogTail
from zbk.client.log.truncation import truncate
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.client.write.ledger_writer import BytesLike, LedgerWriter
from zbk.config import ENTRY_SIZE_MAX_LIMIT
from zbk.errors import (
    LedgerClosedError,
    LedgerFencedError,
    LogClosedError,
    LogFencedError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.metadata.records.logs import LogStore
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.position import LogEntry, LogPosition, LogRange
from zbk.system.clock import monotonic_ms, monotonic_s
from zbk.system.event_log import EventLog
from zbk.system.handle import WritingHandle
from zbk.system.interrupts import interrupted_later

ResultT = TypeVar("ResultT")

ROLL_RETRY_MS: Final = 5_000
"""The time after a failed roll until appends start the next one."""

LOG = EventLog(__name__)


class LogSetup(msgspec.Struct, frozen=True):
    """The parts that a log works with."""

    name: str
    client: LedgerClient
    store: LogStore
    options: LedgerOptions  # of each new ledger
    roll_size: int  # bytes of payload in a ledger before the log rolls
    roll_ms: int  # age of a ledger's first entry before it rolls; 0: no limit
    default_timeout_s: float


class Log(WritingHandle):
    """A log that this client owns. Any thread may append; entries are in the order of the calls.

    There is one owner at a time. When another client takes the log over, the next append here
    fails with ``LogFencedError``. That append may or may not be in the log, like those that were
    not answered yet. Every acknowledged entry is in the log, in order.

    A log is a list of ledgers. It *rolls*, which means that it continues in a new ledger, after
    ``roll_size`` bytes in the current one, at the first append ``roll_ms`` after its first entry,
    or when ``roll`` is called. The first two happen in an own thread, while appends continue.

    As a context manager it closes the current ledger at the end.

    Source: "The BookKeeper protocol", section Ledgers to logs.
    """

    def __init__(self, setup: LogSetup) -> None:
        self._setup = setup
        self._gate = AppendGate(setup.client.check_usable)
        self._driver = LogDriver(setup.name, setup.client, setup.store, setup.options, self._gate)
        self._roll_lock = threading.Lock()
        self._is_rolling = False
        self._roll_from_ms = 0
        self._is_closing_older = False
        self._closed = threading.Event()
        try:
            self._driver.take_over()
        except BaseException:
            self._driver.abandon()
            raise

    def __repr__(self) -> str:
        state = "closed" if self._closed.is_set() else "lost" if self._driver.is_over else "open"
        return f"<zbk.Log {self.name} {state}>"

    @property
    def _what(self) -> str:
        return f"log {self.name}"

    # ------------------------------------------------------------------ state

    @property
    def name(self) -> str:
        """The log's name."""
        return self._setup.name

    @property
    def ledger_id(self) -> int:
        """The ledger that receives appends now.

        Raises:
            LogFencedError, LogClosedError: the log accepts no more.
        """
        return self._gate.writer.ledger_id

    @property
    def metadata(self) -> LogMetadata:
        """The list of ledgers as this owner last read or wrote it."""
        found = self._driver.log
        assert found is not None, "the take-over has read it"
        return found

    # ------------------------------------------------------------------ append

    def append(self, payload: BytesLike, *, timeout: float | None = None) -> LogPosition:
        """Append an entry; return its position once it is as durable as the ledger type promises.

        ``timeout``, in seconds, is for all waits together.

        Raises:
            EntryTooLargeError: it is over the entry limit; nothing was appended.
            LogFencedError: another client owns the log; the entry may or may not be in it.
            LogClosedError: this handle was closed; nothing was appended.
            RequestTimeoutError: no answer yet; the entry may still be appended.
        """
        timeout_s = self._timeout_s(timeout)  # check it before the append, not after
        deadline_s = monotonic_s() + timeout_s
        future = self.append_async(payload, timeout=timeout_s)
        return self._wait(future, timeout_s, deadline_s)

    def append_async(
        self, payload: BytesLike, *, timeout: float | None = None
    ) -> "Future[LogPosition]":
        """Append an entry; return a future of its position. Blocks while too much is pending.

        Callbacks of the future run in a thread of the client: they must not block.
        """
        timeout_s = self._timeout_s(timeout)
        data = arguments.payload(payload)
        return self._append(
            lambda writer, left_s: writer.append_async(data, timeout=left_s),
            LogPosition,
            [data],
            timeout_s,
        )

    def append_many(
        self, payloads: Iterable[BytesLike], *, timeout: float | None = None
    ) -> "Future[LogRange]":
        """Append many entries at once, to one ledger; return a future of their positions."""
        timeout_s = self._timeout_s(timeout)
        batch, _size = arguments.payloads(payloads, ENTRY_SIZE_MAX_LIMIT)
        return self._append(
            lambda writer, left_s: writer.append_many(batch, timeout=left_s),
            LogRange,
            batch,
            timeout_s,
        )

    def sync(self, *, timeout: float | None = None) -> LogPosition | None:
        """Make everything appended so far durable; return the last durable position.

        ``None``: this owner has not appended anything.

        Raises:
            CannotAdvanceError: too few bookies hold the appended entries.
        """
        timeout_s = self._timeout_s(timeout)
        deadline_s = monotonic_s() + timeout_s
        while True:
            writer, before = self._gate.writer, self._gate.last_position
            try:
                last = writer.sync(timeout=max(0.0, deadline_s - monotonic_s()))
            except (LedgerFencedError, LedgerClosedError) as error:
                if self._gate.writer is writer:  # no roll has closed it meanwhile
                    raise self._lose(writer.ledger_id, error) from error
            else:
                return before if last == NO_ENTRY else LogPosition(writer.ledger_id, last)

    # ------------------------------------------------------------------ ledgers

    def roll(self) -> None:
        """Continue in a new ledger. Does nothing while the current one has no entry.

        Raises:
            LogFencedError: another client owns the log.
            ZbkError: no new ledger could be created or added; the current one stays.
        """
        self._check_open()
        if self._gate.entry_count:
            self._driver.roll()
            if self._driver.has_unclosed:
                self._begin_closing_older()

    def truncate(self, position: LogPosition) -> int:
        """Delete the ledgers that lie entirely before ``position``; return their number.

        The last ledger stays, as does a ledger that is not closed yet.

        Raises:
            InvalidOptionError: the log has no such ledger.
        """
        position = arguments.position("position", position)
        self._check_open()
        return truncate(self._setup.client, self._setup.store, self.name, position)

    # ------------------------------------------------------------------ reading

    def read(self, start: LogPosition | None = None) -> Iterator[LogEntry]:
        """Yield the entries from ``start`` (default: the first) up to the present LAC.

        That includes all entries acknowledged to this owner.
        """
        start = arguments.optional_position("start", start)
        self._check_open()
        return self._reading().entries(start)

    def tail(self, start: LogPosition | None = None, *, timeout: float | None = None) -> LogTail:
        """Return an iterator over the entries from ``start`` on, including those to come."""
        start = arguments.optional_position("start", start)
        timeout_s = arguments.optional_seconds(timeout)
        self._check_open()
        return self._reading().tail(start, timeout=timeout_s)

    # ------------------------------------------------------------------ close

    def close(self) -> None:
        """Finish the pending appends and close the current ledger. Closing twice is allowed.

        After an error other than ``LogFencedError`` the ledger may be open, with all appended
        entries. Closing again retries; otherwise the log's next owner recovers the ledger.

        Raises:
            LogFencedError: another client owns the log.
            NotDurableError: acknowledged entries of a VD ledger are not durable yet.
            MetadataUnavailableError: the metadata store does not answer.
        """
        with interrupted_later():  # an interrupt inside would leave the lock of the event held
            self._closed.set()
        self._gate.close(LogClosedError(self.name))
        try:
            self._driver.close()
        finally:
            if self._driver.is_over:
                self._driver.abandon()

    # ------------------------------------------------------------------ private

    def _append(
        self,
        send: "Callable[[LedgerWriter, float], Future[Any]]",
        place: Callable[[int, Any], ResultT],
        payloads: Sequence[bytes],
        timeout_s: float,
    ) -> "Future[ResultT]":
        try:
            ledger_id, inner = self._gate.append(send, payloads, timeout_s)
        except (LedgerFencedError, LedgerClosedError) as error:
            raise self._lose(error.ledger_id, error) from error
        outer: Future[ResultT] = Future()
        outer.set_running_or_notify_cancel()  # a pending append cannot be cancelled

        def resolve(done: "Future[Any]") -> None:
            error = done.exception()
            if error is None:
                outer.set_result(place(ledger_id, done.result()))
            elif isinstance(error, ZbkError):
                outer.set_exception(self._lose(ledger_id, error))
            else:
                outer.set_exception(error)

        inner.add_done_callback(resolve)
        self._roll_if_due()
        return outer

    def _lose(self, ledger_id: int, error: ZbkError) -> ZbkError:
        """Record that a ledger accepts no more; return the error for the application."""
        self._driver.lose(ledger_id, error)
        if isinstance(error, LedgerFencedError | LedgerClosedError):
            return LogFencedError(self.name)
        return error

    def _roll_if_due(self) -> None:
        setup, gate = self._setup, self._gate
        is_due = gate.size >= setup.roll_size or 0 < setup.roll_ms <= gate.age_ms
        if is_due and monotonic_ms() >= self._roll_from_ms and self._begin_roll():
            name = f"zbk-roll-{self.name}"
            threading.Thread(target=self._roll, name=name, daemon=True).start()

    def _begin_roll(self) -> bool:
        """Return true if this thread may start a roll now."""
        with self._roll_lock:
            if self._is_rolling or self._closed.is_set():
                return False
            self._is_rolling = True
            return True

    def _roll(self) -> None:
        try:
            self.roll()
        except ZbkError as error:
            self._roll_from_ms = monotonic_ms() + ROLL_RETRY_MS
            if not self._closed.is_set():
                LOG.warning(
                    "client.roll_postponed",
                    "log %(log)s could not be rolled: %(error)s",
                    log=self.name,
                    error=error,
                )
        except Exception:
            self._roll_from_ms = monotonic_ms() + ROLL_RETRY_MS
            LOG.exception("client.roll_failed", "rolling log %(log)s failed", log=self.name)
        finally:
            self._is_rolling = False

    def _begin_closing_older(self) -> None:
        with self._roll_lock:
            if self._is_closing_older or self._closed.is_set():
                return
            self._is_closing_older = True
        name = f"zbk-close-{self.name}"
        threading.Thread(target=self._close_older, name=name, daemon=True).start()

    def _close_older(self) -> None:
        """Close the ledger that a roll has left open, later: readers stop at its end until then."""
        is_left = True
        while is_left and not self._closed.wait(ROLL_RETRY_MS / 1000):
            try:
                self._driver.close_older()
            except ZbkError as error:
                if self._is_usable:
                    LOG.warning(
                        "client.close_postponed",
                        "log %(log)s: the ledger before the current one could not be closed: "
                        "%(error)s",
                        log=self.name,
                        error=error,
                    )
            except Exception:
                LOG.exception("client.roll_failed", "rolling log %(log)s failed", log=self.name)
            with self._roll_lock:  # a roll at this moment begins anew
                is_left = self._driver.has_unclosed and not self._driver.is_over and self._is_usable
                self._is_closing_older = is_left

    @property
    def _is_usable(self) -> bool:
        try:
            self._setup.client.check_usable()
        except ZbkError:
            return False
        return True

    def _reading(self) -> LogReading:
        setup = self._setup
        return LogReading(
            setup.name,
            setup.client,
            setup.store,
            setup.options.get("password", b""),
            confirmed=self._driver.confirmed,
        )

    def _check_open(self) -> None:
        self._setup.client.check_usable()
        if self._closed.is_set():
            raise LogClosedError(self.name)

    def _timeout_s(self, timeout: float | None) -> float:
        return self._setup.default_timeout_s if timeout is None else arguments.seconds(timeout)

    def _wait(self, future: "Future[ResultT]", timeout_s: float, deadline_s: float) -> ResultT:
        try:
            return future.result(max(0.0, deadline_s - monotonic_s()))
        except TimeoutError:
            raise RequestTimeoutError(f"log {self.name}", timeout_s) from None
