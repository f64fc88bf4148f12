"""The thread of the connections of a client with several ledgers, as events.

It delivers news and calls back at deadlines, at times in the middle of a turn of the actor.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from tests.simulation.bundling_link import BundlingPool
from tests.simulation.kernel import MS, Node
from tests.simulation.links import Outstanding
from tests.simulation.world import World
from zbk.errors import ZbkError
from zbk.transport.bundles import BundleLimits
from zbk.transport.events import BookieDown, BookieUp, News, Outgoing, Sink


class ConnectionsThread:
    """The real ``BookiePool``'s part: subscriptions, requests, and the thread that they run in."""

    def __init__(self, world: World, node: Node, limits: BundleLimits) -> None:
        self._world = world
        self._node = node
        self._pool = BundlingPool(world, node, limits)
        self._deliveries: dict[tuple[str, object], Callable[[News], None]] = {}
        self._posted: list[tuple[Sink, News]] = []
        self._alarms: dict[Callable[[], None], int] = {}
        self.on_request: Callable[[Outgoing], None] = lambda _outgoing: None
        self.is_in_actor = False  # the actor's own thread runs

    def close(self) -> None:
        """End it with its client."""
        self._pool.close()

    # -------------------------------------------------------------- as BookiePool has them

    def subscribe(self, bookie_id: str, sink: Sink, key: object = None) -> None:
        """Report when the link comes and goes, beginning with now."""

        def deliver(news: News) -> None:
            assert isinstance(news, BookieUp | BookieDown), "a reply goes to the one that asked"
            self._post(sink, msgspec.structs.replace(news, key=key))

        self._deliveries[(bookie_id, key)] = deliver
        self._pool.link(bookie_id).subscribe(deliver)

    def unsubscribe(self, bookie_id: str, sink: Sink, key: object = None) -> None:
        """Report no more."""
        del sink
        self._pool.link(bookie_id).unsubscribe(self._deliveries.pop((bookie_id, key)))

    def request(self, outgoing: Outgoing) -> None:
        """Send a request; what comes of it is posted."""
        self.on_request(outgoing)
        outstanding = Outstanding(
            outgoing.key,
            partial(self._post, outgoing.sink),
            type(outgoing.request).__name__,
            outgoing.timeout_ms,
            outgoing.size,
        )
        frames = tuple(bytes(frame) for frame in outgoing.frames)
        request: Any = outgoing.request
        self._pool.link(outgoing.bookie_id).request(request, frames, outstanding)
        if self.is_in_actor and self._posted and self._world.tape.draw(2):
            self._world.sometimes["shared client: news in the middle of a turn"] += 1
            self._hand_out()

    def request_all(self, outgoings: Sequence[Outgoing]) -> None:
        """Send requests, in order."""
        for outgoing in outgoings:
            self.request(outgoing)

    def reset(self, bookie_id: str, sink: Sink, error: ZbkError, key: object = None) -> None:
        """Make a connection anew."""
        del sink, key
        self._pool.link(bookie_id).reset(error)

    def call_soon(self, callback: Callable[[], None]) -> bool:
        """Call back in the thread of the connections; false: it is busy."""
        if self._world.tape.draw(4) == 3:
            return False
        self._node.after(self._world.tape.draw(4) * 30, callback)
        return True

    def call_at(self, due_ms: int | None, callback: Callable[[], None]) -> None:
        """Call back at a time, which replaces an earlier one; in the actor only if sooner."""
        known_ms = self._alarms.get(callback)
        if self.is_in_actor and known_ms is not None and (due_ms is None or due_ms >= known_ms):
            return
        if due_ms is None:
            self._alarms.pop(callback, None)
            return
        self._alarms[callback] = due_ms

        def call() -> None:
            if self._alarms.get(callback) == due_ms:
                del self._alarms[callback]
                callback()

        self._node.after(max(0, due_ms - self._node.now_ms()) * MS, call)

    # -------------------------------------------------------------- private

    def _post(self, sink: Sink, news: News) -> None:
        self._posted.append((sink, news))
        if len(self._posted) == 1:
            self._node.after(self._world.tape.draw(4) * 40, self._hand_out)

    def _hand_out(self) -> None:
        posted, self._posted = self._posted, []
        is_in_actor, self.is_in_actor = self.is_in_actor, False
        for sink in dict.fromkeys(sink for sink, _news in posted):
            sink.deliver([news for other, news in posted if other is sink])
        self.is_in_actor = is_in_actor
