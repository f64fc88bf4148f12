"""The choice of bookies for a new ledger, a new fragment, or a new copy of entries.

The caller shuffles the candidates, so the choice is deterministic: for one slot after the other the
best candidate, and the first one among equals. The policy defines the best:

    random        all are equal
    rack aware    a bookie of the rack with the fewest bookies in the ensemble; among those a rack
                  that is as far from the slot as possible, because the slots of a striped write set
                  follow each other. Racks are a preference, not a condition: if one rack is left,
                  its bookies are chosen. Bookies without a label share one rack of their own.

Two words keep bookies out: *excluded* ones are never chosen; *avoided* ones only if there is no
other, whatever their rack. ``FailureMemory`` returns the bookies to avoid: those that failed
lately.

Source: BookKeeper's ``DefaultEnsemblePlacementPolicy``, ``RackawareEnsemblePlacementPolicy`` and
the bookie quarantine of ``BookieClient``. Decision: no regions, no weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from zbk.errors import NotEnoughBookiesError

FAILURE_COUNT_MAX: Final = 1_024
"""Bookies that a ``FailureMemory`` keeps; the oldest failure is evicted first."""


NO_RACKS: Final[Mapping[str, str]] = {}


class Candidate(msgspec.Struct, frozen=True):
    """A bookie that accepts new entries, and its rack."""

    bookie_id: str
    rack: str = ""
    features: frozenset[str] = frozenset()  # ``zbk.protocol.ledger.features``


class PlacementPolicy(Protocol):
    """A way to choose bookies. ``candidates`` are shuffled and may have duplicates."""

    def new_ensemble(
        self,
        candidates: Sequence[Candidate],
        ensemble_size: int,
        exclude: Collection[str] = (),
        avoid: Collection[str] = (),
    ) -> tuple[str, ...]:
        """Return ``ensemble_size`` different bookies, by slot.

        Raises:
            NotEnoughBookiesError: there are fewer.
        """
        ...

    def replacements(
        self,
        candidates: Sequence[Candidate],
        ensemble: Sequence[str],
        failed_slots: Collection[int],
        exclude: Collection[str] = (),
        avoid: Collection[str] = (),
        racks: Mapping[str, str] = NO_RACKS,
    ) -> dict[int, str]:
        """Return new bookies by failed slot, for as many slots as there are bookies.

        None of them is in ``ensemble`` now, not even in a failed slot. ``racks`` are those of
        bookies in the ensemble that are no candidates: read-only ones, and ones that are away.
        """
        ...


class _GreedyPlacement(ABC):
    """Choose the best candidate for one slot after the other."""

    def new_ensemble(
        self,
        candidates: Sequence[Candidate],
        ensemble_size: int,
        exclude: Collection[str] = (),
        avoid: Collection[str] = (),
    ) -> tuple[str, ...]:
        free = _free(candidates, exclude)
        if len(free) < ensemble_size:
            excluded = f", {len(exclude)} excluded" if exclude else ""
            raise NotEnoughBookiesError(
                ensemble_size, len(free), f"bookies that take new entries{excluded}"
            )
        chosen: list[Candidate | None] = [None] * ensemble_size
        self._fill(chosen, range(ensemble_size), free, avoid)
        return tuple(bookie.bookie_id for bookie in chosen if bookie is not None)

    def replacements(
        self,
        candidates: Sequence[Candidate],
        ensemble: Sequence[str],
        failed_slots: Collection[int],
        exclude: Collection[str] = (),
        avoid: Collection[str] = (),
        racks: Mapping[str, str] = NO_RACKS,
    ) -> dict[int, str]:
        known = {one.bookie_id: one.rack for one in candidates}
        places: list[Candidate | None] = [
            None
            if slot in failed_slots
            else Candidate(bookie_id, known.get(bookie_id, racks.get(bookie_id, "")))
            for slot, bookie_id in enumerate(ensemble)
        ]
        slots = sorted(failed_slots)
        self._fill(places, slots, _free(candidates, {*exclude, *ensemble}), avoid)
        found = {slot: places[slot] for slot in slots}
        return {slot: bookie.bookie_id for slot, bookie in found.items() if bookie is not None}

    def _fill(
        self,
        places: list[Candidate | None],
        slots: Sequence[int],
        free: dict[str, Candidate],
        avoid: Collection[str],
    ) -> None:
        for slot in slots:
            if not free:
                return
            racks = {one.rack for one in free.values()}
            costs = {rack: self._cost(rack, slot, places) for rack in racks}
            best = min(free.values(), key=lambda one: (one.bookie_id in avoid, costs[one.rack]))
            places[slot] = free.pop(best.bookie_id)

    @abstractmethod
    def _cost(self, rack: str, slot: int, places: Sequence[Candidate | None]) -> tuple[int, ...]:
        """Return the cost of the bookies of a rack for a slot; the lowest is chosen."""


class RandomPlacement(_GreedyPlacement):
    """All bookies are equal.

    >>> bookies = [Candidate("b3"), Candidate("b1"), Candidate("b2")]
    >>> RandomPlacement().new_ensemble(bookies, 2, exclude={"b1"})
    ('b3', 'b2')
    """

    def _cost(self, rack: str, slot: int, places: Sequence[Candidate | None]) -> tuple[int, ...]:
        del rack, slot, places
        return ()


class RackAwarePlacement(_GreedyPlacement):
    """Spread an ensemble over racks.

    >>> bookies = [Candidate("a", "r1"), Candidate("b", "r1"), Candidate("c", "r2")]
    >>> RackAwarePlacement().new_ensemble(bookies, 2)
    ('a', 'c')
    >>> RackAwarePlacement().replacements(bookies, ("a", "x"), [1])
    {1: 'c'}
    """

    def _cost(self, rack: str, slot: int, places: Sequence[Candidate | None]) -> tuple[int, ...]:
        size = len(places)
        near = (
            _count(rack, (places[slot - distance], places[(slot + distance) % size]))
            for distance in range(1, size // 2 + 1)
        )
        return (_count(rack, places), *near)


POLICIES: Final[Mapping[str, PlacementPolicy]] = {
    "random": RandomPlacement(),
    "rack": RackAwarePlacement(),
}
"""The policies, by their name in the configuration."""


class FailureMemory:
    """The bookies that failed within the last ``memory_ms``.

    >>> memory = FailureMemory(1_000)
    >>> memory.failed("b1", now_ms=0)
    >>> memory.avoided(now_ms=999), memory.avoided(now_ms=1_000)
    (frozenset({'b1'}), frozenset())
    """

    def __init__(self, memory_ms: int, *, count_max: int = FAILURE_COUNT_MAX) -> None:
        self._memory_ms = memory_ms
        self._count_max = count_max
        self._failed_ms: dict[str, int] = {}  # in order of time

    def failed(self, bookie_id: str, now_ms: int) -> None:
        """Record a failure."""
        self._failed_ms.pop(bookie_id, None)
        self._failed_ms[bookie_id] = now_ms
        if len(self._failed_ms) > self._count_max:
            del self._failed_ms[next(iter(self._failed_ms))]

    def avoided(self, now_ms: int) -> frozenset[str]:
        """Return the bookies that failed lately."""
        self._failed_ms = {
            bookie_id: failed_ms
            for bookie_id, failed_ms in self._failed_ms.items()
            if now_ms - failed_ms < self._memory_ms
        }
        return frozenset(self._failed_ms)


def _free(candidates: Sequence[Candidate], exclude: Collection[str]) -> dict[str, Candidate]:
    return {one.bookie_id: one for one in candidates if one.bookie_id not in exclude}


def _count(rack: str, places: Sequence[Candidate | None]) -> int:
    return sum(place is not None and place.rack == rack for place in places)
