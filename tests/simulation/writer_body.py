"""The body of a writer in the simulation, around the real ``WriterCore``.

It does what ``zbk.client.write.writer_actor`` does: requests out, news in, changes of the metadata
through the real ``LedgerStore``. What becomes of each call goes into the history.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.world import World
from tests.simulation.writer_health import WriterHealth
from tests.simulation.writer_oracle import WriterOracle, may_lose
from tests.support.history import Event
from zbk.errors import (
    BookieUnavailableError,
    LedgerFencedError,
    MetadataUnavailableError,
    NotDurableError,
    NotEnoughBookiesError,
    ZbkError,
)
from zbk.metadata.records.ledger_closing import MissingReport
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.ledger.changes import change_ensemble, close_by_writer
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.write import events as ev
from zbk.protocol.write.catch_up import CatchUp, SendCatchUp
from zbk.transport.events import BookieDown, BookieUp, News, Reply
from zbk.wire.codec import encode_batch
from zbk.wire.messages import Add, AddAnswer, LacAnswer, Sync, SyncAnswer, WriteLac

TICK_US: Final = 100 * MS
CLOSE_ATTEMPT_COUNT_MAX: Final = 20
CLOSE_WAIT_MS: Final = 300
STUCK_CLOSE_COUNT_MAX: Final = 4


class AddKey(msgspec.Struct, frozen=True):
    slot: int
    first_entry_id: int
    epoch: int


class SyncKey(msgspec.Struct, frozen=True):
    slot: int
    sync_id: int
    epoch: int


class LacKey(msgspec.Struct, frozen=True):
    slot: int
    lac: int
    epoch: int


class CatchUpKey(msgspec.Struct, frozen=True):
    slot: int
    change_id: int


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
        self._ledgers = session.ledgers()
        self._closer = session.closer()
        self._bookies = list(metadata.last_fragment.bookies)
        self._deliver: list[Callable[[News], None]] = [self._news_of(b) for b in self._bookies]
        self._key = world.ledger_key(self.ledger_id)
        self._synced_id = -1
        self._sync_done: dict[int, Callable[[ZbkError | None], None]] = {}
        self._changing: tuple[ev.ChangeEnsemble, CatchUp] | None = None
        self._close_left = CLOSE_ATTEMPT_COUNT_MAX
        self._stuck_left = STUCK_CLOSE_COUNT_MAX
        if accepts_loss is None:
            accepts_loss = may_lose(metadata.ledger_id)
        self._accepts_loss = accepts_loss
        self._oracle = WriterOracle(
            world, lambda: self.metadata, self.core, accepts_loss=accepts_loss
        )
        self._on_closed: Callable[[ZbkError | None], None] = lambda _error: None
        for bookie_id, deliver in zip(self._bookies, self._deliver, strict=True):
            self.pool.link(bookie_id).subscribe(deliver)
        self.node.after(TICK_US, self._tick)

    # ------------------------------------------------------------------ what applications call

    def append(self, begun: list[Event], payloads: list[bytes]) -> None:
        """Append; the calls were noted by the caller."""
        self._handle(ev.Append(begun, payloads))

    def sync(self, done: Callable[[ZbkError | None], None] | None = None) -> None:
        """Call ``sync()``."""
        begun = self._invoke("sync")
        if done is not None:
            self._sync_done[begun.index] = done
        self._handle(ev.SyncRequested(begun))

    def _sync_ended(self, begun: Event, error: ZbkError | None) -> None:
        done = self._sync_done.pop(begun.index, None)
        if done is not None:
            done(error)

    def flush(self, done: Callable[[ZbkError | None], None]) -> None:
        """Report when everything appended before is answered."""
        self._handle(ev.Append(Flush(done), []))

    def close(self, done: Callable[[ZbkError | None], None] = lambda _error: None) -> None:
        """Call ``close()``."""
        self._on_closed = done
        self._ask_close()

    def _ask_close(self) -> None:
        event = ev.CloseRequested(self._invoke("close"), CLOSE_WAIT_MS, self._accepts_loss)
        self._handle(event)

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
            self._handle(ev.Tick())
        self.node.after(TICK_US, self._tick)

    def _news_of(self, bookie_id: str) -> Callable[[News], None]:
        def deliver(news: News) -> None:
            if bookie_id not in self._bookies or self.is_over:
                return
            slot = self._bookies.index(bookie_id)
            match news:
                case BookieUp():
                    self._handle(ev.SlotUp(slot, news.incarnation))
                case BookieDown():
                    self._handle(ev.SlotDown(slot, news.error))
                case Reply():
                    raise AssertionError("replies go to whoever asked")

        return deliver

    def _on_reply(self, news: News) -> None:
        assert isinstance(news, Reply), "each question gets a reply"
        if not self.is_over:
            event = _event_of(news)
            if event is not None:
                self._handle(event)

    def _handle(self, event: ev.Event) -> None:
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
                request = self._sync_request(effect.slot, effect.lac)
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
                self._change_ensemble(effect)
            case ev.ReportMissing():
                self._report(effect)
            case ev.CloseLedger():
                self._close_in_metadata(effect)
            case ev.CloseFailed():
                self._end(effect.ticket, "info", error=effect.error)
                self._close_failed(effect.error)
            case ev.SlotSuspect():
                self.node.trace(f"slot {effect.slot} is suspect: {effect.error!r}")
                self.pool.link(self._bookies[effect.slot]).reset(effect.error)

    def _send_add(self, effect: ev.SendAdd) -> None:
        batch = effect.batch
        self._oracle.sent(batch.entry_ids[-1])
        request = self._add_request(batch, effect.lac, effect.slot)
        key = AddKey(effect.slot, batch.first_entry_id, effect.epoch)
        self._ask(effect.slot, request, encode_batch(batch), key)

    def _sync_request(self, slot: int, lac: int) -> Sync:
        return Sync(
            request_id=0,
            ledger_id=self.ledger_id,
            ledger_key=self._key,
            lac=lac,
            stripe=self.core.stripes[slot] or msgspec.UNSET,
        )

    def _add_request(self, batch: EntryBatch, lac: int, slot: int) -> Add:
        return Add(
            request_id=0,
            ledger_id=self.ledger_id,
            ledger_key=self._key,
            ledger_type=self.metadata.ledger_type,
            first_entry_id=batch.first_entry_id,
            count=batch.count,
            lac=lac,
            checksum=batch.checksum,
            is_striped=not batch.is_in_a_row,
            stripe=self.core.stripes[slot] or msgspec.UNSET,
        )

    def _send_lac(self, effect: ev.SendLac) -> None:
        self.world.sometimes["writer: tells its LAC while it is idle"] += 1
        request = WriteLac(
            request_id=0,
            ledger_id=self.ledger_id,
            ledger_key=self._key,
            ledger_type=self.metadata.ledger_type,
            lac=effect.lac,
        )
        self._ask(effect.slot, request, (), LacKey(effect.slot, effect.lac, effect.epoch))

    def _ask(
        self, slot: int, request: Add | Sync | WriteLac, frames: Sequence[Any], key: object
    ) -> None:
        whole = tuple(bytes(frame) for frame in frames)
        self.pool.request(self._bookies[slot], request, whole, key, self._on_reply)

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

    # ------------------------------------------------------------------ ensemble change

    def _change_ensemble(self, effect: ev.ChangeEnsemble) -> None:
        if self._changing is not None and self._changing[0].change_id == effect.change_id:
            self._write_ensemble(effect, self._changing[1])  # again: they have caught up
            return
        catch_up = CatchUp(effect, self._choose(effect))
        self._changing = effect, catch_up
        self.node.trace(f"changes the ensemble at {effect.first_entry_id}: {catch_up.caught_up}")
        for send in catch_up.sends:
            self.world.sometimes["writer: a new bookie catches up"] += 1
            self._send_catch_up(send, effect.change_id)
        self._write_if_caught_up()

    def _send_catch_up(self, send: SendCatchUp, change_id: int) -> None:
        key = CatchUpKey(send.slot, change_id)
        for batch in send.batches:
            frames = tuple(bytes(frame) for frame in encode_batch(batch))
            add = self._add_request(batch, send.lac, send.slot)
            self.pool.request(send.bookie_id, add, frames, key, self._on_catch_up)
        sync = self._sync_request(send.slot, send.lac)
        self.pool.request(send.bookie_id, sync, (), key, self._on_catch_up)

    def _on_catch_up(self, news: News) -> None:
        assert isinstance(news, Reply), "each question gets a reply"
        key, outcome = news.key, news.outcome
        assert isinstance(key, CatchUpKey)
        if self.is_over or self._changing is None:
            return
        change, catch_up = self._changing
        if change.change_id != key.change_id or catch_up.is_over:
            return
        match outcome:
            case AddAnswer():
                catch_up.added(key.slot, None)
            case SyncAnswer():
                catch_up.synced(key.slot, outcome.last_add_synced)
            case _:
                error = outcome if isinstance(outcome, ZbkError) else None
                catch_up.added(key.slot, error or BookieUnavailableError("?", "nonsense"))
        self._write_if_caught_up()

    def _write_if_caught_up(self) -> None:
        assert self._changing is not None, "a change is pending"
        change, catch_up = self._changing
        if catch_up.is_over:
            failed_count = len(catch_up.failures)
            self.world.sometimes["writer: a new bookie cannot catch up"] += failed_count
            self._write_ensemble(change, catch_up)

    def _write_ensemble(self, effect: ev.ChangeEnsemble, catch_up: CatchUp) -> None:
        chosen = catch_up.caught_up
        if not chosen:
            error = NotEnoughBookiesError(len(effect.failed), 0, "no replacement is left")
            self.world.sometimes["writer: no replacement is left"] += 1
            self.node.after(0, self._handle, ev.EnsembleChangeFailed(effect.change_id, error))
            return

        def change() -> LedgerMetadata:
            metadata, _version = self._ledgers.update(
                self.ledger_id,
                lambda now: change_ensemble(
                    now, effect.first_entry_id, chosen, effect.length_before
                ),
            )
            return metadata

        self.world.metadata.submit(
            self.node, change, lambda outcome: self._changed(effect.change_id, outcome)
        )

    def _choose(self, effect: ev.ChangeEnsemble) -> dict[int, tuple[str, str]]:
        found = self.world.replacements(self._bookies, tuple(effect.failed))
        return {slot: (effect.failed[slot], found[slot]) for slot in sorted(found)}

    def _changed(self, change_id: int, outcome: LedgerMetadata | ZbkError) -> None:
        if self.is_over:
            return
        if isinstance(outcome, ZbkError):
            self.node.trace(f"could not change the ensemble: {outcome!r}")
            if isinstance(outcome, LedgerFencedError):
                self.world.sometimes["writer: an ensemble change meets a recovery"] += 1
            self._handle(ev.EnsembleChangeFailed(change_id, outcome))
            return
        self.world.sometimes["writer: the ensemble was changed"] += 1
        self.metadata = outcome
        fragment = outcome.last_fragment
        before, after = self._bookies, list(fragment.bookies)
        self._bookies = after
        for slot, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                self.pool.link(old).unsubscribe(self._deliver[slot])
        self._handle(ev.EnsembleChanged(change_id, fragment.first_entry_id, fragment.bookies))
        for slot, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                self._deliver[slot] = self._news_of(new)
                self.pool.link(new).subscribe(self._deliver[slot])

    def _report(self, effect: ev.ReportMissing) -> None:
        self.world.sometimes["writer: reports what a replaced bookie lacks"] += 1
        self.node.trace(f"reports {effect.missing}")
        report = MissingReport.not_written(effect.missing)

        def done(outcome: ZbkError | None) -> None:
            if outcome is None and not self.is_over:
                self._handle(ev.MissingReported(effect.missing))

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


def _event_of(reply: Reply) -> ev.Event | None:
    key, outcome = reply.key, reply.outcome
    error = outcome if isinstance(outcome, ZbkError) else BookieUnavailableError("?", "nonsense")
    match key, outcome:
        case AddKey(slot, first, epoch), AddAnswer():
            return ev.AddAnswered(slot, first, outcome.incarnation, outcome.last_add_synced, epoch)
        case AddKey(slot, first, epoch), _:
            return ev.AddFailed(slot, first, error, epoch)
        case SyncKey(slot, sync_id, epoch), SyncAnswer():
            las = outcome.last_add_synced
            return ev.SyncAnswered(slot, sync_id, outcome.incarnation, las, epoch)
        case SyncKey(slot, sync_id, epoch), _:
            return ev.SyncFailed(slot, sync_id, error, epoch)
        case LacKey(slot, lac, epoch), LacAnswer():
            return ev.LacTaken(slot, lac, epoch)
        case LacKey(slot, lac, epoch), _:
            return ev.LacFailed(slot, lac, error, epoch)
    raise AssertionError("a writer sends nothing else")
