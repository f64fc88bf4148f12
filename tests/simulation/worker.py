"""A replication worker of the simulation: the real one, its work done in simulated time.

Which task is next, its lock, and what is said of it at the end are the real
``ReplicationWorker``'s; the repair in between has a simulated body.
"""

from random import Random
from typing import Any, Final

from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.live_session import LiveSession
from tests.simulation.repair_body import RepairBody
from tests.simulation.repair_oracle import RepairOracle
from tests.simulation.repair_plan import RepairPlan, SimulatedConnection
from tests.simulation.world import World
from zbk.auditor.worker import ReplicationWorker, Work
from zbk.errors import ZbkError
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.repair.repair_effects import RepairLimits, RepairResult
from zbk.protocol.repair.repair_task import aim_of

POLL_US: Final = 100 * MS


class SteppedWorker(ReplicationWorker):
    """The real one, driven by these calls: its threads are never started."""

    def watch(self) -> None:
        """Hear of the switch and of the session."""
        self._watches = [
            self._tasks.watch_enabled(self._switch),
            self._connection.store.on_session(self._on_session),
        ]

    def take(self) -> Work | None:
        """Lock and read the next task.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        if not self._is_enabled.is_set():
            return None
        ledger_id = self._queue.pop()
        if ledger_id is None or not self._tasks.lock(ledger_id, self._name):
            return None
        return self._begin(ledger_id)

    def conclude(self, work: Work, result: RepairResult) -> None:
        """Say what came of it."""
        try:
            self._conclude(work, result)
        except ZbkError:
            self._give_back(work)
            raise


class SimulatedWorker:
    """One worker, for as long as its node lives."""

    def __init__(
        self, world: World, node: Node, session: LiveSession, plan: RepairPlan, oracle: RepairOracle
    ) -> None:
        self._world = world
        self._node = node
        self._oracle = oracle
        self.pool = ClientPool(world.network, node, world.request_timeout_ms)
        self._connection = SimulatedConnection(world, session, UnderreplicationStore(session))
        self._limits = RepairLimits(grace_ms=plan.config.open_ledger_grace_ms)
        self._worker = SteppedWorker(
            self._connection,
            node.name,
            plan.config,
            _never_fails,
            now_ms=node.now_ms,
            rng=Random(world.tape.draw(1 << 16)),
        )
        self._worker.watch()
        for _ in range(plan.config.worker_count):
            self._rest()

    def _rest(self) -> None:
        delay_us = POLL_US + self._world.tape.draw(4) * POLL_US
        self._node.after(delay_us, self._turn)

    def _turn(self) -> None:
        self._world.metadata.submit(self._node, self._worker.take, self._taken)

    def _taken(self, work: Any) -> None:  # noqa: ANN401 - a task, nothing, or an error
        if work is None or isinstance(work, ZbkError):
            self._rest()
            return
        self._world.sometimes["worker: a task is taken"] += 1
        self._node.trace(f"works on L{work.ledger_id}: {work.task.missing}")
        self._oracle.attempted(work.ledger_id)
        core = self._world.parts.repair_core(aim_of(work.task), self._limits)

        def done(result: RepairResult) -> None:
            conclude = self._worker.conclude
            self._world.metadata.submit(
                self._node, lambda: conclude(work, result), lambda _outcome: self._rest()
            )

        RepairBody(
            self._world,
            self._node,
            self.pool,
            self._connection,
            self._oracle,
            core,
            work,
            done,
        )


def _never_fails(error: BaseException) -> None:
    raise AssertionError(f"a worker without threads fails at once: {error}")
