"""The batches that new bookies of a VD ledger must have before they join its ensemble.

A fragment begins after the LAC, so acknowledged entries beyond it move to the new ensemble. There,
too, an ack quorum must have each of them. Bookies that *stay* are in both ensembles: where they are
an ack quorum of an entry, the new bookies may receive it later. All others are *needed* at the new
bookies first: the failed bookies were part of the ack quorum.

A new bookie proves with its ``LastAddSynced`` that it has them, and a cursor does not pass a hole.
So it is sent everything from the LAC on up to the last of them.

What a staying bookie has answered counts. An answer of an earlier life does not, and what a bookie
is sent again counts only when it answers again (``WriteWindow``).
"""

from collections.abc import Collection, Mapping, Sequence

from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.write_window import WriteBatch, WriteWindow


class MovedBatches:
    """Finds the needed batches of one writer. Nothing is needed where acknowledged is durable."""

    __slots__ = (
        "_quorum",
        "_window",
    )

    def __init__(self, quorum: Quorum, window: WriteWindow) -> None:
        self._quorum = quorum
        self._window = window

    def needed(self, staying: Collection[int]) -> list[WriteBatch]:
        """Return the batches of which these slots are no ack quorum, in order."""
        quorum, window = self._quorum, self._window
        is_all = quorum.is_ack_quorum(staying, range(quorum.ensemble_size))
        batches = window.unsynced_lacked_by(staying) if is_all else window.unsynced
        return [
            batch
            for batch in batches
            if not quorum.is_ack_quorum(window.holders(batch, staying), batch.entry_ids)
        ]

    def may_be_answered(self, needed: Collection[WriteBatch], live: Collection[int]) -> bool:
        """Return whether these staying slots can become an ack quorum of every batch."""
        return all(self._quorum.is_ack_quorum(live, batch.entry_ids) for batch in needed)

    def sent_first(
        self, needed: Sequence[WriteBatch], slots: Collection[int]
    ) -> Mapping[int, tuple[EntryBatch, ...]]:
        """Return what new bookies in some slots are sent for these batches, in order."""
        if not needed:
            return dict.fromkeys(slots, ())
        last = needed[-1].entry_ids
        batches = [one for one in self._window.unsynced if one.entry_ids.start <= last.start]
        return {
            slot: tuple(part for one in batches if (part := one.encoded.parts[slot]) is not None)
            for slot in slots
        }
