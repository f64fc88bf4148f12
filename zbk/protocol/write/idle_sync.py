"""How readers hear of entries that an idle writer has not synced.

On a level with a sync cursor the LAC follows what bookies tell that they have synced, and they tell
it beside the answers to adds. They sync by themselves, too, but an idle writer would not hear of
it, and its readers would wait for the next append. So a writer that has been idle for
``IDLE_SYNC_MS``, with acknowledged entries beyond its LAC, demands a round of syncs
(``sync_rounds``): by then the bookies have little left to do. A round that does not bring the LAC
to the last entry is followed by others, after pauses that double up to ``PAUSE_MAX_MS``.

A writer that tells no LAC by itself (``explicit_lac_ms`` is 0) does not do this either.
"""

from typing import Final

from zbk.protocol.entry.words import NO_ENTRY

IDLE_SYNC_MS: Final = 1_000
PAUSE_MAX_MS: Final = 16_000


class IdleSync:
    """When an idle writer syncs what its LAC does not cover."""

    __slots__ = (
        "_acked_id",
        "_at_ms",
        "_pause_ms",
    )

    def __init__(self) -> None:
        self._acked_id = NO_ENTRY  # as last seen by an idle writer
        self._at_ms = 0  # when a round is due, if the LAC has not come that far
        self._pause_ms = IDLE_SYNC_MS

    def idle(self, acked_id: int, now_ms: int) -> None:
        """Record that the writer is idle, and its last acknowledged entry."""
        if acked_id != self._acked_id:
            self._acked_id = acked_id
            self._pause_ms = IDLE_SYNC_MS
            self._at_ms = now_ms + IDLE_SYNC_MS

    def due_ms(self, lac: int) -> int | None:
        """Return when the next round is due, if nothing happens; ``None``: never."""
        return self._at_ms if lac < self._acked_id else None

    def is_due(self, lac: int, now_ms: int) -> bool:
        """Return whether a round is due now; if so, the next one is after a longer pause."""
        if lac >= self._acked_id or now_ms < self._at_ms:
            return False
        self._pause_ms = min(PAUSE_MAX_MS, 2 * self._pause_ms)
        self._at_ms = now_ms + self._pause_ms
        return True
