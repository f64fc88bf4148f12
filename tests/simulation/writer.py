"""A writer of the simulation: the real ``WriterCore`` and an application that appends.

The body around the core does what ``zbk.client.writer_actor`` does: requests out, news in, changes
of the metadata through the real ``LedgerStore``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from tests.simulation.kernel import MS, Node
from tests.simulation.network import ClientPool
from tests.simulation.world import World
from tests.support.history import Event, hash_of
from zbk.errors import (
    BookieUnavailableError,
    LedgerFencedError,
    MetadataUnavailableError,
    NotEnoughBookiesError,
    ZbkError,
)
from zbk.protocol import writer_events as ev
from zbk.protocol.ledger_metadata import LedgerMetadata
from zbk.protocol.metadata_changes import change_ensemble, close_by_writer
from zbk.protocol.words import LedgerState
from zbk.transport.news import BookieDown, BookieUp, News, Reply
from zbk.wire.codec import encode_batch
from zbk.wire.messages import Add, AddAnswer, LacAnswer, Sync, SyncAnswer, WriteLac

TICK_US: Final = 100 * MS
CLOSE_ATTEMPT_COUNT_MAX: Final = 20


class AddKey(msgspec.Struct, frozen=True):
    slot: int
    first_entry_id: int
    epoch: int


class SyncKey(msgspec.Struct, frozen=True):
    slot: int
    sync_id: int


class LacKey(msgspec.Struct, frozen=True):
    slot: int
    lac: int


class Plan(msgspec.Struct, frozen=True):
    """What the application does."""

    append_count: int
    gap_us_max: int
    batch_count_max: int = 4
    size_max: int = 120
    sync_share: int = 0  # per mille, after an append
    has_close: bool = True


class SimulatedWriter:
    """One writer of one ledger, until it is closed, fails, or dies."""

    def __init__(self, world: World, name: str, metadata: LedgerMetadata, plan: Plan) -> None:
        self.world = world
        self.node = Node(world.kernel, name)
        self.pool = ClientPool(world.network, self.node, world.request_timeout_ms)
        self.metadata = metadata
        self.ledger_id = metadata.ledger_id
        self.plan = plan
        self.is_over = False
        self.core = world.parts.writer_core(world, metadata)
        self._session = world.session(name)
        self._ledgers = self._session.ledgers()
        self._bookies = list(metadata.last_fragment.bookies)
        self._deliver: list[Callable[[News], None]] = [self._news_of(b) for b in self._bookies]
        self._key = world.ledger_key(self.ledger_id)
        self._left_count = plan.append_count
        self._value_count = 0
        self._checked_lac = -1
        self._synced_id = -1
        self._chosen: dict[int, dict[int, tuple[str, str]]] = {}
        self._close_left = CLOSE_ATTEMPT_COUNT_MAX
        self._close_begun: Event | None = None
        world.metadata.watchers.append(self._check_fragment)
        for bookie_id, deliver in zip(self._bookies, self._deliver, strict=True):
            self.pool.link(bookie_id).subscribe(deliver)
        self.node.after(TICK_US, self._tick)
        self.node.after(world.tape.draw(20) * MS, self._append)

    # ------------------------------------------------------------------ the application

    def _append(self) -> None:
        if self.is_over:
            return
        if not self._left_count or self.world.is_ending:
            if not self.plan.has_close:
                self.node.after(self.world.tape.draw(20) * 50 * MS, self.crash)
            else:
                self.node.after(self.world.tape.draw(4) * 5 * MS, self._close)
            return
        tape = self.world.tape
        count = min(self._left_count, 1 + tape.draw(self.plan.batch_count_max))
        self._left_count -= count
        payloads, begun = [], []
        for _ in range(count):
            value = f"L{self.ledger_id} value {self._value_count} ".encode()
            self._value_count += 1
            value += bytes(tape.draw(self.plan.size_max))
            payloads.append(value)
            begun.append(self._invoke("add", hash_of(value)))
        self._handle(ev.Append(begun, payloads))
        if tape.chance(self.plan.sync_share):
            self._handle(ev.SyncRequested(self._invoke("sync")))
        self.node.after(tape.draw(8) * self.plan.gap_us_max // 8, self._append)

    def _close(self) -> None:
        self._close_begun = self._invoke("close")
        self._handle(ev.CloseRequested(self._close_begun))

    def _invoke(self, call: str, value_hash: str | None = None) -> Event:
        world = self.world
        return world.history.invoke(
            world.kernel.now_ms,
            self.node.name,
            call,
            ledger_id=self.ledger_id,
            value_hash=value_hash,
        )

    def _end(self, begun: Event, kind: Any, **what: Any) -> None:  # noqa: ANN401 - as History.end
        self.world.history.end(begun, self.world.kernel.now_ms, kind, **what)

    def crash(self) -> None:
        """End the process: whoever waits never hears."""
        self.node.trace("the writer dies")
        self.node.die()
        self.pool.close()
        self.is_over = True

    # ------------------------------------------------------------------ events in

    def _tick(self) -> None:
        if self.is_over:
            return
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
        assert isinstance(news, Reply), "whoever asks gets replies"
        if not self.is_over:
            event = _event_of(news)
            if event is not None:
                self._handle(event)

    def _handle(self, event: ev.Event) -> None:
        effects = self.core.handle(event, self.node.now_ms())
        for effect in effects:
            self._carry_out(effect)
        self._check_lac()

    # ------------------------------------------------------------------ effects out

    def _carry_out(self, effect: ev.Effect) -> None:  # noqa: C901 - one case an effect
        match effect:
            case ev.SendAdd():
                self._send_add(effect)
            case ev.SendSync():
                request = Sync(
                    request_id=0, ledger_id=self.ledger_id, ledger_key=self._key, lac=effect.lac
                )
                self._ask(effect.slot, request, (), SyncKey(effect.slot, effect.sync_id))
            case ev.SendLac():
                self._send_lac(effect)
            case ev.Acked():
                self._acked(effect.tickets)
            case ev.Failed():
                self.node.trace(f"appends failed: {effect.error!r}")
                for ticket in effect.tickets:
                    for begun in ticket:
                        self._end(begun, "info", error=effect.error)
            case ev.SyncDone():
                self.world.check_durable(self.ledger_id, self._synced_id + 1, effect.last_entry_id)
                self._synced_id = max(self._synced_id, effect.last_entry_id)
                self._end(effect.ticket, "ok", result=effect.last_entry_id)
            case ev.SyncFailedFor():
                self._end(effect.ticket, "info", error=effect.error)
            case ev.ChangeEnsemble():
                self._change_ensemble(effect)
            case ev.CloseLedger():
                self._close_in_metadata(effect)
            case ev.CloseFailed():
                self._end(effect.ticket, "info", error=effect.error)
                self._finish()
            case ev.SlotSuspect():
                self.node.trace(f"slot {effect.slot} is suspect: {effect.error!r}")
                self.pool.link(self._bookies[effect.slot]).reset(effect.error)

    def _send_add(self, effect: ev.SendAdd) -> None:
        batch = effect.batch
        request = Add(
            request_id=0,
            ledger_id=self.ledger_id,
            ledger_key=self._key,
            ledger_type=self.metadata.ledger_type,
            first_entry_id=batch.first_entry_id,
            count=batch.count,
            lac=effect.lac,
            checksum=batch.checksum,
            is_striped=not batch.is_in_a_row,
        )
        key = AddKey(effect.slot, batch.first_entry_id, effect.epoch)
        self._ask(effect.slot, request, encode_batch(batch), key)

    def _send_lac(self, effect: ev.SendLac) -> None:
        self.world.sometimes["writer: tells its LAC while it is idle"] += 1
        request = WriteLac(
            request_id=0,
            ledger_id=self.ledger_id,
            ledger_key=self._key,
            ledger_type=self.metadata.ledger_type,
            lac=effect.lac,
        )
        self._ask(effect.slot, request, (), LacKey(effect.slot, effect.lac))

    def _ask(
        self, slot: int, request: Add | Sync | WriteLac, frames: Sequence[Any], key: object
    ) -> None:
        whole = tuple(bytes(frame) for frame in frames)
        self.pool.request(self._bookies[slot], request, whole, key, self._on_reply)

    def _acked(self, tickets: Sequence[ev.AckedTicket]) -> None:
        for ticket, first, _count in tickets:
            for entry_id, begun in enumerate(ticket, first):
                self._end(begun, "ok", entry_id=entry_id)
            if ticket:
                last = first + len(ticket) - 1
                self.node.trace(f"acknowledged L{self.ledger_id}/{first}..{last}")

    # ------------------------------------------------------------------ ensemble change

    def _change_ensemble(self, effect: ev.ChangeEnsemble) -> None:
        replaced = self._chosen.get(effect.change_id)
        if replaced is None:
            replaced = self._choose(effect)
            self._chosen[effect.change_id] = replaced
        self.node.trace(f"changes the ensemble at {effect.first_entry_id}: {replaced}")
        if not replaced:
            error = NotEnoughBookiesError(len(effect.failed), 0, "no replacement is left")
            self.world.sometimes["writer: no replacement is left"] += 1
            self.node.after(0, self._handle, ev.EnsembleChangeFailed(effect.change_id, error))
            return
        chosen = replaced

        def change() -> LedgerMetadata:
            metadata, _version = self._ledgers.update(
                self.ledger_id, lambda now: change_ensemble(now, effect.first_entry_id, chosen)
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

    # ------------------------------------------------------------------ the end

    def _close_in_metadata(self, effect: ev.CloseLedger) -> None:
        last_entry_id, length = effect.last_entry_id, effect.length
        if last_entry_id > self.core.last_acked_id:
            text = f"ledger {self.ledger_id} is closed at {last_entry_id}"
            self.world.violated("I14", f"{text}, {self.core.last_acked_id} is acknowledged")

        def close() -> None:
            self._ledgers.update(
                self.ledger_id, lambda now: close_by_writer(now, last_entry_id, length)
            )

        def done(outcome: ZbkError | None) -> None:
            if isinstance(outcome, MetadataUnavailableError) and self._close_left:
                self._close_left -= 1
                self._end(effect.ticket, "info", error=outcome)
                again = msgspec.structs.replace(effect, ticket=self._invoke("close"))
                self.node.after(100 * MS, self._close_in_metadata, again)
                return
            error = outcome or effect.error
            if error is None:
                self._end(effect.ticket, "ok", result=last_entry_id)
            else:
                self._end(effect.ticket, "info", error=error)
            self._finish()

        self.world.metadata.submit(self.node, close, done)

    def _finish(self) -> None:
        self.is_over = True
        self._handle_end()
        self.pool.close()

    def _handle_end(self) -> None:
        error = BookieUnavailableError("(all)", "the writer is given back")
        for effect in self.core.handle(ev.Abandoned(error), self.node.now_ms()):
            if isinstance(effect, ev.Failed | ev.SyncFailedFor | ev.CloseFailed):
                self._carry_out_last(effect)

    def _carry_out_last(self, effect: ev.Failed | ev.SyncFailedFor | ev.CloseFailed) -> None:
        if isinstance(effect, ev.Failed):
            for ticket in effect.tickets:
                for begun in ticket:
                    self._end(begun, "info", error=effect.error)
        else:
            self._end(effect.ticket, "info", error=effect.error)

    # ------------------------------------------------------------------ what must hold

    def _check_fragment(self, metadata: LedgerMetadata) -> None:
        """I13: a new fragment starts at the LAC + 1 of its writer, who waits for it."""
        is_mine = metadata.ledger_id == self.ledger_id and not self.is_over
        if not is_mine or metadata.state is not LedgerState.OPEN:
            return
        start = metadata.last_fragment.first_entry_id
        is_new = metadata.last_fragment != self.metadata.last_fragment
        if is_new and start != self.core.last_acked_id + 1:
            text = f"ledger {self.ledger_id}: a fragment starts at {start}"
            acked_id = self.core.last_acked_id
            self.world.violated("I13", f"{text}, {acked_id} was the last entry acknowledged")

    def _check_lac(self) -> None:
        """I7: all up to the LAC is on stable storage at an ack quorum of its write set."""
        lac = self.core.lac
        if lac > self._checked_lac:
            self.world.check_durable(self.ledger_id, self._checked_lac + 1, lac)
            self._checked_lac = lac


def _event_of(reply: Reply) -> ev.Event | None:
    key, outcome = reply.key, reply.outcome
    error = outcome if isinstance(outcome, ZbkError) else BookieUnavailableError("?", "nonsense")
    match key, outcome:
        case AddKey(slot, first, epoch), AddAnswer():
            return ev.AddAnswered(slot, first, outcome.incarnation, outcome.last_add_synced, epoch)
        case AddKey(slot, first, epoch), _:
            return ev.AddFailed(slot, first, error, epoch)
        case SyncKey(slot, sync_id), SyncAnswer():
            return ev.SyncAnswered(slot, sync_id, outcome.incarnation, outcome.last_add_synced)
        case SyncKey(slot, sync_id), _:
            return ev.SyncFailed(slot, sync_id, error)
        case LacKey(), LacAnswer():
            return None
        case LacKey(slot, lac), _:
            return ev.LacFailed(slot, lac, error)
    raise AssertionError("a writer sends nothing else")
