"""A small HTTP server: one thread, GET and HEAD, short answers, everything bounded.

One thread serves all connections without blocking, so a client that sends nothing, or half a
request, does not delay a health probe. An answer ends its connection.

    bytes of a request                    ``REQUEST_SIZE_MAX``; more is answered with 431
    time of a connection, all in all      ``DEADLINE_MS``; then it is closed
    connections                           ``CONNECTION_COUNT_MAX``; one more closes the oldest
    no descriptor is left                 the oldest closes; the next try follows ``PAUSE_MS`` later
    bytes that come after the request     read and dropped until the deadline, so that the answer
                                          is not lost in a reset of the connection

Why not ``http.server``: one thread of it waits for one client, and a thread for each client is
not bounded in time.

Threads: ``zbk-http`` runs the loop and calls ``respond``.
"""

import errno
import logging
import os
import selectors
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

import msgspec

from zbk.errors import InvalidOptionError
from zbk.system.clock import monotonic_ms
from zbk.system.wakeup import Wakeup

REQUEST_SIZE_MAX: Final = 8 * 1024
DEADLINE_MS: Final = 10_000
CONNECTION_COUNT_MAX: Final = 64
PAUSE_MS: Final = 100
BACKLOG: Final = 16
TEXT: Final = "text/plain; charset=utf-8"

_RECEIVE_SIZE: Final = 4_096
_END: Final = b"\r\n\r\n"
_REASONS: Final = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
    431: "Request Header Fields Too Large", 500: "Internal Server Error",
    503: "Service Unavailable", 505: "HTTP Version Not Supported",
}  # fmt: skip

LOG = logging.getLogger("zbk.metrics")


class Request(msgspec.Struct, frozen=True):
    """A request that was read."""

    path: str
    query: str = ""
    accept: str = ""


class Response(msgspec.Struct, frozen=True):
    """An answer."""

    status: int
    body: bytes
    content_type: str = TEXT


class _Connection:
    __slots__ = ("deadline_ms", "output", "received", "socket")

    def __init__(self, connected: socket.socket, deadline_ms: int) -> None:
        self.socket = connected
        self.deadline_ms = deadline_ms
        self.received = b""
        self.output: memoryview | None = None  # None: the request is not complete


