"""The load on Redis Streams: batches over several connections.

Confirm commands block their connection, and confirm the entries that the connection wrote. So the
window is one connection for each batch in flight, and the oldest is waited for first. The order of
entries is kept within a batch, and not between batches, as in a zbk ledger.

- ``many``: a batch is packed and sent at once, followed by the confirm commands;
- ``async``: each entry is packed and sent by its own call, with the confirm commands after the
  entries of a batch: Redis cannot confirm single entries as they arrive;
- ``sync``: one entry with its confirm commands, one after another.
"""

import os
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from benchmarks.peers.load import PeerLoad, batch_sizes


class Line(Protocol):
    """One connection, with at most one batch in flight."""

    def send(self, payload: bytes, count: int) -> None:
        """Send a batch and ask for its confirmation."""

    def send_singly(self, payload: bytes, count: int) -> None:
        """Send entries, one call each, and ask for their confirmation."""

    def confirm(self) -> list[float]:
        """Wait for the confirmation of all that was sent; return latencies in seconds."""


def write(lines: Sequence[Line], load: PeerLoad) -> list[float]:
    """Write the load over these connections; return latencies in seconds."""
    payload = os.urandom(load.entry_size)
    latencies_s: list[float] = []
    free, waiting = deque(lines), deque[Line]()
    for count in batch_sizes(load):
        if not free:
            oldest = waiting.popleft()
            latencies_s += oldest.confirm()
            free.append(oldest)
        line = free.popleft()
        if load.api == "async":
            line.send_singly(payload, count)
        else:
            line.send(payload, count)
        waiting.append(line)
    for line in waiting:
        latencies_s += line.confirm()
    return latencies_s
