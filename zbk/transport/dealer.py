"""The client's side: one thread that owns a DEALER socket for each bookie.

``request`` puts a message on its way from any thread; what comes of it, exactly one ``Reply`` for
each request, is delivered to the request's *sink* in lists: the answer, or the error that ended it
(refused, timed out, connection lost). A sink that *subscribed* to a bookie is told when its
connection is ready (with the bookie's incarnation) and when it is lost.

A connection is opened when somebody needs it: TCP, then HELLO; requests wait for it, and fail when
it cannot be made. While a subscriber is left it is made again, with growing pauses. ZeroMQ's own
silent reconnect is off: each life of a connection has its own socket and routing id, so an answer
of an earlier life cannot arrive, and what was outstanding fails at once when it ends.

Limits: bytes in flight by the bookie's credit (the rest waits here, to ``WAITING_SIZE_MAX``, then
``BusyError``); a time-out for each request, from when it is handed to the bookie; idle connections
without subscribers are closed.
"""

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Final

import zmq
import zmq.utils.garbage  # it ends with the interpreter; what uses it has to end before

from zbk.errors import (
    ClientClosedError,
    RequestTimeoutError,
    TooManyOpenFilesError,
    WireError,
    ZbkError,
)
from zbk.system.clock import monotonic_ms
from zbk.system.descriptors import has_descriptors
from zbk.system.wakeup import Wakeup
from zbk.transport.connection import LINGER_MS, Connection, State
from zbk.transport.events import DealerOptions, News, Outgoing, Reply, Sink
from zbk.transport.outstanding import NEVER_MS

logger = logging.getLogger(__name__)

PAUSE_MS_MAX: Final = 60_000
"""How long the thread waits at most while there are connections."""


DESCRIPTOR_COUNT: Final = 24
"""Those that have to be left for a client: ZeroMQ's threads, a first connection."""


