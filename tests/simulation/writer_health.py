"""I38: a writer that can leave a bookie that failed begins to, soon.

A writer is *idle* while a place of its ensemble has failed and it does nothing about that, though
nothing is in its way: it lives and is not paused, another bookie is there, and metadata are served.
Whatever goes wrong, or is under way, begins the time anew, so that only what is certain counts. A
writer that is idle for long loses its ledger to autorecovery, though it is healthy.
"""

from typing import Final

from tests.simulation.kernel import MS
from tests.simulation.world import World
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.write import events as ev
from zbk.protocol.write.writer import WriterCore

IDLE_US_MAX: Final = 450 * MS
"""More than a writer waits before it tries again."""

GAP_US_MAX: Final = 300 * MS
"""Between two ticks; more, and the writer was paused."""

_TROUBLE = (ev.SyncFailed, ev.EnsembleChanged, ev.EnsembleChangeFailed)


class WriterHealth:
    """How long one writer has done nothing about a bookie that failed."""

    def __init__(self, world: World, metadata: LedgerMetadata, core: WriterCore) -> None:
        self._world = world
        self._ledger_id = metadata.ledger_id
        self._core = core
        self._down: tuple[int, ...] = ()
        self._since_us: int | None = None
        self._looked_us = 0

    def look(self, event: ev.Event) -> None:
        """Judge how the writer stands, after an event."""
        now_us = self._world.kernel.now_us
        down, self._down = self._down, self._core.slots.down
        is_paused = now_us - self._looked_us > GAP_US_MAX
        if isinstance(event, _TROUBLE) or is_paused or self._down != down or not self._is_idle():
            self._since_us = None
        elif self._since_us is None:
            self._since_us = now_us
        elif now_us - self._since_us > IDLE_US_MAX:
            failed = [self._core.slots.bookies[slot] for slot in self._core.slots.failed]
            text = f"the writer of ledger {self._ledger_id} does nothing about {failed}"
            self._world.violated("I38", f"{text}, which failed {IDLE_US_MAX // MS} ms ago")
            self._since_us = None
        if isinstance(event, ev.Tick):
            self._looked_us = now_us

    def _is_idle(self) -> bool:
        core, world = self._core, self._world
        slots, keeper = core.slots, core._keeper
        if core.error is not None or core._is_ending or not slots.failed or world.metadata.is_down:
            return False
        if keeper.is_pending:
            return False
        ensemble = core.slots.bookies
        there = {b.bookie_id for b in world.bookies if b.node.is_alive and not b.is_lost}
        return bool(there.difference(ensemble))
