"""The quorum sizes of a ledger, and the slots that store an entry.

Source: Apache BookKeeper, "The BookKeeper protocol", sections Ensembles, Write quorums,
Ack quorums; ``RoundRobinDistributionSchedule``.
"""

from array import array
from collections.abc import Collection, Sequence

import msgspec

from zbk.errors import InvalidQuorumError
from zbk.protocol.entry.rounds import ids_in_rounds

ENSEMBLE_SIZE_MAX = 64


class Quorum(msgspec.Struct, frozen=True):
    """The three sizes, fixed when a ledger is created. Unit: bookies.

    Invariant: ``ENSEMBLE_SIZE_MAX >= ensemble_size >= write_size >= ack_size >= 1``.
    """

    ensemble_size: int
    write_size: int
    ack_size: int

    def __post_init__(self) -> None:
        sizes = (self.ensemble_size, self.write_size, self.ack_size)
        if not ENSEMBLE_SIZE_MAX >= sizes[0] >= sizes[1] >= sizes[2] >= 1:
            raise InvalidQuorumError(*sizes)

    @property
    def is_striped(self) -> bool:
        """True when no bookie of the ensemble stores every entry."""
        return self.ensemble_size > self.write_size

    def write_set(self, entry_id: int) -> tuple[int, ...]:
        """Return the slots that store ``entry_id``, first choice first.

        >>> Quorum(ensemble_size=4, write_size=3, ack_size=2).write_set(2)
        (2, 3, 0)
        """
        size = self.ensemble_size
        return tuple((entry_id + offset) % size for offset in range(self.write_size))

    @property
    def write_sets(self) -> list[tuple[int, ...]]:
        """The write set of each entry, by its id modulo the size of the ensemble.

        >>> Quorum(3, 2, 2).write_sets
        [(0, 1), (1, 2), (2, 0)]
        """
        return [self.write_set(residue) for residue in range(self.ensemble_size)]

    def holds(self, slot: int, entry_id: int) -> bool:
        """Return whether ``slot`` is in the write set of ``entry_id``."""
        return (slot - entry_id) % self.ensemble_size < self.write_size

    def is_ack_quorum(self, slots: Collection[int], entry_ids: range) -> bool:
        """Return whether slots have an ack quorum of each of these entries.

        >>> [Quorum(3, 2, 2).is_ack_quorum({0, 1}, ids) for ids in (range(3, 4), range(3, 5))]
        [True, False]
        """
        return all(
            sum(slot in slots for slot in self.write_set(entry_id)) >= self.ack_size
            for entry_id in entry_ids[: self.ensemble_size]
        )

    def entry_ids(self, slot: int, first: int, last: int) -> Sequence[int]:
        """Return the ids in ``first .. last`` that ``slot`` stores, ascending.

        A ``range`` if the ledger is not striped (every slot stores all), else an ``array('q')``.

        >>> list(Quorum(3, 2, 2).entry_ids(0, 0, 6))
        [0, 2, 3, 5, 6]
        """
        if not self.is_striped:
            return range(first, last + 1)
        stop = last + 1
        ids = range(first, min(first + self.ensemble_size, stop))
        firsts = [entry_id for entry_id in ids if self.holds(slot, entry_id)]
        if stop == ids.stop:  # that was all
            return array("q", firsts)
        return ids_in_rounds(firsts, self.ensemble_size, stop)
