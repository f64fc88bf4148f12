"""The body of a writer in the simulation, around the real ``WriterCore``.

It does what ``zbk.client.write.writer_actor`` does: requests out, news in, and the close of the
ledger in the metadata. What becomes of each call goes into the history.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.world import World
from tests.simulation.writer_ensemble import WriterEnsemble
from tests.simulation.writer_health import WriterHealth
from tests.simulation.writer_oracle import WriterOracle, may_lose
from tests.simulation.writer_requests import AddKey, LacKey, SyncKey, WriterRequests, event_of
from tests.support.history import Event
from zbk.errors import (
    BookieUnavailableError,
    MetadataUnavailableError,
    NotDurableError,
    ZbkError,
)
from zbk.metadata.records.ledger_closing import MissingReport
from zbk.protocol.ledger.changes import close_by_writer
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.write import events as ev
from zbk.transport.events import News, Reply
from zbk.wire.codec import encode_batch
from zbk.wire.messages import Add, Sync, WriteLac

TICK_US: Final = 100 * MS
CLOSE_ATTEMPT_COUNT_MAX: Final = 20
CLOSE_WAIT_MS: Final = 300
STUCK_CLOSE_COUNT_MAX: Final = 4


class Flush(msgspec.Struct, frozen=True):
    """Somebody waits until everything appended before is answered."""

    done: Callable[[ZbkError | None], None]


class WriterBody:
    """One writer of one ledger, until it is closed, fails, or is given up."""

    def __init__(
        self,
        world: World,
        node: Node,
        metadata: LedgerMetadata,
        *,
        on_failed: Callable[[ZbkError], None] = lambda _error: None,
        accepts_loss: bool | None = None,
    ) -> None:
        self.world = world
        self.node = node
        self.pool = ClientPool(world.network, node, world.request_timeout_ms)
        self.metadata = metadata
        self.ledger_id = metadata.ledger_id
        self.is_over = False
        self.core = world.parts.writer_core(world, metadata)
        self._health = WriterHealth(world, metadata, self.core)
        self._on_failed = on_failed
        session = world.session(node.name)
        self._requests = WriterRequests(world, metadata, self.core)
        self._ensemble = WriterEnsemble(self, self._requests, session.ledgers())
        self._closer = session.closer()
        self._synced_id = -1
        self._sync_done: dict[int, Callable[[ZbkError | None], None]] = {}
        self._close_left = CLOSE_ATTEMPT_COUNT_MAX
        self._stuck_left = STUCK_CLOSE_COUNT_MAX
        if accepts_loss is None:
            accepts_loss = may_lose(metadata.ledger_id)
        self._accepts_loss = accepts_loss
        self._oracle = WriterOracle(
            world, lambda: self.metadata, self.core, accepts_loss=accepts_loss
        )
        self._on_closed: Callable[[ZbkError | None], None] = lambda _error: None
        self._ensemble.subscribe()
        self.node.after(TICK_US, self._tick)

    # ------------------------------------------------------------------ what applications call

    def append(self, begun: list[Event], payloads: list[bytes]) -> None:
        """Append; the calls were noted by the caller."""
        self.handle(ev.Append(begun, payloads))

    def sync(self, done: Callable[[ZbkError | None], None] | None = None) -> None:
        """Call ``sync()``."""
        begun = self._invoke("sync")
        if done is not None:
            self._sync_done[begun.index] = done
        self.handle(ev.SyncRequested(begun))

    def _sync_ended(self, begun: Event, error: ZbkError | None) -> None:
        done = self._sync_done.pop(begun.index, None)
        if done is not None:
            done(error)

    def flush(self, done: Callable[[ZbkError | None], None]) -> None:
        """Report when everything appended before is answered."""
        self.handle(ev.Append(Flush(done), []))

    def close(self, done: Callable[[ZbkError | None], None] = lambda _error: None) -> None:
        """Call ``close()``."""
        self._on_closed = done
        self._ask_close()

    def _ask_close(self) -> None:
        event = ev.CloseRequested(self._invoke("close"), CLOSE_WAIT_MS, self._accepts_loss)
        self.handle(event)

    def give_up(self) -> None:
        """Forget everything: whoever waits never hears."""
        self.is_over = self._oracle.is_over = True
        self.pool.close()

    def _invoke(self, call: str) -> Event:
        world = self.world
        return world.history.invoke(
            world.kernel.now_ms, self.node.name, call, ledger_id=self.ledger_id
        )

    def _end(self, begun: Event, kind: Any, **what: Any) -> None:  # noqa: ANN401 - as History.end
        self.world.history.end(begun, self.world.kernel.now_ms, kind, **what)

    # ------------------------------------------------------------------ events in

    def _tick(self) -> None:
        if self.is_over:
            return
        next_tick_ms = self.core.next_tick_ms
        is_due = next_tick_ms is not None and next_tick_ms <= self.node.now_ms()
        if is_due or self.core.is_watching:
            self.handle(ev.Tick())
        self.node.after(TICK_US, self._tick)

    def _on_reply(self, news: News) -> None:
        assert isinstance(news, Reply), "each question gets a reply"
        if not self.is_over:
            event = event_of(news)
            if event is not None:
                self.handle(event)

    def handle(self, event: ev.Event) -> None:
        """Hand the core what has happened; carry out what it wants."""
        effects = self.core.handle(event, self.node.now_ms())
        for effect in effects:
            self._carry_out(effect)
        self._health.look(event)
        self._oracle.check_lac()

    # ------------------------------------------------------------------ effects out

    def _carry_out(self, effect: ev.Effect) -> None:  # noqa: C901 - a case an effect
        match effect:
            case ev.SendAdd():
                self._send_add(effect)
            case ev.SendSync():
                request = self._requests.sync(effect.slot, effect.lac)
                key = SyncKey(effect.slot, effect.sync_id, effect.epoch)
                self._ask(effect.slot, request, (), key)
            case ev.SendLac():
                self._send_lac(effect)
            case ev.Acked():
                self._acked(effect.tickets)
            case ev.Failed():
                self._failed(effect)
            case ev.SyncDone():
                self.world.check_durable(self.ledger_id, self._synced_id + 1, effect.last_entry_id)
                self._synced_id = max(self._synced_id, effect.last_entry_id)
                self._end(effect.ticket, "ok", result=effect.last_entry_id)
                self._sync_ended(effect.ticket, None)
            case ev.SyncFailedFor():
                self._end(effect.ticket, "info", error=effect.error)
                self._sync_ended(effect.ticket, effect.error)
            case ev.ChangeEnsemble():
                self._oracle.changes(effect)
                self._ensemble.change(effect)
            case ev.ReportMissing():
                self._report(effect)
            case ev.CloseLedger():
                self._close_in_metadata(effect)
            case ev.CloseFailed():
                self._end(effect.ticket, "info", error=effect.error)
                self._close_failed(effect.error)
            case ev.SlotSuspect():
                self.node.trace(f"slot {effect.slot} is suspect: {effect.error!r}")
                self.pool.link(self._ensemble.bookies[effect.slot]).reset(effect.error)

    def _send_add(self, effect: ev.SendAdd) -> None:
        batch = effect.batch
        self._oracle.sent(batch.entry_ids[-1])
        request = self._requests.add(batch, effect.lac, effect.slot)
        key = AddKey(effect.slot, batch.first_entry_id, effect.epoch)
        self._ask(effect.slot, request, encode_batch(batch), key)

    def _send_lac(self, effect: ev.SendLac) -> None:
        self.world.sometimes["writer: tells its LAC while it is idle"] += 1
        request = self._requests.lac(effect.lac)
        self._ask(effect.slot, request, (), LacKey(effect.slot, effect.lac, effect.epoch))

    def _ask(
        self, slot: int, request: Add | Sync | WriteLac, frames: Sequence[Any], key: object
    ) -> None:
        whole = tuple(bytes(frame) for frame in frames)
        self.pool.request(self._ensemble.bookies[slot], request, whole, key, self._on_reply)

    def _acked(self, tickets: Sequence[ev.AckedTicket]) -> None:
        for ticket, first, _count in tickets:
            if isinstance(ticket, Flush):
                ticket.done(None)
                continue
            self.world.acknowledged(self.metadata, first, len(ticket))
            self._oracle.told(first + len(ticket) - 1)
            for entry_id, begun in enumerate(ticket, first):
                self._end(begun, "ok", ledger_id=self.ledger_id, entry_id=entry_id)
            if ticket:
                last = first + len(ticket) - 1
                self.node.trace(f"acknowledged L{self.ledger_id}/{first}..{last}")

    def _failed(self, effect: ev.Failed) -> None:
        self.node.trace(f"appends failed: {effect.error!r}")
        for ticket in effect.tickets:
            if isinstance(ticket, Flush):
                ticket.done(effect.error)
                continue
            for begun in ticket:
                self._end(begun, "info", error=effect.error)
        self._on_failed(effect.error)

    def _report(self, effect: ev.ReportMissing) -> None:
        self.world.sometimes["writer: reports what a replaced bookie lacks"] += 1
        self.node.trace(f"reports {effect.missing}")
        report = MissingReport.not_written(effect.missing)

        def done(outcome: ZbkError | None) -> None:
            if outcome is None and not self.is_over:
                self.handle(ev.MissingReported(effect.missing))

        self.world.metadata.submit(
            self.node, lambda: self._closer.report(self.ledger_id, report), done
        )

    # ------------------------------------------------------------------ the end

    def _close_failed(self, error: ZbkError) -> None:
        """Close again, some times, if bookies may still come; then leave it to recovery."""
        if isinstance(error, NotDurableError):
            self.world.sometimes["writer: a close leaves its ledger open"] += 1
            if self._stuck_left:
                self._stuck_left -= 1
                self.node.after(100 * MS, self._close_again)
                return
        self._finish(error)

    def _close_again(self) -> None:
        if not self.is_over:
            self._ask_close()

    def _close_in_metadata(self, effect: ev.CloseLedger) -> None:
        last_entry_id, length = effect.last_entry_id, effect.length
        self._oracle.check_end(last_entry_id)
        if effect.missing:
            self.world.sometimes["writer: closes a ledger that is not whole"] += 1
            self.node.trace(f"closes, and reports {effect.missing}")

        def close() -> None:
            self._closer.close(
                self.ledger_id,
                lambda now: close_by_writer(now, last_entry_id, length),
                lambda _closed: MissingReport.not_written(effect.missing),
            )

        def done(outcome: ZbkError | None) -> None:
            if isinstance(outcome, MetadataUnavailableError) and self._close_left:
                self._close_left -= 1
                self._end(effect.ticket, "info", error=outcome)
                again = msgspec.structs.replace(effect, ticket=self._invoke("close"))
                self.node.after(100 * MS, self._close_in_metadata, again)
                return
            if outcome is None:
                kind = (
                    "ok" if last_entry_id >= self._oracle.told_id else "info"
                )  # it accepts the loss
                self._end(effect.ticket, kind, result=last_entry_id)
            else:
                self._end(effect.ticket, "info", error=outcome)
            self._finish(outcome)

        self.world.metadata.submit(self.node, close, done)

    def _finish(self, error: ZbkError | None) -> None:
        """Answer the calls that wait still, and the close."""
        self.is_over = self._oracle.is_over = True
        abandoned = BookieUnavailableError("(all)", "the writer is given back")
        for effect in self.core.handle(ev.Abandoned(abandoned), self.node.now_ms()):
            match effect:
                case ev.Failed():
                    self._failed(effect)
                case ev.SyncFailedFor():
                    self._end(effect.ticket, "info", error=effect.error)
                    self._sync_ended(effect.ticket, effect.error)
                case ev.CloseFailed():
                    self._end(effect.ticket, "info", error=effect.error)
                case _:
                    pass
        self.pool.close()
        self._on_closed(error)
