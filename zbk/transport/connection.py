"""One connection to one bookie: connected, greeted, used, lost, connected again.

    IDLE -> CONNECTING (TCP and ZeroMQ handshake) -> GREETING (HELLO sent) -> READY -> IDLE
                                                              ^                 |
                                                              +-----------------+ forgotten

Each life of a connection has its own socket (``zbk.transport.dealer_socket``). A bookie forgets a
connection that was silent for long, and refuses the next requests with ``HelloRequiredError``:
nothing of them was done. The client says HELLO again, in the same life, and repeats what was
refused (``zbk.transport.request_queue``); the callers do not notice.

The time-out of a request starts when it is handed to the bookie (``zbk.transport.outstanding``).
When a request is late and the bookie has answered nothing at all for as long, it is hung: this life
ends, and all requests that wait fail with it.

Everything here runs in the thread of the pool that owns it (``zbk.transport.dealer``).
"""

from typing import Final

import zmq

from zbk.errors import (
    BookieUnavailableError,
    BusyError,
    HelloRequiredError,
    MalformedMessageError,
    SecurityMismatchError,
    TooManyOpenFilesError,
    WrongBookieError,
    ZbkError,
    from_wire,
)
from zbk.security.credentials import Door, choose
from zbk.system.clock import monotonic_ms
from zbk.system.descriptors import has_descriptors
from zbk.transport.attempt import Attempt, State
from zbk.transport.bundles import groups, parts_of, request_frames
from zbk.transport.dealer_socket import DealerSocket
from zbk.transport.events import BookieDown, BookieUp, News, Outgoing, Reply, Sink
from zbk.transport.frames import has_message, receive_frames
from zbk.transport.pool import Pool
from zbk.transport.reconnects import Reconnects
from zbk.transport.request_queue import WAITING_SIZE_MAX, RequestQueue
from zbk.wire import codec
from zbk.wire.messages import Answer, AnswerBundle, HelloAnswer, Refused

DRAIN_COUNT_MAX: Final = 256
SEND_RETRY_MS: Final = 20
"""After so long a socket that took no more is tried again; an answer tries it at once."""

TIMEOUT_SLACK_MS: Final = 50
"""An attempt that ends so shortly before its time-out counts as timed out."""

GREETING_COUNT_MAX: Final = 3
"""How often one request may be refused for want of a HELLO before that is an error."""

DESCRIPTOR_COUNT: Final = 12
"""Descriptors that must be free for a connection: its own, and some for the rest of the program."""


