"""How a writer gets to a sync point: everything that it has sent is acknowledged and durable.

A VD ledger may change its ensemble there, and only there. What was acknowledged stays with the
bookies of the old fragment, so it has to be durable on them before another bookie takes a place.
And nothing is on its way, so every entry of the new fragment carries a LAC that is not below the
entry before its first one: a bookie that has none of the entries before needs none, and counts
what it synced from there on, also after a restart.

A writer that looks for one *pauses*: appends wait in the queue, whose size is bounded. What was
sent is acknowledged, then synced, so the way ends after about one answer and one fsync, however
fast the application appends. There it *stays* until the change was made or declined: what it sent
meanwhile, a sync from outside could find durable on a bookie that is being replaced, and then no
other bookie would have to have it. The way is given up at once where it leads nowhere:

    too few bookies          less than an ack quorum is live, or what is pending cannot reach one
    no progress              every live bookie has synced, or failed to twice, and the LAC stays
                             where it was: a bookie that is gone has what is missing
    ``quorum_grace_ms``      a bookie counts as live and does not answer

Then the writer goes on as before. On a PD ledger every point is as good: what is acknowledged is
durable, and bookies count nothing.
"""

from enum import Enum

from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.write.grace import Grace
from zbk.protocol.write.slots import WriterSlots
from zbk.protocol.write.sync_rounds import SyncRounds
from zbk.protocol.write.write_path import WritePath


class Reach(Enum):
    """How near a sync point is."""

    REACHED = "reached"
    UNDER_WAY = "under way"
    OUT_OF_REACH = "out of reach"


class SyncPoint:
    """One writer's way to its next sync point, and its stay there.

    Invariant: the path is paused exactly while a point is sought or kept.
    """

    def __init__(
        self,
        path: WritePath,
        slots: WriterSlots,
        syncs: SyncRounds,
        *,
        ack_size: int,
        grace_ms: int,
    ) -> None:
        self._path = path
        self._slots = slots
        self._syncs = syncs
        self._ack_size = ack_size
        self._grace = Grace(grace_ms)
        self._is_sought = False
        self._has_asked_again = False
        self._demanded_lac = NO_ENTRY - 1  # the LAC when the last sync was demanded; lower: none

    @property
    def is_sought(self) -> bool:
        """True while the writer pauses, on its way there or where it wanted to be."""
        return self._is_sought

    def seek(self, now_ms: int) -> Reach:
        """Return how near it is, and do the next thing on the way.

        The pause ends where the way leads nowhere; at the point itself it lasts until ``leave``.
        """
        reach = self._reach(now_ms)
        if reach is Reach.OUT_OF_REACH:
            self.leave()
        else:
            self._is_sought = True
            self._path.pause()
        return reach

    def leave(self) -> None:
        """Stay or seek no more: the writer goes on."""
        if self._is_sought:
            self._is_sought = False
            self._path.go_on()
        self._grace.reset()
        self._has_asked_again = False
        self._demanded_lac = NO_ENTRY - 1

    def _reach(self, now_ms: int) -> Reach:
        path, syncs = self._path, self._syncs
        if path.is_at_sync_point:
            return Reach.REACHED
        is_short = len(self._slots.live) < self._ack_size or not path.is_reachable(self._slots.down)
        if is_short or self._grace.is_over(now_ms):
            return Reach.OUT_OF_REACH
        if path.is_pending:
            return Reach.UNDER_WAY
        if syncs.has_round:
            return Reach.UNDER_WAY if self._is_awaited() else Reach.OUT_OF_REACH
        if self._demanded_lac == path.lac:
            return Reach.OUT_OF_REACH
        self._demanded_lac = path.lac
        syncs.demand()
        return Reach.UNDER_WAY

    def _is_awaited(self) -> bool:
        """Return whether a live bookie has to answer the sync; ask once more who has failed to."""
        if self._syncs.is_awaiting_live:
            return True
        is_first_time, self._has_asked_again = not self._has_asked_again, True
        return is_first_time and self._syncs.ask_again(self._slots.live)
