"""A client that deletes a ledger, whoever writes, reads, recovers or copies it at that time."""

from tests.simulation.kernel import MS, Node
from tests.simulation.world import World
from zbk.errors import NoSuchLedgerError, ZbkError


class SimulatedDeleter:
    """Deletes one ledger, and tries until it is gone."""

    def __init__(self, world: World, name: str, ledger_id: int) -> None:
        self._world = world
        self.node = Node(world.kernel, name)
        self._ledgers = world.session(name).ledgers()
        self._ledger_id = ledger_id
        self.is_over = False
        self._begun = world.history.invoke(world.kernel.now_ms, name, "delete", ledger_id=ledger_id)
        self._attempt()

    def crash(self) -> None:
        """End the process: the ledger is there, or not."""
        self.node.die()
        self.is_over = True

    def _attempt(self) -> None:
        self._world.metadata.submit(
            self.node, lambda: self._ledgers.delete(self._ledger_id), self._on_answer
        )

    def _on_answer(self, outcome: ZbkError | None) -> None:
        if outcome is not None and not isinstance(outcome, NoSuchLedgerError):
            self.node.after((1 + self._world.tape.draw(4)) * 20 * MS, self._attempt)
            return
        # a writer that is at it may go on until its bookies have heard: that ends nothing for it
        self._world.history.end(self._begun, self._world.kernel.now_ms, "info")
        self._world.sometimes["client: a ledger deleted"] += 1
        self.is_over = True
