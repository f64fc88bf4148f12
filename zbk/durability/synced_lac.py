"""The LAC that a client computes from the bookies' ``LastAddSynced``.

With E = Qw every bookie of the ensemble holds every entry, so entry e is durable on an ack quorum
exactly when at least Qa bookies have a ``LastAddSynced`` of e or more: the LAC is the Qa-th
largest value, that is element ``Qw - Qa`` of the values sorted ascending.

    A, B, C report 1, 2, 3:    Qa = 1 -> 3    Qa = 2 -> 2    Qa = 3 -> 1

A value belongs to one *incarnation* of a bookie. A restarted bookie may have lost entries that were
not synced, and may even have another disk, so its earlier value is void: the slot starts again at
-1 until the new incarnation reports a value. The LAC does not fall: its entries were durable on an
ack quorum, and the ledger tolerates Qa - 1 losses. Only when another bookie gets a slot does it
fall back to the last entry that the writer has confirmed: later entries belong to the new ensemble,
and syncs of them at the former bookie do not count.

Source: the relaxed-durability proposal, section LAC Advance Protocol. A mix of the values of two
incarnations of one bookie is the classic error here.
"""

from zbk.errors import UnsupportedLedgerError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.quorum import Quorum


class SyncedLac:
    """The LAC from the bookies' ``LastAddSynced``. It only grows while the bookies stay.

    Invariant, checked in ``_check``: when the LAC grew, at least Qa slots had a value as high.

    >>> synced = SyncedLac(Quorum(3, 3, 2))
    >>> [synced.update(slot, 1, las) for slot, las in enumerate([1, 2, 3])], synced.lac
    ([False, True, True], 2)
    """

    def __init__(self, quorum: Quorum) -> None:
        if quorum.is_striped:
            raise UnsupportedLedgerError(
                "the LAC of a VD ledger needs ensemble size = write quorum size, "
                f"got {quorum.ensemble_size} and {quorum.write_size}"
            )
        self._ack_size = quorum.ack_size
        self._index = quorum.write_size - quorum.ack_size
        self._incarnations = [NO_ENTRY] * quorum.ensemble_size  # below any: no value yet
        self._values = [NO_ENTRY] * quorum.ensemble_size
        self._lac = NO_ENTRY

    @property
    def lac(self) -> int:
        """Every entry up to this id is on stable storage of an ack quorum; -1 is none."""
        return self._lac

    def update(self, slot: int, incarnation: int, last_add_synced: int) -> bool:
        """Record one bookie's value; return whether the LAC grew.

        A value of an earlier incarnation is ignored. Within one incarnation the highest value
        counts, because answers may overtake each other.
        """
        if incarnation < self._incarnations[slot]:
            return False
        if incarnation > self._incarnations[slot]:
            self._incarnations[slot] = incarnation
            self._values[slot] = last_add_synced
        elif last_add_synced <= self._values[slot]:
            return False
        else:
            self._values[slot] = last_add_synced
        lac = sorted(self._values)[self._index]
        if lac <= self._lac:
            return False
        self._lac = lac
        self._check()
        return True

    def replaced(self, slot: int, confirmed_id: int) -> None:
        """Record that another bookie stores the entries after ``confirmed_id``.

        Its values count from there on: it gets the LAC, so its cursor includes the entries below.
        Entries that were not confirmed, and that only the former bookie synced, do not count.
        """
        self._incarnations[slot] = NO_ENTRY
        self._values[slot] = NO_ENTRY
        self._lac = max(confirmed_id, min(self._lac, sorted(self._values)[self._index]))

    def _check(self) -> None:
        count = sum(value >= self._lac for value in self._values)
        assert count >= self._ack_size, "the LAC is ahead of what an ack quorum has synced"
