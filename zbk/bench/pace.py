"""The due times of the entries of a load: at once, or fixed in advance.

In an *open loop*, entry n is due at n / rate, independent of the entries before it. Its latency
counts from then: if the cluster stalls, all entries due meanwhile are late and count as late. A
*closed loop* begins an append only after another one has ended. It would count one slow append
where a thousand users had waited ("coordinated omission").
"""

import threading
from math import inf

import msgspec

from zbk.system.clock import monotonic_s


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """The due times of one writer. ``stop`` ends them early."""

    started_s: float
    stop: threading.Event
    rate: float = 0.0  # entries a second; 0: as fast as possible
    seconds: float = inf  # after that, nothing is due

    def due_s(self, entry_number: int) -> float:
        """Return the due time of an entry, counted from 0, in an open loop."""
        return self.started_s + entry_number / self.rate

    def begin(self, entry_number: int) -> float | None:
        """Wait until an entry is due; return the time from which its latency counts.

        ``None``: the time is over, or the load was stopped.
        """
        now_s = monotonic_s()
        at_s = self.due_s(entry_number) if self.rate else now_s
        if at_s >= self.started_s + self.seconds or self.stop.is_set():
            return None
        if at_s > now_s and self.stop.wait(at_s - now_s):
            return None
        return at_s
