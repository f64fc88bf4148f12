"""The target of a copy: the bookie that replaces a lost one.

    placement   the rack-aware choice among the writable bookies
    local       the bookie that the worker is attached to, as in the autorecovery page: every worker
                fills its own bookie; a fragment that has it already is left to other workers
    one         the bookie that an operator named

The rules are ``zbk.protocol.ledger.placement`` and ``zbk.protocol.repair.only_target``.

Any thread.
"""

from typing import Protocol

from zbk.client.cluster.placer import BookiePlacer
from zbk.protocol.repair.only_target import only_target
from zbk.protocol.repair.repair_effects import ChooseTarget, TargetChosen


class TargetPolicy(Protocol):
    """A way to choose a target."""

    def choose(self, wanted: ChooseTarget) -> TargetChosen:
        """Return a writable bookie, not in the ensemble and not excluded."""
        ...


class PlacementTarget:
    """The choice of the placement policy; bookies that failed lately come last."""

    def __init__(self, placer: BookiePlacer) -> None:
        self._placer = placer

    def choose(self, wanted: ChooseTarget) -> TargetChosen:
        """Return the choice of the policy."""
        found = self._placer.replacements(
            wanted.ensemble, [wanted.slot], exclude=wanted.exclude, needs=wanted.needs
        )
        return TargetChosen(found.get(wanted.slot))


class OneTarget:
    """One bookie only. ``is_local``: slots that it cannot take are left to other workers."""

    def __init__(self, placer: BookiePlacer, bookie_id: str, *, is_local: bool) -> None:
        self._placer = placer
        self._bookie_id = bookie_id
        self._is_local = is_local

    def choose(self, wanted: ChooseTarget) -> TargetChosen:
        """Return the one bookie, if it can take the slot."""
        return only_target(
            wanted,
            self._bookie_id,
            lambda bookie_id: self._placer.is_writable(bookie_id, wanted.needs),
            is_local=self._is_local,
        )
