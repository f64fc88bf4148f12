"""When the next entries of a load are due: at once, or at times that were fixed beforehand.

In an *open loop* entry number n is due at n / rate, whatever became of those before it. Its latency
counts from then: while the cluster stands still, all that was due meanwhile is late and says so. A
*closed loop* only begins an append when another one has ended, and would count one slow append
where a thousand users had waited ("coordinated omission").
"""

import threading
from math import inf

import msgspec

from zbk.system.clock import monotonic_s


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one writer. ``stop`` ends it early."""

    started_s: float
    stop: threading.Event
    rate: float = 0.0  # entries a second; 0: as fast as it goes
    seconds: float = inf  # after which nothing more is due

    def due_s(self, entry_number: int) -> float:
        """Return when an entry, counted from 0, is due in an open loop."""
        return self.started_s + entry_number / self.rate

    def begin(self, entry_number: int) -> float | None:
        """Wait until an entry is due; return the time from which its latency counts.

        ``None``: the time is over, or it was stopped.
        """
        now_s = monotonic_s()
        at_s = self.due_s(entry_number) if self.rate else now_s
        if at_s >= self.started_s + self.seconds or self.stop.is_set():
            return None
        if at_s > now_s and self.stop.wait(at_s - now_s):
            return None
        return at_s
