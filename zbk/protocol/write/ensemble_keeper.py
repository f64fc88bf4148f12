"""Whether a writer's bookies are enough, and other ones in the place of those that failed.

    a slot failed                 ask for a change; hold the path, so that nothing is acknowledged.
                                  On a VD ledger get to a sync point first (``sync_point``)
    a slot alone is slow          the same; nothing happens if there is no replacement
    the change was made           another bookie in the slot: its acks are void, it starts down
    settled, made or declined     release the path: what an ack quorum has is acknowledged
    an ack quorum is out of reach for ``quorum_grace_ms``: the writer ends. New bookies get a grace
                                  of their own, as often as the ensemble has slots, until entries
                                  are acknowledged again

A change counts from the first entry on that is not acknowledged. Until the metadata contain it
nothing is acknowledged. The new bookies are owed everything from that entry on. Acknowledged
entries stay as they are; those that the failed bookie has not answered are missing there: an ack
quorum has them. A slot is slow if it alone keeps the window full for ``slow_bookie_ms``.

``ensemble_changes`` says when a change may be asked for; this carries it into slots and path.

Decisions:
  * No replacement can be found: BookKeeper closes the ledger. Here the writer goes on without the
    failed bookie as long as everything pending can reach an ack quorum, asks again when other
    bookies come or after a pause, and takes the old bookie back if it returns first.
  * The metadata store does not answer during a change: appends wait, nothing is lost, and after
    ``metadata_grace_ms`` the writer ends with MetadataUnavailable.
  * An idle writer replaces a failed bookie as well; a closing one only while something is pending.
"""

from collections.abc import Collection

from msgspec import UNSET

from zbk.errors import (
    IllegalTransitionError,
    MetadataConflictError,
    MetadataUnavailableError,
    NotEnoughBookiesError,
)
from zbk.protocol.write.ensemble_changes import EnsembleChanges
from zbk.protocol.write.events import (
    Effect,
    EnsembleChanged,
    EnsembleChangeFailed,
    EnsembleChangeTurn,
    WriterLimits,
)
from zbk.protocol.write.grace import Grace
from zbk.protocol.write.slots import WriterSlots
from zbk.protocol.write.sync_point import Reach, SyncPoint
from zbk.protocol.write.write_path import WritePath


