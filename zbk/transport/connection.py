"""One connection to one bookie: made, greeted, used, lost, made again.

    IDLE -> CONNECTING (TCP and ZeroMQ handshake) -> GREETING (HELLO sent) -> READY -> IDLE
                                                              ^                 |
                                                              +-----------------+ forgotten

Each life of it has a socket and a routing id of its own. A bookie forgets a connection that was
silent for long, and refuses what comes next with ``HelloRequiredError``: nothing of that was done.
So the client says HELLO again, in the same life, and then sends once more what was refused, in the
same order and before what came later; whoever waits for the answers does not notice.

What goes over the bookie's credit waits here, for as long as it takes: the time-out of a request
starts when it is handed to the bookie (``zbk.transport.outstanding``). When a request is late and
the bookie has answered nothing at all for as long, it is hung: this life ends, and all that waits
fails with it.

Everything here runs in the thread of the pool that owns it (``zbk.transport.dealer``).
"""

import os
import struct
from collections import deque
from enum import Enum
from typing import Final, Protocol

import msgspec
import zmq

from zbk.errors import (
    BookieUnavailableError,
    BusyError,
    HelloRequiredError,
    MalformedMessageError,
    RequestTimeoutError,
    TooManyOpenFilesError,
    WrongBookieError,
    ZbkError,
    from_wire,
)
from zbk.system.clock import monotonic_ms
from zbk.system.descriptors import has_descriptors
from zbk.transport.bundles import Part, groups, parts_of, request_frames
from zbk.transport.events import (
    BookieDown,
    BookieUp,
    DealerOptions,
    News,
    Outgoing,
    Reply,
    Sink,
)
from zbk.transport.frames import Frame, receive_frames, send_frames
from zbk.transport.outstanding import Outstanding, Pending
from zbk.wire import codec
from zbk.wire.messages import Answer, AnswerBundle, Hello, HelloAnswer, Refused

_MONITOR_HEAD: Final = struct.Struct("=Hi")
"""Event and value, the first frame of a monitor's message; ``zmq.utils.monitor`` loads asyncio."""

DRAIN_COUNT_MAX: Final = 256
RETRY_MS: Final = 50
RETRY_MS_MAX: Final = 1_000
SEND_RETRY_MS: Final = 20
"""When a socket that took no more is tried again; answers that come try it, too."""

TIMEOUT_SLACK_MS: Final = 50
"""So much before the time-out of an attempt its end counts as that."""

WAITING_SIZE_MAX: Final = 256 * 1024 * 1024
COPY_SIZE_MAX: Final = 64 * 1024
HEARTBEAT_MS: Final = 2_000
HEARTBEAT_TIMEOUT_MS: Final = 6_000
ANSWER_SIZE_MAX: Final = 512 * 1024 * 1024
LINGER_MS: Final = 0
GREETING_COUNT_MAX: Final = 3
"""How often one request may be refused for want of a HELLO before that is an error."""
DESCRIPTOR_COUNT: Final = 12
"""Those that have to be left for a connection: its own, and some for the rest of the program."""


class Pool(Protocol):
    """What a connection needs of the pool that owns it."""

    @property
    def options(self) -> DealerOptions:
        """Who we are."""
        ...

    @property
    def context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        """Where sockets come from."""
        ...

    def next_request_id(self) -> int:
        """Return an id that no other request has."""
        ...

    def address_of(self, bookie_id: str) -> str | None:
        """Return where a bookie is registered, if it is."""
        ...

    def post(self, sink: Sink, news: News) -> None:
        """Keep news for a sink until the end of this turn of the loop."""
        ...

    def watch(self, connection: "Connection") -> None:
        """Poll a connection's sockets."""
        ...

    def watch_cheaply(self, connection: "Connection") -> None:
        """Poll the descriptor of the monitor instead of the monitor itself."""
        ...

    def unwatch(self, connection: "Connection") -> None:
        """Stop polling a connection's sockets."""
        ...

    def look_at(self, due_ms: int) -> None:
        """Call ``tick`` at a time, or before."""
        ...

    def send_soon(self, connection: "Connection") -> None:
        """Call ``pump`` at the end of this turn, for all that joins until then."""
        ...


