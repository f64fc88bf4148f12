"""How new bookies receive what is acknowledged and not durable, before the metadata name them.

An acknowledged entry of a VD ledger is on an ack quorum of bookies, and a bookie that is replaced
may be one of them. If the metadata named a new bookie that lacks the entry, and the writer died, a
recovery could find enough bookies that deny it. So each new bookie catches up first with the
entries of which the other bookies are no ack quorum, and all before them (``moved_batches``):

    it is sent     the batches of its slot, in order, with the writer's LAC, and one sync
    caught up      it took all of them, and its ``LastAddSynced`` covers the last one
    failed         a request failed, or the sync shows less, for example because it has restarted

    silent         it has answered nothing for ``SILENCE_MS``: it failed, long before its requests
                   time out

A slot whose new bookie failed stays as it is; without any other the change is declined, and the
next one asks for another bookie. The path is held meanwhile (``WritePath.hold``), so nothing beyond
these batches is acknowledged, and a bookie that only accepts connections must not hold it for long.
A bookie that has answered once has the time of a request for the rest: its fsync may take long.

Decision: the entries are synced, not only written. A new bookie that lost its power after it took
them, and that looked at the metadata before these name it, would leave limbo without them, and the
writer could be gone before it heard of the restart.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from zbk.errors import BookieUnavailableError, ZbkError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.write.events import ChangeEnsemble

SILENCE_MS: Final = 1_000
"""The time in which a new bookie has to answer the first batch."""


class SendCatchUp(msgspec.Struct, frozen=True):
    """Send these batches to a bookie, each with this LAC, and after them a sync with it."""

    slot: int
    bookie_id: str
    batches: tuple[EntryBatch, ...]
    lac: int


class CatchUp:
    """The new bookies of one change. ``replaced`` are, by slot, the failed bookies and the new.

    Invariant: a slot is awaited exactly until it has caught up or failed.
    """

    def __init__(self, change: ChangeEnsemble, replaced: Mapping[int, tuple[str, str]]) -> None:
        self._replaced = dict(replaced)
        self.failures: dict[str, ZbkError] = {}
        self.sends = [
            SendCatchUp(slot, new, change.unsynced[slot], change.first_entry_id - 1)
            for slot, (_old, new) in sorted(replaced.items())
            if change.unsynced.get(slot)
        ]
        self._awaited = {send.slot: len(send.batches) + 1 for send in self.sends}
        self._silent = set(self._awaited)  # slots whose new bookie has not answered yet
        self._silent_until_ms: int | None = None  # None: no time has passed
        self._last_ids = {send.slot: send.batches[-1].last_entry_id for send in self.sends}

    @property
    def is_over(self) -> bool:
        """True when each new bookie has caught up or failed."""
        return not self._awaited

    @property
    def caught_up(self) -> Mapping[int, tuple[str, str]]:
        """The failed bookies and the new ones, by slot, without those that failed."""
        return self._replaced

    @property
    def due_ms(self) -> int | None:
        """When ``tick`` is due; ``None``: no bookie is silent. At once, until the first one."""
        if not self._silent & self._awaited.keys():
            return None
        return self._silent_until_ms or 0

    def tick(self, now_ms: int) -> None:
        """Give up the new bookies that have been silent for too long. The first tick begins it."""
        if self._silent_until_ms is None:
            self._silent_until_ms = now_ms + SILENCE_MS
        elif now_ms >= self._silent_until_ms:
            for slot in sorted(self._silent & self._awaited.keys()):
                bookie_id = self._replaced[slot][1]
                reason = f"it has answered nothing for {SILENCE_MS / 1000:g} s"
                self._failed(slot, BookieUnavailableError(bookie_id, reason))

    def added(self, slot: int, error: ZbkError | None) -> None:
        """Record the answer to one of the batches."""
        if error is None:
            self._count_answer(slot)
        else:
            self._failed(slot, error)

    def synced(self, slot: int, outcome: int | ZbkError) -> None:
        """Record the answer to the sync: the bookie's ``LastAddSynced``, or an error."""
        if slot not in self._awaited:
            return  # it has failed already
        if isinstance(outcome, ZbkError):
            self._failed(slot, outcome)
        elif outcome < self._last_ids[slot]:
            last_id, bookie_id = self._last_ids[slot], self._replaced[slot][1]
            reason = f"it was sent entries up to {last_id}, and has synced up to {outcome}"
            self._failed(slot, BookieUnavailableError(bookie_id, reason))
        else:
            self._count_answer(slot)

    def _count_answer(self, slot: int) -> None:
        if slot not in self._awaited:
            return
        self._silent.discard(slot)
        self._awaited[slot] -= 1
        if not self._awaited[slot]:
            del self._awaited[slot]

    def _failed(self, slot: int, error: ZbkError) -> None:
        if self._awaited.pop(slot, None) is not None:
            _old, new = self._replaced.pop(slot)
            self.failures[new] = error
