"""The part of a striped ledger that one slot stores, and its own numbering of the entries.

With E > Qw a slot does not store every entry. A *stripe* names the sizes and the slot, and these
determine the ids: those whose write set has the slot. They are *due* at the slot. The due entries
are numbered 0, 1, 2 ... in the order of their ids; the number of an entry is its *place*. Two due
entries are neighbors if their places are, whatever the difference of their ids.

    E = 4, Qw = 2, slot 0    ids     0  3  4  7  8 11
                             places  0  1  2  3  4  5

A bookie that knows its stripe can judge whether it has synced all that is due up to an entry. The
stripe goes with each add and each sync of a striped VD ledger, because a bookie may be in another
slot of a later fragment. Nothing here takes time or memory that grows with the ids.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from zbk.protocol.entry.rounds import is_in_rounds
from zbk.protocol.ledger.quorum import ENSEMBLE_SIZE_MAX, Quorum

Size: TypeAlias = Annotated[int, Meta(ge=1, le=ENSEMBLE_SIZE_MAX)]
SlotNumber: TypeAlias = Annotated[int, Meta(ge=0, lt=ENSEMBLE_SIZE_MAX)]


class Stripe(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The entries of a striped ledger that are due at one slot.

    Invariant: ``ensemble_size > write_size``, and the slot is one of the ensemble.

    >>> stripe = Stripe(4, 2, 0)
    >>> [stripe.entry_id(place) for place in range(6)], stripe.place(7), stripe.place(9)
    ([0, 3, 4, 7, 8, 11], 3, 5)
    >>> stripe.reach(4)
    6
    """

    ensemble_size: Size
    write_size: Size
    slot: SlotNumber

    def __post_init__(self) -> None:
        if self.slot >= self.ensemble_size or self.write_size >= self.ensemble_size:
            raise ValueError(f"no stripe has sizes and slot {msgspec.structs.astuple(self)}")

    def place(self, entry_id: int) -> int:
        """Return the place of an entry; of one that is not due, that of the next due one."""
        rounds, residue = divmod(entry_id, self.ensemble_size)
        first = self.slot - self.write_size + 1  # of the due residues, which may wrap around
        if first >= 0:
            before = min(max(residue - first, 0), self.write_size)
        else:
            before = min(residue, self.slot + 1) + max(residue - first - self.ensemble_size, 0)
        return rounds * self.write_size + before

    def entry_id(self, place: int) -> int:
        """Return the id of the entry at a place."""
        rounds, rank = divmod(place, self.write_size)
        first = self.slot - self.write_size + 1
        if first >= 0:
            residue = first + rank
        else:
            residue = rank if rank <= self.slot else self.ensemble_size - self.write_size + rank
        return rounds * self.ensemble_size + residue

    def reach(self, entry_id: int) -> int:
        """Return the id before the next due entry after this one: nothing up to it is due."""
        return self.entry_id(self.place(entry_id + 1)) - 1

    def residues(self) -> Iterator[int]:
        """Yield the due ids below ``ensemble_size``, ascending."""
        return map(self.entry_id, range(self.write_size))

    def is_run(self, entry_ids: Sequence[int]) -> bool:
        """Return whether these are all that is due from the first of them to the last.

        >>> Stripe(4, 2, 0).is_run([3, 4, 7]), Stripe(4, 2, 0).is_run([3, 7])
        (True, False)
        """
        place, write_size = self.place(entry_ids[0]), self.write_size
        head = entry_ids[:write_size]
        if any(self.entry_id(place + at) != entry_id for at, entry_id in enumerate(head)):
            return False
        # each later one is a round after the one that is ``write_size`` before it
        ids = entry_ids if isinstance(entry_ids, array) else array("q", entry_ids)
        return is_in_rounds(ids, write_size, self.ensemble_size)


def stripes_of(quorum: Quorum) -> tuple[Stripe | None, ...]:
    """Return the stripe of each slot; ``None``: the ledger is not striped, and all is due there."""
    size, write_size = quorum.ensemble_size, quorum.write_size
    return tuple(Stripe(size, write_size, i) if quorum.is_striped else None for i in range(size))
