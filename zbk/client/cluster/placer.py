"""The choice of bookies for new ledgers and for replacements.

Any thread: writers ask for replacements in their actors, the application creates ledgers.
"""

import random
import threading
from collections.abc import Collection, Sequence

from zbk.client.cluster.directory import BookieDirectory
from zbk.errors import OldBookiesError
from zbk.protocol.ledger.features import NO_NEEDS, able
from zbk.protocol.ledger.placement import Candidate, FailureMemory, PlacementPolicy
from zbk.system.clock import monotonic_ms


class BookiePlacer:
    """Chooses among the bookies that accept new entries; those that failed lately come last."""

    def __init__(
        self, directory: BookieDirectory, policy: PlacementPolicy, avoid_failed_ms: int
    ) -> None:
        self._directory = directory
        self._policy = policy
        self._memory = FailureMemory(avoid_failed_ms)
        self._lock = threading.Lock()  # of the memory

    def new_ensemble(
        self, ensemble_size: int, timeout_s: float, needs: Collection[str] = NO_NEEDS
    ) -> tuple[str, ...]:
        """Return an ensemble of bookies with these features; wait if there are too few bookies.

        Raises:
            NotEnoughBookiesError: there are still too few after ``timeout_s`` seconds.
            OldBookiesError: there would be enough if none were of an older zbk.
        """
        self._directory.wait_for_writable(ensemble_size, timeout_s)
        candidates = self._candidates()
        free = able(candidates, needs)
        if len(free) < ensemble_size <= len(candidates):
            raise OldBookiesError(
                ensemble_size, len(free), ", ".join(sorted(needs)), _named(candidates, free)
            )
        return self._policy.new_ensemble(free, ensemble_size, avoid=self._avoided())

    def replacements(
        self,
        ensemble: Sequence[str],
        failed_slots: Collection[int],
        *,
        exclude: Collection[str] = (),
        may_avoided: bool = True,
        needs: Collection[str] = NO_NEEDS,
    ) -> dict[int, str]:
        """Return a new bookie for each failed slot, as far as there are any outside ``exclude``.

        ``may_avoided``: use bookies that failed lately if there are no others. ``needs``: the
        features that they must have.
        """
        avoided = self._avoided()
        return self._policy.replacements(
            able(self._candidates(), needs),
            ensemble,
            failed_slots,
            exclude=exclude if may_avoided else {*exclude, *avoided},
            avoid=avoided,
            racks=self._directory.racks(),
        )

    def is_writable(self, bookie_id: str, needs: Collection[str] = NO_NEEDS) -> bool:
        """Return whether a bookie accepts new entries of ledgers with these needs."""
        return any(one.bookie_id == bookie_id for one in able(self._candidates(), needs))

    def lacking(self, needs: Collection[str]) -> str:
        """Return the names of bookies that accept new entries and lack features; "": none does."""
        candidates = self._candidates()
        return _named(candidates, able(candidates, needs))

    def note_failed(self, bookie_ids: Collection[str]) -> None:
        """Remember that these bookies failed."""
        now_ms = monotonic_ms()
        with self._lock:
            for bookie_id in bookie_ids:
                self._memory.failed(bookie_id, now_ms)

    def _candidates(self) -> list[Candidate]:
        candidates = self._directory.candidates()
        random.shuffle(candidates)
        return candidates

    def _avoided(self) -> frozenset[str]:
        with self._lock:
            return self._memory.avoided(monotonic_ms())


def _named(candidates: Sequence[Candidate], besides: Sequence[Candidate]) -> str:
    return ", ".join(sorted(one.bookie_id for one in candidates if one not in besides))
