"""Since when nothing has kept a writer from leaving a bookie that failed.

A writer is *able* while a place of its ensemble has failed and it could give it to another bookie:
it lives and is not paused, an ack quorum of its bookies is connected and holds all that it has to
make durable, another bookie is there, and metadata are served. Whatever goes wrong begins the time
anew, so that only what is certain counts.
"""

from typing import Final

from tests.simulation.kernel import MS
from tests.simulation.world import World
from zbk.protocol import writer_events as ev
from zbk.protocol.ledger_metadata import LedgerMetadata
from zbk.protocol.writer import WriterCore

ABLE_US_MIN: Final = 2_000 * MS
"""Time that is enough for a sync and a change of the metadata, however slow the disks are."""

GAP_US_MAX: Final = 300 * MS
"""Between two ticks; more, and the writer was paused."""

_TROUBLE = (
    ev.SlotUp, ev.SlotDown, ev.AddFailed, ev.SyncFailed, ev.EnsembleChanged, ev.EnsembleChangeFailed
)  # fmt: skip


class WriterHealth:
    """How long one writer has been able to change its ensemble."""

    def __init__(self, world: World, metadata: LedgerMetadata, core: WriterCore) -> None:
        self._world = world
        self._ledger_id = metadata.ledger_id
        self._ack_size = metadata.ack_quorum_size
        self._core = core
        self._lives: dict[str, int] = {}  # of bookies, as first connected
        self._restarted: set[str] = set()
        self._since_us: int | None = None
        self._looked_us = 0

    def look(self, event: ev.Event) -> None:
        """Note how the writer stands, after an event."""
        now_us = self._world.kernel.now_us
        if isinstance(event, ev.SlotUp):
            bookie_id = self._core.ensemble[event.slot]
            if self._lives.setdefault(bookie_id, event.incarnation) != event.incarnation:
                self._restarted.add(bookie_id)
        if isinstance(event, _TROUBLE) or now_us - self._looked_us > GAP_US_MAX:
            self._since_us = None
        if isinstance(event, ev.Tick):
            self._looked_us = now_us
        if not self._is_able():
            self._since_us = None
        elif self._since_us is None:
            self._since_us = now_us

    def has_been_able(self, for_us: int) -> bool:
        """Return whether it was able for so long, and long enough, until now."""
        now_us = self._world.kernel.now_us
        is_watched = self._since_us is not None and now_us - self._looked_us <= GAP_US_MAX
        return is_watched and now_us - (self._since_us or 0) >= max(for_us, ABLE_US_MIN)

    def _is_able(self) -> bool:
        core, world = self._core, self._world
        slots = core._slots
        if core.error is not None or core._is_ending or not slots.failed or world.metadata.is_down:
            return False
        ensemble = core.ensemble
        there = {b.bookie_id for b in world.bookies if b.node.is_alive and not b.is_lost}
        live = [world.bookie(ensemble[slot]) for slot in slots.live]
        volatile = range(core.lac + 1, core.last_acked_id + 1)
        return (
            len(live) >= self._ack_size
            and bool(there.difference(ensemble))
            and not self._restarted.intersection(ensemble)
            and all(b.oracle.has(self._ledger_id, one) for b in live for one in volatile)
        )
