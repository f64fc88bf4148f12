"""The limit on acknowledged batches that are not durable, of one writer.

The writer syncs by itself when half of ``unsynced_batch_count_max`` is reached. At the limit it
sends no more batches (``write_path``). When ``quorum_grace_ms`` and one more round of syncs do not
help, it ends with CannotAdvance.
"""

from typing import Final

from zbk.errors import CannotAdvanceError
from zbk.protocol.write.events import WriterLimits
from zbk.protocol.write.grace import Grace
from zbk.protocol.write.slots import WriterSlots
from zbk.protocol.write.sync_rounds import SyncRounds
from zbk.protocol.write.write_path import WritePath

SELF_SYNC_INTERVAL_MS: Final = 1_000
"""Least time between two syncs that a writer demands by itself."""


class UnsyncedLimit:
    """Watches the acknowledged batches beyond the LAC."""

    __slots__ = (
        "_count_max", "_grace", "_is_last_sync", "_ledger_id", "_path", "_slots", "_sync_at_ms",
        "_syncs", "is_watched",
    )  # fmt: skip

    def __init__(
        self,
        ledger_id: int,
        path: WritePath,
        slots: WriterSlots,
        syncs: SyncRounds,
        limits: WriterLimits,
    ) -> None:
        self._ledger_id = ledger_id
        self._path = path
        self._slots = slots
        self._syncs = syncs
        self._count_max = limits.unsynced_batch_count_max
        self._grace = Grace(limits.quorum_grace_ms)
        self._sync_at_ms = 0
        self._is_last_sync = False  # the grace is over: one more round, and then the end
        self.is_watched = False  # half of the limit was reached at the last look

    @property
    def is_near(self) -> bool:
        """True when half of the limit is reached."""
        return self._path.unsynced_batch_count * 2 >= self._count_max

    def watch(self, now_ms: int) -> None:
        """Demand a round of syncs if one is due.

        Raises:
            CannotAdvanceError: the limit is reached, for too long.
        """
        is_full = self._path.unsynced_batch_count >= self._count_max
        self.is_watched = self.is_near
        is_stuck = is_full and self._grace.is_over(now_ms)
        if not is_stuck:
            self._is_last_sync = False
        if not is_full:
            self._grace.reset()
        if self._syncs.has_round:
            return
        if self.is_watched and now_ms >= self._sync_at_ms and not self._is_last_sync:
            self._syncs.demand()
            self._sync_at_ms = now_ms + SELF_SYNC_INTERVAL_MS
            self._is_last_sync = is_stuck
        elif is_stuck:
            why = (
                f"{self._count_max} acknowledged batches are not durable: {self._slots.why_down()}"
            )
            path = self._path
            raise CannotAdvanceError(self._ledger_id, path.lac, path.last_acked_id, why)
