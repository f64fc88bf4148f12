"""A writer of the simulation: an application that appends to one ledger, syncs, closes or dies."""

import msgspec

from tests.simulation.kernel import MS, Node
from tests.simulation.world import World
from tests.simulation.writer_body import WriterBody
from tests.support.history import hash_of
from zbk.protocol.ledger.metadata import LedgerMetadata


class Plan(msgspec.Struct, frozen=True):
    """What the application does."""

    append_count: int
    gap_us_max: int
    batch_count_max: int = 4
    size_max: int = 120
    sync_share: int = 0  # per mille, after an append
    has_close: bool = True


class SimulatedWriter:
    """One process that writes one ledger."""

    def __init__(self, world: World, name: str, metadata: LedgerMetadata, plan: Plan) -> None:
        self._world = world
        self.node = Node(world.kernel, name)
        self._body = WriterBody(world, self.node, metadata)
        self._plan = plan
        self._left_count = plan.append_count
        self._value_count = 0
        self.node.after(world.tape.draw(20) * MS, self._append)

    @property
    def is_over(self) -> bool:
        """True when it is closed, has failed to close, or is dead."""
        return self._body.is_over

    def crash(self) -> None:
        """End the process: whoever waits never hears."""
        self.node.trace("the writer dies")
        self.node.die()
        self._body.give_up()

    def _append(self) -> None:
        if self.is_over:
            return
        tape, plan = self._world.tape, self._plan
        if not self._left_count or self._world.is_ending:
            if plan.has_close:
                self.node.after(tape.draw(4) * 5 * MS, self._body.close)
            else:
                self.node.after(tape.draw(20) * 50 * MS, self.crash)
            return
        count = min(self._left_count, 1 + tape.draw(plan.batch_count_max))
        self._left_count -= count
        payloads = [self._value() for _ in range(count)]
        begun = [
            self._world.history.invoke(
                self._world.kernel.now_ms,
                self.node.name,
                "add",
                ledger_id=self._body.ledger_id,
                value_hash=hash_of(payload),
            )
            for payload in payloads
        ]
        self._body.append(begun, payloads)
        if tape.chance(plan.sync_share):
            self._body.sync()
        self.node.after(tape.draw(8) * plan.gap_us_max // 8, self._append)

    def _value(self) -> bytes:
        text = f"L{self._body.ledger_id} value {self._value_count} "
        self._value_count += 1
        return text.encode() + bytes(self._world.tape.draw(self._plan.size_max))
