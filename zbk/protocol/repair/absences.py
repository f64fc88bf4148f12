"""The absences of bookies that a worker's repairs wait for. Pure.

The auditor reports the ledgers of a lost bookie once. A ledger that needs that bookie only later,
for example because its writer saw old registrations, is in no such report. The worker that waits
for the bookie therefore reports it as lost after the same delay as the auditor.

Limits: ``BOOKIE_COUNT_MAX`` bookies are remembered; the absence of any other begins at each look.
"""

from collections.abc import Collection
from typing import Final

BOOKIE_COUNT_MAX: Final = 10_000


class Absences:
    """The bookies that were away at the last look, and since when.

    >>> absences = Absences()
    >>> absences.overdue({"b1"}, frozenset(), 0, patience_ms=100)
    []
    >>> absences.overdue({"b1"}, frozenset(), 100, patience_ms=100)
    ['b1']
    """

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}

    def overdue(
        self,
        awaited: Collection[str],
        registered: Collection[str],
        now_ms: int,
        *,
        patience_ms: int,
    ) -> list[str]:
        """Return the awaited bookies that were away at each look of the last ``patience_ms``."""
        for bookie_id in registered:
            self._since_ms.pop(bookie_id, None)
        for bookie_id in sorted(awaited):
            if len(self._since_ms) < BOOKIE_COUNT_MAX and bookie_id not in registered:
                self._since_ms.setdefault(bookie_id, now_ms)
        return [
            bookie_id
            for bookie_id in sorted(awaited)
            if now_ms - self._since_ms.get(bookie_id, now_ms) >= patience_ms
            and bookie_id in self._since_ms
        ]
