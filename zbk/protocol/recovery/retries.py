"""The retries of a recovery: which slots may be asked now.

A slot *rests* after a failure, twice as long after each further one in a row. After
``attempt_count_max`` failures in a row it is *given up*; at once after an error of the caller,
which a repetition cannot avoid.

Used by the steps of a recovery; see ``zbk.protocol.recovery.recovery``.
"""

from collections.abc import Iterable

from zbk.errors import CallerError, ZbkError
from zbk.protocol.recovery.events import RecoveryLimits


class SlotRetries:
    """The failures of each slot."""

    def __init__(self, slot_count: int, limits: RecoveryLimits) -> None:
        self._limits = limits
        self._failure_counts = [0] * slot_count
        self._rests_until_ms: list[int | None] = [0] * slot_count  # None: given up
        self._errors: dict[int, ZbkError] = {}

    @property
    def given_up(self) -> frozenset[int]:
        """The slots that are given up."""
        return frozenset(s for s, until_ms in enumerate(self._rests_until_ms) if until_ms is None)

    def is_ready(self, slot: int, now_ms: int) -> bool:
        """Return whether the slot may be asked now."""
        until_ms = self._rests_until_ms[slot]
        return until_ms is not None and until_ms <= now_ms

    def is_given_up(self, slot: int) -> bool:
        """Return whether the slot is given up."""
        return self._rests_until_ms[slot] is None

    def heard(self, slot: int) -> None:
        """Record a valid answer, which ends the row of failures."""
        self._failure_counts[slot] = 0
        self._errors.pop(slot, None)

    def failed(self, slot: int, error: ZbkError, now_ms: int) -> None:
        """Record a failure."""
        limits = self._limits
        self._errors[slot] = error
        self._failure_counts[slot] += 1
        count = self._failure_counts[slot]
        if count >= limits.attempt_count_max or isinstance(error, CallerError):
            self._rests_until_ms[slot] = None
        else:
            delay_ms = min(limits.retry_delay_ms << count - 1, limits.retry_delay_ms_max)
            self._rests_until_ms[slot] = now_ms + delay_ms

    def text(self, slots: Iterable[int]) -> str:
        """Return the errors of these slots, in one line."""
        return "; ".join(f"slot {s}: {self._errors.get(s, 'no answer yet')}" for s in sorted(slots))
