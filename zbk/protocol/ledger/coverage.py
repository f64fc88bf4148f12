"""When enough bookies of an ensemble were heard that none of the others can hide anything.

A slot is *known* when its bookie gave a valid answer, *unknown* otherwise: not heard, refused,
timed out, garbled. The known slots *cover* the ensemble when in every window of Qw consecutive
slots, that is in every write set, fewer than Qa are unknown: then no entry can have got its ack
quorum from unknown bookies alone, and, once the known ones refuse adds, none ever will.

With E = Qw that takes (E - Qa) + 1 bookies.

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
        size = quorum.ensemble_size
        self._windows = [sum(1 << slot for slot in quorum.write_set(i)) for i in range(size)]
        self._known = 0  # bits of slots
        self.needed_count = quorum.write_size - quorum.ack_size + 1  # known slots in each window

    def know(self, slot: int) -> None:
        """Note a valid answer."""
        self._known |= 1 << slot

    def is_known(self, slot: int) -> bool:
        """Return whether the slot has given a valid answer."""
        return bool(self._known >> slot & 1)

    @property
    def known_count(self) -> int:
        """How many slots are known."""
        return self._known.bit_count()

    @property
    def is_complete(self) -> bool:
        """True when the known slots cover the ensemble. Never becomes false again."""
        return self._covers(self._known)

    def is_reachable(self, lost_slots: Collection[int]) -> bool:
        """Return whether the known slots, and all others but the lost ones, would cover it."""
        lost = sum(1 << slot for slot in lost_slots)
        return self._covers(self._known | ~lost)

    def _covers(self, known: int) -> bool:
        return all((window & known).bit_count() >= self.needed_count for window in self._windows)
