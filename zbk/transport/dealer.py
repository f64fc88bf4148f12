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
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Protocol, TypeAlias

import msgspec
import zmq
from zmq.utils.monitor import recv_monitor_message

from zbk.errors import (
    BookieUnavailableError,
    BusyError,
    ClientClosedError,
    HelloRequiredError,
    MalformedMessageError,
    RequestTimeoutError,
    WrongBookieError,
    ZbkError,
    from_wire,
)
from zbk.system.clock import monotonic_ms
from zbk.system.wakeup import Wakeup
from zbk.wire import codec
from zbk.wire.messages import Answer, Hello, HelloAnswer, Message, Refused

logger = logging.getLogger(__name__)

DRAIN_COUNT_MAX: Final = 256
POLL_MS: Final = 25
TICK_MS: Final = 20
"""How often connections look at the clock."""
RETRY_MS: Final = 50
RETRY_MS_MAX: Final = 1_000
IDLE_MS: Final = 60_000
WAITING_SIZE_MAX: Final = 256 * 1024 * 1024
COPY_SIZE_MAX: Final = 256 * 1024
HEARTBEAT_MS: Final = 2_000
HEARTBEAT_TIMEOUT_MS: Final = 6_000
ANSWER_SIZE_MAX: Final = 512 * 1024 * 1024
LINGER_MS: Final = 0

Frame: TypeAlias = bytes | bytearray | memoryview


class Reply(msgspec.Struct, frozen=True):
    """What came of one request: an answer with its frames, or an error."""

    bookie_id: str
    key: object  # the caller's own, from the request
    outcome: Answer | ZbkError
    frames: tuple[bytes, ...] = ()


class BookieUp(msgspec.Struct, frozen=True):
    """The connection to a bookie is ready."""

    bookie_id: str
    incarnation: int
    entry_size_max: int


class BookieDown(msgspec.Struct, frozen=True):
    """The connection to a bookie was lost, or could not be made."""

    bookie_id: str
    error: ZbkError


News: TypeAlias = Reply | BookieUp | BookieDown


class Sink(Protocol):
    """Whoever sends requests. Called in the pool's thread; must not block."""

    def deliver(self, news: list[News]) -> None:
        """Take news, in the order in which they happened."""
        ...


class Outgoing(msgspec.Struct, frozen=True):
    """One request on its way. ``size`` counts against the credit."""

    bookie_id: str
    request: Message  # its request id and incarnation are filled in when it is sent
    frames: tuple[Frame, ...]
    sink: Sink
    key: object
    timeout_ms: int
    size: int


class DealerOptions(msgspec.Struct, frozen=True):
    """Who we are and how long we wait."""

    instance_id: str
    software: str
    connect_timeout_ms: int


class _State(Enum):
    IDLE = "not connected"
    CONNECTING = "connecting"
    GREETING = "waiting for the answer to HELLO"
    READY = "ready"


class _Pending(msgspec.Struct):
    outgoing: Outgoing
    deadline_ms: int