class BookiePool:
    """The connections of one client, and their thread."""

    def __init__(self, options: DealerOptions, poller: zmq.Poller | None = None) -> None:
        """Begin.

        Raises:
            TooManyOpenFilesError: the process has no descriptors left.
        """
        self.options = options
        if not has_descriptors(DESCRIPTOR_COUNT):
            raise TooManyOpenFilesError("cannot make connections to bookies")
        self.context = zmq.Context()
        # its threads begin with the first socket, and where they find no descriptor libzmq aborts
        self.context.socket(zmq.DEALER).close(LINGER_MS)
        self._connections: dict[str, Connection] = {}
        self._handlers: dict[zmq.Socket[bytes] | int, Callable[[int], None]] = {}
        self._addresses: dict[str, str] = {}
        self._inbox: deque[Callable[[int], None]] = deque()
        self._timers: list[tuple[int, int, Callable[[], None]]] = []  # a heap
        self._timer_number = itertools.count()
        self._news: dict[int, tuple[Sink, list[News]]] = {}
        self._poller = zmq.Poller() if poller is None else poller
        self._wakeup = Wakeup()
        self._request_id = 0
        self._unsent: dict[Connection, None] = {}  # with requests of this turn
        self._next_tick_ms = NEVER_MS  # no connection has anything to do before
        self._is_stopping = False
        self._now_ms = monotonic_ms()  # when the turn of the loop began
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="zbk-dealer", daemon=True)
        self._thread_id = 0
        self._thread.start()

    # -------------------------------------------------------------- any thread

    def request(self, outgoing: Outgoing) -> None:
        """Send a request; its ``Reply`` goes to its sink, always."""
        if threading.get_ident() == self._thread_id and not self._is_stopping:
            connection = self._connections.get(outgoing.bookie_id)
            if connection is None:
                connection = self._connection(outgoing.bookie_id)
            connection.enqueue(outgoing, self._now_ms)
            return

        def send(now_ms: int) -> None:
            self._connection(outgoing.bookie_id).enqueue(outgoing, now_ms)

        if not self._put(send):
            reply = Reply(outgoing.bookie_id, outgoing.key, ClientClosedError())
            outgoing.sink.deliver([reply])

    def subscribe(self, bookie_id: str, sink: Sink, key: object = None) -> None:
        """Keep a connection to a bookie, and report to the sink when it comes and goes.

        A sink may subscribe to a bookie several times, with a key each: it gets as many reports.
        """
        self._do(lambda _now_ms: self._connection(bookie_id).subscribe(sink, key))

    def unsubscribe(self, bookie_id: str, sink: Sink, key: object = None) -> None:
        """Undo a ``subscribe``."""

        def undo(now_ms: int) -> None:
            connection = self._connections.get(bookie_id)
            if connection is not None:
                connection.unsubscribe(sink, key, now_ms)

        self._do(undo)

    def reset(self, bookie_id: str, sink: Sink, error: ZbkError, key: object = None) -> None:
        """Note that a subscriber cannot go on with a bookie; report to it when it can.

        A connection whose answers make no sense ends its life, and is made again. One that was
        lost is made again anyway: others use it by then. One that left a request unanswered and
        answers others goes on; only this subscriber gets a report, as if the connection were new.
        """

        def act(now_ms: int) -> None:
            connection = self._connections.get(bookie_id)
            if connection is None or connection.state is not State.READY:
                return
            if isinstance(error, WireError):
                connection.lose(error, now_ms)
            elif isinstance(error, RequestTimeoutError):
                connection.tell_again(sink, key)

        self._do(act)

    def call_soon(self, callback: Callable[[], None]) -> bool:
        """Call back once, as soon as possible, in the pool's thread: it must not block.

        Return false if the pool has ended; the callback is not called then.
        """
        return self._put(lambda _now_ms: callback())

    def call_at(self, due_ms: int, callback: Callable[[], None]) -> None:
        """Call back once, at a time, in the pool's thread: it must not block."""
        timer = (due_ms, next(self._timer_number), callback)
        self._do(lambda _now_ms: heappush(self._timers, timer))

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

    def _do(self, command: Callable[[int], None]) -> None:
        """Carry out a command: at once in the pool's thread, in order with its other ones."""
        if threading.get_ident() == self._thread_id and not self._is_stopping:
            command(self._now_ms)
        else:
            self._put(command)

    def _put(self, command: Callable[[int], None]) -> bool:
        with self._lock:
            if self._is_stopping:
                return False
            self._inbox.append(command)
        if threading.get_ident() != self._thread_id:  # that one looks before it waits
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
        self._handlers[connection.socket] = connection.on_readable
        self._handlers[connection.monitor] = connection.on_monitor
        self._poller.register(connection.socket, zmq.POLLIN)
        self._poller.register(connection.monitor, zmq.POLLIN)

    def watch_cheaply(self, connection: Connection) -> None:
        """Poll the monitor's descriptor only: each socket that is polled costs every turn.

        The descriptor stays readable until the monitor has been asked, and is so again at the next
        event: who asks until there is no more misses none.
        """
        assert connection.monitor is not None
        del self._handlers[connection.monitor]
        self._poller.unregister(connection.monitor)
        self._handlers[connection.monitor.FD] = connection.on_monitor
        self._poller.register(connection.monitor.FD, zmq.POLLIN)
        connection.on_monitor(monotonic_ms())

    def unwatch(self, connection: Connection) -> None:
        """Stop polling a connection's sockets."""
        for socket in (connection.socket, connection.monitor):
            if socket is None:
                continue
            for polled in (socket, socket.FD):
                if self._handlers.pop(polled, None) is not None:
                    self._poller.unregister(polled)

    def look_at(self, due_ms: int) -> None:
        """Call the connections' ``tick`` at a time, or before."""
        self._next_tick_ms = min(self._next_tick_ms, due_ms)

    def send_soon(self, connection: Connection) -> None:
        """Call the connection's ``pump`` at the end of this turn of the loop."""
        self._unsent[connection] = None

    def _connection(self, bookie_id: str) -> Connection:
        connection = self._connections.get(bookie_id)
        if connection is None:
            connection = self._connections[bookie_id] = Connection(self, bookie_id)
        return connection

    def _run(self) -> None:
        self._thread_id = threading.get_ident()
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
        self._now_ms = now_ms = monotonic_ms()
        self._obey(now_ms)
        self._send(now_ms)  # before there is more to do
        for socket in ready:
            handler = self._handlers.get(socket)
            if handler is not None:
                handler(now_ms)
        if now_ms >= self._next_tick_ms:
            self._tick(now_ms)
        self._hand_out()
        self._obey(now_ms)  # what sinks have just asked for
        if self._timers:  # last: whoever was just given work may not be idle any more
            self._call_due(now_ms)
        self._send(now_ms)

    def _obey(self, now_ms: int) -> None:
        while self._inbox:
            self._inbox.popleft()(now_ms)

    def _send(self, now_ms: int) -> None:
        """Send the requests of this turn, to each bookie in as few messages as possible."""
        if self._unsent:
            unsent, self._unsent = self._unsent, {}
            for connection in unsent:
                connection.pump(now_ms)

    def _pause_ms(self) -> int | None:
        """Return how long nothing is to be done, unless something comes."""
        if self._inbox or self._news:
            return 0
        next_ms = self._next_tick_ms
        if self._timers:
            next_ms = min(next_ms, self._timers[0][0])
        if next_ms == NEVER_MS:  # only a command is waited for, and that wakes us
            return None
        return min(PAUSE_MS_MAX, max(0, next_ms - monotonic_ms()))

    def _call_due(self, now_ms: int) -> None:
        due = []
        while self._timers and self._timers[0][0] <= now_ms:
            due.append(heappop(self._timers)[2])
        for callback in due:  # what one of them asks for comes in the next turn
            callback()

    def _tick(self, now_ms: int) -> None:
        self._next_tick_ms = NEVER_MS
        for connection in list(self._connections.values()):
            connection.tick(now_ms)
            if connection.is_unused(now_ms):
                connection.close_socket()
                del self._connections[connection.bookie_id]
            else:
                self.look_at(connection.due_ms)

    def _hand_out(self) -> None:
        while self._news:
            boxes, self._news = self._news, {}
            for sink, news in boxes.values():
                sink.deliver(news)

    def _end(self) -> None:
        with self._lock:
            self._is_stopping = True
        now_ms = monotonic_ms()
        self._obey(now_ms)
        for connection in self._connections.values():
            connection.lose(ClientClosedError(), now_ms)
        self._hand_out()
        self.context.destroy(linger=LINGER_MS)
        self._wakeup.close()
