"""Autorecovery in one run: some processes, each with an auditor and a worker, that may die.

A process that died comes back as another one. When all faults have ended, every task has to end
or to be put aside: ``is_drained``.
"""

from typing import Final

from tests.simulation.auditor import SimulatedAuditor
from tests.simulation.kernel import MS, Node
from tests.simulation.live_session import LiveSession
from tests.simulation.metadata import Session
from tests.simulation.repair_oracle import RepairOracle
from tests.simulation.repair_plan import RepairPlan
from tests.simulation.worker import SimulatedWorker
from tests.simulation.world import World
from zbk.metadata.records.underreplication import UnderreplicationStore

RESPAWN_US: Final = 500 * MS
LOOK_US: Final = 50 * MS


class RepairProcess:
    """One process: an auditor and a worker, with one session."""

    is_over = False  # as long as it lives it wants more

    def __init__(
        self, world: World, name: str, plan: RepairPlan, oracle: RepairOracle, site: "Autorecovery"
    ) -> None:
        self.node = Node(world.kernel, name)
        self._world = world
        self._site = site
        session = LiveSession(world.metadata, self.node, name)
        world.sessions.append(session)
        self._session = session
        self._auditor = SimulatedAuditor(world, self.node, session, plan, oracle)
        self._worker = SimulatedWorker(world, self.node, session, plan, oracle)

    def crash(self) -> None:
        """End the process in the middle of whatever it does; another one comes."""
        self._world.sometimes["autorecovery: a process dies"] += 1
        self.node.die()
        self.is_over = True
        self._worker.pool.close()
        self._auditor.pool.close()
        self._world.sessions.remove(self._session)
        self._site.replace(self)


class Autorecovery:
    """All processes of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._plan = RepairPlan.draw(world)
        config = self._plan.config
        self.oracle = RepairOracle(
            world, grace_ms=config.open_ledger_grace_ms, hold_ms=config.brake_hold_ms
        )
        self._tasks = UnderreplicationStore(Session(world.metadata, "oracle"))
        self._count = 0
        self._look_us = 0
        self.processes: list[RepairProcess] = []
        for _ in range(self._plan.process_count):
            self._begin()

    def replace(self, dead: RepairProcess) -> None:
        """Start another process in the place of one, some time from now."""
        self.processes.remove(dead)
        self._world.kernel.after(RESPAWN_US, self._begin)

    def _begin(self) -> None:
        self._count += 1
        name = f"repair{self._count}"
        process = RepairProcess(self._world, name, self._plan, self.oracle, self)
        self.processes.append(process)

    def put_aside(self) -> set[int]:
        """Return the ledgers that nobody can repair."""
        return set(self._tasks.list_unrepairable())

    def is_drained(self) -> bool:
        """Return whether no task is left, and every ledger is whole or was put aside.

        Asked at every event; looks now and then.
        """
        now_us = self._world.kernel.now_us
        if now_us < self._look_us:
            return False
        self._look_us = now_us + LOOK_US
        if not all(map(self.is_stuck, self._tasks.list())):
            return False
        aside = self.put_aside()
        world = self._world
        lost = {bookie.bookie_id for bookie in world.bookies if bookie.is_lost}
        return not any(
            not lost.isdisjoint(fragment.bookies)
            for ledger_id, metadata in world.metadata.current.items()
            if ledger_id not in aside and not self.is_stuck(ledger_id)
            for fragment in metadata.fragments
        )

    def is_stuck(self, ledger_id: int) -> bool:
        """Return whether a task says why it cannot end: somebody who is there is damaged.

        It is tried again, ever more rarely, until that bookie is mended or gone.
        """
        found = self._tasks.read(ledger_id)
        metadata = self._world.metadata.current.get(ledger_id)
        if found is None or metadata is None or not found[0].failure_count:
            return False
        bookies = [self._world.bookie(b) for one in metadata.fragments for b in one.bookies]
        return any(bookie.oracle.is_damaged and not bookie.is_lost for bookie in bookies)

    def state(self) -> str:
        """Return what is left, for people."""
        return f"tasks {list(self._tasks.list())}, put aside {sorted(self.put_aside())}"
