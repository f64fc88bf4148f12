"""The synced entries of one striped VD ledger at a bookie.

The cursor counts in places of the bookie's stripe (``Stripe``): ids that are due elsewhere leave no
hole. Its ``LastAddSynced`` (LAS) says that all entries *due at this slot* up to that id are synced
here, or confirmed in the ensemble. It says nothing of other slots: a client compares it only with
the ids of its write sets (``SyncedLac``).

A LAC raises the LAS as on a ledger that is not striped. It is an id that need not be due here, and
the LAS may then be that id.

A cursor is valid for one stripe. When the bookie gets another slot, the ids between those that it
stored for the former slot may be due, so the cursor begins anew at the LAC.
"""

from zbk.durability.sync_cursor import RANGE_COUNT_MAX, SyncCursor
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.stripe import Stripe


class StripedCursor:
    """``LastAddSynced`` of one stripe.

    >>> cursor = StripedCursor(Stripe(4, 2, 0))
    >>> cursor.add(0, 4); cursor.add(8, 8); cursor.last_add_synced
    4
    >>> cursor.add(7, 7); cursor.last_add_synced
    8
    """

    __slots__ = ("_floor", "_places", "stripe")

    def __init__(
        self,
        stripe: Stripe,
        last_add_synced: int = NO_ENTRY,
        *,
        range_count_max: int = RANGE_COUNT_MAX,
    ) -> None:
        self.stripe = stripe
        self._floor = last_add_synced
        place = stripe.place(last_add_synced + 1) - 1
        self._places = SyncCursor(place, range_count_max=range_count_max)

    @property
    def last_add_synced(self) -> int:
        """The LAS; -1 is none. It is due here, or it is the LAC."""
        place = self._places.last_add_synced
        return self._floor if place < 0 else max(self._floor, self.stripe.entry_id(place))

    def add(self, first: int, last: int) -> None:
        """Record that all that is due here from ``first`` to ``last`` is on stable storage."""
        assert 0 <= first <= last, "a range has at least one entry"
        low, high = self.stripe.place(first), self.stripe.place(last + 1) - 1
        if low <= high:
            self._places.add(low, high)

    def raise_floor(self, lac: int) -> None:
        """Record a LAC that came with an add: every entry up to it is confirmed in the ensemble."""
        if lac > self._floor:
            self._floor = lac
            self._places.raise_floor(self.stripe.place(lac + 1) - 1)
