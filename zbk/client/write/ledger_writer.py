"""The handle of a ledger that an application writes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from zbk.client import arguments
from zbk.client.write.append_future import AppendFuture, SharedCondition
from zbk.client.write.asks import Ask, AskClose, AskDurable, AskSync
from zbk.client.write.durable_append import durably
from zbk.client.write.mailbox import AppendMailbox
from zbk.client.write.writer_metadata import WriterMetadata
from zbk.errors import (
    ArgumentValueError,
    CannotAdvanceError,
    EntryTooLargeError,
    MetadataUnavailableError,
    NotDurableError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.write.writer import WriterCore
from zbk.system.clock import monotonic_s
from zbk.system.handle import WritingHandle

if TYPE_CHECKING:
    from zbk.tracing.client_spans import ClientSpans

ENTRY_OVERHEAD_SIZE: Final = 64
"""Bytes of an entry beside its payload, while it is pending: header, digest, its place in lists."""

ResultT = TypeVar("ResultT")

WAIT_SHARE: Final = 0.9
"""The part of a close's time-out in which bookies may make entries durable."""

LOSSY_WAIT_SHARE: Final = 0.5
"""The same part if the close accepts a loss; the rest is for closing."""

BytesLike: TypeAlias = bytes | bytearray | memoryview
"""Anything with the buffer protocol is accepted; type checkers know these types."""


class CallTerms(msgspec.Struct, frozen=True):
    """What the calls of all writers of a client have in common."""

    entry_size_max: int  # bytes of payload
    timeout_s: float  # of a call without a time-out
    check_usable: Callable[[], None]  # raises if the client was closed, or the process forked
    spans: "ClientSpans | None" = None  # None: the client does not trace


