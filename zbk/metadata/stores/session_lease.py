"""The lease of a session in a SQLite file: when it is renewed, when it is late, when it is over.

Pure: the caller passes the time.

>>> lease = SessionLease(3_000, now_ms=0)
>>> [lease.is_due(t) for t in (999, 1_000)], [lease.is_late(t) for t in (1_999, 2_000)]
([False, True], [False, True])
"""

from typing import Final

PATIENCE_MS: Final = 200
"""The time that a renewal may always wait for the lock of the file."""


class SessionLease:
    """The lease of a store's own session, and its right to end the sessions of others."""

    def __init__(self, lease_ms: int, now_ms: int) -> None:
        self.lease_ms = lease_ms
        self.renewed_ms = self.polled_ms = self._judge_ms = now_ms

    def is_due(self, now_ms: int) -> bool:
        """Return whether to renew: after a third of the lease."""
        return now_ms >= self.renewed_ms + self.lease_ms // 3

    def is_late(self, now_ms: int) -> bool:
        """Return whether the session is suspended: after two thirds of the lease."""
        return now_ms >= self.renewed_ms + self.lease_ms * 2 // 3

    def is_over(self, now_ms: int) -> bool:
        """Return whether others may have ended the session."""
        return now_ms >= self.renewed_ms + self.lease_ms

    def patience_ms(self, now_ms: int) -> int:
        """Return the time that a renewal may wait for the lock: as long as the lease allows."""
        share = self.lease_ms if self.is_late(now_ms) else self.lease_ms * 2 // 3
        return max(PATIENCE_MS, self.renewed_ms + share - now_ms)

    def poll(self, now_ms: int) -> None:
        """Record a poll. After a suspension others get half a lease to renew theirs."""
        if now_ms - self.polled_ms > self.lease_ms // 3:
            self._judge_ms = now_ms + self.lease_ms // 2
        self.polled_ms = now_ms

    def may_end_others(self, now_ms: int) -> bool:
        """Return whether a session whose lease is over had the time to renew it."""
        return now_ms >= self._judge_ms
