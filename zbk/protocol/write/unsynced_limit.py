"""The limit on acknowledged batches that are not durable, of one writer.

These batches stay in memory: a bookie that restarts is sent them again. The writer syncs by itself
when its policy says so (``sync_policy``), and when half of ``unsynced_size_max`` or
``unsynced_batch_count_max`` is reached, or half of what all writers of the client may keep
(``unsynced_total``). At a limit it sends no more batches (``write_path``). When its own limit is
reached, and ``quorum_grace_ms`` and one more round of syncs do not help, it ends with
CannotAdvance. So it does when its appends wait because of the shared limit, and its own LAC does
not move: others cannot make its entries durable. A close that accepts a loss shortens the grace.
"""

from typing import Final

from zbk.errors import CannotAdvanceError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.write.grace import Grace
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.slots import WriterSlots
from zbk.protocol.write.sync_policy import SyncPolicy
from zbk.protocol.write.sync_rounds import SyncRounds
from zbk.protocol.write.write_path import WritePath

SELF_SYNC_INTERVAL_MS: Final = 1_000
"""Least time between two syncs that a writer demands by itself, if the first does not help."""

NEAR: Final = 0.5
"""Share of the limit from which on the writer syncs by itself."""


class UnsyncedLimit:
    """Watches the acknowledged batches beyond the LAC."""

    __slots__ = (
        "_demanded_lac", "_grace", "_is_last_sync", "_ledger_id", "_path", "_policy", "_seen_lac",
        "_slots", "_sync_at_ms", "_syncs", "is_watched",
    )  # fmt: skip

    def __init__(
        self,
        ledger_id: int,
        path: WritePath,
        slots: WriterSlots,
        syncs: SyncRounds,
        limits: WriterLimits,
        policy: SyncPolicy | None,
    ) -> None:
        self._policy = policy
        self._ledger_id = ledger_id
        self._path = path
        self._slots = slots
        self._syncs = syncs
        self._grace = Grace(limits.quorum_grace_ms)
        self._sync_at_ms = 0
        self._demanded_lac = NO_ENTRY - 1  # the LAC when this last demanded a sync; lower: never
        self._seen_lac = NO_ENTRY  # the LAC at the last look
        self._is_last_sync = False  # the grace is over: one more round, and then the end
        self.is_watched = False  # a sync was wanted at the last look

    @property
    def is_near(self) -> bool:
        """True when half of the limit is reached."""
        return self._path.unsynced_pressure >= NEAR

    def wants_sync(self, now_ms: int) -> bool:
        """Return whether so much is not durable that the writer is to sync."""
        return self.is_near or (self._policy is not None and self._policy.is_due(now_ms))

    @property
    def due_ms(self) -> int | None:
        """When the policy wants a sync, if no event comes before; ``None``: never."""
        due_ms = None if self._policy is None else self._policy.due_ms
        if due_ms is None or not self._syncs.is_idle:
            return None
        return due_ms if self._path.lac > self._demanded_lac else max(due_ms, self._sync_at_ms)

    def ensemble_changed(self) -> None:
        """Record that there are new bookies: they have as much time as those before had."""
        self._is_last_sync = False
        self._grace.reset()

    def watch(self, now_ms: int, *, is_hurried: bool = False) -> None:
        """Demand a round of syncs if one is due. ``is_hurried``: the grace is over.

        Raises:
            CannotAdvanceError: the limit is reached, for too long.
        """
        self.is_watched = self.wants_sync(now_ms)
        is_stuck = self._is_stuck(now_ms, is_hurried=is_hurried)
        if not is_stuck:
            self._is_last_sync = False
        if self._syncs.has_round:
            return
        is_due = now_ms >= self._sync_at_ms or self._path.lac > self._demanded_lac
        if self.is_watched and is_due and not self._is_last_sync:
            self._syncs.demand()
            self._demanded_lac = self._path.lac
            self._sync_at_ms = now_ms + SELF_SYNC_INTERVAL_MS
            self._is_last_sync = is_stuck
        elif is_stuck:
            path = self._path
            batches = f"{path.unsynced_batch_count} acknowledged batches"
            why = (
                f"{batches} ({path.unsynced_size} bytes) are not durable: {self._slots.why_down()}"
            )
            raise CannotAdvanceError(self._ledger_id, path.lac, path.last_acked_id, why)

    def _is_stuck(self, now_ms: int, *, is_hurried: bool) -> bool:
        """Return whether a limit has been reached for too long.

        At the shared limit a writer whose LAC moves makes room, and others may fill it.
        """
        path = self._path
        is_moving, self._seen_lac = path.lac > self._seen_lac, path.lac
        is_full = path.unsynced_share >= 1
        if not is_full:
            is_held_up = path.is_held_up and path.unsynced_pressure >= 1
            is_full = is_held_up and not is_moving
        if not is_full:
            self._grace.reset()
            return False
        return self._grace.is_over(now_ms) or is_hurried
