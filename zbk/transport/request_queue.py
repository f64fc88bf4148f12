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
from zbk.transport.outstanding import Outstanding
from zbk.wire.messages import HelloAnswer

WAITING_SIZE_MAX: Final = 256 * 1024 * 1024


class RequestQueue:
    """Requests to one bookie, in the order in which they leave."""

    def __init__(self) -> None:
        self.waiting: deque[Outgoing] = deque()
        self.outstanding = Outstanding()
        self._refused: list[Outgoing] = []
        self._waiting_size = 0  # of those that wait, and of the refused ones

    def __bool__(self) -> bool:
        return bool(self.waiting or self.outstanding)

    def add(self, outgoing: Outgoing) -> bool:
        """Append a request; return false if there is no room for it."""
        size = self._waiting_size + outgoing.size
        if size > WAITING_SIZE_MAX:
            return False
        self._waiting_size = size
        self.waiting.append(outgoing)
        return True

    def within_credit(self, hello: HelloAnswer, next_request_id: Callable[[], int]) -> list[Part]:
        """Return the waiting requests that the credit has room for; one if none is outstanding."""
        parts: list[Part] = []
        size, credit_size, incarnation = (
            self.outstanding.size, hello.credit_size, hello.incarnation,
        )  # fmt: skip
        replace = msgspec.structs.replace
        for outgoing in self.waiting:
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
        size, popleft = self.outstanding.size, self.waiting.popleft
        self.outstanding.add(
            [(request.request_id, popleft()) for request, _frames in group], now_ms
        )
        self._waiting_size -= self.outstanding.size - size

    def refused(self, outgoing: Outgoing) -> None:
        """Keep a request that was refused for want of a HELLO."""
        outgoing.refused_count += 1
        self._waiting_size += outgoing.size
        self._refused.append(outgoing)

    def repeat_refused(self) -> None:
        """Put the refused requests back, before those that wait."""
        self.waiting.extendleft(reversed(self._refused))
        self._refused.clear()

    def take_all(self) -> list[Outgoing]:
        """Return all requests, and forget them."""
        taken = [*self.outstanding.take_all(), *self._refused, *self.waiting]
        self._refused.clear()
        self.waiting.clear()
        self._waiting_size = 0
        return taken
