"""The connections of a client to bookies: one thread that owns a DEALER socket for each bookie.

``request`` sends a message, from any thread. Exactly one ``Reply`` to each request is delivered to
the request's *sink*, in lists: the answer, or the error that ended the request (refused, timed out,
connection lost). A sink that *subscribes* to a bookie gets a report when the connection is ready
(with the bookie's incarnation) and when it is lost.

A connection is opened when it is needed: TCP, then HELLO. Requests wait for it, and fail when it
cannot be opened. While it has a subscriber it is opened again, with growing pauses. When a
connection is lost, its outstanding requests fail at once.

Limits: bytes in flight, by the bookie's credit (the rest waits here, up to ``WAITING_SIZE_MAX``,
then ``BusyError``); a time-out for each request, from when it is handed to the bookie; idle
connections without subscribers are closed.

With ``spin_us`` the thread polls busily for so long after each event, and sleeps then.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import zmq
import zmq.utils.garbage  # loaded early: it must end after the threads that use it

from zbk.errors import (
    ClientClosedError,
    RequestTimeoutError,
    TooManyOpenFilesError,
    WireError,
    ZbkError,
)
from zbk.security.credentials import BookieDoors
from zbk.system.clock import monotonic_ms, monotonic_us
from zbk.system.descriptors import has_descriptors
from zbk.system.event_log import EventLog
from zbk.system.wakeup import Wakeup
from zbk.transport.attempt import State
from zbk.transport.connection import Connection
from zbk.transport.curve import check_curve
from zbk.transport.dealer_socket import LINGER_MS
from zbk.transport.events import DealerOptions, News, Outgoing, Reply, Sink
from zbk.transport.outstanding import NEVER_MS
from zbk.transport.request_counts import RequestCounts

LOG = EventLog(__name__)

PAUSE_MS_MAX: Final = 60_000
"""The longest wait of the thread while there are connections."""

DESCRIPTOR_COUNT: Final = 24
"""Descriptors that must be free for a client: ZeroMQ's threads and a first connection."""


