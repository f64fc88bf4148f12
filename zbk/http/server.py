"""The HTTP server: one thread that runs uvicorn.

uvicorn's command line, signal handlers, access log and ticks are not used: an idle server does not
wake. Its log lines of requests that are no HTTP are dropped; any client could fill the log with
them.

Threads: ``zbk-http`` runs the loop and the application. An application that blocks hands its work
to another thread.
"""

import asyncio
import errno
import os
import socket
import threading
from asyncio import constants
from collections.abc import Collection
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from zbk.config.http_address import is_loopback, parse_http
from zbk.errors import InvalidOptionError
from zbk.http.connection import BoundedConnection, close_longest_waiting, open_connections
from zbk.http.guard import HEAD_SIZE_MAX, Guard, own_names
from zbk.system.clock import monotonic_s
from zbk.system.descriptors import is_no_descriptor
from zbk.system.event_log import EventLog

BACKLOG: Final = 64
KEEP_ALIVE_S: Final = 5
CLOSE_TIMEOUT_S: Final = 2.0
"""Time that requests have to end after ``close``; then they are cancelled."""

LOG = EventLog("zbk.http")


class HttpServer:
    """A server at one address. ``serve`` starts it."""

    def __init__(self, app: ASGIApp, listener: socket.socket, names: Collection[str]) -> None:
        self.host, self.port = listener.getsockname()[:2]
        checked = {*own_names(self.host), *names} if is_loopback(self.host) else None
        self._listener = listener
        self._server = _Server(_config(Guard(app, checked)))
        self._is_running = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zbk-http", daemon=True)

    @property
    def address(self) -> str:
        """``HOST:PORT``, with the port that was taken."""
        return shown_address(self.host, self.port)

    @property
    def url(self) -> str:
        """``http://HOST:PORT``."""
        return f"http://{self.address}"

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return len(self._server.server_state.connections.copy())

    def start(self) -> None:
        """Start to serve."""
        self._thread.start()
        self._is_running.wait()

    def close(self) -> None:
        """Close all connections and the address. A second call does nothing."""
        self._server.request_stop()
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._server.begin(asyncio.get_running_loop())
        self._is_running.set()
        await self._server.serve(sockets=[self._listener])


class PatientListener(socket.socket):
    """A listening socket that is asked once after a lack of descriptors, and not again at once.

    asyncio accepts ``BACKLOG`` times in a row. It goes on after such an error, and plans to look
    again after ``ACCEPT_RETRY_DELAY`` for each of them; on a busy machine each look is a row again.
    """

    _paused_until_s = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; there is none for a while after a lack of descriptors."""
        if monotonic_s() < self._paused_until_s:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        try:
            return super().accept()
        except OSError as error:
            if is_no_descriptor(error):
                self._paused_until_s = monotonic_s() + constants.ACCEPT_RETRY_DELAY / 2
            raise


class _Server(uvicorn.Server):
    """uvicorn without ticks, ended by ``request_stop``."""

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next_closing_s = 0.0
        self._is_stopping = asyncio.Event()
        loop.set_exception_handler(self._on_loop_error)

    def request_stop(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._is_stopping.set)

    async def main_loop(self) -> None:
        await self._is_stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        for server in self.servers:
            server.close()
        for connection in open_connections(self.server_state.connections):
            connection.transport.abort()  # the application is told that the client has gone
        if tasks := list(self.server_state.tasks):
            _done, late = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT_S)
            for task in late:
                task.cancel()

    def _on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and is_no_descriptor(error):
            # asyncio pauses for a second: free one descriptor for each pause
            if self._loop.time() >= self._next_closing_s:
                self._next_closing_s = self._loop.time() + constants.ACCEPT_RETRY_DELAY / 2
                close_longest_waiting(self.server_state.connections)
            return
        LOG.error(
            "http.server_failed",
            "the HTTP server: %(problem)s",
            problem=context.get("message"),
            exc_info=error,
        )


def serve(app: ASGIApp, address: str, names: Collection[str] = ()) -> HttpServer:
    """Serve an application at ``HOST:PORT`` in a thread of its own; port 0 is any free one.

    ``names`` are names of this server that ``Host`` may have, beside addresses, ``localhost`` and
    the name of this machine.

    Raises:
        InvalidOptionError: the address is malformed, or cannot be bound.
    """
    host, port = parse_http(address)
    server = HttpServer(app, listen(host, port), names)
    server.start()
    return server


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        InvalidOptionError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = PatientListener(family, socket.SOCK_STREAM)
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
        shown = shown_address(host, port)
        raise InvalidOptionError("http", shown, f"cannot listen there: {reason}; {hint}") from error
    return listener


def shown_address(host: str, port: int) -> str:
    """Return ``HOST:PORT``.

    >>> shown_address("::1", 80)
    '[::1]:80'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedConnection,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        h11_max_incomplete_event_size=HEAD_SIZE_MAX,
    )
