"""A client that syncs a ledger which somebody else writes: the real ``OutsideSync`` and its body.

The body does what ``operations.outside_sync_pump`` does. What a sync returns is judged like what a
writer's sync returns: it is durable on an ack quorum, and the ledger never ends below it.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.world import World
from zbk.durability.level import level_of
from zbk.durability.outside_sync import (
    AskSync,
    Cursor,
    Effect,
    OutsideSync,
    ReadMetadata,
    RecordLac,
    TellLac,
)
from zbk.errors import BookieUnavailableError, ZbkError
from zbk.protocol.ledger.changes import report_lac
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.stripe import Stripe, stripes_of
from zbk.protocol.procedure import Procedure, Steps
from zbk.transport.events import News, Reply
from zbk.wire.messages import Sync, SyncAnswer, WriteLac

Found: TypeAlias = tuple[LedgerMetadata, int] | ZbkError
"""Metadata and their version, or why they could not be read."""


class SimulatedOutsideSyncer:
    """Syncs one VD ledger again and again, until it is closed or faults stop."""

    def __init__(self, world: World, name: str, ledger_id: int) -> None:
        self._world = world
        self.node = Node(world.kernel, name)
        self._pool = ClientPool(world.network, self.node, world.request_timeout_ms)
        self._ledgers = world.session(name).ledgers()
        self._ledger_id = ledger_id
        self._count = 0
        self.is_over = False
        self._again()

    def crash(self) -> None:
        """End the process."""
        self.node.die()
        self._pool.close()
        self.is_over = True

    def _again(self) -> None:
        self.node.after((1 + self._world.tape.draw(10)) * 20 * MS, self._begin)

    def _begin(self) -> None:
        if self._world.is_ending:
            self.is_over = True
            return
        self._read_metadata(self._on_metadata)

    def _read_metadata(self, done: Callable[[Found], None]) -> None:
        ledgers, ledger_id = self._ledgers, self._ledger_id
        self._world.metadata.submit(self.node, lambda: ledgers.read(ledger_id, is_fresh=True), done)

    def _ask_store(self, effect: ReadMetadata | RecordLac, done: Callable[[Found], None]) -> None:
        ledgers, ledger_id = self._ledgers, self._ledger_id
        if isinstance(effect, ReadMetadata):
            self._read_metadata(done)
            return

        def record() -> tuple[LedgerMetadata, int]:
            return ledgers.update(
                ledger_id, lambda now: report_lac(now, effect.fragment, effect.lac)
            )

        self._world.metadata.submit(self.node, record, done)

    def _on_metadata(self, found: Found) -> None:
        if isinstance(found, ZbkError):
            self._again()
        elif found[0].is_closed:
            self.is_over = True
        else:
            assert level_of(found[0].ledger_type).has_sync_cursor, "it is a VD ledger"
            self._sync(*found)

    def _sync(self, metadata: LedgerMetadata, version: int) -> None:
        """Run one sync; each is a handle of its own: a later one may hear fewer bookies."""
        world = self._world
        self._count += 1
        begun = world.history.invoke(
            world.kernel.now_ms,
            f"{self.node.name}.{self._count}",
            "sync",
            ledger_id=self._ledger_id,
        )

        def done(outcome: int | ZbkError) -> None:
            now_ms = world.kernel.now_ms
            if isinstance(outcome, ZbkError):
                world.history.end(begun, now_ms, "info", error=outcome)
            else:
                self.node.trace(f"synced L{self._ledger_id} up to {outcome}")
                world.sometimes["outside sync: entries are durable"] += outcome >= 0
                world.check_durable(self._ledger_id, 0, outcome)
                world.history.end(begun, now_ms, "ok", result=outcome)
            self._again()

        steps = OutsideSync(metadata, version).run()
        asked = self._ask_store
        _OutsideSyncBody(world, self.node, self._pool, metadata, steps, asked, done).run()


class _OutsideSyncBody:
    """One sync; ends with one call of ``done``."""

    def __init__(
        self,
        world: World,
        node: Node,
        pool: ClientPool,
        metadata: LedgerMetadata,
        steps: Steps[Effect, int],
        ask_store: Callable[[ReadMetadata | RecordLac, Callable[[Found], None]], None],
        done: Callable[[int | ZbkError], None],
    ) -> None:
        self._world = world
        self._node = node
        self._pool = pool
        self._metadata = metadata
        self._procedure = Procedure(steps)
        self._bookies: tuple[str, ...] = ()
        self._ask_store = ask_store
        self._done = done

    def run(self) -> None:
        """Begin."""
        self._carry_out(self._procedure.begin())

    def _answer(self, value: object) -> None:
        try:
            effect = self._procedure.answer(value)
        except ZbkError as error:
            self._world.sometimes["outside sync: too few bookies"] += 1
            self._done(error)
        else:
            self._carry_out(effect)

    def _carry_out(self, effect: Effect | None) -> None:
        match effect:
            case AskSync(bookies, lac):
                self._bookies = bookies
                asks = [
                    self._sync_request(lac, stripe) for stripe in stripes_of(self._metadata.quorum)
                ]
                self._ask_all(bookies, asks, self._answer)
            case TellLac(bookies, lac):
                self._world.sometimes["outside sync: tells the LAC"] += 1
                tells = [self._lac_request(lac)] * len(bookies)
                self._ask_all(bookies, tells, lambda _told: self._answer(None))
            case ReadMetadata() | RecordLac():
                is_record = isinstance(effect, RecordLac)
                self._world.sometimes["outside sync: records the LAC"] += is_record
                self._ask_store(effect, self._metadata_read)
            case None:
                self._done(self._procedure.result)

    def _metadata_read(self, found: Found) -> None:
        if not isinstance(found, ZbkError):
            is_moved = found[0].last_fragment.bookies != self._bookies
            self._world.sometimes["outside sync: its bookies were replaced"] += is_moved
        self._answer(found)

    def _ask_all(
        self,
        bookies: tuple[str, ...],
        requests: Sequence[Sync | WriteLac],
        done: Callable[[dict[int, Cursor | ZbkError]], None],
    ) -> None:
        answers: dict[int, Cursor | ZbkError] = {}
        for slot, bookie_id in enumerate(bookies):

            def deliver(news: News, slot: int = slot) -> None:
                assert isinstance(news, Reply), "each question gets a reply"
                answers[slot] = _cursor(news)
                if len(answers) == len(bookies):
                    done(answers)

            self._pool.request(bookie_id, requests[slot], (), slot, deliver)

    def _sync_request(self, lac: int, stripe: Stripe | None) -> Sync:
        ledger_id = self._metadata.ledger_id
        return Sync(
            request_id=0,
            ledger_id=ledger_id,
            ledger_key=self._world.ledger_key(ledger_id),
            lac=lac,
            stripe=stripe or msgspec.UNSET,
        )

    def _lac_request(self, lac: int) -> WriteLac:
        ledger_id = self._metadata.ledger_id
        return WriteLac(
            request_id=0,
            ledger_id=ledger_id,
            ledger_key=self._world.ledger_key(ledger_id),
            ledger_type=self._metadata.ledger_type,
            lac=lac,
        )


def _cursor(reply: Reply) -> Cursor | ZbkError:
    match reply.outcome:
        case SyncAnswer() as answer:
            return Cursor(answer.incarnation, answer.last_add_synced)
        case ZbkError() as error:
            return error
        case _:
            return BookieUnavailableError(reply.bookie_id, "nonsense")
