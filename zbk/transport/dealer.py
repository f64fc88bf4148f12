"""The client's side: one thread that owns a DEALER socket for each bookie.

``request`` puts a message on its way from any thread; what comes of it, exactly one ``Reply`` for
each request, is delivered to the request's *sink* in lists: the answer, or the error that ended it
(refused, timed out, connection lost). A sink that *subscribed* to a bookie is told when its
connection is ready (with the bookie's incarnation) and when it is lost.

A connection is opened when somebody needs it: TCP, then HELLO; requests wait for it, and fail when
it can not be made. While a subscriber is left it is made again, with growing pauses. ZeroMQ's own
silent reconnect is off: each life of a connection has its own socket and routing id, so an answer
of an earlier life can not arrive, and what was outstanding fails at once when it ends.

Limits: bytes in flight by the bookie's credit (the rest waits here, to ``WAITING_SIZE_MAX``, then
``BusyError``); a time-out for each request; idle connections without subscribers are closed.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import zmq

from zbk.errors import ClientClosedError, ZbkError
from zbk.system.clock import monotonic_ms
from zbk.system.wakeup import Wakeup
from zbk.transport.connection import LINGER_MS, Connection, State
from zbk.transport.news import DealerOptions, News, Outgoing, Reply, Sink

logger = logging.getLogger(__name__)

POLL_MS: Final = 25
TICK_MS: Final = 20
"""How often connections look at the clock."""


class BookiePool:
    """The connections of one client, and their thread."""

    def __init__(self, options: DealerOptions) -> None:
        self.options = options
        self.context = zmq.Context()
        self._connections: dict[str, Connection] = {}
        self._by_socket: dict[zmq.Socket[bytes], Callable[[int], None]] = {}
        self._addresses: dict[str, str] = {}
        self._inbox: deque[Callable[[int], None]] = deque()
        self._timers: list[tuple[int, Callable[[], None]]] = []  # a heap would be no faster
        self._news: dict[int, tuple[Sink, list[News]]] = {}
        self._poller = zmq.Poller()
        self._wakeup = Wakeup()
        self._request_id = 0
        self._next_tick_ms = 0
        self._is_stopping = False
        self._is_stopped = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="zbk-dealer", daemon=True)
        self._thread.start()

    # -------------------------------------------------------------- any thread

    def request(self, outgoing: Outgoing) -> None:
        """Send a request; its ``Reply`` goes to its sink, always."""

        def send(now_ms: int) -> None:
            self._connection(outgoing.bookie_id).enqueue(outgoing, now_ms)

        if not self._put(send):
            reply = Reply(outgoing.bookie_id, outgoing.key, ClientClosedError())
            outgoing.sink.deliver([reply])

    def subscribe(self, bookie_id: str, sink: Sink) -> None:
        """Keep a connection to a bookie, and tell the sink when it comes and goes."""
        self._put(lambda _now_ms: self._connection(bookie_id).subscribe(sink))

    def unsubscribe(self, bookie_id: str, sink: Sink) -> None:
        """Undo one ``subscribe``."""

        def undo(_now_ms: int) -> None:
            subscribers = self._connection(bookie_id).subscribers
            if sink in subscribers:
                subscribers.remove(sink)

        self._put(undo)

    def reset(self, bookie_id: str, error: ZbkError) -> None:
        """End the present life of a connection that seems to hang; it is made again."""

        def lose(now_ms: int) -> None:
            connection = self._connection(bookie_id)
            if connection.state is not State.IDLE:
                connection.lose(error, now_ms)

        self._put(lose)

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> None:
        """Call back once, at a time, in the pool's thread: it must not block."""
        self._put(lambda _now_ms: self._timers.append((due_ms, callback)))

    def set_addresses(self, addresses: Mapping[str, str]) -> None:
        """Say where the bookies are now: bookie id to ``tcp://host:port``."""
        known = dict(addresses)

        def replace(_now_ms: int) -> None:
            self._addresses = known
            for connection in self._connections.values():
                connection.hurry()

        self._put(replace)

    def close(self) -> None:
        """End all connections; what is outstanding fails with ``ClientClosedError``."""
        with self._lock:
            self._is_stopping = True
        self._wakeup.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def _put(self, command: Callable[[int], None]) -> bool:
        with self._lock:
            if self._is_stopping:
                return False
            self._inbox.append(command)
        self._wakeup.wake()
        return True

    # -------------------------------------------------------------- own thread

    def next_request_id(self) -> int:
        """Return an id that no other request of this pool has."""
        self._request_id += 1
        return self._request_id

    def address_of(self, bookie_id: str) -> str | None:
        """Return where a bookie is registered, if it is."""
        return self._addresses.get(bookie_id)

    def post(self, sink: Sink, news: News) -> None:
        """Keep news for a sink until the end of this turn of the loop."""
        box = self._news.get(id(sink))
        if box is None:
            self._news[id(sink)] = (sink, [news])
        else:
            box[1].append(news)

    def watch(self, connection: Connection) -> None:
        """Poll a connection's sockets."""
        assert connection.socket is not None
        assert connection.monitor is not None
        self._by_socket[connection.socket] = connection.on_readable
        self._by_socket[connection.monitor] = connection.on_monitor
        self._poller.register(connection.socket, zmq.POLLIN)
        self._poller.register(connection.monitor, zmq.POLLIN)

    def watch_seldom(self, connection: Connection) -> None:
        """Stop polling the monitor: each polled socket costs every turn; a tick is soon enough."""
        assert connection.monitor is not None
        del self._by_socket[connection.monitor]
        self._poller.unregister(connection.monitor)

    def unwatch(self, connection: Connection) -> None:
        """Stop polling a connection's sockets."""
        for socket in (connection.socket, connection.monitor):
            if socket is not None and self._by_socket.pop(socket, None) is not None:
                self._poller.unregister(socket)

    def _connection(self, bookie_id: str) -> Connection:
        connection = self._connections.get(bookie_id)
        if connection is None:
            connection = self._connections[bookie_id] = Connection(self, bookie_id)
        return connection

    def _run(self) -> None:
        self._poller.register(self._wakeup.fd, zmq.POLLIN)
        try:
            while not self._is_stopping:
                self._turn()
        except Exception:
            logger.exception("the thread of the bookie connections failed")
        finally:
            self._end()

    def _turn(self) -> None:
        ready = dict(self._poller.poll(self._pause_ms()))
        if self._wakeup.fd in ready:
            self._wakeup.clear()
        now_ms = monotonic_ms()
        while self._inbox:
            self._inbox.popleft()(now_ms)
        for socket in ready:
            handler = self._by_socket.get(socket)
            if handler is not None:
                handler(now_ms)
        if now_ms >= self._next_tick_ms:
            self._next_tick_ms = now_ms + TICK_MS
            self._tick(now_ms)
        self._hand_out()
        if self._timers:
            self._call_due(now_ms)

    def _pause_ms(self) -> int | None:
        """Return how long nothing is to be done, unless something comes."""
        if self._timers:
            next_ms = min(due_ms for due_ms, _ in self._timers)
            return min(POLL_MS, max(0, next_ms - monotonic_ms()))
        # without a connection only a command is waited for, and that wakes us
        return POLL_MS if self._connections else None

    def _call_due(self, now_ms: int) -> None:
        due = [timer for timer in self._timers if timer[0] <= now_ms]
        if due:
            self._timers = [timer for timer in self._timers if timer[0] > now_ms]
            for _, callback in due:
                callback()

    def _tick(self, now_ms: int) -> None:
        for connection in self._connections.values():
            connection.tick(now_ms)
        unused = [c.bookie_id for c in self._connections.values() if c.is_unused(now_ms)]
        for bookie_id in unused:
            self._connections.pop(bookie_id).close_socket()

    def _hand_out(self) -> None:
        while self._news:
            boxes, self._news = self._news, {}
            for sink, news in boxes.values():
                sink.deliver(news)

    def _end(self) -> None:
        with self._lock:
            self._is_stopping = True
        now_ms = monotonic_ms()
        while self._inbox:
            self._inbox.popleft()(now_ms)
        for connection in self._connections.values():
            connection.lose(ClientClosedError(), now_ms)
        self._hand_out()
        self.context.destroy(linger=LINGER_MS)
        self._wakeup.close()
