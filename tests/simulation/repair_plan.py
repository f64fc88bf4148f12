"""Autorecovery of one run: its settings, and the connection that auditors and workers use.

``SimulatedConnection`` is the ``ClusterConnection`` of the real ``AuditSteps`` and
``ReplicationWorker``. Simulated bodies replace their parts that wait for bookies.
"""

from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, cast

import msgspec

from tests.simulation.live_session import LiveSession
from tests.simulation.world import World
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.client.cluster.placer import BookiePlacer
from zbk.client.cluster.requests import Requests
from zbk.config import AutorecoveryConfig
from zbk.metadata.paths import AVAILABLE, READONLY_NAME
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.ledger.placement import Candidate, RandomPlacement
from zbk.protocol.repair.repair_effects import ChooseTarget, TargetChosen

SHARE: Final = 3
"""In one of so many runs there is autorecovery."""


HOLDINGS_INTERVAL_MS: Final = 4_000
"""How often auditors compare what bookies hold, in runs with periodic checks. In the others nobody
finds a hole that is not reported."""


class InlinePool(ThreadPoolExecutor):
    """A pool that does at once what it is given."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401 - as the pool
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(error)
        return future


class SimulatedConnection(ClusterConnection):
    """The real one without its threads; ``requests`` and ``placer`` are nobody's to use."""

    def __init__(self, world: World, session: LiveSession, tasks: UnderreplicationStore) -> None:
        self._world = world
        self.store = self.session = session
        self.ledgers = session.ledgers()
        self.tasks = tasks
        self.requests = cast("Requests", None)
        self.placer = cast("BookiePlacer", None)

    def registered(self) -> frozenset[str]:
        """Return who is registered now."""
        return frozenset(self.store.children(AVAILABLE)) - {READONLY_NAME}

    def has_left_limbo(self, bookie_id: str, ledger_id: int) -> bool:
        """Return whether a bookie, if it lives, knows what it has of a ledger."""
        bookie = self._world.bookie(bookie_id)
        losses = bookie.losses
        if losses is None or not bookie.node.is_alive:
            return False
        return not any(ledger_id in losses.left(has_lost_fences=one) for one in (True, False))

    def choose(self, wanted: ChooseTarget, registered: Collection[str]) -> TargetChosen:
        """Return a bookie for a slot, as ``PlacementTarget`` does."""
        names = self._world.tape.shuffled(sorted(registered))
        found = RandomPlacement().replacements(
            [Candidate(name) for name in names],
            wanted.ensemble,
            [wanted.slot],
            exclude=wanted.exclude,
        )
        return TargetChosen(found.get(wanted.slot))


class RepairPlan(msgspec.Struct, frozen=True):
    """How autorecovery is set up in one run."""

    config: AutorecoveryConfig
    process_count: int

    @classmethod
    def draw(cls, world: World) -> "RepairPlan":
        """Draw it."""
        tape = world.tape
        config = AutorecoveryConfig(
            lost_bookie_delay_ms=tape.pick((0, 1_500)),
            brake_window_ms=5_000,
            brake_hold_ms=tape.pick((800, 2_500)),
            bookie_check_interval_ms=(interval_ms := tape.pick((10_000, 0))),
            ledger_check_interval_ms=0,
            replicas_check_interval_ms=HOLDINGS_INTERVAL_MS if interval_ms else 0,
            worker_count=1 + tape.draw(2),
            open_ledger_grace_ms=tape.pick((700, 2_500)),
            repair_retry_ms_max=3_200,
        )
        return cls(config, 1 + tape.draw(2))
