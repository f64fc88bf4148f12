"""The bookie's front: the ROUTER socket, and the thread that reads it.

The thread drains the socket, has each message checked (``zbk.transport.admission``), and hands
*lists* of requests to ``deliver``. Answers come back through ``send`` from any thread, also from
inside ``deliver``. The front holds no rule of ledgers.

While the thread waits, a thread that has answers sends them itself: a wake-up costs more than that.
A socket may go from thread to thread with a lock around it, and while the thread waits it watches
the socket's descriptor, not the socket. The descriptor is readable only for what is new: after each
use of the socket by another thread, the front has to look for messages itself.

    thread of the front                          any thread

    socket -> Admission -> deliver(requests)     send(answers) -> AnswerSender -> socket
                 |                                                    |
    monitor -> ConnectionWatch                                        |
                 +------ PeerTable, ConnectionEnds (under the lock) --+

Limits: bytes and requests in flight of a peer (``credit_size``: the peer is told; more than that is
answered with ``BusyError``) and in all (``zbk.transport.peers``); connections (``connections``:
silent ones end, a HELLO too many is answered with ``BusyError``); bytes of answers, for each peer
and in all (``answer_budget``: a read is held until there is room for its answer); bytes that were
sent and not received (``inflow``).

Encryption: with a key the socket's address accepts encrypted connections only; or it has a second
address that does (``zbk.security.credentials``). ``zbk.transport.key_guard`` decides which keys may
connect. Without a key none of this exists.

Decisions: ROUTER_MANDATORY with NOBLOCK sends, so that no message is dropped silently;
ROUTER_HANDOVER off, so that no connection takes over the routing id of another.
"""

import select
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import zmq

from zbk.errors import BookieError
from zbk.security.keys import KeyPair
from zbk.security.principals import KeyTable
from zbk.system.clock import monotonic_ms
from zbk.system.wakeup import Wakeup
from zbk.transport.admission import Admission
from zbk.transport.answer_sender import ANSWER_WAIT_MS, AnswerSender
from zbk.transport.connection_ends import ConnectionEnds
from zbk.transport.connection_watch import ConnectionWatch
from zbk.transport.connections import ConnectionLimits
from zbk.transport.curve import serve_encrypted
from zbk.transport.frames import has_message, receive_message
from zbk.transport.greeting import Identity
from zbk.transport.inbound import Inbound, Outbound
from zbk.transport.inflow import InflowLimits
from zbk.transport.key_guard import KeyGuard, OnRefused
from zbk.transport.peers import FrontCounts, PeerTable

if TYPE_CHECKING:
    from zbk.tracing.request_spans import RequestSpans

DRAIN_COUNT_MAX: Final = 256
BACKLOG_POLL_MS: Final = 5
LINGER_MS: Final = 500
HEARTBEAT_MS: Final = 2_000
HEARTBEAT_TIMEOUT_MS: Final = 8_000


EVENTS: Final = (
    zmq.EVENT_LISTENING | zmq.EVENT_ACCEPTED | zmq.EVENT_ACCEPT_FAILED | zmq.EVENT_DISCONNECTED
)
"""The events that the monitor reports. Not ``EVENT_HANDSHAKE_FAILED_PROTOCOL``: libzmq 4.3.5 also
reports it for a message that it cannot decrypt, and the report overwrites the error with
``EAGAIN``. The connection then stays, unread; when it breaks and a heartbeat is due, libzmq aborts
the process. A peer with a key could do that, and so could someone on the way who sends recorded
bytes again."""


class KeyCounts(msgspec.Struct, frozen=True):
    """Connections that an encrypting front did not admit."""

    refused_count: int  # their key belongs to no principal
    failed_count: int  # they ended before HELLO: they have no key, or expect another one


class FrontLimits(msgspec.Struct, frozen=True):
    """Limits of a front. Sizes in bytes."""

    message_size_max: int
    connections: ConnectionLimits
    backlog: int  # connections that the kernel may hold before they are accepted
    peer_idle_ms: int  # after which a silent peer is forgotten
    read_size_max: int  # of the answer to one read
    answer_wait_ms: int = ANSWER_WAIT_MS


class FrontSecurity(msgspec.Struct, frozen=True):
    """The encryption of a front."""

    pair: KeyPair
    keys: KeyTable  # of the principals that may connect, as they are at the start
    secure_endpoint: str = ""  # a second one, encrypted, beside a plain one; "": the only one is


