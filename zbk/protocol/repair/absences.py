"""Since when bookies are away that repairs wait for, as one worker has seen. Pure.

The auditor reports the ledgers of a lost bookie once. A ledger that came to need that bookie later,
as one whose writer saw old registrations, is in no such report: whoever waits for the bookie gives
it up after as long as the auditor would.

Limits: ``BOOKIE_COUNT_MAX`` bookies are remembered; of others the absence begins anew.
"""

from collections.abc import Collection
from typing import Final

BOOKIE_COUNT_MAX: Final = 10_000


class Absences:
    """The bookies that were away when they were looked for.

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
        """Return who of those waited for has been away, at each look, for ``patience_ms``."""
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