class State(Enum):
    """Where a connection is in its life."""

    IDLE = "not connected"
    CONNECTING = "connecting"
    GREETING = "waiting for the answer to HELLO"
    READY = "ready"


class Connection:
    """One bookie. Everything runs in the pool's thread."""

    def __init__(self, pool: Pool, bookie_id: str) -> None:
        self._pool = pool
        self.bookie_id = bookie_id
        self.state = State.IDLE
        self.subscribers: dict[tuple[Sink, object], None] = {}
        self.waiting: deque[Pending] = deque()
        self.outstanding = Outstanding()
        self._refused: list[Pending] = []  # for want of a HELLO: sent again after it
        self._hello_id = 0
        self.socket: zmq.Socket[bytes] | None = None
        self.monitor: zmq.Socket[bytes] | None = None
        self.used_ms = monotonic_ms()
        self._address = ""
        self._waiting_size = 0
        self._is_stuffed = False  # the socket takes no more now
        self._heard_ms = 0
        self._hello: HelloAnswer | None = None
        self._retry_ms = RETRY_MS
        self._next_try_ms = 0
        self._deadline_ms = 0
        self._lost_ms = 0
        self._last_error: ZbkError | None = None

    # -------------------------------------------------------------- what callers want

    def subscribe(self, sink: Sink, key: object) -> None:
        """Report to ``sink`` when the connection comes and goes, beginning with now."""
        self.subscribers[sink, key] = None
        if self.state is State.READY:
            self._pool.post(sink, self._up(key))
        elif self.state is State.IDLE:
            self._next_try_ms = 0
            self._connect(monotonic_ms())

    def tell_again(self, sink: Sink, key: object) -> None:
        """Report to a subscriber once more that the connection is there."""
        if (sink, key) in self.subscribers and self.state is State.READY:
            self._pool.post(sink, self._up(key))

    def unsubscribe(self, sink: Sink, key: object, now_ms: int) -> None:
        """Undo a ``subscribe``."""
        if (sink, key) in self.subscribers:
            del self.subscribers[sink, key]
            self.used_ms = now_ms
            self._pool.look_at(self.due_ms)

    def enqueue(self, outgoing: Outgoing, now_ms: int) -> None:
        """Send a request, keep it for later, or fail it."""
        self.used_ms = now_ms
        if self.state is State.IDLE:
            # whoever asks now does not wait for the next try of our own, but is no storm, either
            if now_ms < self._lost_ms + RETRY_MS and self._last_error is not None:
                self._fail(outgoing, self._last_error)
                return
            self._connect(now_ms)
            if self.state is State.IDLE:
                assert self._last_error is not None, "connect leaves a reason"
                self._fail(outgoing, self._last_error)
                return
        if self._waiting_size + outgoing.size > WAITING_SIZE_MAX:
            self._fail(outgoing, BusyError(f"over {WAITING_SIZE_MAX} bytes wait for one bookie"))
            return
        self.waiting.append(Pending(outgoing))
        self._waiting_size += outgoing.size
        self._pool.send_soon(self)

    def hurry(self) -> None:
        """Try again soon: there is news of where bookies are."""
        self._next_try_ms = 0
        self._retry_ms = RETRY_MS
        self._pool.look_at(self.due_ms)

    # -------------------------------------------------------------- connecting

    def _connect(self, now_ms: int) -> None:
        address = self._pool.address_of(self.bookie_id)
        if address is None:
            self.lose(BookieUnavailableError(self.bookie_id, "is not registered"), now_ms)
            return
        self._address = address
        if not has_descriptors(DESCRIPTOR_COUNT):
            what = f"cannot connect to bookie {self.bookie_id} at {address}"
            self.lose(TooManyOpenFilesError(what), now_ms)
            return
        try:
            self._open_socket(address, now_ms)
        except zmq.ZMQError as error:
            reason = f"cannot connect to {address}: {error}"
            self.lose(BookieUnavailableError(self.bookie_id, reason), now_ms)

    def _open_socket(self, address: str, now_ms: int) -> None:
        socket: zmq.Socket[bytes] = self._pool.context.socket(zmq.DEALER)
        self.socket = socket
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
        self.monitor = monitor
        self.state = State.CONNECTING
        self._deadline_ms = now_ms + self._pool.options.connect_timeout_ms
        self._pool.look_at(self._deadline_ms)
        self._pool.watch(self)
        socket.connect(address)

    def on_monitor(self, now_ms: int) -> None:
        """Look at what became of the TCP connection."""
        while self.monitor is not None:
            try:
                head, _endpoint = self.monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            event, _value = _MONITOR_HEAD.unpack(head)
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._greet(now_ms)
            else:
                self.lose(
                    BookieUnavailableError(self.bookie_id, self._why_ended(event, now_ms)), now_ms
                )

    def _why_ended(self, event: int, now_ms: int) -> str:
        if self.state is State.READY:
            return f"the connection to {self._address} was lost"
        if now_ms >= self._deadline_ms - TIMEOUT_SLACK_MS:  # libzmq's time-out, not a refusal
            return self._no_answer()
        if event == zmq.EVENT_CLOSED:
            return f"the connection to {self._address} was refused"
        return f"{self._address} closed the connection before it answered"

    def _no_answer(self) -> str:
        return f"no answer from {self._address} within {self._timeout_s:g} s"

    def _greet(self, now_ms: int) -> None:
        hello = Hello(
            request_id=self._pool.next_request_id(),
            instance_id=self._pool.options.instance_id,
            bookie_id=self.bookie_id,
            software=self._pool.options.software,
        )
        self.state = State.GREETING
        self._hello_id = hello.request_id
        self._deadline_ms = now_ms + self._pool.options.connect_timeout_ms
        self._pool.look_at(self._deadline_ms)
        if not self._try_send([codec.encode(hello)]):
            self.lose(BookieUnavailableError(self.bookie_id, "takes no HELLO"), now_ms)

    def _on_hello(self, hello: HelloAnswer, now_ms: int) -> None:
        before, self._hello = self._hello, hello
        self.state = State.READY
        if before is not None:
            self._on_hello_again(before, hello, now_ms)
            return
        self._retry_ms = RETRY_MS
        self._last_error = None
        self._pool.watch_cheaply(self)
        if self.state is not State.READY:
            return  # it was lost meanwhile
        self._pool.look_at(self.due_ms)
        for sink, key in self.subscribers:
            self._pool.post(sink, self._up(key))

    def _on_hello_again(self, before: HelloAnswer, hello: HelloAnswer, now_ms: int) -> None:
        """Go on as before: the bookie had only forgotten the connection."""
        if hello.incarnation != before.incarnation:
            reason = (
                f"incarnation {before.incarnation} of bookie {self.bookie_id} "
                f"has become {hello.incarnation}"
            )
            self.lose(WrongBookieError(reason), now_ms)
            return
        self.waiting.extendleft(reversed(self._refused))
        self._refused.clear()

    def _up(self, key: object) -> BookieUp:
        assert self._hello is not None, "a ready connection has said HELLO"
        return BookieUp(self.bookie_id, self._hello.incarnation, self._hello.entry_size_max, key)

    def lose(self, error: ZbkError, now_ms: int) -> None:
        """End this life of the connection: fail what was on its way, plan the next try."""
        self.close_socket()
        self.state = State.IDLE
        self._hello = None
        self._last_error = error
        self._lost_ms = now_ms
        self._next_try_ms = now_ms + self._retry_ms
        self._retry_ms = min(self._retry_ms * 2, RETRY_MS_MAX)
        failed = [*self.outstanding.take_all(), *self._refused, *self.waiting]
        self._refused.clear()
        self.waiting.clear()
        self._waiting_size = 0
        self._is_stuffed = False
        self._pool.look_at(self.due_ms)
        for pending in failed:
            self._fail(pending.outgoing, error)
        for sink, key in self.subscribers:
            self._pool.post(sink, BookieDown(self.bookie_id, error, key))

    def close_socket(self) -> None:
        """Give the socket of this life back."""
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
        if self.state is not State.READY or hello is None:
            return
        self._is_stuffed = False
        if not self.waiting:
            return
        parts = self._within_credit(hello)
        for group in groups(parts, hello.version):
            if not self._try_send(request_frames(group, hello.incarnation)):
                self._is_stuffed = True
                self._pool.look_at(now_ms + SEND_RETRY_MS)
                return
            size = self.outstanding.size
            self.outstanding.add(
                [(request.request_id, self.waiting.popleft()) for request, _frames in group], now_ms
            )
            self._waiting_size -= self.outstanding.size - size
        if parts:
            self._pool.look_at(self.outstanding.due_ms)

    def _within_credit(self, hello: HelloAnswer) -> list[Part]:
        """Return what waits and the bookie's credit has room for; one, if nothing is under way."""
        parts: list[Part] = []
        size, credit_size, incarnation = (
            self.outstanding.size, hello.credit_size, hello.incarnation,
        )  # fmt: skip
        next_request_id, replace = self._pool.next_request_id, msgspec.structs.replace
        for pending in self.waiting:
            outgoing = pending.outgoing
            if size and size + outgoing.size > credit_size:
                break
            size += outgoing.size
            request = replace(
                outgoing.request, request_id=next_request_id(), incarnation=incarnation
            )
            parts.append((request, outgoing.frames))
        return parts

    def _try_send(self, frames: list[Frame]) -> bool:
        assert self.socket is not None, "only a connected bookie is sent to"
        try:
            send_frames(self.socket, frames, COPY_SIZE_MAX)
        except zmq.Again:
            return False
        return True

    def on_readable(self, now_ms: int) -> None:
        """Handle the answers that came."""
        self._receive(DRAIN_COUNT_MAX, now_ms)
        self.pump(now_ms)

    def _receive(self, count_max: int, now_ms: int) -> None:
        for _ in range(count_max):
            if self.socket is None:
                return
            try:
                frames = receive_frames(self.socket)
            except zmq.Again:
                return
            self._heard_ms = now_ms
            try:
                answer = codec.decode_answer(frames[0])
                if isinstance(answer, AnswerBundle):
                    self._on_bundle(answer, frames, now_ms)
                else:
                    self._on_answer(answer, tuple(frames[1:]), now_ms)
            except MalformedMessageError as error:
                self.lose(error, now_ms)
            # nothing else can have come: to ask and be told so costs
            if self.state is State.READY and not self.outstanding:
                return

    def _on_bundle(self, bundle: AnswerBundle, frames: list[bytes], now_ms: int) -> None:
        outstanding, post, bookie_id = self.outstanding, self._pool.post, self.bookie_id
        for part, own in parts_of(bundle.parts, bundle.sizes, frames[1:]):
            if self.state is not State.READY or isinstance(part, Refused):
                if self.state is State.IDLE:
                    return  # the one before has ended this life
                self._on_answer(part, own, now_ms)
                continue
            pending = outstanding.take(part.request_id, now_ms)
            if pending is not None:  # else it timed out before
                outgoing = pending.outgoing
                post(outgoing.sink, Reply(bookie_id, outgoing.key, part, own))
        self._note_use(now_ms)

    def _on_answer(self, answer: Answer, frames: tuple[bytes, ...], now_ms: int) -> None:
        if self.state is State.GREETING and answer.request_id == self._hello_id:
            if isinstance(answer, HelloAnswer):
                self._on_hello(answer, now_ms)
            elif isinstance(answer, Refused):
                self.lose(from_wire(answer.code, tuple(answer.fields)), now_ms)
            return
        pending = self.outstanding.take(answer.request_id, now_ms)
        if pending is None:
            return  # it timed out before
        self._note_use(now_ms)
        if not isinstance(answer, Refused):
            outgoing = pending.outgoing
            reply = Reply(self.bookie_id, outgoing.key, answer, frames)
            self._pool.post(outgoing.sink, reply)
            return
        error = from_wire(answer.code, tuple(answer.fields))
        if isinstance(error, HelloRequiredError) and pending.refused_count < GREETING_COUNT_MAX:
            self._on_forgotten(pending, now_ms)
            return
        self._fail(pending.outgoing, error)
        if isinstance(error, HelloRequiredError | WrongBookieError):
            self.lose(error, now_ms)

    def _note_use(self, now_ms: int) -> None:
        self.used_ms = now_ms
        if not self.subscribers:
            self._pool.look_at(now_ms + self._pool.options.idle_ms)

    def _on_forgotten(self, pending: Pending, now_ms: int) -> None:
        """Keep a request that was refused, and say HELLO unless that is under way."""
        pending.refused_count += 1
        self._waiting_size += pending.outgoing.size
        self._refused.append(pending)
        if self.state is State.READY:
            self._greet(now_ms)

    def tick(self, now_ms: int) -> None:
        """Look at the clock: time-outs, the next try, idleness."""
        if self.state in (State.CONNECTING, State.GREETING) and now_ms >= self._deadline_ms:
            self.lose(BookieUnavailableError(self.bookie_id, self._no_answer()), now_ms)
        elif self.state is State.IDLE:
            if self.subscribers and now_ms >= self._next_try_ms:
                self._connect(now_ms)
        elif self.state is State.READY:
            self._expire(now_ms)
            self.pump(now_ms)

    @property
    def due_ms(self) -> int:
        """When ``tick`` has something to do, if nothing happens before."""
        match self.state:
            case State.CONNECTING | State.GREETING:
                return self._deadline_ms
            case State.IDLE if self.subscribers:
                return self._next_try_ms
        if not (self.subscribers or self.waiting or len(self.outstanding)):
            return self.used_ms + self._pool.options.idle_ms
        due_ms = self.outstanding.due_ms
        if self._is_stuffed:
            due_ms = min(due_ms, monotonic_ms() + SEND_RETRY_MS)
        return due_ms

    @property
    def _timeout_s(self) -> float:
        return self._pool.options.connect_timeout_ms / 1000

    def _expire(self, now_ms: int) -> None:
        if now_ms < self.outstanding.due_ms:
            return
        self._receive(len(self.outstanding), now_ms)  # what has come is not late, we are
        late = self.outstanding.take_late(now_ms) if self.state is State.READY else []
        for pending in late:
            outgoing = pending.outgoing
            what = f"{type(outgoing.request).__name__} to bookie {self.bookie_id}"
            timeout_s = outgoing.timeout_ms / 1000
            self._fail(outgoing, RequestTimeoutError(f"{what} at {self._address}", timeout_s))
        silent_ms = max((pending.outgoing.timeout_ms for pending in late), default=0)
        if late and not self.has_answered_within(silent_ms, now_ms):
            reason = f"{self._address} has answered nothing for {silent_ms / 1000:g} s"
            self.lose(BookieUnavailableError(self.bookie_id, reason), now_ms)

    def has_answered_within(self, time_ms: int, now_ms: int) -> bool:
        """Return whether the bookie has answered anything in the last ``time_ms``."""
        return self.state is State.READY and now_ms - self._heard_ms < time_ms

    def _fail(self, outgoing: Outgoing, error: ZbkError) -> None:
        self._pool.post(outgoing.sink, Reply(self.bookie_id, outgoing.key, error))

    def is_unused(self, now_ms: int) -> bool:
        """Return whether nobody has needed the connection for long."""
        is_needed = self.subscribers or self.waiting or self.outstanding
        is_connecting = self.state in (State.CONNECTING, State.GREETING)
        is_over = now_ms >= self.used_ms + self._pool.options.idle_ms
        return is_over and not is_needed and not is_connecting
