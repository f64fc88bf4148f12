"""Requests for the info of many bookies, all at once, within one time limit.

A ZeroMQ context has 1,023 sockets, and a connection takes two, so bookies are asked in groups, each
with connections and a thread of its own. Groups run at the same time as far as the process may have
file descriptors; the others follow in the time that is left, and some may not be asked at all.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from zbk.client.cluster.requests import ReplyBox, Requests
from zbk.errors import RequestTimeoutError, ZbkError
from zbk.security.credentials import ANONYMOUS, BookieDoors, Credentials
from zbk.system.clock import monotonic_s
from zbk.system.descriptors import descriptor_limit, raise_descriptor_limit
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieUp, DealerOptions, News
from zbk.wire.messages import BookieInfo, GetBookieInfo

GROUP_SIZE_MAX: Final = 200
"""Bookies of one group."""

GROUP_COUNT_MAX: Final = 16
"""Groups that are asked at the same time."""

CONNECTION_DESCRIPTOR_COUNT: Final = 6
OTHER_DESCRIPTOR_COUNT: Final = 128
IDLE_MS: Final = 10_000


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

    def __init__(
        self, instance_id: str, timeout_s: float, credentials: Credentials = ANONYMOUS
    ) -> None:
        self._instance_id = instance_id
        self._timeout_s = timeout_s
        self._credentials = credentials
        timeout_ms = max(1, int(timeout_s * 1_000))
        options = DealerOptions(
            instance_id, "zbk-health", timeout_ms, IDLE_MS, credentials=credentials
        )
        self._pool = BookiePool(options)
        self._requests = Requests(self._pool, timeout_ms)

    def close(self) -> None:
        """End all connections."""
        self._pool.close()

    def ask(self, doors: Mapping[str, BookieDoors]) -> dict[str, BookieAnswer]:
        """Return the info of each bookie, or the error of its request, by bookie id."""
        if len(doors) > _group_size():
            return ask_bookies(
                doors, self._instance_id, self._timeout_s, credentials=self._credentials
            )
        self._pool.set_doors(doors)
        deadline_s, box = monotonic_s() + self._timeout_s, AnswerBox()
        for bookie_id in doors:
            self._pool.subscribe(bookie_id, box)
            self._requests.send(bookie_id, GetBookieInfo(request_id=0), (), box, bookie_id)
        found: dict[str, BookieInfo | ZbkError] = {}
        while len(found) < len(doors):
            reply = box.next(max(0.0, deadline_s - monotonic_s()))
            if reply is None:
                break
            outcome = reply.outcome
            found[reply.bookie_id] = outcome if isinstance(outcome, BookieInfo) else reply.error
        for bookie_id in doors:
            self._pool.unsubscribe(bookie_id, box)
            silent = RequestTimeoutError(f"bookie {bookie_id}", self._timeout_s)
            found.setdefault(bookie_id, silent)
        return {one: BookieAnswer(found[one], box.versions.get(one, 0)) for one in found}


def ask_bookies(
    doors: Mapping[str, BookieDoors],
    instance_id: str,
    timeout_s: float,
    group_count_max: int = GROUP_COUNT_MAX,
    group_size_max: int = GROUP_SIZE_MAX,
    credentials: Credentials = ANONYMOUS,
) -> dict[str, BookieAnswer]:
    """Return the info of each bookie, or the error of its request, by bookie id.

    Bookies that were not asked before the time was over are left out. With many bookies the process
    raises its limit of descriptors.
    """
    if not doors:
        return {}
    if len(doors) > _group_size():
        raise_descriptor_limit()
    deadline_s = monotonic_s() + timeout_s
    size = min(group_size_max, _group_size())
    ids = list(doors)
    groups = [ids[first : first + size] for first in range(0, len(ids), size)]

    def ask(group: list[str]) -> dict[str, BookieAnswer]:
        left_s = deadline_s - monotonic_s()
        if left_s <= 0:
            return {}
        asker = BookieAsker(instance_id, left_s, credentials)
        try:
            return asker.ask({one: doors[one] for one in group})
        finally:
            asker.close()

    count = max(1, min(group_count_max, len(groups), _connection_count() // size))
    with ThreadPoolExecutor(count, "zbk-health") as threads:
        return {one: answer for found in threads.map(ask, groups) for one, answer in found.items()}


def _connection_count() -> int:
    """Return how many connections the process may have at the same time."""
    free_count = descriptor_limit() - OTHER_DESCRIPTOR_COUNT
    return max(1, free_count // CONNECTION_DESCRIPTOR_COUNT)


def _group_size() -> int:
    return min(GROUP_SIZE_MAX, _connection_count())
