"""A client of the simulation that recovers a ledger: the real ``RecoveryCore`` and its body.

The body does what ``zbk.client.operations.recovery_pump`` does.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.metadata import Session
from tests.simulation.world import World
from zbk.client.cluster.ledger_calls import LedgerRequests
from zbk.client.operations.recovery_pump import event_of, request_of
from zbk.errors import ZbkError
from zbk.metadata.records.ledger_closing import MissingReport
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.changes import begin_recovery, close_by_recovery
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.recovery import events as ev
from zbk.protocol.recovery.recovery import RecoveryCore
from zbk.transport.events import News, Reply

TICK_US: Final = 100 * MS
TIMEOUT_US: Final = 20_000 * MS

Done: TypeAlias = Callable[[LedgerMetadata | ZbkError], None]


class RecoveryBody:
    """One recovery of one ledger, for one client; ends with one call of ``done``."""

    report_of = staticmethod(MissingReport.unchecked)

    def __init__(
        self,
        world: World,
        node: Node,
        pool: ClientPool,
        session: Session,
        ledger_id: int,
        done: Done,
    ) -> None:
        self._world = world
        self._node = node
        self._pool = pool
        self._ledgers = session.ledgers()
        self._closer = session.closer()
        self._ledger_id = ledger_id
        self._done = done
        self._core: RecoveryCore | None = None
        self._metadata: LedgerMetadata | None = None
        world.metadata.submit(node, self._begin, self._on_begun)

    def _begin(self) -> LedgerMetadata:
        metadata, _version = self._ledgers.update(self._ledger_id, begin_recovery)
        return metadata

    def _on_begun(self, outcome: LedgerMetadata | ZbkError) -> None:
        if isinstance(outcome, ZbkError) or outcome.is_closed:
            self._done(outcome)
            return
        self._metadata = outcome
        self._core = self._world.parts.recovery_core(self._world, outcome)
        self._handle(ev.RecoveryStarted())
        self._node.after(TICK_US, self._tick)
        self._node.after(TIMEOUT_US, self._handle, ev.TimeIsOver())

    def _tick(self) -> None:
        assert self._core is not None, "it has begun"
        if not self._core.is_over:
            self._handle(ev.Tick())
            self._node.after(TICK_US, self._tick)

    def _handle(self, event: ev.Event) -> None:
        assert self._core is not None, "it has begun"
        for effect in self._core.handle(event, self._node.now_ms()):
            self._carry_out(effect)

    def _carry_out(self, effect: ev.Effect) -> None:
        match effect:
            case ev.SendFence() | ev.SendRead() | ev.SendWrite():
                self._send(effect)
            case ev.ChooseReplacements():
                self._choose(effect)
            case ev.CloseRecovered():
                self._close(effect)
            case ev.RecoveryFailed():
                self._fail(effect.error)

    # ------------------------------------------------------------------ requests

    def _send(self, effect: ev.SendFence | ev.SendRead | ev.SendWrite) -> None:
        assert self._metadata is not None, "it has begun"
        if isinstance(effect, ev.SendWrite):
            self._world.sometimes["recovery: an entry is written back"] += 1
        ledger = LedgerRequests.of(self._metadata, self._world.ledger_key(self._ledger_id))
        request, frames = request_of(effect, ledger, self._world.read_size_max)
        whole = tuple(bytes(frame) for frame in frames)
        self._pool.request(effect.bookie_id, request, whole, effect, self._on_reply)

    def _on_reply(self, news: News) -> None:
        assert isinstance(news, Reply), "requests get replies"
        self._handle(event_of(news))

    def _choose(self, effect: ev.ChooseReplacements) -> None:
        found = self._world.replacements(list(effect.ensemble), effect.failed_slots)
        chosen = {slot: b for slot, b in sorted(found.items()) if b not in effect.exclude}
        if chosen:
            self._world.sometimes["recovery: changes the ensemble it writes to"] += 1
        self._node.trace(f"writes back to {chosen} in the place of {effect.failed_slots}")
        self._node.after(0, self._handle, ev.ReplacementsChosen(chosen))

    # ------------------------------------------------------------------ ends

    def _close(self, effect: ev.CloseRecovered) -> None:
        self._node.trace(f"closes L{self._ledger_id} at {effect.last_entry_id}")
        assert self._metadata is not None, "it has begun"
        bookies = [self._world.bookie(b) for b in self._metadata.last_fragment.bookies]
        if sum(self._ledger_id not in bookie.oracle.fenced for bookie in bookies) == 1:
            self._world.sometimes["recovery: a fence is missing on exactly one bookie"] += 1

        def close() -> LedgerMetadata:
            return self._closer.close(
                self._ledger_id,
                lambda now: close_by_recovery(
                    now, effect.fragments, effect.last_entry_id, effect.length
                ),
                self.report_of,
            )

        def done(outcome: LedgerMetadata | ZbkError) -> None:
            if isinstance(outcome, LedgerMetadata) and outcome.last_entry_id is not None:
                last = outcome.last_entry_id
                self._world.check_durable(self._ledger_id, max(0, last - 8), last)
                self._world.check_kept(outcome)
            self._done(outcome)

        self._world.metadata.submit(self._node, close, done)

    def _fail(self, error: ZbkError) -> None:
        """Adopt the end if another recoverer found it."""
        self._node.trace(f"cannot recover L{self._ledger_id}: {error!r}")
        self._world.sometimes["recovery: aborted as unknown"] += 1

        def done(outcome: LedgerMetadata | ZbkError) -> None:
            is_closed = isinstance(outcome, LedgerMetadata) and outcome.is_closed
            self._done(outcome if is_closed else error)

        ledgers, ledger_id = self._ledgers, self._ledger_id
        self._world.metadata.submit(self._node, lambda: ledgers.read(ledger_id)[0], done)


class SimulatedRecoverer:
    """A client that wants a ledger closed, and tries until it is, or its patience ends."""

    def __init__(self, world: World, name: str, ledger_id: int, *, attempt_count: int) -> None:
        self._world = world
        self.node = Node(world.kernel, name)
        self.pool = ClientPool(world.network, self.node, world.request_timeout_ms)
        self._session = world.session(name)
        self._ledger_id = ledger_id
        self._left_count = attempt_count
        self.is_over = False
        self._attempt()

    def crash(self) -> None:
        """End the process in the middle of whatever it does."""
        if not self.is_over:
            self._world.sometimes["recovery: the recoverer dies"] += 1
        self.node.die()
        self.pool.close()
        self.is_over = True

    def _attempt(self) -> None:
        world = self._world
        begun = world.history.invoke(
            world.kernel.now_ms, self.node.name, "recover", ledger_id=self._ledger_id
        )
        self._left_count -= 1

        def done(outcome: LedgerMetadata | ZbkError) -> None:
            if isinstance(outcome, ZbkError):
                world.history.end(begun, world.kernel.now_ms, "info", error=outcome)
                if self._left_count:
                    self.node.after((1 + world.tape.draw(4)) * 50 * MS, self._attempt)
                else:
                    self._finish()
                return
            last = NO_ENTRY if outcome.last_entry_id is None else outcome.last_entry_id
            world.history.end(begun, world.kernel.now_ms, "ok", result=last)
            self._finish()

        RecoveryBody(world, self.node, self.pool, self._session, self._ledger_id, done)

    def _finish(self) -> None:
        self.is_over = True
        self.pool.close()
