"""The requests that were handed to one bookie and are not answered, and when they are late.

Pure: it is told what time it is. Owned by a ``Connection``.
"""

from typing import Final

import msgspec

from zbk.transport.news import Outgoing

NEVER_MS: Final = 2**63 - 1
"""Later than every time: nothing is due."""


class Pending(msgspec.Struct):
    """A request that waits to be sent, or for its answer."""

    outgoing: Outgoing
    deadline_ms: int
    refused_count: int = 0  # for want of a HELLO


class Outstanding:
    """Requests by their ids, in the order in which they were handed over."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}
        self.size = 0
        """Bytes, as they count against the bookie's credit."""
        self.due_ms = NEVER_MS
        """No request is late before. It may be earlier than the first deadline, never later."""

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, request_id: int, pending: Pending) -> None:
        """Take in a request that is handed over now; ids ascend."""
        self._pending[request_id] = pending
        self.size += pending.outgoing.size
        self.due_ms = min(self.due_ms, pending.deadline_ms)

    def take(self, request_id: int) -> Pending | None:
        """Return, and forget, a request that was answered; ``None`` if it timed out before."""
        pending = self._pending.pop(request_id, None)
        if pending is not None:
            self.size -= pending.outgoing.size
        return pending

    def take_late(self, now_ms: int) -> list[Pending]:
        """Return, and forget, what is late; ``due_ms`` is exact afterwards."""
        if now_ms < self.due_ms:
            return []
        late = [key for key, pending in self._pending.items() if now_ms >= pending.deadline_ms]
        taken = [self._pending.pop(request_id) for request_id in late]
        self.size -= sum(pending.outgoing.size for pending in taken)
        self.due_ms = min((p.deadline_ms for p in self._pending.values()), default=NEVER_MS)
        return taken

    def take_all(self) -> list[Pending]:
        """Return, and forget, everything."""
        taken = list(self._pending.values())
        self._pending.clear()
        self.size = 0
        self.due_ms = NEVER_MS
        return taken
