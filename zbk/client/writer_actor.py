"""The writer actor: one for each ledger that this client writes.

mailbox     Drain, when appends wait in the mailbox; Deliver, news from the connections; Ask, a
            sync or a close; EnsembleSettled, MissingNoted and ClosedInMetadata, from the
            metadata actor; WritableChanged, from the directory of bookies; Tick, from the
            connections' timers while the writer is at work, and seldom from the ticker
answers     the futures of the application, in this actor's thread or in that of the connections,
            which handles what comes alone while the actor is idle (``DirectInbox``)
owns        a WriterCore; everything it decides is carried out here: what goes to bookies in
            ``writer_requests``, what goes to the metadata in ``writer_metadata``
on failure  every future that waits gets the failure; the ledger is left to recovery
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Final, TypeAlias, assert_never

import msgspec
import pykka

from zbk.client.append_future import AppendFuture, resolve_all
from zbk.client.mailbox import AppendMailbox
from zbk.client.writer_metadata import (
    ClosedInMetadata,
    EnsembleSettled,
    MissingNoted,
    WriterMetadata,
)
from zbk.client.writer_requests import WriterRequests, event_of
from zbk.errors import (
    BookieUnavailableError,
    LedgerClosedError,
    ZbkError,
)
from zbk.protocol import writer_events as core
from zbk.protocol.writer import WriterCore
from zbk.system.clock import monotonic_ms
from zbk.system.direct_inbox import DirectInbox, Door, Failed
from zbk.transport.dealer import BookiePool
from zbk.transport.news import BookieDown, BookieUp, News, Reply

TICK_MS: Final = 100
SMALL_COUNT_MAX: Final = 8
"""News that the thread of the connections handles itself at once; a lone append has three."""

REFUSED_RETRY_MS: Final = 1_000
"""How long a bookie that has refused an add, and has no replacement, is left alone."""


class TickKind(Enum):
    """Where a tick comes from."""

    SELDOM = "the ticker, whatever the writer does"
    USUAL = "a timer, while the writer is at work"
    SOON = "a timer, at the time that the core has said"


class Drain(msgspec.Struct, frozen=True):
    """Appends wait in the mailbox."""


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""

    kind: TickKind = TickKind.SELDOM


class Deliver(msgspec.Struct, frozen=True):
    """News from the connections."""

    news: list[News]


class AskSync(msgspec.Struct, frozen=True):
    """The application calls ``sync()``."""

    future: "Future[int]"


class AskClose(msgspec.Struct, frozen=True):
    """The application calls ``close()``; again with the same future, it changes its terms."""

    future: "Future[int]"
    wait_ms: int  # until all that is acknowledged is durable
    accepts_loss: bool


class WritableChanged(msgspec.Struct, frozen=True):
    """Bookies have begun or ceased to take new entries."""


WriterMessage: TypeAlias = (
    Drain
    | Tick
    | Deliver
    | AskSync
    | AskClose
    | EnsembleSettled
    | ClosedInMetadata
    | MissingNoted
    | WritableChanged
    | Failed
)


class WriterSetup(msgspec.Struct, frozen=True):
    """Everything a writer actor stands on."""

    metadata: WriterMetadata
    ledger_key: bytes
    core: WriterCore
    mailbox: AppendMailbox
    pool: BookiePool
    request_timeout_ms: int
    condition: threading.Condition  # of all futures of appends
    connected: threading.Event  # set when each bookie of the ensemble is there, or failed, once
    sink: "ActorSink"


class ActorSink(Door):
    """Takes news in the thread of the connections to the actor, if it still lives.

    A lone append and its answers would wake an idle actor for little work, so this thread handles
    them. The application's thread does not: an interrupt would stop it in the middle of a message.
    """

    def drain(self) -> None:
        """Report a lone append in the mailbox."""
        self._hand_on(Drain(), is_small=True)

    def deliver(self, news: list[News]) -> None:
        """Hand the news on."""
        self._hand_on(Deliver(news), is_small=len(news) <= SMALL_COUNT_MAX)

    def tick(self, kind: TickKind) -> None:
        """Hand on that the time has come which was asked for."""
        self._hand_on(Tick(kind), is_small=True)

    def _hand_on(self, message: Deliver | Drain | Tick, *, is_small: bool) -> None:
        if not (is_small and self.hand(message)):
            with suppress(pykka.ActorDeadError):
                self.tell(message)


class WriterActor(DirectInbox, pykka.ThreadingActor):
    """The body of one ledger's writer."""

    use_daemon_thread = True

    def __init__(self, setup: WriterSetup, on_end: Callable[[], None]) -> None:
        super().__init__()
        self._setup = setup
        self._core = setup.core
        self._mailbox = setup.mailbox
        self._on_end = on_end
        self._sink = setup.sink
        self._sink.actor = self
        ledger = setup.metadata.current
        self._ledger_id = ledger.ledger_id
        self._requests = WriterRequests(
            ledger.ledger_id,
            ledger.ledger_type,
            setup.ledger_key,
            setup.pool,
            self._sink,
            setup.request_timeout_ms,
        )
        self._slots: dict[str, int] = {}
        self._unheard = set(self._core.ensemble)
        self._refusing: dict[str, int] = {}  # bookies that took no adds, and when to ask them again
        self._end_point: core.CloseLedger | None = None
        self._asked_for: set[TickKind] = set()  # ticks that are still to come, one of each kind
        self._is_ended = False

    def on_start(self) -> None:
        """Connect to the ensemble."""
        self._follow_ensemble()

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
                self._asked_for.discard(message.kind)
                self._on_tick(now_ms)
            case AskSync() | AskClose():
                self._drain(now_ms)  # what was appended before this call and waits
                self._on_ask(message, now_ms)
            case EnsembleSettled() | ClosedInMetadata() | MissingNoted():
                self._on_metadata(message, now_ms)
            case WritableChanged():
                self._refusing = dict.fromkeys(self._refusing, now_ms)
                self._ask_again(now_ms)
                self._handle(core.BookiesChanged(), now_ms)
            case Failed():
                raise message.error
            case _:
                assert_never(message)

    def on_stop(self) -> None:
        """Free what the actor holds; whoever still waits is told."""
        self._end(LedgerClosedError(self._ledger_id))

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

    def _on_ask(self, ask: AskSync | AskClose, now_ms: int) -> None:
        match ask:
            case AskSync():
                self._handle(core.SyncRequested(ask.future), now_ms)
            case AskClose():
                self._mailbox.end(LedgerClosedError(self._ledger_id))
                self._ask_close(ask, now_ms)
            case _:
                assert_never(ask)

    def _ask_close(self, ask: AskClose, now_ms: int) -> None:
        if ask.future.done():
            return  # answered while this call was on its way
        if self._end_point is None:
            event = core.CloseRequested(ask.future, ask.wait_ms, ask.accepts_loss)
            self._handle(event, now_ms)
        elif self._end_point.ticket is not ask.future:  # the metadata store did not answer before
            self._close(msgspec.structs.replace(self._end_point, ticket=ask.future))

    def _on_tick(self, now_ms: int) -> None:
        self._ask_again(now_ms)
        self._handle(core.Tick(), now_ms)
        if self._mailbox.is_done_with:
            self.stop()  # as if the client had been closed: the ledger is left to recovery

    def _on_news(self, news: News, now_ms: int) -> None:
        match news:
            case BookieUp():
                slot = self._slots.get(news.bookie_id)
                if slot is not None:  # else it was replaced while the news were on their way
                    self._handle(core.SlotUp(slot, news.incarnation), now_ms)
                self._heard(news.bookie_id)
            case BookieDown():
                slot = self._slots.get(news.bookie_id)
                if slot is not None:
                    self._handle(core.SlotDown(slot, news.error), now_ms)
                self._heard(news.bookie_id)
            case Reply():
                event = event_of(news)
                if event is not None:
                    self._handle(event, now_ms)
            case _:
                assert_never(news)

    def _on_metadata(
        self, news: EnsembleSettled | ClosedInMetadata | MissingNoted, now_ms: int
    ) -> None:
        self._setup.metadata.take_in(news)
        match news:
            case EnsembleSettled():
                effects = self._core.handle(news.event, now_ms)
                self._follow_ensemble()
                for effect in effects:
                    self._carry_out(effect)
                self._ask_for_ticks(now_ms)
            case MissingNoted(report):
                self._handle(core.MissingReported(report.missing), now_ms)
            case ClosedInMetadata(future, _, None):
                future.set_result(news.last_entry_id)
            case ClosedInMetadata(future, _, error):
                future.set_exception(error)

    def _suspect(self, suspect: core.SlotSuspect) -> None:
        """Make a connection anew that may be broken; leave alone a bookie that has refused."""
        bookie_id = self._core.ensemble[suspect.slot]
        if suspect.is_connection_broken:
            self._setup.pool.reset(bookie_id, self._sink, suspect.error)
        else:
            self._refusing[bookie_id] = monotonic_ms() + REFUSED_RETRY_MS

    def _ask_again(self, now_ms: int) -> None:
        """Take bookies for connected again that took no adds and have not been replaced."""
        for bookie_id in [b for b, due_ms in self._refusing.items() if due_ms <= now_ms]:
            del self._refusing[bookie_id]
            if bookie_id in self._requests.bookies:
                self._setup.pool.unsubscribe(bookie_id, self._sink)
                self._setup.pool.subscribe(bookie_id, self._sink)

    def _heard(self, bookie_id: str) -> None:
        self._unheard.discard(bookie_id)
        if not self._unheard:
            self._setup.connected.set()

    def _follow_ensemble(self) -> None:
        """Be connected to the bookies that the core writes to, and to no others."""
        bookies = self._core.ensemble
        if self._is_ended or bookies == self._requests.bookies:
            return
        for bookie_id in set(self._requests.bookies) - set(bookies):
            self._setup.pool.unsubscribe(bookie_id, self._sink)
        joined = set(bookies) - set(self._requests.bookies)
        self._requests.bookies = bookies
        self._slots = {bookie_id: slot for slot, bookie_id in enumerate(bookies)}
        for bookie_id in joined:
            self._setup.pool.subscribe(bookie_id, self._sink)

    # -------------------------------------------------------------- effects out

    def _handle(self, event: core.Event, now_ms: int) -> None:
        for effect in self._core.handle(event, now_ms):
            self._carry_out(effect)
        self._ask_for_ticks(now_ms)

    def _ask_for_ticks(self, now_ms: int) -> None:
        """Ask to be told when time has passed that counts; once, and again when it was told."""
        if TickKind.SOON not in self._asked_for:
            next_tick_ms = self._core.next_tick_ms
            if next_tick_ms is not None:
                self._ask_for_tick(TickKind.SOON, next_tick_ms)
        if TickKind.USUAL not in self._asked_for and not self._core.is_resting:
            self._ask_for_tick(TickKind.USUAL, now_ms + TICK_MS)

    def _ask_for_tick(self, kind: TickKind, due_ms: int) -> None:
        self._asked_for.add(kind)
        self._setup.pool.call_at(due_ms, partial(self._sink.tick, kind))

    def _carry_out(self, effect: core.Effect) -> None:
        match effect:
            case core.SendAdd():
                self._requests.send_add(effect)
            case core.Acked():
                self._resolve(effect.tickets)
            case core.Failed():
                self._fail(effect.tickets, effect.error)
            case core.SendSync():
                self._requests.send_sync(effect)
            case core.SendLac():
                self._requests.send_lac(effect)
            case core.SlotSuspect():
                self._suspect(effect)
            case core.ChangeEnsemble():
                self._setup.metadata.change_ensemble(effect, self._core.ensemble, self._tell_self)
            case _:
                self._carry_out_rare(effect)

    def _carry_out_rare(
        self,
        effect: (
            core.SyncDone
            | core.SyncFailedFor
            | core.ReportMissing
            | core.CloseLedger
            | core.CloseFailed
        ),
    ) -> None:
        match effect:
            case core.ReportMissing():
                self._setup.metadata.report_missing(effect, self._tell_self)
            case core.SyncDone():
                effect.ticket.set_result(effect.last_entry_id)
            case core.SyncFailedFor():
                effect.ticket.set_exception(effect.error)
            case core.CloseLedger():
                self._close(effect)
            case core.CloseFailed():
                effect.ticket.set_exception(effect.error)
            case _:
                assert_never(effect)

    def _resolve(self, tickets: Sequence[tuple[AppendFuture, int, int]]) -> None:
        resolve_all(
            self._setup.condition,
            (
                (future, range(first_id, first_id + count) if future.is_many else first_id)
                for future, first_id, count in tickets
            ),
        )
        self._mailbox.release(sum([future.size for future, _first_id, _count in tickets]))

    def _fail(self, futures: Sequence[AppendFuture], error: ZbkError) -> None:
        for future in futures:
            future.set_exception(error)
        self._mailbox.release(sum([future.size for future in futures]))

    # -------------------------------------------------------------- the end

    def _close(self, end: core.CloseLedger) -> None:
        self._end_point = end
        self._setup.metadata.close(end, self._tell_self)

    def _tell_self(self, news: EnsembleSettled | ClosedInMetadata | MissingNoted) -> None:
        with suppress(pykka.ActorDeadError):
            self.actor_ref.tell(news)

    def _end(self, error: ZbkError) -> None:
        """Free everything, once."""
        if self._is_ended:
            return
        self._is_ended = True
        self._mailbox.end(error, is_over=True)
        for bookie_id in self._requests.bookies:
            self._setup.pool.unsubscribe(bookie_id, self._sink)
        self._handle(core.Abandoned(error), monotonic_ms())
        self._fail([future for future, _payloads in self._mailbox.take()], error)
        for future in self._mailbox.unanswered():
            future.set_exception(error)
        self._on_end()
