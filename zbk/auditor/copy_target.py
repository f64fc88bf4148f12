"""Which bookie takes a lost one's place.

    placement   whom the placement policy chooses among those that take new entries
    local       the bookie that the worker is attached to, as in the autorecovery page: every worker
                fills its own bookie; a fragment that has it already is left to the others
    one         the bookie that an operator named

Any thread.

Source: the autorecovery page, The Rereplication process; BookKeeper's ``ReplicationWorker``.
"""

from typing import Protocol

from zbk.client.cluster.placer import BookiePlacer
from zbk.protocol.repair.repair_effects import ChooseTarget, TargetChosen


class TargetPolicy(Protocol):
    """A way to choose."""

    def choose(self, wanted: ChooseTarget) -> TargetChosen:
        """Return a bookie that takes new entries, none of the ensemble or the excluded ones."""
        ...


class PlacementTarget:
    """Asks the placement policy; bookies that failed lately come last."""

    def __init__(self, placer: BookiePlacer) -> None:
        self._placer = placer

    def choose(self, wanted: ChooseTarget) -> TargetChosen:
        """Return whom the policy chooses."""
        found = self._placer.replacements(wanted.ensemble, [wanted.slot], exclude=wanted.exclude)
        return TargetChosen(found.get(wanted.slot))


class OneTarget:
    """Knows one bookie only. ``is_local``: what it cannot take is for others."""

    def __init__(self, placer: BookiePlacer, bookie_id: str, *, is_local: bool) -> None:
        self._placer = placer
        self._bookie_id = bookie_id
        self._is_local = is_local

    def choose(self, wanted: ChooseTarget) -> TargetChosen:
        """Return the one bookie, if it can take the place."""
        is_taken = self._bookie_id in wanted.ensemble or self._bookie_id in wanted.exclude
        if is_taken or not self._placer.is_writable(self._bookie_id):
            return TargetChosen(None, is_skipped=self._is_local)
        return TargetChosen(self._bookie_id)
