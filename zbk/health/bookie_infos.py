"""Requests for the info of many bookies, within one time limit.

A sliding window of requests bounds sockets and descriptors: a connection costs several. A bookie
that does not answer keeps its place in the window until the time is over, so that with many silent
bookies some may not be asked at all.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from zbk.client.cluster.requests import ReplyBox, Requests
from zbk.errors import RequestTimeoutError, ZbkError
from zbk.system.clock import monotonic_s
from zbk.system.descriptors import descriptor_limit
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieUp, DealerOptions, News
from zbk.wire.messages import BookieInfo, GetBookieInfo

WINDOW_COUNT_MAX: Final = 200
"""Bookies that are asked at once. A connection takes two of the 1,023 sockets of a context."""

CONNECTION_DESCRIPTOR_COUNT: Final = 4
OTHER_DESCRIPTOR_COUNT: Final = 64
IDLE_MS: Final = 10
"""Time after which a connection is closed that was asked once: others need its descriptors."""

IDLE_MS_MAX: Final = 10_000


class BookieAnswer(msgspec.Struct, frozen=True):
    """What came of one request."""

    outcome: BookieInfo | ZbkError
    wire_version: int = 0  # of the protocol, as both agreed; 0: there was no connection


class AnswerBox(ReplyBox):
    """Keeps replies, and the wire versions of the bookies to which there is a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, int] = {}

    def deliver(self, news: list[News]) -> None:
        """Keep replies and versions."""
        self.versions |= {one.bookie_id: one.version for one in news if isinstance(one, BookieUp)}
        super().deliver(news)


class BookieAsker:
    """Asks bookies again and again, over connections that stay open while they are few."""

    def __init__(self, instance_id: str, timeout_s: float, *, idle_ms: int = IDLE_MS_MAX) -> None:
        self._timeout_ms = max(1, int(timeout_s * 1_000))
        self._pool = BookiePool(DealerOptions(instance_id, "zbk-health", self._timeout_ms, idle_ms))

    def close(self) -> None:
        """End all connections."""
        self._pool.close()

    def ask(
        self, addresses: Mapping[str, str], window_count: int = WINDOW_COUNT_MAX
    ) -> dict[str, BookieAnswer]:
        """Return the info of each bookie, or the error of its request, by bookie id.

        Bookies that were not asked before the time was over are left out.
        """
        self._pool.set_addresses(addresses)
        free_count = (descriptor_limit() - OTHER_DESCRIPTOR_COUNT) // CONNECTION_DESCRIPTOR_COUNT
        return self._ask(list(addresses), max(1, min(window_count, free_count)))

    def _ask(self, bookie_ids: list[str], window_count: int) -> dict[str, BookieAnswer]:
        deadline_s = monotonic_s() + self._timeout_ms / 1_000
        requests, box = Requests(self._pool, self._timeout_ms), AnswerBox()
        found: dict[str, BookieInfo | ZbkError] = {}
        asked_count = 0
        while len(found) < len(bookie_ids):
            while asked_count < len(bookie_ids) and asked_count - len(found) < window_count:
                bookie_id = bookie_ids[asked_count]
                self._pool.subscribe(bookie_id, box)
                requests.send(bookie_id, GetBookieInfo(request_id=0), (), box, bookie_id)
                asked_count += 1
            reply = box.next(max(0.0, deadline_s - monotonic_s()))
            if reply is None:
                break
            self._pool.unsubscribe(reply.bookie_id, box)
            outcome = reply.outcome
            found[reply.bookie_id] = outcome if isinstance(outcome, BookieInfo) else reply.error
        for bookie_id in bookie_ids[:asked_count]:
            if bookie_id not in found:
                self._pool.unsubscribe(bookie_id, box)
                timeout_s = self._timeout_ms / 1_000
                found[bookie_id] = RequestTimeoutError(f"bookie {bookie_id}", timeout_s)
        return {one: BookieAnswer(found[one], box.versions.get(one, 0)) for one in found}


def ask_bookies(
    addresses: Mapping[str, str],
    instance_id: str,
    timeout_s: float,
    window_count: int = WINDOW_COUNT_MAX,
) -> dict[str, BookieAnswer]:
    """Return what ``BookieAsker.ask`` returns, asked once."""
    if not addresses:
        return {}
    asker = BookieAsker(instance_id, timeout_s, idle_ms=IDLE_MS)
    try:
        return asker.ask(addresses, window_count)
    finally:
        asker.close()
