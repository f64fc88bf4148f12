"""The requests of one connection: those that wait to be sent, and those that were handed over.

Requests beyond the bookie's credit wait here, for as long as it takes. A request that the bookie
refused for want of a HELLO is kept apart, and sent once more after the next HELLO, in the same
order and before what came later.

Two lanes. A ledger that writes as fast as it can has megabytes on their way, and a bookie handles
the messages of a connection in order. So small requests of other ledgers have their own lane: they
leave first, and while they come, at most ``PACE_SIZE`` bytes of the large lane are outstanding.
While none of that lane is outstanding, its first request waits behind the small ones that are there
already, so that no stream of small requests stops it. All requests of a ledger leave in order:
while one is large, waiting or outstanding, the next one joins the large lane, whatever its size.

Pure. Owned by a ``Connection``.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

import msgspec

from zbk.transport.bundles import LIMITS, Part
from zbk.transport.events import Outgoing
from zbk.transport.outstanding import Outstanding
from zbk.wire.messages import HelloAnswer

WAITING_SIZE_MAX: Final = 256 * 1024 * 1024

PACE_SIZE: Final = 1024 * 1024
"""Bytes of the large lane that may be outstanding while small requests of other ledgers come; one
request may exceed it."""

HURRY_MS: Final = 250
"""How long after such a request the next one is expected."""


class RequestQueue:
    """Requests to one bookie, in the order in which they leave."""

    def __init__(self) -> None:
        self.outstanding = Outstanding()
        self._repeated: deque[Outgoing] = deque()  # these leave first,
        self._small: deque[Outgoing] = deque()
        self._large: deque[Outgoing] = deque()  # and these last,
        self._admitted: Outgoing | None = None  # but for this one, which waits among the small ones
        self._refused: list[Outgoing] = []
        self._waiting_size = 0  # of those that wait, and of the refused ones
        self._hurried_until_ms = 0

    @property
    def is_waiting(self) -> bool:
        """True while a request waits to be sent."""
        return bool(self._small or self._large or self._repeated)

    def __bool__(self) -> bool:
        return self.is_waiting or bool(self.outstanding)

    def add(self, outgoing: Outgoing, now_ms: int) -> bool:
        """Append a request; return false if there is no room for it."""
        size = self._waiting_size + outgoing.size
        if size > WAITING_SIZE_MAX:
            return False
        self._waiting_size = size
        large_counts = self.outstanding.large_counts
        if outgoing.size > LIMITS.part_size_max or (
            large_counts and outgoing.ledger_id in large_counts
        ):
            outgoing.is_large = True
            self.outstanding.begin_large(outgoing)
            self._large.append(outgoing)
        else:
            self._small.append(outgoing)
            if large_counts:
                self._hurried_until_ms = now_ms + HURRY_MS
        return True

    def within_credit(
        self, hello: HelloAnswer, next_request_id: Callable[[], int], now_ms: int
    ) -> list[Part]:
        """Return the waiting requests that may be sent now; one if none is outstanding."""
        if self._large and self._admitted is None and not self.outstanding.large_size:
            self._admitted = self._large.popleft()
            self._small.append(self._admitted)
        parts: list[Part] = []
        size, credit_size, incarnation = (
            self.outstanding.size, hello.credit_size, hello.incarnation,
        )  # fmt: skip
        large_size = self.outstanding.large_size
        large_size_max = PACE_SIZE if now_ms < self._hurried_until_ms else credit_size
        replace = msgspec.structs.replace
        for outgoing in chain(self._repeated, self._small, self._large):
            if size and size + outgoing.size > credit_size:
                break
            if outgoing.is_large:
                if large_size and large_size + outgoing.size > large_size_max:
                    break  # the answers to these cause the next call
                large_size += outgoing.size
            size += outgoing.size
            request = replace(
                outgoing.request, request_id=next_request_id(), incarnation=incarnation
            )
            parts.append((request, outgoing.frames))
        return parts

    def handed_over(self, group: Sequence[Part], now_ms: int) -> None:
        """Record that the next requests were sent: those of ``group``."""
        size = self.outstanding.size
        repeated, small, large = self._repeated, self._small, self._large
        self.outstanding.add(
            [
                (request.request_id, (repeated or small or large).popleft())
                for request, _frames in group
            ],
            now_ms,
        )
        self._waiting_size -= self.outstanding.size - size
        if self.outstanding.large_size:
            self._admitted = None

    def refused(self, outgoing: Outgoing) -> None:
        """Keep a request that was refused for want of a HELLO."""
        outgoing.refused_count += 1
        self._waiting_size += outgoing.size
        if outgoing.is_large:
            self.outstanding.begin_large(outgoing)
        self._refused.append(outgoing)

    def repeat_refused(self) -> None:
        """Put the refused requests back, before those that wait."""
        self._repeated.extendleft(reversed(self._refused))
        self._refused.clear()

    def take_all(self) -> list[Outgoing]:
        """Return all requests, and forget them."""
        waiting = [*self._refused, *self._repeated, *self._small, *self._large]
        taken = [*self.outstanding.take_all(), *waiting]
        for lane in (self._refused, self._repeated, self._small, self._large):
            lane.clear()
        self._waiting_size, self._admitted = 0, None
        for outgoing in waiting:
            outgoing.is_large = False
        return taken
