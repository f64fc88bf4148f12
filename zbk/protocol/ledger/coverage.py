"""The rule for when enough bookies of an ensemble have answered.

A slot is *known* if its bookie gave a valid answer, otherwise *unknown*: no answer, refused, timed
out, garbled. The known slots *cover* the ensemble if every write set (every window of Qw
consecutive slots) has fewer than Qa unknown slots. Then no entry can have its ack quorum from
unknown bookies alone; and if the known bookies refuse adds, no entry will ever get one.

With E = Qw the cover needs (E - Qa) + 1 bookies.

Source: BookKeeper's ``RoundRobinDistributionSchedule.RRQuorumCoverageSet``.
"""

from collections.abc import Collection

from zbk.protocol.ledger.quorum import Quorum


class Coverage:
    """The known slots of one ensemble.

    >>> coverage = Coverage(Quorum(4, 3, 2))
    >>> [coverage.know(slot) or coverage.is_complete for slot in (0, 2)], coverage.known_count
    ([False, False], 2)
    >>> coverage.know(3)
    >>> coverage.is_complete
    True
    """

    def __init__(self, quorum: Quorum) -> None:
        self._windows = [sum(1 << slot for slot in one) for one in quorum.write_sets]
        self._known = 0  # bits of slots
        self.needed_count = quorum.write_size - quorum.ack_size + 1  # known slots in each window

    def know(self, slot: int) -> None:
        """Record a valid answer."""
        self._known |= 1 << slot

    def is_known(self, slot: int) -> bool:
        """Return whether the slot has given a valid answer."""
        return bool(self._known >> slot & 1)

    @property
    def known_count(self) -> int:
        """The number of known slots."""
        return self._known.bit_count()

    @property
    def is_complete(self) -> bool:
        """True when the known slots cover the ensemble. Never becomes false again."""
        return self._covers(self._known)

    def is_reachable(self, lost_slots: Collection[int]) -> bool:
        """Return whether the ensemble is covered if all slots but the lost ones become known."""
        lost = sum(1 << slot for slot in lost_slots)
        return self._covers(self._known | ~lost)

    def _covers(self, known: int) -> bool:
        return all((window & known).bit_count() >= self.needed_count for window in self._windows)
