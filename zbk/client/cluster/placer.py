"""The choice of bookies for new ledgers and for replacements.

Any thread: writers ask for replacements in their actors, the application creates ledgers.
"""

import random
import threading
from collections.abc import Collection, Sequence

from zbk.client.cluster.directory import BookieDirectory
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

    def new_ensemble(self, ensemble_size: int, timeout_s: float) -> tuple[str, ...]:
        """Return an ensemble for a new ledger; wait for bookies if there are too few.

        Raises:
            NotEnoughBookiesError: there are still too few after ``timeout_s`` seconds.
        """
        self._directory.wait_for_writable(ensemble_size, timeout_s)
        return self._policy.new_ensemble(self._candidates(), ensemble_size, avoid=self._avoided())

    def replacements(
        self,
        ensemble: Sequence[str],
        failed_slots: Collection[int],
        *,
        exclude: Collection[str] = (),
        may_avoided: bool = True,
    ) -> dict[int, str]:
        """Return a new bookie for each failed slot, as far as there are any outside ``exclude``.

        ``may_avoided``: use bookies that failed lately if there are no others.
        """
        avoided = self._avoided()
        return self._policy.replacements(
            self._candidates(),
            ensemble,
            failed_slots,
            exclude=exclude if may_avoided else {*exclude, *avoided},
            avoid=avoided,
        )

    def is_writable(self, bookie_id: str) -> bool:
        """Return whether a bookie accepts new entries."""
        return bookie_id in self._directory.writable()

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