class _Connection:
    """One bookie. Everything runs in the pool's thread."""

    def __init__(self, pool: "BookiePool", bookie_id: str) -> None:
        self._pool = pool
        self.bookie_id = bookie_id
        self.state = _State.IDLE
        self.subscribers: list[Sink] = []
        self.waiting: deque[_Pending] = deque()
        self.outstanding: OrderedDict[int, _Pending] = OrderedDict()
        self.socket: zmq.Socket[bytes] | None = None
        self.monitor: zmq.Socket[bytes] | None = None
        self.used_ms = monotonic_ms()
        self._address = ""
        self._in_flight_size = 0
        self._waiting_size = 0
        self._hello: HelloAnswer | None = None
        self._retry_ms = RETRY_MS
        self._next_try_ms = 0
        self._deadline_ms = 0
        self._lost_ms = 0
        self._last_error: ZbkError | None = None

    # -------------------------------------------------------------- what callers want

    def subscribe(self, sink: Sink) -> None:
        self.subscribers.append(sink)
        if self.state is _State.READY:
            self._pool.post(sink, self._up())
        elif self.state is _State.IDLE:
            self._next_try_ms = 0
            self._connect(monotonic_ms())

    def enqueue(self, outgoing: Outgoing, now_ms: int) -> None:
        self.used_ms = now_ms
        if self.state is _State.IDLE:
            # whoever asks now does not wait for the next try of our own, but is no storm, either
            if now_ms < self._lost_ms + RETRY_MS and self._last_error is not None:
                self._fail(outgoing, self._last_error)
                return
            self._connect(now_ms)
            if self.state is _State.IDLE:
                assert self._last_error is not None, "connect leaves a reason"
                self._fail(outgoing, self._last_error)
                return
        if self._waiting_size + outgoing.size > WAITING_SIZE_MAX:
            self._fail(outgoing, BusyError(f"over {WAITING_SIZE_MAX} bytes wait for one bookie"))
            return
        self.waiting.append(_Pending(outgoing, now_ms + outgoing.timeout_ms))
        self._waiting_size += outgoing.size
        self.pump(now_ms)

    def hurry(self) -> None:
        """Try again soon: there is news of where bookies are."""
        self._next_try_ms = 0
        self._retry_ms = RETRY_MS

    # -------------------------------------------------------------- connecting

    def _connect(self, now_ms: int) -> None:
        address = self._pool.address_of(self.bookie_id)
        if address is None:
            self.lose(BookieUnavailableError(self.bookie_id, "is not registered"), now_ms)
            return
        self._address = address
        socket: zmq.Socket[bytes] = self._pool.context.socket(zmq.DEALER)
        socket.setsockopt(zmq.ROUTING_ID, b"z" + os.urandom(15))
        socket.setsockopt(zmq.IMMEDIATE, 1)
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)
        socket.setsockopt(zmq.CONNECT_TIMEOUT, self._pool.options.connect_timeout_ms)
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
        socket.setsockopt(zmq.MAXMSGSIZE, ANSWER_SIZE_MAX)
        monitor = socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED
            | zmq.EVENT_DISCONNECTED
            | zmq.EVENT_CLOSED
            | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
            | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
            | zmq.EVENT_HANDSHAKE_FAILED_AUTH
        )
        assert monitor is not None, "a new socket has no monitor yet"
        self.socket, self.monitor = socket, monitor
        self.state = _State.CONNECTING
        self._deadline_ms = now_ms + self._pool.options.connect_timeout_ms
        self._pool.watch(self)
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            reason = f"can not connect to {address}: {error}"
            self.lose(BookieUnavailableError(self.bookie_id, reason), now_ms)

    def on_monitor(self, now_ms: int) -> None:
        """Look at what became of the TCP connection."""
        while self.monitor is not None:
            try:
                event = recv_monitor_message(self.monitor, zmq.NOBLOCK)["event"]
            except zmq.Again:
                return
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._greet(now_ms)
            else:
                what = "was lost" if self.state is _State.READY else "was refused"
                reason = f"the connection to {self._address} {what}"
                self.lose(BookieUnavailableError(self.bookie_id, reason), now_ms)

    def _greet(self, now_ms: int) -> None:
        hello = Hello(
            request_id=self._pool.next_request_id(),
            instance_id=self._pool.options.instance_id,
            bookie_id=self.bookie_id,
            software=self._pool.options.software,
        )
        self.state = _State.GREETING
        if not self._try_send([codec.encode(hello)]):
            self.lose(BookieUnavailableError(self.bookie_id, "takes no HELLO"), now_ms)

    def _on_hello(self, hello: HelloAnswer) -> None:
        self._hello = hello
        self.state = _State.READY
        self._retry_ms = RETRY_MS
        self._last_error = None
        for sink in self.subscribers:
            self._pool.post(sink, self._up())

    def _up(self) -> BookieUp:
        assert self._hello is not None, "a ready connection has said HELLO"
        return BookieUp(self.bookie_id, self._hello.incarnation, self._hello.entry_size_max)

    def lose(self, error: ZbkError, now_ms: int) -> None:
        """End this life of the connection: fail what was on its way, plan the next try."""
        self.close_socket()
        self.state = _State.IDLE
        self._hello = None
        self._last_error = error
        self._lost_ms = now_ms
        self._next_try_ms = now_ms + self._retry_ms
        self._retry_ms = min(self._retry_ms * 2, RETRY_MS_MAX)
        failed = [*self.outstanding.values(), *self.waiting]
        self.outstanding.clear()
        self.waiting.clear()
        self._in_flight_size = self._waiting_size = 0
        for pending in failed:
            self._fail(pending.outgoing, error)
        for sink in self.subscribers:
            self._pool.post(sink, BookieDown(self.bookie_id, error))

    def close_socket(self) -> None:
        if self.socket is not None:
            self._pool.unwatch(self)
            self.socket.disable_monitor()
            if self.monitor is not None:
                self.monitor.close(LINGER_MS)
            self.socket.close(LINGER_MS)
            self.socket = self.monitor = None

    # -------------------------------------------------------------- traffic

    def pump(self, now_ms: int) -> None:
        """Send what waits, as far as the bookie's credit goes."""
        hello = self._hello
        if self.state is not _State.READY or hello is None:
            return
        while self.waiting:
            pending = self.waiting[0]
            outgoing = pending.outgoing
            is_first = not self.outstanding
            if self._in_flight_size + outgoing.size > hello.credit_size and not is_first:
                return
            request_id = self._pool.next_request_id()
            request = msgspec.structs.replace(
                outgoing.request, request_id=request_id, incarnation=hello.incarnation
            )
            if not self._try_send([codec.encode(request), *outgoing.frames]):
                return
            self.waiting.popleft()
            self._waiting_size -= outgoing.size
            self._in_flight_size += outgoing.size
            self.outstanding[request_id] = pending
        self.used_ms = now_ms

    def _try_send(self, frames: list[Frame]) -> bool:
        assert self.socket is not None, "only a connected bookie is sent to"
        is_copied = all(len(frame) <= COPY_SIZE_MAX for frame in frames)
        try:
            self.socket.send_multipart(frames, zmq.NOBLOCK, copy=is_copied)
        except zmq.Again:
            return False
        return True

    def on_readable(self, now_ms: int) -> None:
        for _ in range(DRAIN_COUNT_MAX):
            if self.socket is None:
                return
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            try:
                self._on_answer(codec.decode_answer(frames[0]), frames, now_ms)
            except MalformedMessageError as error:
                self.lose(error, now_ms)
        self.pump(now_ms)

    def _on_answer(self, answer: Answer, frames: list[bytes], now_ms: int) -> None:
        if self.state is _State.GREETING:
            if isinstance(answer, HelloAnswer):
                self._on_hello(answer)
            elif isinstance(answer, Refused):
                self.lose(from_wire(answer.code, tuple(answer.fields)), now_ms)
            return
        pending = self.outstanding.pop(answer.request_id, None)
        if pending is None:
            return  # it timed out before
        self._in_flight_size -= pending.outgoing.size
        if not isinstance(answer, Refused):
            outgoing = pending.outgoing
            reply = Reply(self.bookie_id, outgoing.key, answer, tuple(frames[1:]))
            self._pool.post(outgoing.sink, reply)
            return
        error = from_wire(answer.code, tuple(answer.fields))
        self._fail(pending.outgoing, error)
        if isinstance(error, HelloRequiredError | WrongBookieError):
            self.lose(error, now_ms)

    def tick(self, now_ms: int) -> None:
        """Look at the clock: time-outs, the next try, idleness."""
        if self.state in (_State.CONNECTING, _State.GREETING) and now_ms >= self._deadline_ms:
            reason = f"no answer from {self._address} within {self._timeout_s:g} s"
            self.lose(BookieUnavailableError(self.bookie_id, reason), now_ms)
        elif self.state is _State.IDLE:
            if self.subscribers and now_ms >= self._next_try_ms:
                self._connect(now_ms)
        elif self.state is _State.READY:
            self._expire(now_ms)
            self.pump(now_ms)

    @property
    def _timeout_s(self) -> float:
        return self._pool.options.connect_timeout_ms / 1000

    def _expire(self, now_ms: int) -> None:
        late = [key for key, pending in self.outstanding.items() if now_ms >= pending.deadline_ms]
        for request_id in late:
            pending = self.outstanding.pop(request_id)
            self._in_flight_size -= pending.outgoing.size
            self._time_out(pending.outgoing)
        while self.waiting and now_ms >= self.waiting[0].deadline_ms:
            pending = self.waiting.popleft()
            self._waiting_size -= pending.outgoing.size
            self._time_out(pending.outgoing)

    def _time_out(self, outgoing: Outgoing) -> None:
        what = f"{type(outgoing.request).__name__} to bookie {self.bookie_id} at {self._address}"
        self._fail(outgoing, RequestTimeoutError(what, outgoing.timeout_ms / 1000))

    def _fail(self, outgoing: Outgoing, error: ZbkError) -> None:
        self._pool.post(outgoing.sink, Reply(self.bookie_id, outgoing.key, error))

    def is_unused(self, now_ms: int) -> bool:
        return (
            not self.subscribers
            and not self.outstanding
            and not self.waiting
            and now_ms - self.used_ms > IDLE_MS
        )