class HttpServer:
    """Serves ``respond`` at one address. ``start`` comes first, ``stop`` last."""

    def __init__(self, host: str, port: int, respond: Callable[[Request], Response]) -> None:
        """Bind the address.

        Raises:
            InvalidOptionError: it cannot be bound.
        """
        self._respond = respond
        self._listener = _bind(host, port)
        self._listener.setblocking(False)  # noqa: FBT003 - the socket module's own
        self.host, self.port = self._listener.getsockname()[:2]
        self._wakeup = Wakeup()
        self._is_stopping = False
        self._connections: OrderedDict[int, _Connection] = OrderedDict()  # the oldest first
        self._paused_until_ms: int | None = None  # until then the listener is not watched
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, name="zbk-http", daemon=True)

    def start(self) -> None:
        """Start to serve."""
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wakeup.fd, selectors.EVENT_READ)
        self._thread.start()

    def stop(self) -> None:
        """Close all connections and the address. Twice is fine."""
        self._is_stopping = True
        self._wakeup.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._close()

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    # ------------------------------------------------------------------ own thread

    def _run(self) -> None:
        while not self._is_stopping:
            for key, _events in self._selector.select(self._pause_s()):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fd in self._connections:
                    self._advance(self._connections[key.fd])
            self._wakeup.clear()
            now_ms = monotonic_ms()
            if self._paused_until_ms is not None and now_ms >= self._paused_until_ms:
                self._paused_until_ms = None
                self._selector.register(self._listener, selectors.EVENT_READ)
            for connection in list(self._connections.values()):
                if now_ms < connection.deadline_ms:
                    break
                self._end(connection)

    def _pause_s(self) -> float | None:
        oldest = next(iter(self._connections.values()), None)
        due_ms = [self._paused_until_ms, oldest.deadline_ms if oldest else None]
        next_ms = min((one for one in due_ms if one is not None), default=None)
        return None if next_ms is None else max(0, next_ms - monotonic_ms()) / 1000

    def _accept(self) -> None:
        try:
            connected, _address = self._listener.accept()
        except OSError as error:  # it went away, or there is no descriptor: the next may come
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._pause()
            return
        connected.setblocking(False)  # noqa: FBT003 - the socket module's own
        if len(self._connections) >= CONNECTION_COUNT_MAX:
            self._end(next(iter(self._connections.values())))
        self._connections[connected.fileno()] = _Connection(connected, monotonic_ms() + DEADLINE_MS)
        self._selector.register(connected, selectors.EVENT_READ)

    def _pause(self) -> None:
        """Free a descriptor, and do not try again at once: the connection still waits there."""
        if self._connections:
            self._end(next(iter(self._connections.values())))
        self._selector.unregister(self._listener)
        self._paused_until_ms = monotonic_ms() + PAUSE_MS

    def _advance(self, connection: _Connection) -> None:
        try:
            if connection.output:
                self._send(connection)
            else:
                self._receive(connection)
        except BlockingIOError:
            return
        except OSError:
            self._end(connection)

    def _receive(self, connection: _Connection) -> None:
        data = connection.socket.recv(_RECEIVE_SIZE)
        if not data:
            self._end(connection)
        elif connection.output is None:
            connection.received += data
            head, end, _rest = connection.received.partition(_END)
            if end or len(head) > REQUEST_SIZE_MAX:
                self._answer(connection, head if len(head) <= REQUEST_SIZE_MAX else None)

    def _answer(self, connection: _Connection, head: bytes | None) -> None:
        connection.output = memoryview(self._message(head))
        connection.received = b""
        self._selector.modify(connection.socket, selectors.EVENT_WRITE)
        self._send(connection)

    def _send(self, connection: _Connection) -> None:
        assert connection.output is not None, "an answer was made"
        sent_size = connection.socket.send(connection.output)
        connection.output = connection.output[sent_size:]
        if not connection.output:
            connection.socket.shutdown(socket.SHUT_WR)
            self._selector.modify(connection.socket, selectors.EVENT_READ)

    def _message(self, head: bytes | None) -> bytes:
        """Return the bytes of the answer to a request; ``None``: the request was too large."""
        if head is None:
            return _encode(Response(431, b"the request is too large\n"))
        lines = head.decode("latin-1").split("\r\n")
        method, _, rest = lines[0].partition(" ")
        target, _, version = rest.partition(" ")
        if not version.startswith("HTTP/") or not target.startswith("/"):
            return _encode(Response(400, b"this is no HTTP request\n"))
        if version not in ("HTTP/1.0", "HTTP/1.1"):
            return _encode(Response(505, b"speak HTTP/1.1\n"))
        if method not in ("GET", "HEAD"):
            return _encode(Response(405, b"only GET and HEAD\n"), "Allow: GET, HEAD")
        return _encode(self._respond_safely(_request(target, lines)), has_body=method == "GET")

    def _respond_safely(self, request: Request) -> Response:
        try:
            return self._respond(request)
        except Exception:
            LOG.exception("a request for %s failed", request.path)
            return Response(500, b"an error of zbk: see its log\n")

    def _end(self, connection: _Connection) -> None:
        fd = connection.socket.fileno()
        self._selector.unregister(connection.socket)
        connection.socket.close()
        del self._connections[fd]

    def _close(self) -> None:
        for connection in list(self._connections.values()):
            self._end(connection)
        self._selector.close()
        self._listener.close()
        self._wakeup.close()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        hint = "give an address of this machine"
        if error.errno == errno.EADDRINUSE:
            hint = "another process has this port: give another one, or off"
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise InvalidOptionError("http", shown, f"cannot listen there: {reason}; {hint}") from error
    return listener


def _request(target: str, lines: list[str]) -> Request:
    path, _, query = target.partition("?")
    headers = (line.partition(":") for line in lines[1:])
    accept = next((value.strip() for name, _, value in headers if name.lower() == "accept"), "")
    return Request(unquote(path), query, accept)


def _encode(response: Response, *extra: str, has_body: bool = True) -> bytes:
    lines = [
        f"HTTP/1.1 {response.status} {_REASONS[response.status]}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *extra,
    ]
    head = "\r\n".join(lines).encode("ascii") + _END
    return head + response.body if has_body else head
