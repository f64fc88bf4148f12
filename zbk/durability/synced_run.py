"""Entries of one ledger that a bookie stores together, as its sync cursor counts them."""

from collections.abc import Iterator

import msgspec

from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.spans import spans_of
from zbk.protocol.ledger.stripe import Stripe


class SyncedRun(msgspec.Struct, frozen=True):
    """Entries in a row; with a stripe, all that is due there from the first to the last.

    A run without a stripe counts in every slot.
    """

    first: int
    last: int
    stripe: Stripe | None = None

    @property
    def count(self) -> int:
        """The number of entries."""
        if self.stripe is None:
            return self.last - self.first + 1
        return self.stripe.place(self.last + 1) - self.stripe.place(self.first)

    def joined(self, later: "SyncedRun") -> "SyncedRun | None":
        """Return this run and one that follows it; ``None`` if something is missing between.

        >>> SyncedRun(0, 2).joined(SyncedRun(3, 5)), SyncedRun(0, 2).joined(SyncedRun(4, 5))
        (SyncedRun(first=0, last=5, stripe=None), None)
        """
        stripe = self.stripe
        if stripe != later.stripe or later.first <= self.last:
            return None
        next_id = self.last + 1 if stripe is None else stripe.reach(self.last) + 1
        return SyncedRun(self.first, later.last, stripe) if next_id >= later.first else None


def runs_of(batch: EntryBatch, stripe: Stripe | None) -> Iterator[SyncedRun]:
    """Yield the runs of a batch. With a stripe it is one; copies of a striped ledger have none."""
    if stripe is not None or batch.is_in_a_row:
        yield SyncedRun(batch.first_entry_id, batch.last_entry_id, stripe)
        return
    for first, last in spans_of(batch.entry_ids):
        yield SyncedRun(first, last)
