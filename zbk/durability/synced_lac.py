"""The LAC that a client computes from the bookies' ``LastAddSynced``.

A slot's value *reaches* an entry if the slot's bookie has synced all that is due at the slot up to
that entry. An entry is durable when Qa slots of its write set reach it, and the LAC is the end of
the longest run of durable entries from entry 0 on.

With E = Qw every entry is due at every slot, so a value reaches itself, and the LAC is the Qa-th
largest value, that is element ``Qw - Qa`` of the values sorted ascending.

    A, B, C report 1, 2, 3:    Qa = 1 -> 3    Qa = 2 -> 2    Qa = 3 -> 1

With E > Qw a value reaches the entry before the next one that is due at its slot
(``Stripe.reach``). The write set of an entry follows from its id modulo E, its *class*. The Qa-th
largest reach among the slots of a write set is how far the class is durable, and the LAC ends
before the first entry that its class does not reach. This costs O(E * Qw) and keeps nothing for an
entry. Whatever the slots report, a class is durable up to the last LAC: a bookie that is new, or
lost what it had, and that nothing beyond is due at, may never hear of the ledger.

    E, Qw, Qa = 3, 2, 2: slots 0, 1, 2 hold 0 2 3 5, 0 1 3 4 and 1 2 4 5. They report 3, 4, 2.
    The reaches are 4, 5, 3. Class 0 (slots 0, 1) reaches 4, class 1 (slots 1, 2) reaches 3, class 2
    (slots 2, 0) reaches 3. The first entries beyond are 6, 4 and 5, so the LAC is 3.

A value belongs to one *incarnation* of a bookie. A restarted bookie may have lost entries that were
not synced, and may even have another disk, so its earlier value is void: the slot starts again at
-1 until the new incarnation reports a value. The LAC does not fall: its entries were durable on an
ack quorum, and the ledger tolerates Qa - 1 losses. Only when another bookie gets a slot does it
fall back, at most to the last entry that the writer has confirmed: later entries belong to the new
ensemble, and syncs of them at the former bookie do not count.

Source: the relaxed-durability proposal, section LAC Advance Protocol, which has only E = Qw. A mix
of the values of two incarnations of one bookie is the classic error here.
"""

from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.ledger.stripe import stripes_of


class SyncedLac:
    """The LAC from the bookies' ``LastAddSynced``. It only grows while the bookies stay.

    Invariant, checked in ``_check``: when the LAC grew, at least Qa slots of each write set that
    occurs between the old and the new one had a value that reaches the last entry of its class.

    >>> synced = SyncedLac(Quorum(3, 3, 2))
    >>> [synced.update(slot, 1, las) for slot, las in enumerate([1, 2, 3])], synced.lac
    ([False, True, True], 2)
    >>> synced = SyncedLac(Quorum(3, 2, 2))
    >>> [synced.update(slot, 1, las) for slot, las in enumerate([3, 4, 2])], synced.lac
    ([False, True, True], 3)
    """

    def __init__(self, quorum: Quorum, confirmed_id: int = NO_ENTRY) -> None:
        """``confirmed_id``: every entry up to it is durable, as is known from elsewhere."""
        self._ack_size = quorum.ack_size
        self._index = quorum.write_size - quorum.ack_size
        size = quorum.ensemble_size
        self._stripes = stripes_of(quorum)
        self._write_sets = quorum.write_sets
        self._is_striped = quorum.is_striped
        self._incarnations = [NO_ENTRY] * size  # below any: no value yet
        self._values = [NO_ENTRY] * size
        self._reaches = [NO_ENTRY] * size
        for slot in range(size):
            self._set(slot, NO_ENTRY)
        self._lac = confirmed_id

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
        if incarnation == self._incarnations[slot] and last_add_synced <= self._values[slot]:
            return False
        self._incarnations[slot] = incarnation
        self._set(slot, last_add_synced)
        before, lac = self._lac, self._durable_until(self._lac)
        if lac <= before:
            return False
        self._lac = lac
        self._check(before + 1)
        return True

    def replaced(self, slot: int, confirmed_id: int) -> None:
        """Record that another bookie stores the entries after ``confirmed_id``.

        Its values count from there on: it gets the LAC, so its cursor includes the entries below.
        Entries that were not confirmed, and that only the former bookie synced, do not count.
        """
        self._incarnations[slot] = NO_ENTRY
        self._set(slot, NO_ENTRY)
        self._lac = max(confirmed_id, min(self._lac, self._durable_until(confirmed_id)))

    def _set(self, slot: int, last_add_synced: int) -> None:
        stripe = self._stripes[slot]
        self._values[slot] = last_add_synced
        self._reaches[slot] = stripe.reach(last_add_synced) if stripe else last_add_synced

    def _durable_until(self, confirmed_id: int) -> int:
        """Return the end of the longest run of durable entries by the values that count now.

        Every entry up to ``confirmed_id`` is durable, also where values say less.
        """
        reaches, index = self._reaches, self._index
        if not self._is_striped:
            return sorted(reaches)[index]
        size = len(self._write_sets)
        first_volatile = []
        for residue, write_set in enumerate(self._write_sets):
            reach = max(sorted([reaches[slot] for slot in write_set])[index], confirmed_id)
            # the first entry of the class beyond it
            first_volatile.append(reach + 1 + (residue - reach - 1) % size)
        return min(first_volatile) - 1

    def _check(self, first_entry_id: int) -> None:
        size = len(self._write_sets)
        for entry_id in range(max(first_entry_id, self._lac - size + 1), self._lac + 1):
            write_set = self._write_sets[entry_id % size]
            count = sum(self._reaches[slot] >= entry_id for slot in write_set)
            assert count >= self._ack_size, "the LAC is ahead of what an ack quorum has synced"
            if not self._is_striped:
                break
