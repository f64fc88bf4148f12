"""The writer actor: one for each ledger that this client writes.

mailbox     Drain, when appends wait in the mailbox; Deliver, news from the connections; Ask, a
            sync or a close; ClosedInMetadata, from the metadata actor; Tick, from the ticker
answers     the futures of the application, in this actor's thread
owns        a WriterCore; everything it decides is carried out here
on failure  every future that waits gets the failure; the ledger is left to recovery
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TypeAlias, assert_never

import msgspec
import pykka

from zbk.client.append_future import resolve_all
from zbk.client.mailbox import AppendMailbox, Ticket
from zbk.client.metadata_actor import MetadataTask
from zbk.errors import BookieUnavailableError, LedgerClosedError, ZbkError
from zbk.metadata.ledgers import LedgerStore
from zbk.protocol import writer_events as core
from zbk.protocol.closing import close_by_writer
from zbk.protocol.entry_batch import EntryBatch, sizes_to_wire
from zbk.protocol.ledger_metadata import LedgerMetadata
from zbk.protocol.writer import WriterCore
from zbk.system.clock import monotonic_ms
from zbk.system.light_inbox import LightInbox
from zbk.transport.dealer import BookiePool
from zbk.transport.news import BookieDown, BookieUp, News, Outgoing, Reply
from zbk.wire.codec import encode_ids
from zbk.wire.messages import Add, AddAnswer, Sync, SyncAnswer

TICK_MS: Final = 100
REQUEST_OVERHEAD_SIZE: Final = 512
"""Bytes of a request beside its frames: header and routing."""


class Drain(msgspec.Struct, frozen=True):
    """Appends wait in the mailbox."""


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


class Deliver(msgspec.Struct, frozen=True):
    """News from the connections."""

    news: list[News]


class AskSync(msgspec.Struct, frozen=True):
    """The application calls ``sync()``."""

    future: "Future[int]"


class AskClose(msgspec.Struct, frozen=True):
    """The application calls ``close()``."""

    future: "Future[int]"


class ClosedInMetadata(msgspec.Struct, frozen=True):
    """The metadata store has answered to our close."""

    future: "Future[int]"
    last_entry_id: int
    outcome: ZbkError | None  # what close() raises


WriterMessage: TypeAlias = Drain | Tick | Deliver | AskSync | AskClose | ClosedInMetadata


class _AddKey(msgspec.Struct, frozen=True):
    slot: int
    first_entry_id: int


class _SyncKey(msgspec.Struct, frozen=True):
    slot: int
    sync_id: int


class WriterSetup(msgspec.Struct, frozen=True):
    """Everything a writer actor stands on."""

    metadata: LedgerMetadata
    ledger_key: bytes
    core: WriterCore
    mailbox: AppendMailbox
    pool: BookiePool
    ledgers: LedgerStore
    metadata_actor: "pykka.ActorRef[Any]"
    request_timeout_ms: int
    condition: threading.Condition  # of all futures of appends
    connected: threading.Event  # set when each bookie of the ensemble is there, or failed, once


class ActorSink:
    """Takes news in the thread of the connections and tells the actor, if it still lives."""

    def __init__(self) -> None:
        self.actor: pykka.ActorRef[WriterActor] | None = None

    def deliver(self, news: list[News]) -> None:
        """Hand the news on."""
        if self.actor is not None:
            with suppress(pykka.ActorDeadError):
                self.actor.tell(Deliver(news))


class WriterActor(LightInbox, pykka.ThreadingActor):
    """The body of one ledger's writer."""

    use_daemon_thread = True

    def __init__(self, setup: WriterSetup, on_end: Callable[[], None]) -> None:
        super().__init__()
        self._setup = setup
        self._core = setup.core
        self._mailbox = setup.mailbox
        self._on_end = on_end
        self._bookies = setup.metadata.last_fragment.bookies
        self._slots = {bookie_id: slot for slot, bookie_id in enumerate(self._bookies)}
        self._sink = ActorSink()
        self._unheard = set(self._bookies)
        self._end_point: core.CloseLedger | None = None
        self._sent: tuple[EntryBatch, Add, tuple[bytes, ...]] | None = None
        self._is_ended = False

    def on_start(self) -> None:
        """Connect to the ensemble."""
        self._sink.actor = self.actor_ref
        for bookie_id in self._bookies:
            self._setup.pool.subscribe(bookie_id, self._sink)

    def on_receive(self, message: WriterMessage) -> None:
        """Turn a message into events for the core, and carry out what it answers."""
        now_ms = monotonic_ms()
        match message:
            case Deliver():
                for news in message.news:
                    self._on_news(news, now_ms)
            case Drain():
                self._drain(now_ms)
            case Tick():
                self._handle(core.Tick(), now_ms)
            case AskSync():
                self._drain(now_ms)  # what was appended before this call and waits
                self._handle(core.SyncRequested(message.future), now_ms)
            case AskClose():
                self._drain(now_ms)  # what was appended before this call and waits
                self._mailbox.end(LedgerClosedError(self._setup.metadata.ledger_id))
                if self._end_point is None:
                    self._handle(core.CloseRequested(message.future), now_ms)
                else:  # decided before; the metadata store did not answer
                    self._close_in_metadata(
                        msgspec.structs.replace(self._end_point, ticket=message.future)
                    )
            case ClosedInMetadata():
                self._on_closed(message)
            case _:
                assert_never(message)

    def on_stop(self) -> None:
        """Free what the actor holds; whoever still waits is told."""
        self._end(LedgerClosedError(self._setup.metadata.ledger_id))

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Fail everything that waits: a bug of ours, and nothing may hang on it."""
        del exception_type, traceback
        self._end(BookieUnavailableError("(all)", f"the writer failed: {exception_value!r}"))

    # -------------------------------------------------------------- events in

    def _drain(self, now_ms: int) -> None:
        items = self._mailbox.take()
        if items:
            self._handle(core.Appends(items), now_ms)

    def _on_news(self, news: News, now_ms: int) -> None:
        match news:
            case BookieUp():
                slot = self._slots[news.bookie_id]
                self._handle(core.SlotUp(slot, news.incarnation), now_ms)
                self._heard(news.bookie_id)
            case BookieDown():
                self._handle(core.SlotDown(self._slots[news.bookie_id], news.error), now_ms)
                self._heard(news.bookie_id)
            case Reply():
                self._handle(_event_of(news), now_ms)
            case _:
                assert_never(news)

    def _heard(self, bookie_id: str) -> None:
        self._unheard.discard(bookie_id)
        if not self._unheard:
            self._setup.connected.set()

    # -------------------------------------------------------------- effects out

    def _handle(self, event: core.Event, now_ms: int) -> None:
        for effect in self._core.handle(event, now_ms):
            self._carry_out(effect)

    def _carry_out(self, effect: core.Effect) -> None:
        match effect:
            case core.SendAdd():
                self._send_add(effect)
            case core.Acked():
                self._resolve(effect.tickets)
            case core.Failed():
                self._fail(effect.tickets, effect.error)
            case core.SendSync():
                self._send_sync(effect)
            case core.SyncDone():
                effect.ticket.set_result(effect.last_entry_id)
            case core.SyncFailedFor():
                effect.ticket.set_exception(effect.error)
            case core.CloseLedger():
                self._end_point = effect
                self._close_in_metadata(effect)
            case core.CloseFailed():
                effect.ticket.set_exception(effect.error)
            case core.SlotSuspect():
                self._setup.pool.reset(self._bookies[effect.slot], effect.error)
            case _:
                assert_never(effect)

    def _send_add(self, effect: core.SendAdd) -> None:
        batch = effect.batch
        if self._sent is None or self._sent[0] is not batch:  # one batch goes to many slots
            self._sent = (batch, self._add_of(batch, effect.lac), _frames_of(batch))
        _, request, frames = self._sent
        key = _AddKey(effect.slot, batch.first_entry_id)
        self._request(effect.slot, request, frames, key)

    def _add_of(self, batch: EntryBatch, lac: int) -> Add:
        metadata = self._setup.metadata
        return Add(
            request_id=0,
            ledger_id=batch.ledger_id,
            ledger_key=self._setup.ledger_key,
            ledger_type=metadata.ledger_type,
            first_entry_id=batch.first_entry_id,
            count=batch.count,
            lac=lac,
            checksum=batch.checksum,
            is_striped=not isinstance(batch.entry_ids, range),
        )

    def _send_sync(self, effect: core.SendSync) -> None:
        request = Sync(
            request_id=0,
            ledger_id=self._setup.metadata.ledger_id,
            ledger_key=self._setup.ledger_key,
            lac=effect.lac,
        )
        self._request(effect.slot, request, (), _SyncKey(effect.slot, effect.sync_id))

    def _request(
        self, slot: int, request: Add | Sync, frames: tuple[bytes, ...], key: object
    ) -> None:
        self._setup.pool.request(
            Outgoing(
                bookie_id=self._bookies[slot],
                request=request,
                frames=frames,
                sink=self._sink,
                key=key,
                timeout_ms=self._setup.request_timeout_ms,
                size=REQUEST_OVERHEAD_SIZE + sum(map(len, frames)),
            )
        )

    def _resolve(self, tickets: Sequence[tuple[Ticket, int, int]]) -> None:
        resolve_all(
            self._setup.condition,
            (
                (ticket.future, range(first_id, first_id + count) if ticket.is_many else first_id)
                for ticket, first_id, count in tickets
            ),
        )
        self._mailbox.release(sum(ticket.size for ticket, _first_id, _count in tickets))

    def _fail(self, tickets: Sequence[Ticket], error: ZbkError) -> None:
        for ticket in tickets:
            ticket.future.set_exception(error)
        self._mailbox.release(sum(ticket.size for ticket in tickets))

    # -------------------------------------------------------------- the end

    def _close_in_metadata(self, effect: core.CloseLedger) -> None:
        ledgers = self._setup.ledgers
        ledger_id = self._setup.metadata.ledger_id
        last_entry_id, length = effect.last_entry_id, effect.length
        future, error = effect.ticket, effect.error

        def close() -> None:
            ledgers.update(ledger_id, lambda now: close_by_writer(now, last_entry_id, length))

        def done(outcome: object) -> None:
            failure = outcome if isinstance(outcome, ZbkError) else error
            with suppress(pykka.ActorDeadError):
                self.actor_ref.tell(ClosedInMetadata(future, last_entry_id, failure))

        self._setup.metadata_actor.tell(MetadataTask(close, done))

    def _on_closed(self, message: ClosedInMetadata) -> None:
        if message.outcome is None:
            message.future.set_result(message.last_entry_id)
        else:
            message.future.set_exception(message.outcome)

    def _end(self, error: ZbkError) -> None:
        """Free everything, once."""
        if self._is_ended:
            return
        self._is_ended = True
        self._mailbox.end(error, is_over=True)
        for bookie_id in self._bookies:
            self._setup.pool.unsubscribe(bookie_id, self._sink)
        self._handle(core.Abandoned(error), monotonic_ms())
        self._fail([ticket for ticket, _payloads in self._mailbox.take()], error)
        for future in self._mailbox.unanswered():
            future.set_exception(error)
        self._on_end()


def _frames_of(batch: EntryBatch) -> tuple[bytes, ...]:
    frames = (sizes_to_wire(batch.sizes), batch.body)
    return frames if isinstance(batch.entry_ids, range) else (*frames, encode_ids(batch.entry_ids))


def _event_of(reply: Reply) -> core.Event:
    """Return the core's event for what came of a request."""
    key, outcome = reply.key, reply.outcome
    if isinstance(key, _AddKey):
        if isinstance(outcome, AddAnswer):
            return core.AddAnswered(
                key.slot, key.first_entry_id, outcome.incarnation, outcome.last_add_synced
            )
        return core.AddFailed(key.slot, key.first_entry_id, _error_of(reply))
    assert isinstance(key, _SyncKey), "a writer sends adds and syncs"
    if isinstance(outcome, SyncAnswer):
        return core.SyncAnswered(
            key.slot, key.sync_id, outcome.incarnation, outcome.last_add_synced
        )
    return core.SyncFailed(key.slot, key.sync_id, _error_of(reply))


def _error_of(reply: Reply) -> ZbkError:
    if isinstance(reply.outcome, ZbkError):
        return reply.outcome
    answer = type(reply.outcome).__name__
    return BookieUnavailableError(reply.bookie_id, f"gave an answer of another kind: {answer}")
