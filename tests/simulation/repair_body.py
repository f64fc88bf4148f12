"""The body of the repair of one ledger, around the real ``LedgerRepair``.

It does what ``zbk.auditor.ledger_repairer`` does, without waiting.
"""

import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias, assert_never

from tests.simulation.copier import CopyBody, HoldingsBody
from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.recoverer import RecoveryBody
from tests.simulation.repair_oracle import RepairOracle
from tests.simulation.repair_plan import SimulatedConnection
from tests.simulation.world import World
from zbk.errors import MetadataConflictError, ZbkError
from zbk.protocol.entry.words import NO_ENTRY, LedgerState
from zbk.protocol.ledger.changes import begin_recovery_of, cut_fragment, replace_bookie
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair import repair_effects as ev
from zbk.protocol.repair.holdings import AskHoldings
from zbk.protocol.repair.ledger_repair import LedgerRepair

Done: TypeAlias = Callable[[ev.RepairResult], None]
Seen: TypeAlias = tuple[LedgerMetadata, frozenset[str]]


class Work(Protocol):
    """A task that was taken."""

    ledger_id: int
    is_stopped: threading.Event


class RepairBody:
    """One repair; ends with one call of ``done``, if its node lives then."""

    def __init__(
        self,
        world: World,
        node: Node,
        pool: ClientPool,
        connection: SimulatedConnection,
        oracle: RepairOracle,
        repair: LedgerRepair,
        work: Work,
        done: Done,
    ) -> None:
        self._world = world
        self._node = node
        self._pool = pool
        self._connection = connection
        self._oracle = oracle
        self._repair = repair
        self._ledger_id = work.ledger_id
        self._is_stopped = work.is_stopped
        self._done = done
        self._registered: frozenset[str] = frozenset()
        node.after(0, self._begin)

    def _begin(self) -> None:
        self._go_on(self._repair.begin())

    def _answer(self, value: object) -> None:
        self._go_on(None if self._is_stopped.is_set() else self._repair.answer(value))

    def _go_on(self, effect: ev.RepairEffect | None) -> None:
        if self._is_stopped.is_set() and not self._repair.is_over:
            self._repair.stop()
        if self._repair.is_over:
            self._end(self._repair.result)
        else:
            assert effect is not None, "a repair that is not over wants something"
            self._carry_out(effect)

    def _end(self, result: ev.RepairResult) -> None:
        fields = {name: getattr(result, name) for name in result.__struct_fields__}
        told = {n: sorted(v) if isinstance(v, frozenset) else v for n, v in fields.items()}
        self._node.trace(f"the repair of L{self._ledger_id} has ended: {told}")
        self._done(result)

    def _carry_out(self, effect: ev.RepairEffect) -> None:
        match effect:
            case ev.LookAtLedger():
                self._look()
            case ev.WaitUntil(until_ms):
                self._world.sometimes["worker: waits for a writer"] += 1
                wait_us = max(1, until_ms - self._node.now_ms()) * MS
                self._node.after(wait_us, lambda: self._answer(self._node.now_ms()))
            case AskHoldings(bookie_id, span):
                HoldingsBody(self._pool, bookie_id, self._ledger_id, span, self._answer)
            case ev.ChooseTarget():
                chosen = self._connection.choose(effect, self._registered)
                self._node.after(0, self._answer, chosen)
            case ev.CopyFragment(order):
                self._node.trace(f"copies {order.spans} of L{self._ledger_id} to {order.target}")
                self._world.sometimes["worker: a fragment is copied"] += 1
                CopyBody(self._node, self._pool, order, self._answer)
            case ev.ReplaceBookie():
                self._replace(effect)
            case ev.CutFragment(first, starts):
                self._world.sometimes["worker: a fragment is cut around what is lost"] += 1
                self._update(lambda current: cut_fragment(current, first, starts))
            case ev.RecoverLedger(fragment):
                self._recover(fragment)
            case _:
                assert_never(effect)

    def _look(self) -> None:
        connection, asked_ms = self._connection, self._node.now_ms()

        def read() -> Seen:
            metadata, _version = connection.ledgers.read(self._ledger_id, is_fresh=True)
            return metadata, connection.registered()

        def take(outcome: Seen | ZbkError) -> None:
            if isinstance(outcome, ZbkError):
                self._answer(outcome)
                return
            metadata, self._registered = outcome
            now_ms = self._node.now_ms()
            self._answer(ev.LedgerSeen(metadata, self._registered, asked_ms, now_ms))

        self._world.metadata.submit(self._node, read, take)

    # ------------------------------------------------------------------ changing

    def _replace(self, wanted: ev.ReplaceBookie) -> None:
        first, old, new = wanted.first_entry_id, wanted.old, wanted.new
        is_ours = False

        def change(current: LedgerMetadata) -> LedgerMetadata | None:
            nonlocal is_ours
            changed = replace_bookie(current, first, wanted.slot, old, new)
            is_ours = changed is not None
            if changed is not None:
                self._oracle.check_target(current, wanted)
            return changed

        def done(changed: LedgerMetadata) -> ev.BookieReplaced:
            self._world.sometimes["worker: a bookie is replaced"] += is_ours
            return ev.BookieReplaced(changed, is_ours)

        self._update(change, done)

    def _update(
        self,
        change: Callable[[LedgerMetadata], LedgerMetadata | None],
        done: Callable[[LedgerMetadata], object] = lambda changed: changed,
    ) -> None:
        connection, ledger_id = self._connection, self._ledger_id

        def swap() -> LedgerMetadata:
            if not connection.tasks.holds(ledger_id):
                what = f"the lock of ledger {ledger_id}"
                raise MetadataConflictError(what, "it is not ours any more")
            metadata, _version = connection.ledgers.update(ledger_id, change)
            return metadata

        def take(outcome: LedgerMetadata | ZbkError) -> None:
            self._answer(outcome if isinstance(outcome, ZbkError) else done(outcome))

        self._world.metadata.submit(self._node, swap, take)

    def _recover(self, fragment: Fragment) -> None:
        connection, world, ledger_id = self._connection, self._world, self._ledger_id

        def begin() -> LedgerMetadata:
            def change(current: LedgerMetadata) -> LedgerMetadata | None:
                changed = begin_recovery_of(current, fragment)
                if changed is not None:
                    self._oracle.check_grace(current)
                return changed

            return connection.ledgers.update(ledger_id, change)[0]

        def begun(outcome: LedgerMetadata | ZbkError) -> None:
            if isinstance(outcome, ZbkError):
                self._answer(outcome)
            elif outcome.state is not LedgerState.IN_RECOVERY:
                self._answer(ev.LedgerRecovered(is_ours=False))
            else:
                world.sometimes["worker: a ledger is fenced and recovered"] += 1
                call = world.history.invoke(
                    world.kernel.now_ms, self._node.name, "recover", ledger_id=ledger_id
                )

                def ended(closed: LedgerMetadata | ZbkError) -> None:
                    if isinstance(closed, ZbkError):
                        world.history.end(call, world.kernel.now_ms, "info", error=closed)
                        self._answer(closed)
                        return
                    last = NO_ENTRY if closed.last_entry_id is None else closed.last_entry_id
                    world.history.end(call, world.kernel.now_ms, "ok", result=last)
                    self._answer(ev.LedgerRecovered())

                RecoveryBody(world, self._node, self._pool, connection.session, ledger_id, ended)

        world.metadata.submit(self._node, begin, begun)