class Connection:
    """The connection to one bookie."""

    def __init__(self, pool: Pool, bookie_id: str) -> None:
        self._pool = pool
        self.bookie_id = bookie_id
        self.state = State.IDLE
        self.subscribers: dict[tuple[Sink, object], None] = {}
        self._requests = RequestQueue()
        self._outstanding = self._requests.outstanding
        self._hello_id = 0
        self.socket: DealerSocket | None = None
        self.used_ms = monotonic_ms()
        self._life = Attempt(bookie_id, Door(""), pool.options.credentials, 0)
        self._is_stuffed = False  # the socket takes no more now
        self._is_unsent = False  # ``pump`` is called at the end of this turn
        self._heard_ms = 0
        self._hello: HelloAnswer | None = None
        self._tries = Reconnects()
        self._deadline_ms = 0

    # -------------------------------------------------------------- calls of the pool

    def subscribe(self, sink: Sink, key: object) -> None:
        """Report to ``sink`` when the connection is ready and when it is lost, from now on."""
        self.subscribers[sink, key] = None
        if self.state is State.READY:
            self._pool.post(sink, self._up(key))
        elif self.state is State.IDLE:
            self._connect(monotonic_ms())

    def report_again(self, sink: Sink, key: object) -> None:
        """Report to a subscriber once more that the connection is ready."""
        if (sink, key) in self.subscribers and self.state is State.READY:
            self._pool.post(sink, self._up(key))

    def unsubscribe(self, sink: Sink, key: object, now_ms: int) -> None:
        """Undo a ``subscribe``."""
        if (sink, key) in self.subscribers:
            del self.subscribers[sink, key]
            self.used_ms = now_ms
            self._pool.look_at(self.due_ms)

    def enqueue(self, outgoing: Outgoing, now_ms: int) -> None:
        """Send a request at the end of this turn, keep it for later, or fail it."""
        self.used_ms = now_ms
        if self.state is State.IDLE:
            if outgoing.needs_own_try or self._tries.recent_error(now_ms) is None:
                outgoing.needs_own_try = False
                self._connect(now_ms)
            if self.state is State.IDLE:
                assert self._tries.last_error is not None, "connect leaves a reason"
                self._fail(outgoing, self._tries.last_error)
                return
        if not self._requests.add(outgoing, now_ms):
            self._fail(outgoing, BusyError(f"over {WAITING_SIZE_MAX} bytes wait for one bookie"))
        elif not self._is_unsent:
            self._is_unsent = True
            self._pool.send_soon(self)

    def hurry(self) -> None:
        """Try to connect soon: the addresses of bookies have changed."""
        self._tries.hurry()
        self._pool.look_at(self.due_ms)

    # -------------------------------------------------------------- connecting

    def _connect(self, now_ms: int) -> None:
        doors = self._pool.doors_of(self.bookie_id)
        if doors is None:
            self.lose(BookieUnavailableError(self.bookie_id, "is not registered"), now_ms)
            return
        door = choose(doors, self._pool.options.credentials)
        if not isinstance(door, Door):
            self.lose(SecurityMismatchError(self.bookie_id, door), now_ms)
            return
        options = self._pool.options
        life = Attempt(self.bookie_id, door, options.credentials, options.connect_timeout_ms)
        self._life = life
        if not has_descriptors(DESCRIPTOR_COUNT):
            action = f"cannot connect to bookie {self.bookie_id} at {life.address}"
            self.lose(TooManyOpenFilesError(action), now_ms)
            return
        try:
            self._open_socket(life, now_ms)
        except zmq.ZMQError as error:
            reason = f"cannot connect to {life.address}: {error}"
            self.lose(BookieUnavailableError(self.bookie_id, reason), now_ms)

    def _open_socket(self, life: Attempt, now_ms: int) -> None:
        self.socket = DealerSocket(self._pool.context, life)
        self.state = State.CONNECTING
        self._deadline_ms = now_ms + life.timeout_ms
        self._pool.look_at(self._deadline_ms)
        self._pool.watch(self)
        self.socket.socket.connect(life.address)

    def on_monitor(self, now_ms: int) -> None:
        """Handle the events of the TCP connection."""
        while self.socket is not None and (event := self.socket.next_event()) is not None:
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._greet(now_ms)
            else:
                is_late = self._is_late(now_ms)
                self.lose(self._life.error_of(event, self.state, is_late=is_late), now_ms)

    def _greet(self, now_ms: int) -> None:
        hello = self._pool.options.hello(self._pool.next_request_id(), self.bookie_id)
        self.state = State.GREETING
        self._hello_id = hello.request_id
        self._deadline_ms = now_ms + self._pool.options.connect_timeout_ms
        self._pool.look_at(self._deadline_ms)
        assert self.socket is not None, "only a connected bookie is greeted"
        if not self.socket.try_send([codec.encode(hello)]):
            self.lose(BookieUnavailableError(self.bookie_id, "takes no HELLO"), now_ms)

    def _on_hello(self, hello: HelloAnswer, now_ms: int) -> None:
        before, self._hello = self._hello, hello
        self.state = State.READY
        if before is not None:
            self._on_hello_again(before, hello, now_ms)
            return
        self._pool.counts.connection_count += 1
        self._tries.succeeded()
        self._pool.watch_cheaply(self)
        if self.state is not State.READY:
            return  # the monitor reported meanwhile that it was lost
        self._pool.look_at(self.due_ms)
        for sink, key in self.subscribers:
            self._pool.post(sink, self._up(key))

    def _on_hello_again(self, before: HelloAnswer, hello: HelloAnswer, now_ms: int) -> None:
        """Repeat what was refused: the bookie had only forgotten the connection."""
        if hello.incarnation != before.incarnation:
            self.lose(self._life.restarted(before.incarnation, hello.incarnation), now_ms)
            return
        self._requests.repeat_refused()

    def _up(self, key: object) -> BookieUp:
        hello = self._hello
        assert hello is not None, "a ready connection has said HELLO"
        return BookieUp(self.bookie_id, hello.incarnation, hello.entry_size_max, key, hello.version)

    def lose(self, error: ZbkError, now_ms: int) -> None:
        """End this life of the connection, fail its requests, and plan the next try.

        A try that failed before its time-out is repeated at once for those that need their own.
        """
        was_ready, again = self._hello is not None, list[Outgoing]()
        self.close_socket()
        self.state = State.IDLE
        self._tries.lost(error, now_ms)
        for outgoing in self._requests.take_all():
            if was_ready or not outgoing.needs_own_try or self._is_late(now_ms):
                self._fail(outgoing, error)
            else:
                again.append(outgoing)
        self._is_stuffed = False
        self._pool.look_at(self.due_ms)
        for sink, key in self.subscribers:
            self._pool.post(sink, BookieDown(self.bookie_id, error, key))
        for outgoing in again:
            self.enqueue(outgoing, now_ms)
            outgoing.needs_own_try = False

    def _is_late(self, now_ms: int) -> bool:
        return now_ms >= self._deadline_ms - TIMEOUT_SLACK_MS

    def close_socket(self) -> None:
        """Close the socket of this life."""
        if self.socket is not None:
            self._pool.unwatch(self)
            self.socket.close()
            self.socket = None
            if self._hello is not None:
                self._hello = None
                self._pool.counts.connection_count -= 1

    # -------------------------------------------------------------- traffic

    def pump(self, now_ms: int) -> None:
        """Send the requests that wait, within the bookie's credit."""
        self._is_unsent = False
        hello = self._hello
        if self.state is not State.READY or hello is None or self.socket is None:
            return
        self._is_stuffed, requests = False, self._requests
        if not requests.is_waiting:
            return
        parts = requests.within_credit(hello, self._pool.next_request_id, now_ms)
        for group in groups(parts, hello.version):
            if not self.socket.try_send(request_frames(group, hello.incarnation)):
                self._is_stuffed = True
                self._pool.look_at(now_ms + SEND_RETRY_MS)
                return
            requests.handed_over(group, now_ms)
        if parts:
            self._pool.look_at(self._outstanding.due_ms)

    def on_readable(self, now_ms: int) -> None:
        """Handle the answers that came."""
        self._receive(DRAIN_COUNT_MAX, now_ms)
        self.pump(now_ms)

    def _receive(self, count_max: int, now_ms: int) -> None:
        """Handle the answers that have come: one at least, and ``count_max`` at most."""
        own = self.socket
        assert own is not None, "messages come through a socket"
        for _ in range(count_max):
            frames = receive_frames(own.socket)
            self._heard_ms = now_ms
            try:
                answer = codec.decode_answer(frames[0])
                if isinstance(answer, AnswerBundle):
                    self._on_bundle(answer, frames, now_ms)
                else:
                    self._on_answer(answer, tuple(frames[1:]), now_ms)
            except MalformedMessageError as error:
                self.lose(error, now_ms)
            # no further answer can have come, and asking the socket costs
            if self.state is State.READY and not self._outstanding:
                return
            if self.socket is not own or not has_message(own.socket):
                return

    def _on_bundle(self, bundle: AnswerBundle, frames: list[bytes], now_ms: int) -> None:
        take, bookie_id = self._outstanding.take, self.bookie_id
        answered = self._pool.counts.answered
        sink: Sink | None = None
        box: list[News] = []
        for part, own in parts_of(bundle.parts, bundle.sizes, frames[1:]):
            if self.state is not State.READY or isinstance(part, Refused):
                if self.state is State.IDLE:
                    break  # the part before it has ended this life
                self._on_answer(part, own, now_ms)
                continue
            outgoing = take(part.request_id, now_ms)
            if outgoing is not None:  # else it timed out before
                if outgoing.sink is not sink:
                    sink = outgoing.sink
                    box = self._pool.box(sink)
                box.append(Reply(bookie_id, outgoing.key, part, own))
                if answered is not None:
                    if answered.left_count > 1:
                        answered.left_count -= 1
                    else:
                        answered.count(type(outgoing.request), now_ms - outgoing.handed_ms, now_ms)
        self._note_use(now_ms)

    def _on_answer(self, answer: Answer, frames: tuple[bytes, ...], now_ms: int) -> None:
        if self.state is State.GREETING and answer.request_id == self._hello_id:
            if isinstance(answer, HelloAnswer):
                self._on_hello(answer, now_ms)
            elif isinstance(answer, Refused):
                self.lose(from_wire(answer.code, tuple(answer.fields)), now_ms)
            return
        outgoing = self._outstanding.take(answer.request_id, now_ms)
        if outgoing is None:
            return  # it timed out before
        self._note_use(now_ms)
        if isinstance(answer, Refused):
            self._on_refused(outgoing, answer, now_ms)
        else:
            reply = Reply(self.bookie_id, outgoing.key, answer, frames)
            self._pool.post(outgoing.sink, reply)
            answered = self._pool.counts.answered
            if answered is not None:
                if answered.left_count > 1:
                    answered.left_count -= 1
                else:
                    answered.count(type(outgoing.request), now_ms - outgoing.handed_ms, now_ms)

    def _on_refused(self, outgoing: Outgoing, answer: Refused, now_ms: int) -> None:
        error = from_wire(answer.code, tuple(answer.fields))
        if isinstance(error, HelloRequiredError) and outgoing.refused_count < GREETING_COUNT_MAX:
            self._requests.refused(outgoing)
            if self.state is State.READY:
                self._greet(now_ms)
            return
        self._fail(outgoing, error)
        if isinstance(error, HelloRequiredError | WrongBookieError):
            self.lose(error, now_ms)

    def _note_use(self, now_ms: int) -> None:
        self.used_ms = now_ms
        if not self.subscribers:
            self._pool.look_at(now_ms + self._pool.options.idle_ms)

    def tick(self, now_ms: int) -> None:
        """Handle what is due: time-outs and the next try."""
        if self.state in (State.CONNECTING, State.GREETING) and now_ms >= self._deadline_ms:
            self.lose(self._life.unanswered(), now_ms)
        elif self.state is State.IDLE:
            if self.subscribers and now_ms >= self._tries.due_ms:
                self._connect(now_ms)
        elif self.state is State.READY:
            self._expire(now_ms)
            self.pump(now_ms)

    @property
    def due_ms(self) -> int:
        """When ``tick`` is due, if no event comes before."""
        match self.state:
            case State.CONNECTING | State.GREETING:
                return self._deadline_ms
            case State.IDLE if self.subscribers:
                return self._tries.due_ms
        if not (self.subscribers or self._requests):
            return self.used_ms + self._pool.options.idle_ms
        due_ms = self._outstanding.due_ms
        return min(due_ms, monotonic_ms() + SEND_RETRY_MS) if self._is_stuffed else due_ms

    def _expire(self, now_ms: int) -> None:
        if now_ms < self._outstanding.due_ms:
            return
        if self.socket is not None and has_message(self.socket.socket):
            self._receive(len(self._outstanding), now_ms)  # an answer that has come is not late
        late = self._outstanding.take_late(now_ms) if self.state is State.READY else []
        for outgoing in late:
            self._fail(outgoing, self._life.late(type(outgoing.request), outgoing.timeout_ms))
        silent_ms = max((outgoing.timeout_ms for outgoing in late), default=0)
        if late and (self.state is not State.READY or now_ms - self._heard_ms >= silent_ms):
            self.lose(self._life.silent(silent_ms), now_ms)

    def _fail(self, outgoing: Outgoing, error: ZbkError) -> None:
        self._pool.counts.failed(outgoing.request)
        self._pool.post(outgoing.sink, Reply(self.bookie_id, outgoing.key, error))

    def is_unused(self, now_ms: int) -> bool:
        """Return whether the connection was not used for ``idle_ms``, and is not needed."""
        if self.subscribers or self._requests or self.state in (State.CONNECTING, State.GREETING):
            return False
        return now_ms >= self.used_ms + self._pool.options.idle_ms