class LedgerWriter(WritingHandle):
    """The single writer of one ledger. Any thread may call; entries get ids in order of the calls.

    Created by ``Client.create_ledger``. As a context manager it calls ``close()`` at the end, also
    after an error: every acknowledged entry is in the closed ledger, or the ledger stays open. The
    block's own error is raised, with the error of the close as a note.

    Source: BookKeeper's ``WriteHandle``; ``sync`` from the relaxed-durability proposal.
    """

    def __init__(
        self,
        metadata: WriterMetadata,
        core: WriterCore,
        mailbox: AppendMailbox,
        condition: SharedCondition,
        tell: Callable[[Ask], None],
        end: Callable[[], None],
        terms: CallTerms,
    ) -> None:
        self._metadata = metadata
        self._core = core
        self._mailbox = mailbox
        self._condition = condition
        self._tell_body = tell
        self._end_body = end
        self._terms = terms
        self._close_future: Future[int] | None = None
        self._close_lock = Lock()

    def __repr__(self) -> str:
        m = self.metadata
        return (
            f"<LedgerWriter {m.ledger_id} {m.ledger_type} "
            f"{m.ensemble_size}/{m.write_quorum_size}/{m.ack_quorum_size} "
            f"lac={self.last_add_confirmed} lap={self.last_add_pushed}>"
        )

    @property
    def _what(self) -> str:
        return f"ledger {self.ledger_id}"

    # ------------------------------------------------------------------ what it is

    @property
    def ledger_id(self) -> int:
        """The ledger's id."""
        return self.metadata.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as this writer knows it: its ensembles, and its end once closed."""
        return self._metadata.current

    @property
    def last_add_pushed(self) -> int:
        """The LAP: the highest entry id that this writer has assigned; -1 is none."""
        return self._core.path.last_appended_id

    @property
    def last_add_confirmed(self) -> int:
        """The LAC: every entry up to it is durable on an ack quorum; -1 is none."""
        return self._core.path.lac

    @property
    def last_add_acknowledged(self) -> int:
        """The last entry whose append was answered. On a VD ledger it runs ahead of the LAC."""
        return self._core.path.last_acked_id

    @property
    def unanswered_size(self) -> int:
        """Bytes of encoded entries in memory that some bookie has not answered.

        They may be acknowledged: a bookie that is slow or away still needs them. The limit is
        ``backlog_size`` of the client's options, and one batch more. A bookie of a VD ledger that
        restarts needs ``unsynced_size_max`` more at most.
        """
        return self._core.path.backlog_size

    @property
    def under_replicated(self) -> Mapping[str, Sequence[Span]]:
        """Ranges of acknowledged entries that bookies lack, by bookie id; usually none.

        A range is a first and a last id; on a striped ledger it means the bookie's own entries.
        These entries have fewer copies than the write quorum, and at least an ack quorum of copies.
        This writer no longer sends them: a bookie was away for longer than ``backlog_size`` lasts,
        was replaced, or had not answered when the ledger was closed. The writer reports them to
        autorecovery when the ensemble changes and when the ledger is closed.
        """
        end = self.metadata.last_entry_id
        return self._core.path.missing.up_to(self.last_add_acknowledged if end is None else end)

    # ------------------------------------------------------------------ append

    def append(
        self, payload: BytesLike, *, timeout: float | None = None, durable: bool = False
    ) -> int:
        """Add one entry; return its id once it is as durable as the ledger's type promises.

        With ``durable`` it is on stable storage of an ack quorum, also on a VD ledger.

        ``timeout``, in seconds, is for the wait for room and for the answer together; ``math.inf``
        is no limit, ``None`` the client's default.

        Raises:
            ArgumentTypeError, ArgumentValueError: a bad payload or time-out; nothing was added.
            EntryTooLargeError: over the entry limit; nothing was added.
            LedgerClosedError, LedgerFencedError, NotEnoughBookiesError: the ledger takes no more;
                ``outcome`` says whether the entry may be in it.
            RequestTimeoutError: no answer yet; the entry may still be added.
        """
        timeout_s = self._timeout_s(timeout)  # before anything is added, not after
        deadline_s = monotonic_s() + timeout_s
        future = self.append_async(payload, timeout=timeout_s, durable=durable)
        return self._wait(future, timeout_s, deadline_s)

    def append_async(
        self, payload: BytesLike, *, timeout: float | None = None, durable: bool = False
    ) -> "Future[int]":
        """Add one entry; return a future of its id. Blocks while too many bytes are pending.

        ``durable`` is as for ``append``. ``timeout``, in seconds, limits the blocking. Callbacks of
        the future run in a thread of the client and must not block.

        Raises:
            EntryTooLargeError: over the entry limit; nothing was added.
            RequestTimeoutError: no room in time; nothing was added.
        """
        if durable is not False and self._has_to_sync(durable):
            append = partial(self.append_async, payload, timeout=timeout)
            return durably(append, self._tell_body, self._mailbox)
        data = payload if type(payload) is bytes else arguments.payload(payload)
        terms = self._terms
        timeout_s = terms.timeout_s if timeout is None else arguments.seconds(timeout)
        if len(data) > terms.entry_size_max:
            raise EntryTooLargeError(len(data), terms.entry_size_max)
        terms.check_usable()
        future = AppendFuture(self._condition, len(data) + ENTRY_OVERHEAD_SIZE)
        if terms.spans is None or not terms.spans.is_wanted:
            self._mailbox.put(future, (data,), timeout_s)
        else:
            self._put_traced("zbk.append", future, (data,), timeout_s)
        return future

    def append_many(
        self, payloads: Iterable[BytesLike], *, timeout: float | None = None, durable: bool = False
    ) -> "Future[range]":
        """Add many entries at once; return one future of the range of their ids.

        The fastest way: most costs are per batch. Blocks while too many bytes are pending. With
        ``durable`` the future waits until the last one is on stable storage, as for ``append``.

        Raises:
            EntryTooLargeError: one is over the entry limit; nothing was added.
            RequestTimeoutError: no room in time; nothing was added.
        """
        if durable is not False and self._has_to_sync(durable):
            append = partial(self.append_many, payloads, timeout=timeout)
            return durably(append, self._tell_body, self._mailbox)
        timeout_s = self._timeout_s(timeout)
        data, size = arguments.payloads(payloads, self._terms.entry_size_max)
        self._terms.check_usable()
        size += ENTRY_OVERHEAD_SIZE * len(data)
        future = AppendFuture(self._condition, size, is_many=True)
        if self._terms.spans is None or not self._terms.spans.is_wanted:
            self._mailbox.put(future, data, timeout_s)
        else:
            self._put_traced("zbk.append_many", future, data, timeout_s)
        return future

    def _has_to_sync(self, durable: object) -> bool:
        """Return whether ``durable`` asks for more than the ledger's type promises."""
        is_wanted = arguments.flag("durable", durable)
        return is_wanted and self.metadata.ledger_type.is_volatile

    def _put_traced(
        self, name: str, future: AppendFuture, payloads: Sequence[bytes], timeout_s: float
    ) -> None:
        """Put an append into the mailbox, with a span if the caller is traced."""
        spans = self._terms.spans
        assert spans is not None, "the client traces"
        size = future.size - ENTRY_OVERHEAD_SIZE * (len(payloads) if future.is_many else 1)
        with spans.following(
            future, name, self._span_attributes | {"zbk.count": len(payloads), "zbk.size": size}
        ):
            self._mailbox.put(future, payloads, timeout_s)

    @property
    def _span_attributes(self) -> dict[str, str | int]:
        m = self.metadata
        return {"zbk.ledger_id": m.ledger_id, "zbk.ledger_type": m.ledger_type.value}

    # ------------------------------------------------------------------ sync and close

    def sync(self, *, timeout: float | None = None, partial: bool = False) -> int:
        """Make every entry appended so far durable; return the last id that is (the LAC).

        Waits for the appends in flight, requests an fsync from every bookie of the ensemble, then
        sends them the LAC, so that a reader that is opened afterwards reads up to it. The client's
        option ``explicit_lac_ms=0`` omits the last step.

        If too few bookies hold the entries, this is an error, so that a caller need not compare
        ids. With ``partial`` the smaller id is returned instead, as in the proposal of this call;
        it is ``NO_ENTRY`` if nothing is durable.

        Raises:
            CannotAdvanceError: too few bookies hold the entries; ``last_durable_id`` is the last
                durable one. Not with ``partial``.
            RequestTimeoutError: no answer in time; the sync may still succeed.
        """
        timeout_s = self._timeout_s(timeout)
        partial = arguments.flag("partial", partial)
        try:
            return self._wait(self.sync_async(), timeout_s, monotonic_s() + timeout_s)
        except CannotAdvanceError as error:
            if not partial:
                raise
            return error.last_durable_id

    def sync_async(self) -> "Future[int]":
        """As ``sync``, but return a future."""
        self._terms.check_usable()
        future: Future[int] = AppendFuture()
        if self._terms.spans is None:
            self._tell(AskSync(future))
        else:
            with self._terms.spans.following(future, "zbk.sync", self._span_attributes):
                self._tell(AskSync(future))
        return future

    def durable(self, entry_id: int) -> "Future[int]":
        """Return a future that is done when every entry up to this one is durable.

        Its result is the last durable id then. The writer syncs for it, one sync for all calls that
        wait. Unlike ``sync`` it covers no later entries, and bookies may not know the LAC yet.

        Examples:
            >>> import zbk
            >>> with zbk.connect() as client:  # doctest: +SKIP
            ...     with client.create_ledger(ledger_type="VD_JOURNAL") as ledger:
            ...         on_disk = ledger.durable(ledger.append(b"hello"))
            ...         on_disk.result(10)

        Raises:
            ArgumentTypeError, ArgumentValueError: no entry has this id yet.
            BusyError: from the future; too many calls wait.
            CannotAdvanceError: from the future; too few bookies hold the entries.
        """
        last_id = self.last_add_pushed
        if arguments.entry_id("entry_id", entry_id) > last_id:
            raise ArgumentValueError("entry_id", str(entry_id), f"the last entry is {last_id}")
        self._terms.check_usable()
        future: Future[int] = AppendFuture()
        self._tell(AskDurable(future, entry_id))
        return future

    def close(self, *, timeout: float | None = None, accept_loss: bool = False) -> int:
        """Finish pending appends, sync a VD ledger, close the ledger; return its last entry id.

        The ledger is closed at the last acknowledged entry, never before it. On a VD ledger these
        entries must be durable first: this call waits for bookies that are away as long as
        ``timeout`` (seconds) allows. If they do not return in time, the ledger stays open, and
        ``NotDurableError`` reports the last durable entry: call ``close()`` again, or let
        ``Client.recover_ledger`` find the end. In either case this writer accepts no more appends.

        After a failed append, a PD ledger is closed in the same way. A VD ledger stays open, with
        ``NotDurableError``: bookies may have entries unknown to this writer, and a
        ``Client.sync_ledger`` elsewhere may have found them durable. Only a recovery can decide.

        ``accept_loss=True`` drops acknowledged entries that are not durable after
        ``quorum_grace_ms``, or half of ``timeout`` if that is less: the ledger is closed at its
        LAC, which is returned, and later entries are lost. Nothing else drops such entries.

        A second close returns the same id. After ``NotDurableError``, or if the metadata store did
        not answer, the close is retried.

        Raises:
            NotDurableError: acknowledged entries are not durable, or the end of a VD ledger is in
                doubt; the ledger is open.
            LedgerFencedError: another client recovers the ledger; its end is for that client.
            LedgerClosedError: another client has closed it at another end.
            RequestTimeoutError: no answer in time; the ledger may be closed still.
        """
        timeout_s = self._timeout_s(timeout)
        deadline_s = monotonic_s() + timeout_s
        future = self._begin_close(timeout_s, accept_loss=accept_loss)
        return self._finish_close(future, deadline_s, timeout_s)

    def _begin_close(self, timeout_s: float, *, accept_loss: bool = False) -> "Future[int]":
        """Request a close; return its future, for ``_finish_close``."""
        accept_loss = arguments.flag("accept_loss", accept_loss)
        self._terms.check_usable()
        with self._close_lock:  # threads that close at the same time wait for one close
            future = self._close_future
            if future is None or _may_work_now(future):
                future = self._close_future = AppendFuture()
        share = LOSSY_WAIT_SHARE if accept_loss else WAIT_SHARE
        try:
            if not future.done():
                self._tell(AskClose(future, int(timeout_s * 1000 * share), accept_loss))
        except ZbkError:
            if not future.done():  # or another thread has just ended the close
                raise
        return future

    def _finish_close(self, future: "Future[int]", deadline_s: float, timeout_s: float) -> int:
        """Wait for a close that was requested; as ``close``."""
        try:
            return future.result(max(0.0, deadline_s - monotonic_s()))
        except TimeoutError:
            raise self._not_closed(timeout_s) from None
        finally:
            if future.done() and not _may_work_now(future):
                self._end_body()

    def _not_closed(self, timeout_s: float) -> NotDurableError | RequestTimeoutError:
        lac, last_acked_id = self._core.path.lac, self._core.path.last_acked_id
        if lac < last_acked_id:
            reason = f"no answer within {timeout_s:g} s"
            return NotDurableError(self.ledger_id, lac, last_acked_id, reason)
        return RequestTimeoutError(f"ledger {self.ledger_id}", timeout_s)

    def _tell(self, message: Ask) -> None:
        self._mailbox.ask(message.future, is_close=isinstance(message, AskClose))
        self._tell_body(message)  # if it ends before this comes, its end resolves the future

    def _timeout_s(self, timeout: float | None) -> float:
        return self._terms.timeout_s if timeout is None else arguments.seconds(timeout)

    def _wait(self, future: "Future[ResultT]", timeout_s: float, deadline_s: float) -> ResultT:
        try:
            return future.result(max(0.0, deadline_s - monotonic_s()))
        except TimeoutError:
            raise RequestTimeoutError(f"ledger {self.ledger_id}", timeout_s) from None


def _may_work_now(close: "Future[int]") -> bool:
    """Return whether a close failed and may succeed when it is repeated."""
    failure = close.exception() if close.done() else None
    return isinstance(failure, MetadataUnavailableError | NotDurableError)
