"""A connection of the HTTP server, with its bounds.

uvicorn parses requests with h11 and calls the application. It has no limit for the time of a
client that sends nothing or half a request, or reads no answer, and its limit of connections
refuses the new one. This class adds:

    a request, head and body              complete ``DEADLINE_S`` after it can begin, else closed
    an answer                             the client reads some of it every ``DEADLINE_S``
    connections                           ``CONNECTION_COUNT_MAX``; one more closes the one that
                                          waits longest for a request, else itself
    bytes that come after garbage         read and dropped until the deadline, so that the answer
                                          is not lost in a reset of the connection
    a client that half-closes             is answered

Threads: the loop's, ``zbk-http``.
"""

import asyncio
import sys
from http import HTTPStatus
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

DEADLINE_S: Final = 10.0
WATCH_INTERVAL_S: Final = 1.0
CONNECTION_COUNT_MAX: Final = 64


class BoundedConnection(H11Protocol):
    """One connection. uvicorn creates it."""

    def __init__(self, *args: Any, **keywords: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **keywords)
        self.waiting_since_s = self.loop.time()
        self._is_lingering = False
        self._is_half_closed = False
        self._progress_s = self.waiting_since_s  # when the client last read some of an answer
        self._unread_size = 0
        self._watch: asyncio.TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether the application works on a request of this connection."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn hides that it may be None
        return cycle is not None and not cycle.response_complete

    # ------------------------------------------------------------------ called by the loop

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a request."""
        super().connection_made(transport)
        self._watch_later()
        if len(open_connections(self.connections)) > CONNECTION_COUNT_MAX:
            close_longest_waiting(self.connections)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop to watch the connection."""
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the parser, or drop them after an error."""
        if not self._is_lingering:
            super().data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether the connection stays open for an answer that is not begun."""
        self._is_half_closed = True
        return self.is_busy and not self.cycle.response_started

    def resume_writing(self) -> None:
        """Record that the client read some of the answer."""
        self._progress_s = self.loop.time()
        super().resume_writing()

    # ------------------------------------------------------------------ called by uvicorn

    def on_response_complete(self) -> None:
        """Wait for the next request, or end the connection of a client that sends no more."""
        self.waiting_since_s = self.loop.time()
        super().on_response_complete()
        if self._is_half_closed and not self.is_busy:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is no HTTP, or too large, and read no more requests."""
        is_begun = self.is_busy and self.cycle.response_started
        if self.transport.is_closing() or is_begun:
            self.transport.abort()
            return
        error = sys.exception()
        hint = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else 400
        status = HTTPStatus(hint)
        body = f"{msg if status == HTTPStatus.BAD_REQUEST else status.phrase}\n".encode()
        self.transport.write(
            f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        self.transport.write_eof()
        self._is_lingering = True
        if self.is_busy:
            self.cycle.disconnected = True
            self.cycle.response_complete = True
            self.cycle.message_event.set()

    # ------------------------------------------------------------------ the watch

    def _watch_later(self) -> None:
        self._watch = self.loop.call_later(min(WATCH_INTERVAL_S, DEADLINE_S), self._check)

    def _check(self) -> None:
        now_s = self.loop.time()
        unread_size = self.transport.get_write_buffer_size()
        if not unread_size or unread_size < self._unread_size:
            self._progress_s = now_s
        self._unread_size = unread_size
        is_stuck = now_s - self._progress_s >= DEADLINE_S
        is_receiving = not self.is_busy or self.cycle.more_body
        is_late = is_receiving and now_s - self.waiting_since_s >= DEADLINE_S
        if is_stuck or (is_late and not (unread_size and not self.is_busy)):
            self.transport.abort()
        else:
            self._watch_later()


def open_connections(connections: Any) -> list[BoundedConnection]:  # noqa: ANN401 - uvicorn's union
    """Return the connections of a server that are not about to close."""
    return [
        one
        for one in connections
        if isinstance(one, BoundedConnection) and not one.transport.is_closing()
    ]


def close_longest_waiting(connections: Any) -> None:  # noqa: ANN401 - uvicorn's union
    """Close the connection that waits longest for a request, if one waits."""
    waiting = [one for one in open_connections(connections) if not one.is_busy]
    if waiting:
        min(waiting, key=lambda one: one.waiting_since_s).transport.abort()
