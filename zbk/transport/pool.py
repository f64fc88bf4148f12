"""The pool of connections, as one of its connections sees it (``zbk.transport.dealer`` is one)."""

from typing import TYPE_CHECKING, Protocol

import zmq

from zbk.security.credentials import BookieDoors
from zbk.transport.events import DealerOptions, News, Sink
from zbk.transport.request_counts import RequestCounts

if TYPE_CHECKING:
    from zbk.transport.connection import Connection


class Pool(Protocol):
    """What a connection needs from the pool that owns it. All calls are in the pool's thread."""

    @property
    def options(self) -> DealerOptions:
        """The client's identity and time-outs."""
        ...

    @property
    def counts(self) -> RequestCounts:
        """The counts of requests."""
        ...

    @property
    def context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        """Where sockets come from."""
        ...

    def next_request_id(self) -> int:
        """Return an id that no other request has."""
        ...

    def doors_of(self, bookie_id: str) -> BookieDoors | None:
        """Return how a bookie is reached; ``None`` if it is not registered."""
        ...

    def post(self, sink: Sink, news: News) -> None:
        """Keep news for a sink until the end of this turn of the loop."""
        ...

    def box(self, sink: Sink) -> list[News]:
        """Return the news that are kept for a sink, to add to; it is valid in this call only."""
        ...

    def watch(self, connection: "Connection") -> None:
        """Poll a connection's socket and monitor."""
        ...

    def watch_cheaply(self, connection: "Connection") -> None:
        """Poll the descriptor of the monitor instead of the monitor itself."""
        ...

    def unwatch(self, connection: "Connection") -> None:
        """Stop polling a connection's socket and monitor."""
        ...

    def look_at(self, due_ms: int) -> None:
        """Call the connections' ``tick`` at a time, or before."""
        ...

    def send_soon(self, connection: "Connection") -> None:
        """Call the connection's ``pump`` at the end of this turn, for all requests until then."""
        ...
