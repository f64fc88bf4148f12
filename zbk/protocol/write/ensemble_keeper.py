"""Whether a writer's bookies are enough, and other ones in the place of those that failed.

    a slot failed                 ask for a change; hold the path, so that nothing is acknowledged,
                                  or counted as durable
    a slot alone is slow          the same; nothing happens if there is no replacement
    the change was made           another bookie in the slot: its acks are void, it starts down
    settled, made or declined     release the path: what an ack quorum has is acknowledged
    an ack quorum is out of reach for ``quorum_grace_ms``: the writer ends. New bookies get a grace
                                  of their own, as often as the ensemble has slots, until entries
                                  are acknowledged again

A change counts from LAC + 1 on: what is durable stays with the old bookies, and what the failed one
has not answered of it is missing there, because an ack quorum has it. Until the metadata contain
the change nothing is acknowledged, and nothing more counts as durable: a bookie that is being
replaced could be part of its quorum. The new bookies are owed everything from that entry on. On a
PD ledger what is acknowledged is durable. On a VD ledger acknowledged entries may lie beyond the
LAC. Where the bookies that stay are no ack quorum of them, each new bookie has them on stable
storage before the metadata name it (``catch_up``): it takes the place of the failed one. That takes
an fsync, and the path is held. So the change is asked for when the bookies that stay have answered,
or after ``STAYING_WAIT_MS``; until then the writer acknowledges as before.

The metadata may record that others know entries beyond the LAC to be durable (``reported_lac``).
Then the change counts from the entry after them on, and the writer adopts them as its LAC. A slot
is slow if it alone keeps the window full for ``slow_bookie_ms``.

The bookies of a fragment differ in what they know of entries before it. A bookie that joins, for
the first time or again, may have none of them, or some with holes. It is sent a LAC that is not
below the last of them with the first entry, so its ``LastAddSynced`` counts from the fragment's
first entry on. No LAC beyond the fragment's start was told before the fragment began, so no cursor
was lifted over a hole there: a ``LastAddSynced`` beyond it is evidence, whether the bookie joined
late, came back, or stayed. A hole in the fragment itself keeps it low. What a bookie said in an
earlier stay has an earlier epoch, and is void.

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
from typing import Final

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
)
from zbk.protocol.write.grace import Grace
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.slots import WriterSlots
from zbk.protocol.write.write_path import WritePath

STAYING_WAIT_MS: Final = 200
"""The time in which bookies that stay may answer what new bookies would have to receive first."""


class EnsembleKeeper:
    """Keeps the ensemble of one writer whole. Whatever it raises ends the writer.

    Invariant: the path is held exactly while a change is pending.
    """

    __slots__ = (
        "_ack_size", "_changes", "_graces_left_count", "_path", "_quorum_grace", "_slots",
        "_slow_ms", "_wait_began_ms",
    )  # fmt: skip

    def __init__(
        self,
        slots: WriterSlots,
        path: WritePath,
        limits: WriterLimits,
        *,
        ack_size: int,
        has_catch_up: bool,
    ) -> None:
        """``has_catch_up``: what is acknowledged may not be durable."""
        self._slots = slots
        self._path = path
        self._ack_size = ack_size
        self._slow_ms = limits.slow_bookie_ms
        self._changes = EnsembleChanges(limits, has_catch_up=has_catch_up)
        self._quorum_grace = Grace(limits.quorum_grace_ms)
        self._graces_left_count = len(slots)
        self._wait_began_ms: int | None = None

    @property
    def is_pending(self) -> bool:
        """True while a change is asked for and not settled."""
        return self._changes.pending is not None

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
        failed = self._slots.failed
        return self._change(failed, now_ms) if failed and not is_flushed_for_good else []

    def watch_slow(self, now_ms: int) -> list[Effect]:
        """Request a change if one slot holds up the others.

        Raises:
            NotEnoughBookiesError: there were too many changes.
        """
        slow = self._path.laggard(now_ms, self._slow_ms)
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
            return []
        path, slots = self._path, sorted(failed)
        staying = set(range(len(self._slots))).difference(slots)
        needed = path.moved.needed(staying)
        live = staying.intersection(self._slots.live)
        if needed and path.moved.may_be_answered(needed, live) and self._waits(now_ms):
            return []
        self._wait_began_ms = None
        change = self._changes.begin(
            {slot: self._slots.bookie(slot) for slot in slots},
            path.lac + 1,
            now_ms,
            is_urgent=not path.is_reachable(self._slots.down),
            length_before=path.length,
            unsynced=path.moved.sent_first(needed, slots),
        )
        path.hold()
        return [change]

    def _waits(self, now_ms: int) -> bool:
        """Return whether to give the bookies that stay more time to answer."""
        began_ms = self._wait_began_ms
        if began_ms is None or now_ms - began_ms > 10 * STAYING_WAIT_MS:  # for a change given up
            began_ms = self._wait_began_ms = now_ms
        return now_ms - began_ms < STAYING_WAIT_MS

    # ------------------------------------------------------------------ answers

    def changed(self, event: EnsembleChanged, now_ms: int) -> list[Effect]:
        """Adopt the ensemble that the metadata name."""
        if not self._changes.is_answer_valid(event.change_id):
            return []
        assert event.first_entry_id <= self._path.last_pushed_id + 1, "only writers send entries"
        effects = self._path.adopt(event.first_entry_id - 1)
        before = self._slots.bookies
        replaced = self._slots.replace(event.ensemble)
        for slot in replaced:
            self._path.replaced(slot, before[slot], event.first_entry_id)
        self._changes.made(replaced, now_ms)
        if replaced and self._graces_left_count:
            self._graces_left_count -= 1
            self._quorum_grace.reset()
        return effects + self._path.release()

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
                return self._path.release()
            case IllegalTransitionError():
                raise event.error
            case MetadataUnavailableError() | MetadataConflictError():
                self._changes.doubted(event.error, now_ms)
                return []
            case _:
                raise event.error