class EnsembleKeeper:
    """Keeps the ensemble of one writer whole. Whatever it raises ends the writer.

    Invariant: the path is held exactly while a change is pending.
    """

    __slots__ = (
        "_ack_size", "_changes", "_graces_left_count", "_path", "_quorum_grace", "_slots", "_slow",
        "_slow_ms", "_sync_point",
    )  # fmt: skip

    def __init__(
        self,
        slots: WriterSlots,
        path: WritePath,
        limits: WriterLimits,
        *,
        ack_size: int,
        sync_point: SyncPoint | None,
    ) -> None:
        """``sync_point``: where changes are possible; ``None``: at any time."""
        self._slots = slots
        self._path = path
        self._ack_size = ack_size
        self._sync_point = sync_point
        self._slow_ms = limits.slow_bookie_ms
        self._slow: int | None = None  # the slot that held up the others, when last looked at
        self._changes = EnsembleChanges(limits, needs_sync_point=sync_point is not None)
        self._quorum_grace = Grace(limits.quorum_grace_ms)
        self._graces_left_count = len(slots)

    @property
    def is_pending(self) -> bool:
        """True while a change is asked for and not settled."""
        return self._changes.pending is not None

    @property
    def is_seeking(self) -> bool:
        """True while the writer pauses: on its way to where a change may be asked for, or there."""
        return self._sync_point is not None and self._sync_point.is_sought

    @property
    def is_idle(self) -> bool:
        """True while neither is the case."""
        is_sought = self._sync_point is not None and self._sync_point.is_sought
        return not is_sought and self._changes.pending is None

    def progressed(self) -> None:
        """Record that entries were acknowledged."""
        self._quorum_grace.reset()
        self._graces_left_count = len(self._slots)

    def bookies_changed(self) -> None:
        """Record that a change that was declined may be possible now."""
        self._changes.bookies_changed()

    def cancel(self) -> None:
        """Forget what was asked for: the writer has ended."""
        self._changes.cancel()
        self._leave_sync_point()

    # ------------------------------------------------------------------ looking

    def watch(self, now_ms: int, *, is_flushed_for_good: bool) -> list[Effect]:
        """Request a change if a slot failed; repeat it if its outcome is unknown.

        ``is_flushed_for_good``: nothing is pending, and nothing more will come.

        Raises:
            NotEnoughBookiesError: there were too many changes.
            ZbkError: what kept a change in doubt, for too long.
        """
        if self._changes.pending is not None:
            change = self._changes.again(now_ms)
            return [] if change is None else [change]
        failed = set(self._slots.failed)
        if self.is_seeking and self._slow is not None:
            failed.add(self._slow)
        if failed and not is_flushed_for_good:
            return self._change(failed, now_ms)
        self._leave_sync_point()
        return []

    def watch_slow(self, now_ms: int) -> list[Effect]:
        """Request a change if one slot holds up the others.

        Raises:
            NotEnoughBookiesError: there were too many changes.
        """
        self._slow = slow = self._path.laggard(now_ms, self._slow_ms)
        if slow is None or self._changes.pending is not None:
            return []
        return self._change({slow, *self._slots.failed}, now_ms)

    def watch_quorum(self, now_ms: int) -> None:
        """Look whether what is pending can be acknowledged.

        Raises:
            NotEnoughBookiesError: not, for too long.
        """
        slots = self._slots
        if self._changes.pending is not None or self._path.is_reachable(slots.down):
            return  # a grace that began runs on until entries are acknowledged again
        if self._quorum_grace.is_over(now_ms):
            raise NotEnoughBookiesError(self._ack_size, len(slots.live), slots.why_down())

    def _change(self, failed: Collection[int], now_ms: int) -> list[Effect]:
        if not self._changes.is_due(failed, now_ms):
            self._leave_sync_point()
            return []
        reach = Reach.REACHED if self._sync_point is None else self._sync_point.seek(now_ms)
        if reach is Reach.OUT_OF_REACH:
            self._changes.put_off(failed, now_ms)
        if reach is not Reach.REACHED:
            return []
        path = self._path
        change = self._changes.begin(
            {slot: self._slots.bookie(slot) for slot in sorted(failed)},
            path.last_acked_id + 1,
            now_ms,
            is_urgent=not path.is_reachable(self._slots.down),
            length_before=path.length if path.lac == path.last_acked_id else UNSET,
        )
        self._path.hold()
        return [change]

    def _leave_sync_point(self) -> None:
        if self._sync_point is not None:
            self._sync_point.leave()

    # ------------------------------------------------------------------ answers

    def changed(self, event: EnsembleChanged, now_ms: int) -> list[Effect]:
        """Adopt the ensemble that the metadata name."""
        if not self._changes.is_answer_valid(event.change_id):
            return []
        assert event.first_entry_id <= self._path.last_acked_id + 1, "only writers start fragments"
        before = self._slots.bookies
        replaced = self._slots.replace(event.ensemble)
        for slot in replaced:
            self._path.replaced(slot, before[slot], event.first_entry_id)
        self._changes.made(replaced, now_ms)
        if replaced and self._graces_left_count:
            self._graces_left_count -= 1
            self._quorum_grace.reset()
        self._leave_sync_point()
        return self._path.release()

    def change_turn(self, event: EnsembleChangeTurn, now_ms: int) -> None:
        """Record that a change waits for the changes of other ledgers, or no longer does."""
        if self._changes.is_answer_valid(event.change_id):
            self._changes.turn(now_ms, has_come=event.has_come)

    def change_failed(self, event: EnsembleChangeFailed, now_ms: int) -> list[Effect]:
        """Go on as before, or wait until it is known what is.

        Raises:
            ZbkError: the ledger is not this writer's any more.
        """
        if not self._changes.is_answer_valid(event.change_id):
            return []
        match event.error:
            case NotEnoughBookiesError():
                self._changes.declined(now_ms)
                self._leave_sync_point()
                return self._path.release()
            case IllegalTransitionError():
                raise event.error
            case MetadataUnavailableError() | MetadataConflictError():
                self._changes.doubted(event.error, now_ms)
                return []
            case _:
                raise event.error