class BookiePool:
    """The connections of one client, and their thread."""

    def __init__(self, options: DealerOptions) -> None:
        self.options = options
        self.context = zmq.Context()
        self._connections: dict[str, _Connection] = {}
        self._by_socket: dict[zmq.Socket[bytes], Callable[[int], None]] = {}
        self._addresses: dict[str, str] = {}
        self._inbox: deque[Callable[[int], None]] = deque()
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
            if connection.state is not _State.IDLE:
                connection.lose(error, now_ms)

        self._put(lose)

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

    def watch(self, connection: _Connection) -> None:
        """Poll a connection's sockets."""
        assert connection.socket is not None
        assert connection.monitor is not None
        self._by_socket[connection.socket] = connection.on_readable
        self._by_socket[connection.monitor] = connection.on_monitor
        self._poller.register(connection.socket, zmq.POLLIN)
        self._poller.register(connection.monitor, zmq.POLLIN)

    def unwatch(self, connection: _Connection) -> None:
        """Stop polling a connection's sockets."""
        for socket in (connection.socket, connection.monitor):
            if socket is not None and self._by_socket.pop(socket, None) is not None:
                self._poller.unregister(socket)

    def _connection(self, bookie_id: str) -> _Connection:
        connection = self._connections.get(bookie_id)
        if connection is None:
            connection = self._connections[bookie_id] = _Connection(self, bookie_id)
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
        ready = dict(self._poller.poll(POLL_MS))
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
