"""What a writer does while it is idle, so that readers hear of its last entries.

It sends its LAC to the bookies (``explicit_lac``), and on a level with a sync cursor it syncs what
its LAC does not cover (``idle_sync``).
"""

from zbk.protocol.write.events import Effect
from zbk.protocol.write.explicit_lac import ExplicitLac
from zbk.protocol.write.idle_sync import IdleSync
from zbk.protocol.write.slots import WriterSlots
from zbk.protocol.write.sync_rounds import SyncRounds
from zbk.protocol.write.write_path import WritePath


def earliest(*times_ms: int | None) -> int | None:
    """Return the first of some times; ``None`` is never.

    >>> earliest(None, 7, 3), earliest(None)
    (3, None)
    """
    return min((one for one in times_ms if one is not None), default=None)


class Idle:
    """The work of one writer while nothing is queued or pending."""

    __slots__ = ("_explicit_lac", "_path", "_slots", "_sync", "_syncs")

    def __init__(
        self,
        path: WritePath,
        slots: WriterSlots,
        syncs: SyncRounds,
        explicit_lac: ExplicitLac,
        *,
        has_sync: bool,
    ) -> None:
        """``has_sync``: whether an idle writer demands rounds of syncs."""
        self._path = path
        self._slots = slots
        self._syncs = syncs
        self._explicit_lac = explicit_lac
        self._sync = IdleSync() if has_sync else None

    def note(self, now_ms: int) -> None:
        """Record that the writer is idle."""
        self._explicit_lac.idle(self._path.lac, now_ms)
        if self._sync is not None:
            self._sync.idle(self._path.last_acked_id, now_ms)

    def due_ms(self, *, is_ending: bool) -> int | None:
        """Return when ``tick`` is needed, if no event comes before; ``None``: never."""
        lac_ms = self._explicit_lac.due_ms(self._path.pushed_lac, self._slots.live)
        if self._sync is None or is_ending:
            return lac_ms
        return earliest(lac_ms, self._sync.due_ms(self._path.lac))

    def tick(self, now_ms: int, *, is_ending: bool) -> list[Effect]:
        """Return the LACs to send now; demand a round of syncs if one is due."""
        path = self._path
        path.shrink()
        effects = self._explicit_lac.tick(path.lac, path.pushed_lac, self._slots.live, now_ms)
        if self._sync is not None and not is_ending and self._sync.is_due(path.lac, now_ms):
            self._syncs.demand()
        return effects
