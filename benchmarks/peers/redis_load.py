"""The load on Redis Streams: batches over several connections.

Confirm commands hold up their connection, and confirm what that connection wrote. So the window
is one connection for each batch on its way, of which the oldest is waited for first; the order of
entries is Redis' within a batch, and not kept between batches, which a zbk ledger does.

- ``many``: a batch is packed and sent in one go, the confirm commands behind it;
- ``async``: each entry is packed and sent by a call of its own, the confirm commands after as many
  as a batch has: Redis has nothing that confirms single entries as they get there;
- ``sync``: one entry with its confirm commands, one after another.
"""

import os
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from benchmarks.peers.load import PeerLoad, batch_sizes


class Line(Protocol):
    """One connection: at most one batch on its way."""

    def send(self, payload: bytes, count: int) -> None:
        """Send a batch and ask for its confirmation."""

    def send_singly(self, payload: bytes, count: int) -> None:
        """Send as many entries, a call each, and ask for their confirmation."""

    def confirm(self) -> list[float]:
        """Wait for the confirmation of what was sent; return latencies in seconds."""


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
