"""The requests of one connection: those that wait to be sent, and those that were handed over.

Requests beyond the bookie's credit wait here, for as long as it takes. A request that the bookie
refused for want of a HELLO is kept apart, and sent once more after the next HELLO, in the same
order and before what came later.

Pure. Owned by a ``Connection``.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from zbk.transport.bundles import Part
from zbk.transport.events import Outgoing
from zbk.transport.outstanding import Outstanding, Pending
from zbk.wire.messages import HelloAnswer

WAITING_SIZE_MAX: Final = 256 * 1024 * 1024


class RequestQueue:
    """Requests to one bookie, in the order in which they leave."""

    def __init__(self) -> None:
        self.waiting: deque[Pending] = deque()
        self.outstanding = Outstanding()
        self._refused: list[Pending] = []
        self._waiting_size = 0  # of those that wait, and of the refused ones

    def __bool__(self) -> bool:
        return bool(self.waiting or self.outstanding)

    def has_room(self, size: int) -> bool:
        """Return whether a request of so many bytes may wait."""
        return self._waiting_size + size <= WAITING_SIZE_MAX

    def add(self, outgoing: Outgoing) -> None:
        """Append a request."""
        self.waiting.append(Pending(outgoing))
        self._waiting_size += outgoing.size

    def within_credit(self, hello: HelloAnswer, next_request_id: Callable[[], int]) -> list[Part]:
        """Return the waiting requests that the credit has room for; one if none is outstanding."""
        parts: list[Part] = []
        size, credit_size, incarnation = (
            self.outstanding.size, hello.credit_size, hello.incarnation,
        )  # fmt: skip
        replace = msgspec.structs.replace
        for pending in self.waiting:
            outgoing = pending.outgoing
            if size and size + outgoing.size > credit_size:
                break
            size += outgoing.size
            request = replace(
                outgoing.request, request_id=next_request_id(), incarnation=incarnation
            )
            parts.append((request, outgoing.frames))
        return parts

    def handed_over(self, group: Sequence[Part], now_ms: int) -> None:
        """Record that the next requests were sent: those of ``group``."""
        size = self.outstanding.size
        self.outstanding.add(
            [(request.request_id, self.waiting.popleft()) for request, _frames in group], now_ms
        )
        self._waiting_size -= self.outstanding.size - size

    def refused(self, pending: Pending) -> None:
        """Keep a request that was refused for want of a HELLO."""
        pending.refused_count += 1
        self._waiting_size += pending.outgoing.size
        self._refused.append(pending)

    def repeat_refused(self) -> None:
        """Put the refused requests back, before those that wait."""
        self.waiting.extendleft(reversed(self._refused))
        self._refused.clear()

    def take_all(self) -> list[Pending]:
        """Return all requests, and forget them."""
        taken = [*self.outstanding.take_all(), *self._refused, *self.waiting]
        self._refused.clear()
        self.waiting.clear()
        self._waiting_size = 0
        return taken
