"""The pauses between the attempts to repair a ledger.

The first pause is a sixteenth of the longest; each further failure doubles it. Only the latest
``LEDGER_COUNT_MAX`` failures are remembered: a forgotten ledger is tried at once.

Source: BookKeeper's ``ReplicationWorker``, ``lockReleaseOfFailedLedgerGracePeriod``.
"""

from typing import Final

LEDGER_COUNT_MAX: Final = 10_000
FIRST_SHARE: Final = 16


class RepairBackoff:
    """The pauses of one worker.

    >>> backoff = RepairBackoff(pause_ms_max=16_000)
    >>> backoff.failed(7, now_ms=0)
    >>> backoff.is_due(7, now_ms=999), backoff.is_due(7, now_ms=1_000)
    (False, True)
    >>> backoff.failed(7, now_ms=1_000)
    >>> backoff.is_due(7, now_ms=2_999), backoff.is_due(7, now_ms=3_000)
    (False, True)
    """

    def __init__(self, pause_ms_max: int, *, ledger_count_max: int = LEDGER_COUNT_MAX) -> None:
        self._pause_ms_max = pause_ms_max
        self._ledger_count_max = ledger_count_max
        self._failures: dict[int, tuple[int, int]] = {}  # due, and the pause; oldest first

    def is_due(self, ledger_id: int, now_ms: int) -> bool:
        """Return whether a ledger may be tried now."""
        found = self._failures.get(ledger_id)
        return found is None or now_ms >= found[0]

    def failed(self, ledger_id: int, now_ms: int) -> None:
        """Record a failure: the ledger rests for the next pause."""
        _due_ms, before_ms = self._failures.pop(ledger_id, (0, 0))
        pause_ms = min(self._pause_ms_max, before_ms * 2 or self._pause_ms_max // FIRST_SHARE)
        self._failures[ledger_id] = (now_ms + pause_ms, pause_ms)
        if len(self._failures) > self._ledger_count_max:
            del self._failures[next(iter(self._failures))]

    def forget(self, ledger_id: int) -> None:
        """Forget the failures of a ledger."""
        self._failures.pop(ledger_id, None)
