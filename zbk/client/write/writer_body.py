"""One ledger's writer: carries out the effects of its core.

``writer_requests`` sends requests to bookies, ``writer_metadata`` changes the metadata. Answers
resolve the futures of the application, in the thread that runs the writer's actor
(``writer_actor``), which serves many writers.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.client.cluster.ledger_calls import LedgerRequests
from zbk.client.write.append_future import (
    AppendFuture,
    SharedCondition,
    fail_unless_done,
    resolve_all,
)
from zbk.client.write.asks import Ask, AskClose, AskDurable, AskSync
from zbk.client.write.mailbox import AppendMailbox
from zbk.client.write.traced_appends import TracedAppends
from zbk.client.write.writer_metadata import (
    ClosedInMetadata,
    EnsembleSettled,
    EnsembleTurn,
    MetadataNews,
    MissingNoted,
    WriterMetadata,
)
from zbk.client.write.writer_requests import (
    CatchUpAnswered,
    WriterRequests,
    event_of,
    without_stripes,
)
from zbk.client.write.writer_totals import WriterTotals
from zbk.errors import LedgerClosedError, ZbkError
from zbk.protocol.write import events as core
from zbk.protocol.write.writer import WriterCore
from zbk.system.clock import monotonic_ms
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieDown, BookieUp, News, Reply, Sink
from zbk.wire.messages import STRIPE_VERSION

TICK_MS: Final = 100
"""Milliseconds between two ticks while a period of grace runs."""

DRAIN_SIZE_MAX: Final = 1024 * 1024
"""Bytes that a writer takes from its mailbox before the next writer has its turn."""

REFUSED_RETRY_MS: Final = 1_000
"""Milliseconds after which a bookie that refused an add, and has no replacement, is retried."""


WriterMessage: TypeAlias = Ask | MetadataNews


class WriterSetup(msgspec.Struct, frozen=True):
    """The parts of a writer."""

    metadata: WriterMetadata
    ledger_key: bytes
    core: WriterCore
    mailbox: AppendMailbox
    pool: BookiePool
    request_timeout_ms: int
    condition: SharedCondition  # of all futures of appends
    sink: Sink
    now_ms: Callable[[], int] = monotonic_ms
    totals: WriterTotals = msgspec.field(default_factory=WriterTotals)  # of its actor
    traced: TracedAppends | None = None  # None: the client does not trace


class WriterBody:
    """One ledger's writer. Runs in its actor; ``handle``, ``take_in`` and so on may fail.

    A failure is a bug. It ends this writer and no other: its actor calls ``end``.
    """

    __slots__ = (
        "_appended", "_connected", "_core", "_end_point", "_mailbox", "_on_end", "_refusing",
        "_requests", "_setup", "_sink", "_slots", "_tell", "_unheard", "is_ended", "ledger_id",
    )  # fmt: skip

    def __init__(
        self,
        setup: WriterSetup,
        tell: "Callable[[WriterBody, WriterMessage], None]",
        on_end: "Callable[[WriterBody], None]",
        connected: threading.Event,
    ) -> None:
        """``tell`` leaves a message for this writer, from any thread; ``on_end`` is called once.

        ``connected`` is set when each bookie of the ensemble was connected or has failed once.
        """
        self._setup = setup
        self._core = setup.core
        self._mailbox = setup.mailbox
        self._tell = tell
        self._on_end = on_end
        self._sink = setup.sink
        ledger = setup.metadata.current
        self._appended = setup.totals.by_type[ledger.ledger_type]
        self.ledger_id = ledger.ledger_id
        self._requests = WriterRequests(
            LedgerRequests(ledger.ledger_id, ledger.ledger_type, setup.ledger_key),
            setup.pool,
            self._sink,
            setup.request_timeout_ms,
            writer=self,
            stripes=self._core.stripes,
            traced=setup.traced,
        )
        self._slots: dict[str, int] = {}
        self._unheard: frozenset[str] = frozenset(self._core.slots.bookies)
        self._connected: threading.Event | None = connected
        self._refusing: dict[str, int] = {}  # bookies that took no adds, and when to ask them again
        self._end_point: core.CloseLedger | None = None
        self.is_ended = False

    @property
    def is_done_with(self) -> bool:
        """True when the application has dropped its handle and nothing is pending."""
        return self._mailbox.is_done_with

    @property
    def unsynced(self) -> tuple[int, int] | None:
        """Bytes acknowledged and not durable, and when the first were sent. Any thread."""
        return self._core.path.unsynced

    def due_ms(self, now_ms: int) -> int | None:
        """Return when ``tick`` is due if no event comes before; ``None``: never."""
        if self.is_ended:
            return None
        is_polled = self._core.is_watching or self._refusing
        due_ms = now_ms + TICK_MS if is_polled else self._core.next_tick_ms
        catch_up_ms = self._setup.metadata.due_ms
        if due_ms is None or catch_up_ms is None:
            return catch_up_ms if due_ms is None else due_ms
        return min(due_ms, catch_up_ms)

    # -------------------------------------------------------------- events in

    def start(self) -> None:
        """Connect to the ensemble."""
        self._follow_ensemble()

    def handle(self, message: WriterMessage, now_ms: int) -> None:
        """Pass a message to the core as events, and carry out its effects."""
        match message:
            case AskSync() | AskDurable() | AskClose():
                self.drain(now_ms, None)  # what was appended before this call and waits
                self._on_ask(message, now_ms)
            case EnsembleTurn() | EnsembleSettled() | ClosedInMetadata() | MissingNoted():
                self._on_metadata(message, now_ms)
            case _:
                assert_never(message)

    def bookies_changed(self, now_ms: int) -> None:
        """Handle a change of the bookies that accept new entries."""
        self._refusing = dict.fromkeys(self._refusing, now_ms)
        self._ask_again(now_ms)
        self._handle(core.BookiesChanged(), now_ms)

    def tick(self, now_ms: int) -> None:
        """Handle the passing of time."""
        self._ask_again(now_ms)
        self._setup.metadata.tick(now_ms)
        self._handle(core.Tick(), now_ms)

    @property
    def may_drain(self) -> bool:
        """True while appends wait in the mailbox and the core has room for them."""
        return bool(self._mailbox.items) and not self._core.path.waiting

    @property
    def waiting_size(self) -> int:
        """Bytes of the appends that wait in the mailbox."""
        return self._mailbox.waiting_size

    def drain(self, now_ms: int, size_max: int | None = DRAIN_SIZE_MAX) -> None:
        """Pass appends from the mailbox to the core: all, or up to ``size_max`` bytes."""
        items = self._mailbox.take(size_max)
        if items:
            if self._setup.traced is not None:
                self._setup.traced.take(items, self._core.path.last_appended_id + 1)
            self._handle(core.Appends(items), now_ms)

    def _on_ask(self, ask: Ask, now_ms: int) -> None:
        match ask:
            case AskSync():
                if self._setup.traced is not None:
                    self._setup.traced.take_sync(ask.future)
                self._handle(core.SyncRequested(ask.future), now_ms)
            case AskDurable():
                self._handle(core.DurableRequested(ask.future, ask.entry_id), now_ms)
            case AskClose():
                self._mailbox.end(LedgerClosedError(self.ledger_id))
                self._ask_close(ask, now_ms)
            case _:
                assert_never(ask)

    def _ask_close(self, ask: AskClose, now_ms: int) -> None:
        if ask.future.done():
            return  # answered before this message came
        if self._end_point is None:
            event = core.CloseRequested(ask.future, ask.wait_ms, ask.accepts_loss)
            self._handle(event, now_ms)
        elif self._end_point.ticket is not ask.future:  # the metadata store did not answer before
            self._close(msgspec.structs.replace(self._end_point, ticket=ask.future))

    def take_in(self, news: Sequence[News], now_ms: int) -> None:
        """Pass news from the connections to the core as events, and carry out its effects."""
        events: list[core.Event] = []
        for one in news:
            if isinstance(one, Reply):
                event = event_of(one)
                if isinstance(event, CatchUpAnswered):
                    self._setup.metadata.catch_up_answered(event)
                else:
                    events.append(event)
            elif one.bookie_id in self._slots:  # else it was replaced meanwhile
                events.append(self._slot_event(one))
        self._carry_out(self._core.handle_all(events, now_ms))
        if self._unheard:
            for one in news:
                if not isinstance(one, Reply):
                    self._heard(one.bookie_id)

    def _slot_event(self, news: BookieUp | BookieDown) -> core.Event:
        slot = self._slots[news.bookie_id]
        match news:
            case BookieUp():
                if self._core.stripes[slot] is not None and 0 < news.version < STRIPE_VERSION:
                    return core.SlotDown(slot, without_stripes(news))
                return core.SlotUp(slot, news.incarnation)
            case BookieDown():
                return core.SlotDown(slot, news.error)
            case _:
                assert_never(news)

    def _on_metadata(self, news: MetadataNews, now_ms: int) -> None:
        self._setup.metadata.take_in(news)
        match news:
            case EnsembleTurn():
                self._handle(news.event, now_ms)
            case EnsembleSettled():
                effects = self._core.handle(news.event, now_ms)
                self._follow_ensemble()
                self._carry_out(effects)
            case MissingNoted(report):
                self._handle(core.MissingReported(report.missing), now_ms)
            case ClosedInMetadata(future, _, None):
                future.set_result(news.last_entry_id)
            case ClosedInMetadata(future, _, error):
                future.set_exception(error)

    def _suspect(self, suspect: core.SlotSuspect) -> None:
        """Reset a connection that may be broken; retry a bookie that has refused later."""
        bookie_id = self._core.slots.bookies[suspect.slot]
        if suspect.is_connection_broken:
            self._setup.pool.reset(bookie_id, self._sink, suspect.error, self)
        else:
            self._refusing[bookie_id] = self._setup.now_ms() + REFUSED_RETRY_MS

    def _ask_again(self, now_ms: int) -> None:
        """Retry bookies that refused adds and were not replaced."""
        for bookie_id in [b for b, due_ms in self._refusing.items() if due_ms <= now_ms]:
            del self._refusing[bookie_id]
            if bookie_id in self._requests.bookies:
                self._setup.pool.unsubscribe(bookie_id, self._sink, self)
                self._setup.pool.subscribe(bookie_id, self._sink, self)

    def _heard(self, bookie_id: str) -> None:
        self._unheard -= {bookie_id}
        if not self._unheard and self._connected is not None:
            self._connected.set()
            self._connected = None  # a kilobyte

    def _follow_ensemble(self) -> None:
        """Subscribe to the bookies that the core writes to, and to no others."""
        bookies = self._core.slots.bookies
        if self.is_ended or bookies == self._requests.bookies:
            return
        left = [one for one in self._requests.bookies if one not in bookies]
        joined = [one for one in bookies if one not in self._requests.bookies]
        for bookie_id in left:
            self._setup.pool.unsubscribe(bookie_id, self._sink, self)
        self._requests.bookies = bookies
        self._slots = {bookie_id: slot for slot, bookie_id in enumerate(bookies)}
        for bookie_id in joined:
            self._setup.pool.subscribe(bookie_id, self._sink, self)

    # -------------------------------------------------------------- effects out

    def _handle(self, event: core.Event, now_ms: int) -> None:
        self._carry_out(self._core.handle(event, now_ms))

    def _carry_out(self, effects: Sequence[core.Effect]) -> None:
        requests = self._requests
        for effect in effects:
            if isinstance(effect, core.SendAdd):  # nearly all of them are one of these two
                requests.add(effect)
            elif isinstance(effect, core.Acked):
                self._resolve(effect.tickets)
            else:
                requests.flush()  # a sync must not arrive before the entries
                self._carry_out_other(effect)
        requests.flush()

    def _carry_out_other(  # noqa: C901 - one case for each effect
        self, effect: core.OtherEffect
    ) -> None:
        match effect:
            case core.Failed():
                self._fail(effect.tickets, effect.error)
            case core.SendSync():
                self._requests.send_sync(effect)
            case core.SendLac():
                self._requests.send_lac(effect)
            case core.SlotSuspect():
                self._suspect(effect)
            case core.ChangeEnsemble():
                self._setup.totals.ensemble_change_count += 1
                ensemble = self._core.slots.bookies
                self._setup.metadata.change_ensemble(
                    effect, ensemble, self._requests.catch_up, self._tell_self
                )
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
        # first: a callback of a future may append, and is alone then
        totals = self._appended
        if len(tickets) == 1:
            future, _first_id, count = tickets[0]
            size = future.size
        else:
            size = sum([future.size for future, _first_id, _count in tickets])
            count = sum([count for _future, _first_id, count in tickets])
        totals.size += size
        totals.entry_count += count
        self._mailbox.release(size)
        resolve_all(self._setup.condition, tickets)

    def _fail(self, futures: Sequence[AppendFuture], error: ZbkError) -> None:
        self._setup.totals.failed_append_count += len(futures)
        for future in futures:
            future.set_exception(error)
        self._mailbox.release(sum([future.size for future in futures]))

    # -------------------------------------------------------------- the end

    def _close(self, end: core.CloseLedger) -> None:
        self._end_point = end
        self._setup.metadata.close(end, self._tell_self)

    def _tell_self(self, news: MetadataNews) -> None:
        self._tell(self, news)

    def end(self, error: ZbkError) -> None:
        """Release everything, once; all pending calls fail with ``error``."""
        if self.is_ended:
            return
        self.is_ended = True
        self._mailbox.end(error, is_over=True)
        try:
            for bookie_id in self._requests.bookies:
                self._setup.pool.unsubscribe(bookie_id, self._sink, self)
            self._handle(core.Abandoned(error), self._setup.now_ms())
        finally:  # after a bug, too, no call waits
            self._fail([future for future, _payloads in self._mailbox.take()], error)
            for future in self._mailbox.unanswered():
                fail_unless_done(future, error)  # a call that waits for room ends by itself
            self._on_end(self)