class BookiePool:
    """The connections of one client, and their thread."""

    def __init__(self, options: DealerOptions, poller: zmq.Poller | None = None) -> None:
        """Start the thread.

        Raises:
            TooManyOpenFilesError: the process has no descriptors left.
            MissingDependencyError: libzmq cannot encrypt as the credentials want it.
            KeyFileError: the halves of the key do not belong together.
        """
        check_curve(options.credentials)
        self.options = options
        self.counts = RequestCounts()
        if not has_descriptors(DESCRIPTOR_COUNT):
            raise TooManyOpenFilesError("cannot make connections to bookies")
        self.context = zmq.Context()
        # libzmq's threads start with the first socket, and libzmq aborts if they find no descriptor
        self.context.socket(zmq.DEALER).close(LINGER_MS)
        self._connections: dict[str, Connection] = {}
        self._handlers: dict[zmq.Socket[bytes] | int, Callable[[int], None]] = {}
        self._doors: dict[str, BookieDoors] = {}
        self._inbox: deque[Callable[[int], None]] = deque()
        self._alarms: dict[Callable[[], None], int] = {}  # when each is called: few
        self._news: dict[int, tuple[Sink, list[News]]] = {}
        self._poller = zmq.Poller() if poller is None else poller
        self._wakeup = Wakeup()
        self.next_request_id = itertools.count(1).__next__  # no other request has the same one
        self._unsent: dict[Connection, None] = {}  # with requests added in this turn
        self._next_tick_ms = NEVER_MS  # no connection needs a tick before
        self._is_stopping = False
        self._is_lively = False  # the last turn had an event, and the next wait begins busily
        self._now_ms = monotonic_ms()  # when the turn of the loop began
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="zbk-dealer", daemon=True)
        self._thread_id = 0
        self._thread.start()

    # -------------------------------------------------------------- any thread

    def request(self, outgoing: Outgoing) -> None:
        """Send a request. Its sink gets exactly one ``Reply``."""
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

    def request_all(self, outgoings: Sequence[Outgoing]) -> None:
        """Send requests, as ``request`` does, in order, at less cost."""
        if threading.get_ident() == self._thread_id and not self._is_stopping:
            self._enqueue_all(outgoings, self._now_ms)
        elif not self._put(partial(self._enqueue_all, outgoings)):
            for outgoing in outgoings:
                self.request(outgoing)

    def _enqueue_all(self, outgoings: Sequence[Outgoing], now_ms: int) -> None:
        connections = self._connections
        for outgoing in outgoings:
            connection = connections.get(outgoing.bookie_id)
            if connection is None:
                connection = self._connection(outgoing.bookie_id)
            connection.enqueue(outgoing, now_ms)

    def subscribe(self, bookie_id: str, sink: Sink, key: object = None) -> None:
        """Keep a connection to a bookie; report to the sink when it is ready and when it is lost.

        A sink may subscribe to a bookie several times, with different keys: each gets its reports.
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
        """Record that a subscriber cannot go on with a bookie; report to it when it can.

        A connection with malformed answers is ended and opened again. A connection that was lost is
        opened again in any case. A connection that left one request unanswered and answers others
        stays open; only this subscriber gets a report, as for a new connection.
        """

        def act(now_ms: int) -> None:
            connection = self._connections.get(bookie_id)
            if connection is None or connection.state is not State.READY:
                return
            if isinstance(error, WireError):
                connection.lose(error, now_ms)
            elif isinstance(error, RequestTimeoutError):
                connection.report_again(sink, key)

        self._do(act)

    def call_soon(self, callback: Callable[[], None]) -> bool:
        """Call ``callback`` once, soon, in the pool's thread. It must not block.

        Return false, without a call, if the pool has ended.
        """
        return self._put(lambda _now_ms: callback())

    def call_at(self, due_ms: int | None, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, at a time, in the pool's thread. It must not block.

        A time replaces an earlier one of the same callback; ``None`` takes it back. Outside the
        pool's thread a later time, or ``None``, changes nothing: the callback is called too soon,
        which costs less than to wake the thread.
        """
        if threading.get_ident() == self._thread_id and not self._is_stopping:
            self._set_alarm(due_ms, callback)
        elif due_ms is not None and due_ms < self._alarms.get(callback, due_ms + 1):
            known = self._alarms.get  # when it runs: the pool's thread may have set another one
            self._put(lambda _: self._set_alarm(min(due_ms, known(callback, due_ms)), callback))

    def set_addresses(self, addresses: Mapping[str, str]) -> None:
        """Replace the addresses of all bookies, which have no keys: id to ``tcp://host:port``."""
        self.set_doors({bookie_id: BookieDoors(one) for bookie_id, one in addresses.items()})

    def set_doors(self, doors: Mapping[str, BookieDoors]) -> None:
        """Replace the addresses and keys of all bookies, by bookie id."""
        known = dict(doors)

        def replace(_now_ms: int) -> None:
            self._doors = known
            for connection in self._connections.values():
                connection.hurry()

        self._put(replace)

    def close(self) -> None:
        """End all connections; outstanding requests fail with ``ClientClosedError``."""
        with self._lock:
            self._is_stopping = True
        self._wakeup.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=5)

    def _do(self, command: Callable[[int], None]) -> None:
        """Run a command in the pool's thread: at once if called there, otherwise in order."""
        if threading.get_ident() == self._thread_id and not self._is_stopping:
            command(self._now_ms)
        else:
            self._put(command)

    def _put(self, command: Callable[[int], None]) -> bool:
        with self._lock:
            if self._is_stopping:
                return False
            self._inbox.append(command)
        if threading.get_ident() != self._thread_id:  # the pool checks its inbox before it waits
            self._wakeup.wake()
        return True

    # -------------------------------------------------------------- own thread

    def doors_of(self, bookie_id: str) -> BookieDoors | None:
        """Return how a bookie is reached; ``None`` if it is not registered."""
        return self._doors.get(bookie_id)

    def post(self, sink: Sink, news: News) -> None:
        """Keep news for a sink until the end of this turn of the loop."""
        self.box(sink).append(news)

    def box(self, sink: Sink) -> list[News]:
        """Return the news that are kept for a sink, to add to."""
        kept = self._news.get(id(sink))
        if kept is None:
            kept = self._news[id(sink)] = (sink, [])
        return kept[1]

    def watch(self, connection: Connection) -> None:
        """Poll a connection's socket and monitor."""
        own = connection.socket
        assert own is not None
        for socket, handler in (
            (own.socket, connection.on_readable),
            (own.monitor, connection.on_monitor),
        ):
            self._handlers[socket] = handler
            self._poller.register(socket, zmq.POLLIN)

    def watch_cheaply(self, connection: Connection) -> None:
        """Poll only the monitor's descriptor: every polled socket costs time in each turn.

        The descriptor is readable until the monitor is read, and again at the next event. The
        handler reads until there are no more events, so that it misses none.
        """
        assert connection.socket is not None
        monitor = connection.socket.monitor
        del self._handlers[monitor]
        self._poller.unregister(monitor)
        self._handlers[monitor.FD] = connection.on_monitor
        self._poller.register(monitor.FD, zmq.POLLIN)
        connection.on_monitor(monotonic_ms())

    def unwatch(self, connection: Connection) -> None:
        """Stop polling a connection's socket and monitor."""
        own = connection.socket
        assert own is not None
        for socket in (own.socket, own.monitor):
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

    def _set_alarm(self, due_ms: int | None, callback: Callable[[], None]) -> None:
        if due_ms is None:
            self._alarms.pop(callback, None)
        else:
            self._alarms[callback] = due_ms

    def _run(self) -> None:
        self._thread_id = threading.get_ident()
        self._poller.register(self._wakeup.fd, zmq.POLLIN)
        try:
            while not self._is_stopping:
                self._turn()
        except Exception:
            LOG.exception("connection.pool_failed", "the thread of the bookie connections failed")
        finally:
            self._end()

    def _turn(self) -> None:
        ready = self._wait()
        if self._wakeup.fd in ready:
            self._wakeup.clear()
        self._now_ms = now_ms = monotonic_ms()
        self._obey(now_ms)
        self._send(now_ms)  # before the handlers below
        for socket in ready:
            handler = self._handlers.get(socket)
            if handler is not None:
                handler(now_ms)
        if now_ms >= self._next_tick_ms:
            self._tick(now_ms)
        self._hand_out()
        self._obey(now_ms)  # commands of the sinks
        if self._alarms:  # last: a connection that has new work is not idle
            self._call_due(now_ms)
        self._send(now_ms)

    def _wait(self) -> "dict[zmq.Socket[bytes] | int, int]":
        """Return what can be read: after a busy wait, if the turn before had an event, or a sleep.

        An answer, or the next call, that comes during the busy wait needs to wake no thread. The
        wait is bounded by ``spin_us`` after each event, so an idle pool sleeps.
        """
        ready: dict[zmq.Socket[bytes] | int, int] = {}
        if self._is_lively:
            end_us = monotonic_us() + self.options.spin_us
            while not ready and self._pause_ms() != 0 and monotonic_us() < end_us:
                ready = dict(self._poller.poll(0))
        if not ready:
            ready = dict(self._poller.poll(self._pause_ms()))
        self._is_lively = self.options.spin_us > 0 and bool(ready)
        return ready

    def _obey(self, now_ms: int) -> None:
        while self._inbox:
            self._inbox.popleft()(now_ms)

    def _send(self, now_ms: int) -> None:
        """Send the requests of this turn: those to one bookie in as few messages as possible."""
        if self._unsent:
            unsent, self._unsent = self._unsent, {}
            for connection in unsent:
                connection.pump(now_ms)

    def _pause_ms(self) -> int | None:
        """Return how long the thread may wait for events; ``None``: without limit."""
        if self._inbox or self._news:
            return 0
        next_ms = self._next_tick_ms
        if self._alarms:
            next_ms = min(next_ms, *self._alarms.values())
        if next_ms == NEVER_MS:  # only a command can come, and it wakes the thread
            return None
        return min(PAUSE_MS_MAX, max(0, next_ms - monotonic_ms()))

    def _call_due(self, now_ms: int) -> None:
        alarms = self._alarms
        due = sorted((due_ms, n) for n, due_ms in enumerate(alarms.values()) if due_ms <= now_ms)
        if due:
            callbacks = list(alarms)
            for _, n in due:
                del alarms[callbacks[n]]
            for _, n in due:  # what they ask for is called in the next turn at the earliest
                callbacks[n]()

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