class RouterFront:
    """The ROUTER socket and its thread."""

    def __init__(
        self,
        endpoint: str,
        identity: Identity,
        limits: FrontLimits,
        deliver: Callable[[list[Inbound]], None],
        on_failure: Callable[[BaseException], None],
        spans: "RequestSpans | None" = None,
        security: FrontSecurity | None = None,
    ) -> None:
        """Bind the socket; ``start`` begins to serve.

        Raises:
            BookieError: an endpoint cannot be bound.
        """
        self._deliver = deliver
        self._on_failure = on_failure
        self._answers: deque[Sequence[Outbound]] = deque()
        self._lock = threading.Lock()  # of the socket, and of all parts that are made below
        self._wakeup = Wakeup()
        self._is_stopping = False
        self.counts = FrontCounts()
        self._context = zmq.Context()
        self._guard: KeyGuard | None = None
        if security is not None:
            accepts_plain = bool(security.secure_endpoint)
            self._guard = KeyGuard(self._context, security.keys, accepts_plain=accepts_plain)
        self._socket, self._monitor = self._open(limits)
        self.endpoint, self.secure_endpoint = self._bind_all(endpoint, security)
        self._peers = PeerTable(self.counts, identity.credit_size)
        ends = self._ends = ConnectionEnds(self._peers, limits.connections, self._guard)
        self._sender = AnswerSender(self._socket, self._peers, ends, limits.answer_wait_ms)
        self._watch = ConnectionWatch(
            self._monitor,
            limits.connections,
            InflowLimits(identity.credit_size, limits.message_size_max),
            limits.peer_idle_ms,
            self._peers,
            ends,
            self._sender,
        )
        self.admission = Admission(
            identity,
            limits.read_size_max,
            limits.connections.greeted_max,
            self._peers,
            ends,
            self._watch,
            self._sender,
            spans,
        )
        self._thread = threading.Thread(target=self._run, name="zbk-router", daemon=True)

    def _open(self, limits: FrontLimits) -> "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]":
        """Return the socket and its monitor."""
        socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # a connection that ends leaves nothing to send; the end of the socket allows LINGER_MS
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, limits.message_size_max)
        socket.setsockopt(zmq.RCVHWM, 0)  # see ``zbk.transport.inflow``
        socket.setsockopt(zmq.SNDHWM, 1_000)
        socket.setsockopt(zmq.BACKLOG, limits.backlog)
        socket.setsockopt(zmq.HANDSHAKE_IVL, limits.connections.handshake_ms)
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
        monitor = socket.get_monitor_socket(EVENTS)
        assert monitor is not None, "a new socket has no monitor yet"
        return socket, monitor

    def _bind_all(self, endpoint: str, security: FrontSecurity | None) -> tuple[str, str]:
        """Bind the endpoints; return the first one, and the second one or ""."""
        if security is None:
            return self._bind(endpoint), ""
        if not security.secure_endpoint:
            serve_encrypted(self._socket, security.pair)
            return self._bind(endpoint), ""
        plain = self._bind(endpoint)
        serve_encrypted(self._socket, security.pair)  # the endpoints from here on
        return plain, self._bind(security.secure_endpoint)

    def _bind(self, endpoint: str) -> str:
        """Bind an endpoint; return it with the port that it has."""
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self._socket.disable_monitor()
            self._monitor.close(0)
            self._socket.close(0)
            self._end_context()
            self._wakeup.close()
            is_taken = error.errno == zmq.EADDRINUSE
            hint = (
                "is another bookie running there?"
                if is_taken
                else "give an address of this machine, such as tcp://127.0.0.1:3181"
            )
            reason = zmq.strerror(error.errno or 0)
            raise BookieError(f"cannot listen on {endpoint}: {reason}; {hint}") from error
        return str(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))

    def _end_context(self) -> None:
        if self._guard is not None:
            self._guard.close()
        self._context.term()

    # -------------------------------------------------------------- any thread

    def start(self) -> None:
        """Start to serve."""
        self._thread.start()

    def send(self, answers: Sequence[Outbound]) -> None:
        """Send answers. Any thread may call it; it never blocks."""
        self._answers.append(answers)
        if threading.get_ident() == self._thread.ident:
            return  # inside ``deliver``: they are sent as soon as it returns
        if self._lock.acquire(blocking=False):
            try:
                if self._send_here():
                    return
            finally:
                self._lock.release()
        self._wakeup.wake()

    def _send_here(self) -> bool:
        """Send what waits, with the lock held; return whether nothing is left for the thread."""
        if self._is_stopping:
            return False
        self._send_answers()
        return not (self._peers.backlogged or self._has_news())

    def stop(self) -> None:
        """Send the answers that were handed over before this call, then close the socket."""
        self._is_stopping = True
        self._wakeup.wake()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)
        else:
            self._close()
            self._end_context()

    def set_keys(self, keys: KeyTable) -> None:
        """Replace the keys that may connect; end the connections of those that are gone.

        Any thread may call it. A front without encryption ignores it.
        """
        if self._guard is None:
            return
        with self._lock:
            self._guard.keys = keys
            if not self._is_stopping:
                self._ends.end_refused()

    def when_refused(self, on_refused: OnRefused) -> None:
        """Call a function for each refused connection, in the front's thread; before ``start``."""
        if self._guard is not None:
            self._guard.on_refused = on_refused

    def principal_of(self, key: str) -> str:
        """Return the name of the principal that a key belongs to; "" if there is none."""
        found = None if self._guard is None else self._guard.keys.find(key)
        return "" if found is None else found.name

    @property
    def key_counts(self) -> KeyCounts:
        """The counts of refused connections."""
        refused_count = 0 if self._guard is None else self._guard.refused_count
        return KeyCounts(refused_count, self.counts.handshake_failed_count)

    @property
    def in_flight_size(self) -> int:
        """Bytes of requests that are not answered yet, of all peers."""
        return self._peers.in_flight_size

    # -------------------------------------------------------------- own thread

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:  # noqa: BLE001 - the top of a thread: the supervisor decides
            self._on_failure(error)
        finally:
            with self._lock:
                self._is_stopping = True
                self._close()
            self._end_context()
            self._wakeup.close()

    def _close(self) -> None:
        for name in [*self._peers.by_name]:
            self._peers.forget(name)
        self._socket.disable_monitor()
        self._watch.close()
        self._socket.close(LINGER_MS)

    def _loop(self) -> None:
        poller = select.poll()
        poller.register(self._socket.FD, select.POLLIN)
        monitor_fd = self._monitor.FD  # a call of libzmq each time
        poller.register(monitor_fd, select.POLLIN)
        poller.register(self._wakeup.fd, select.POLLIN)
        peers, watch, guard = self._peers, self._watch, self._guard
        if guard is not None:
            poller.register(guard.fd, select.POLLIN)
        is_drained = True
        while True:
            ready = poller.poll(self._pause_ms() if is_drained else 0)
            self._wakeup.clear()
            with self._lock:
                is_stopping = self._is_stopping
                self._send_answers()
                if is_stopping:
                    return
                if peers.backlogged or peers.holding:
                    self._sender.retry()
                if any(fd == monitor_fd for fd, _ in ready):
                    watch.take_events()
                # last: a send may have cleared the descriptor although requests wait
                is_drained = not self._has_news() or self._receive()
                if peers.holding and (ready_now := peers.take_held()):
                    self._deliver(ready_now)
                is_drained = self._send_made_here() and is_drained
                if guard is not None:
                    if guard.has_question():  # about a connection that was accepted before
                        watch.take_events()
                    is_drained = guard.answer(monotonic_ms()) and is_drained
                watch.check(monotonic_ms(), is_drained=is_drained)

    def _pause_ms(self) -> int:
        """Return how long to wait for messages."""
        if self._peers.backlogged or self._peers.holding:
            return BACKLOG_POLL_MS
        return self._watch.pause_ms

    def _send_answers(self) -> None:
        while self._answers:
            self._sender.send(self._answers.popleft())

    def _send_made_here(self) -> bool:
        """Send answers that ``deliver`` made itself; return whether no request came meanwhile."""
        if not self._answers:
            return True
        self._send_answers()
        return not self._has_news()

    def _has_news(self) -> bool:
        """Return whether a message can be received: the descriptor reports only what comes next."""
        return has_message(self._socket)

    def _receive(self) -> bool:
        """Deliver the requests that came, one at least; return whether those were all."""
        now_ms = monotonic_ms()
        check = self.admission.check
        batch: list[Inbound] = []
        is_drained = False
        for _ in range(DRAIN_COUNT_MAX):
            frames, last = receive_message(self._socket)
            batch += check(frames, last, now_ms)
            is_drained = not self._has_news()
            if is_drained:
                break
        if batch:
            self._deliver(batch)
        return is_drained
