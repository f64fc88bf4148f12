"""The bookie's front: one thread that owns the ROUTER socket.

It drains what came, checks it (size, frames, HELLO, incarnation, credit), and hands *lists* of
requests to ``deliver``; answers come back through ``send`` from any thread, also from inside of
``deliver``. It holds no rule of ledgers.

Whoever has answers while the thread waits sends them itself: a wake-up costs more than that. A
socket may go from thread to thread with a lock around it, and while the thread waits it looks at
the socket's descriptor, not at the socket. That descriptor tells only of news: after each use of
the socket by somebody else, what has come has to be looked for.

A *peer* is one connection that has said HELLO, named by its routing id. Who has not, in the present
life of the connection, gets ``HelloRequiredError`` for everything else. Nothing that a peer sends
can hurt another: malformed messages are answered where they name a request, and counted.

Limits: bytes and requests in flight a peer (``credit_size``: the peer is told, and going over it is
answered with ``BusyError``); bytes in flight in all; connections (``zbk.transport.connections``:
silent ones end, a HELLO too many is answered with ``BusyError``); bytes of answers, for each
connection and in all (``zbk.transport.answer_budget``: a read without room for its answer is held
back). What ZeroMQ holds of answers is limited in bytes, too: the kernel tells how much of it a peer
has taken. A connection ends that does not take its answers for ``ANSWER_WAIT_MS``, and one whose
unfinished message is longer than any that is allowed (``zbk.transport.unfinished``): libzmq keeps
the frames of a message until the last one has come, whatever their number.

Decisions: ROUTER_MANDATORY with NOBLOCK sends, so that nothing is dropped silently;
ROUTER_HANDOVER off, so that nobody takes over a routing id. TCP connections are counted by what the
socket's monitor tells, in order, of their descriptors; a message tells by which it came. libzmq can
end one connection of a socket only together with its listener, so that one that has to end is shut
down by its descriptor (``zbk.system.tcp``); libzmq gives it back then.
"""

import logging
import select
import struct
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import zmq

from zbk.errors import (
    BookieError,
    BusyError,
    HelloRequiredError,
    MalformedMessageError,
    UnsupportedVersionError,
    WrongBookieError,
    ZbkError,
)
from zbk.system.clock import monotonic_ms
from zbk.system.memory import peak_memory_size
from zbk.system.report_pace import ReportPace
from zbk.system.tcp import Listener, cookie_of, end_connection, tcp_counts
from zbk.system.wakeup import Wakeup
from zbk.transport.answer_budget import AnswerBudget, PeerAnswers
from zbk.transport.bundles import Part, answer_messages, groups, parts_of
from zbk.transport.connections import Connection, ConnectionLimits, ConnectionTable
from zbk.transport.frames import Frame, receive_message, send_frames, source_fd, wire_size
from zbk.transport.inflow import Inflow, InflowLimits, InflowTotal
from zbk.wire import codec
from zbk.wire.messages import (
    MAGIC,
    VERSION_MAX,
    VERSION_MIN,
    Bundle,
    GetLedgerInfo,
    Hello,
    HelloAnswer,
    Message,
    Ping,
    Pong,
    Read,
    Request,
)

logger = logging.getLogger(__name__)

DRAIN_COUNT_MAX: Final = 256
POLL_MS: Final = 500
SWEEP_MS_MIN: Final = 20
LINGER_MS: Final = 500
IN_FLIGHT_SIZE_MAX: Final = 192 * 1024 * 1024
IN_FLIGHT_COUNT_MAX: Final = 65_536
REQUEST_SIZE: Final = 1_024
"""What a request takes in memory beside its bytes, about; counted in all, not for a peer."""

UNTAKEN_SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes of answers that ZeroMQ and the kernel may hold for one peer; one answer more may come."""

LOOK_SIZE: Final = 256 * 1024
LOOK_MS: Final = 1_000
"""After so many bytes handed over, or such a time, the kernel is asked what was taken."""

ANSWER_SIZE_MIN: Final = 64 * 1024
"""What a read's answer counts for at least while it is read, and what is held of a ledger."""

HELD_COUNT_MAX: Final = 4_096
"""Reads of one peer that wait for room for their answers; one more is answered with Busy."""

OUTBOX_COUNT_MAX: Final = 65_536
REFUSED_COUNT_MAX: Final = 4_096
"""Answers that may wait for a peer, and for one whose requests are refused."""

ANSWER_WAIT_MS: Final = 10_000
PRESSED_WAIT_PART: Final = 2
"""So long a peer may not take an answer; half of it while there is little room for others. A client
waits for 5 s, by default, and asks another bookie then."""

BACKLOG_POLL_MS: Final = 5
LOBBY_COUNT_MAX: Final = 64
"""Messages that a connection may send ahead of its HELLO; each is refused."""

GONE_COUNT_MAX: Final = 1_024
"""Names of ended connections whose messages are dropped without a look."""

INFLOW_LOOK_MS: Final = 20
"""How often is looked what has been sent, while more comes than is received."""

ALERT_MS: Final = 10_000
"""How long all connections are looked at that often, after one was ended for what it sent."""

MEMORY_LOOK_MS: Final = 50
"""How often the size of the process is read while there are connections."""

COPY_SIZE_MAX: Final = 1024 * 1024
HEARTBEAT_MS: Final = 2_000
HEARTBEAT_TIMEOUT_MS: Final = 8_000
REPORT_MS: Final = 60_000
"""How often at most the end of connections is reported: of those that had to end for want of a
HELLO, and of those that were ended for what they did."""

EVENT_COUNT_MAX: Final = 4_096
"""Events of connections in one turn; what is left is taken at the next sweep at the latest."""

_HELLO_PART: Final = b"hello"  # its tag
_HELLO_SIZE_MAX: Final = 1_024
_EVENT: Final = struct.Struct("=HI")  # event, value: of a monitor
_EVENTS: Final = int(zmq.EVENTS)
_POLLIN: Final = int(zmq.POLLIN)


class Inbound(msgspec.Struct, frozen=True):
    """One checked request, with the frames behind its header. Answer it exactly once."""

    peer: bytes
    request: Request
    frames: tuple[bytes, ...]
    size: int  # bytes, given back to the peer's credit when it is answered
    expected_size: int = 0  # bytes for which there is room in the answer
    life: object = None  # the front's own: of the connection, whose name may be used again


class Outbound(msgspec.Struct, frozen=True):
    """The answer to one ``Inbound``."""

    inbound: Inbound
    answer: Message
    frames: tuple[Frame, ...] = ()


class Identity(msgspec.Struct, frozen=True):
    """What the front says and checks in a HELLO."""

    instance_id: str
    bookie_id: str
    incarnation: int
    credit_size: int
    entry_size_max: int


class RouterCounts(msgspec.Struct):
    """What the front counts; read by anybody, written by its thread."""

    message_count: int = 0
    refused_count: int = 0
    dropped_answer_count: int = 0
    peer_count: int = 0
    connection_count: int = 0  # TCP connections, greeted or not
    ended_count: int = 0  # of these, those that had to end without a HELLO


class _Peer:
    __slots__ = (
        "answers",
        "fd",
        "held",
        "in_flight_count",
        "in_flight_size",
        "inflow",
        "looked_size",
        "moved_ms",
        "outbox",
        "overhead_size",
        "seen_ms",
        "version",
    )

    def __init__(self, fd: int, now_ms: int) -> None:
        self.fd = fd  # of its connection; another one's, or nobody's, once that has ended
        self.in_flight_size = 0
        self.in_flight_count = 0
        self.answers = PeerAnswers()
        self.inflow = Inflow()
        self.held: deque[Inbound] = deque()  # without room for their answers
        self.outbox: deque[tuple[int, list[Frame]]] = deque()  # from when on, and what
        self.looked_size = 0  # handed over when the kernel was asked last
        self.overhead_size = 0  # taken, and not handed over by us: greetings, signs of life
        self.moved_ms = now_ms  # when it took something last, or nothing was there to be taken
        self.seen_ms = now_ms
        self.version = VERSION_MIN  # of the protocol, as its HELLO has settled


class RouterFront:
    """The ROUTER socket and its thread."""

    def __init__(
        self,
        endpoint: str,
        identity: Identity,
        deliver: Callable[[list[Inbound]], None],
        *,
        message_size_max: int,
        limits: ConnectionLimits,
        backlog: int,
        peer_idle_ms: int,
        read_size_max: int,
        answer_wait_ms: int = ANSWER_WAIT_MS,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """``backlog``: connections that the kernel may hold, and that are accepted in any case."""
        self._identity = identity
        self._deliver = deliver
        self._limits = limits
        self._connections = ConnectionTable(limits)
        self._names_by_fd: dict[int, bytes] = {}
        self._ending: dict[int, PeerAnswers] = {}  # by descriptor: what they have not taken
        self._listener: Listener | None = None
        self._reported_ms = -REPORT_MS
        self._reported_count = 0
        self._peer_idle_ms = peer_idle_ms
        self._inflow_ms = 0
        self._swept_ms = self._memory_ms = monotonic_ms()
        self._alert_until_ms = 0
        self._inflow_total = InflowTotal()
        self._gone_names: OrderedDict[bytes, None] = OrderedDict()  # whose messages may still come
        self._message_size_max = message_size_max
        self._ends = ReportPace[tuple[bytes, str]](REPORT_MS)
        self._on_failure = on_failure
        self._peers: OrderedDict[bytes, _Peer] = OrderedDict()
        self._in_flight_size = 0
        self._read_size_max = read_size_max
        self._answer_wait_ms = answer_wait_ms
        self._budget = AnswerBudget()
        self._holding: dict[bytes, None] = {}  # those with requests that are held, in turn
        self._backlogged: set[bytes] = set()
        self._answers: deque[Sequence[Outbound]] = deque()
        self._lock = threading.Lock()  # of the socket, the peers, and what is in flight
        self._wakeup = Wakeup()
        self._is_stopping = False
        self.is_readonly = False
        self.counts = RouterCounts()
        self._context = zmq.Context()
        self._socket = self._bind(endpoint, message_size_max, backlog)
        self.endpoint = str(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self._thread = threading.Thread(target=self._run, name="zbk-router", daemon=True)

    def _bind(self, endpoint: str, message_size_max: int, backlog: int) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # of a connection that ends nothing is kept; when all of the socket ends, some time is given
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, message_size_max)
        socket.setsockopt(zmq.RCVHWM, 0)  # see ``zbk.transport.inflow``
        socket.setsockopt(zmq.SNDHWM, 1_000)
        socket.setsockopt(zmq.BACKLOG, backlog)
        socket.setsockopt(zmq.HANDSHAKE_IVL, self._limits.handshake_ms)
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
        self._monitor = socket.get_monitor_socket(
            zmq.EVENT_LISTENING
            | zmq.EVENT_ACCEPTED
            | zmq.EVENT_ACCEPT_FAILED
            | zmq.EVENT_DISCONNECTED
        )
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            self._close_monitor(socket)
            socket.close(0)
            self._context.term()
            self._wakeup.close()
            is_taken = error.errno == zmq.EADDRINUSE
            hint = (
                "is another bookie running there?"
                if is_taken
                else "give an address of this machine, such as tcp://127.0.0.1:3181"
            )
            told = zmq.strerror(error.errno or 0)
            raise BookieError(f"cannot listen on {endpoint}: {told}; {hint}") from error
        return socket

    # -------------------------------------------------------------- any thread

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def send(self, answers: Sequence[Outbound]) -> None:
        """Send answers. Any thread; never blocks."""
        self._answers.append(answers)
        if threading.get_ident() == self._thread.ident:
            return  # inside of ``deliver``: they are sent as soon as it returns
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
        return not (self._backlogged or self._has_news())

    def stop(self) -> None:
        """Send what was handed over before this call, then close the socket."""
        self._is_stopping = True
        self._wakeup.wake()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)
        else:
            self._close()
            self._context.term()

    # -------------------------------------------------------------- own thread

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:  # noqa: BLE001 - the top of a thread: tell the supervisor
            self._on_failure(error)
        finally:
            with self._lock:
                self._is_stopping = True
                self._close()
            self._context.term()
            self._wakeup.close()

    def _close(self) -> None:
        self._close_monitor(self._socket)
        if self._listener is not None:
            self._listener.close()
        self._socket.close(LINGER_MS)

    def _close_monitor(self, socket: "zmq.Socket[bytes]") -> None:
        socket.disable_monitor()
        self._monitor.close(0)

    def _loop(self) -> None:
        poller = select.poll()
        poller.register(self._socket.FD, select.POLLIN)
        monitor_fd = self._monitor.FD  # a call of libzmq each time
        poller.register(monitor_fd, select.POLLIN)
        poller.register(self._wakeup.fd, select.POLLIN)
        is_drained = True
        while True:
            ready = poller.poll(self._pause_ms() if is_drained else 0)
            self._wakeup.clear()
            with self._lock:
                is_stopping = self._is_stopping
                self._send_answers()
                if is_stopping:
                    return
                if self._backlogged or self._holding:
                    self._retry_backlog()
                if any(fd == monitor_fd for fd, _ in ready):
                    self._take_events()
                # last: to send may take from the descriptor what it had to tell of requests
                is_drained = not self._has_news() or self._receive()
                if self._holding and (ready_now := self._take_held()):
                    self._deliver(ready_now)
                is_drained = self._send_made_here() and is_drained
                self._keep_watch(monotonic_ms(), is_drained=is_drained)

    @property
    def _sweep_ms(self) -> int:
        """Milliseconds between two checks of everything."""
        if self._inflow_total.is_watched or self._swept_ms < self._alert_until_ms:
            return INFLOW_LOOK_MS
        return min(POLL_MS, max(SWEEP_MS_MIN, self._peer_idle_ms))

    def _pause_ms(self) -> int:
        """Return how long to wait for news."""
        if self._backlogged or self._holding:
            return BACKLOG_POLL_MS
        return min(self._sweep_ms, MEMORY_LOOK_MS if self._connections.open_count else POLL_MS)

    def _keep_watch(self, now_ms: int, *, is_drained: bool) -> None:
        """Check what peers make the bookie hold, as often as each check is due."""
        if is_drained:
            self._inflow_total.drained()
            self._gone_names.clear()
        elif now_ms >= self._inflow_ms + INFLOW_LOOK_MS:
            self._look_at_inflow(now_ms, is_drained=False)
            self._turn_gate(now_ms)
        if now_ms >= self._swept_ms + self._sweep_ms:
            self._swept_ms = self._memory_ms = now_ms
            self._take_events()
            self._look_around(now_ms)
            self._look_at_inflow(now_ms, is_drained=is_drained)
            self._sweep(now_ms)
        elif now_ms >= self._memory_ms + MEMORY_LOOK_MS:
            self._memory_ms = now_ms
            if self._inflow_total.has_grown(peak_memory_size()):
                self._look_at_inflow(now_ms, is_drained=is_drained)

    def _send_made_here(self) -> bool:
        """Send answers that ``deliver`` made itself; return whether no request came meanwhile."""
        if not self._answers:
            return True
        self._send_answers()
        return not self._has_news()

    # -------------------------------------------------------------- connections

    def _take_events(self) -> None:
        """Record which connections have come and gone; end those that have to."""
        now_ms = monotonic_ms()
        connections = self._connections
        is_short = False
        for _ in range(EVENT_COUNT_MAX):
            try:
                event, fd = _EVENT.unpack(self._monitor.recv_multipart(zmq.NOBLOCK)[0])
            except zmq.Again:
                break
            match event:
                case zmq.EVENT_ACCEPTED:
                    self._peer_ended(fd)
                    connections.accepted(fd, cookie_of(fd), now_ms)
                case zmq.EVENT_DISCONNECTED:
                    self._peer_ended(fd)
                    connections.ended(fd)
                case zmq.EVENT_LISTENING:
                    self._listener = Listener(fd)
                case zmq.EVENT_ACCEPT_FAILED:
                    is_short = True
        if is_short:  # others in this process, or at this machine, have too many files open
            connections.no_descriptor(now_ms)
        for late in connections.take_late(now_ms):
            end_connection(late.fd, late.cookie)
        self._turn_gate(now_ms)
        self.counts.connection_count = connections.open_count
        self.counts.ended_count = connections.ended_count
        self._report(now_ms)

    def _turn_gate(self, now_ms: int) -> None:
        if self._listener is None:
            return
        if self._connections.turn_gate(now_ms) or self._inflow_total.is_gate_shut:
            self._listener.shut()
        else:
            self._listener.open()

    def _peer_ended(self, fd: int) -> None:
        name = self._names_by_fd.get(fd)
        if name is not None:
            self._forget(name)
        ending = self._ending.pop(fd, None)
        if ending is not None:
            self._budget.forget(ending)

    def _report_end(self, name: bytes, reason: str) -> None:
        """Report why a peer's connection ends, soon, and not too often."""
        self._ends.note((name, reason))
        self._report_ends(monotonic_ms())

    def _report_ends(self, now_ms: int) -> None:
        due = self._ends.take_due(now_ms)
        if due is not None:
            count, (name, reason) = due
            logger.info(
                "connection %s ends: it %s (%d connections since the last report)",
                name.hex(),
                reason,
                count,
            )

    def _report(self, now_ms: int) -> None:
        """Report, not too often, which connections had to end."""
        self._report_ends(now_ms)
        count = self._connections.ended_count
        if count > self._reported_count and now_ms >= self._reported_ms + REPORT_MS:
            logger.info(
                "%d connections ended that had said no HELLO within %d ms, or were too many; "
                "%d are open, %d of them with a HELLO (limit %d)",
                count - self._reported_count,
                self._limits.handshake_ms,
                self._connections.open_count,
                self._connections.greeted_count,
                self._limits.greeted_max,
            )
            self._reported_ms, self._reported_count = now_ms, count

    # -------------------------------------------------------------- messages

    def _has_news(self) -> bool:
        """Return whether something can be received: the descriptor tells of what comes next."""
        return bool(int(self._socket.get(_EVENTS)) & _POLLIN)

    def _receive(self) -> bool:
        """Record what came; return whether that was all."""
        now_ms = monotonic_ms()
        batch: list[Inbound] = []
        is_drained = False
        for _ in range(DRAIN_COUNT_MAX):
            try:
                frames, last = receive_message(self._socket)
            except zmq.Again:
                is_drained = True
                break
            batch += self._check(frames, last, now_ms)
        if batch:
            self._deliver(batch)
        return is_drained

    def _check(self, frames: list[bytes], last: zmq.Frame, now_ms: int) -> list[Inbound]:
        """Return the requests of a message that may go on; answer or count others."""
        self.counts.message_count += 1
        name = frames[0]
        known = self._peers.get(name)
        if known is not None:
            known.inflow.deliver(wire_size(frames[1:]))
        elif name in self._gone_names and _HELLO_PART not in frames[-1][:_HELLO_SIZE_MAX]:
            return []  # no peer is left to be answered
        if len(frames) < 2 or len(frames) > codec.FRAME_COUNT_MAX + 1:
            self.counts.refused_count += 1
            return []
        refused_count = self.counts.refused_count
        found: list[Inbound | None] = []
        try:
            request = codec.decode_request(frames[1])
            if isinstance(request, Hello):
                self._answer_hello(name, request, source_fd(last), now_ms)
            elif isinstance(request, Bundle):
                header_size = len(frames[1]) // len(request.parts)
                for part, own in parts_of(request.parts, request.sizes, frames[2:]):
                    found.append(
                        self._admit(name, part, request.incarnation, own, header_size, now_ms)
                    )
            else:
                header_size = len(name) + len(frames[1])
                found.append(
                    self._admit(name, request, request.incarnation, frames[2:], header_size, now_ms)
                )
        except ZbkError as error:
            self._refuse(name, codec.peek_request_id(frames[1]), error)
        if self.counts.refused_count != refused_count:
            self._check_refused(name, last)
        return [inbound for inbound in found if inbound is not None]

    def _admit(
        self,
        name: bytes,
        request: Request,
        incarnation: int,
        frames: Sequence[bytes],
        header_size: int,
        now_ms: int,
    ) -> Inbound | None:
        """Return a request that may go on now; hold it, or answer it here."""
        try:
            peer = self._session(name, incarnation, now_ms)
            size = header_size + sum(map(len, frames))
            expected_size = self._expected_size(request)
            self._take_credit(peer, size, is_held=bool(expected_size))
        except ZbkError as error:
            self._refuse(name, request.request_id, error)
            return None
        return self._let_in(Inbound(name, request, tuple(frames), size, expected_size, peer), peer)

    def _refuse(self, name: bytes, request_id: int, error: ZbkError) -> None:
        self.counts.refused_count += 1
        if request_id:
            refusal = codec.refusal(request_id, self._identity.incarnation, error)
            self._push(name, [codec.encode(refusal)])

    def _let_in(self, inbound: Inbound, peer: _Peer) -> Inbound | None:
        """Return a request if it goes on now; hold it, or answer it here."""
        request = inbound.request
        if isinstance(request, Ping):
            pong = Pong(request_id=request.request_id, incarnation=self._identity.incarnation)
            self._send_one(Outbound(inbound, pong))
            return None
        if inbound.expected_size:
            if peer.held or not self._budget.has_room(peer.answers, inbound.expected_size):
                peer.held.append(inbound)
                self._holding[inbound.peer] = None
                return None
            self._budget.expect(peer.answers, inbound.expected_size)
        return inbound

    def _check_refused(self, name: bytes, last: zmq.Frame) -> None:
        """End a connection that goes on asking, without a HELLO, or for more than it takes."""
        peer = self._peers.get(name)
        if peer is None:
            connection = self._connections.find(source_fd(last))
            if connection is None or connection.is_greeted:
                return
            connection.inflow.deliver(0)
            if connection.inflow.delivered_count > LOBBY_COUNT_MAX:
                self._note_gone(name)
                self._end_connection(connection, f"sent {LOBBY_COUNT_MAX} messages and no HELLO")
        elif len(peer.outbox) > REFUSED_COUNT_MAX:
            waiting = f"{len(peer.outbox)} answers wait"
            self._end_peer(name, f"asks for more than it may and takes no answers: {waiting}")

    def _note_gone(self, name: bytes) -> None:
        self._gone_names[name] = None
        if len(self._gone_names) > GONE_COUNT_MAX:
            self._gone_names.popitem(last=False)

    def _session(self, name: bytes, incarnation: int, now_ms: int) -> _Peer:
        """Return the peer of requests for this incarnation that may go on."""
        peer = self._peers.get(name)
        if peer is None:
            raise HelloRequiredError("say HELLO first")
        self._peers.move_to_end(name)
        peer.seen_ms = now_ms
        if incarnation != self._identity.incarnation:
            raise WrongBookieError(
                f"meant for incarnation {incarnation}, "
                f"this is incarnation {self._identity.incarnation}"
            )
        return peer

    def _expected_size(self, request: Request) -> int:
        """Return the bytes that an answer may have; 0 for those that are always small."""
        match request:
            case Read():
                return max(ANSWER_SIZE_MIN, min(request.size_max, self._read_size_max))
            case GetLedgerInfo():
                return ANSWER_SIZE_MIN
            case _:
                return 0

    def _take_held(self) -> list[Inbound]:
        """Return held requests whose answers have room now, of each peer in turn."""
        ready: list[Inbound] = []
        names = deque(self._holding)
        while names:
            name = names.popleft()
            peer = self._peers[name]
            if not self._budget.has_room(peer.answers, peer.held[0].expected_size):
                continue
            inbound = peer.held.popleft()
            self._budget.expect(peer.answers, inbound.expected_size)
            ready.append(inbound)
            del self._holding[name]
            if peer.held:
                self._holding[name] = None  # it was served: others first
                names.append(name)
        return ready

    def _take_credit(self, peer: _Peer, size: int, *, is_held: bool) -> None:
        if is_held and len(peer.held) >= HELD_COUNT_MAX:
            raise BusyError(f"{HELD_COUNT_MAX} reads of this connection wait already")
        if peer.in_flight_count >= IN_FLIGHT_COUNT_MAX:
            raise BusyError(f"over {IN_FLIGHT_COUNT_MAX} requests in flight a connection")
        if peer.in_flight_size + size > self._identity.credit_size:
            raise BusyError(
                f"over the credit of {self._identity.credit_size} bytes in flight a connection"
            )
        if self._in_flight_size + size + REQUEST_SIZE > IN_FLIGHT_SIZE_MAX:
            raise BusyError(f"over {IN_FLIGHT_SIZE_MAX} bytes in flight at this bookie")
        peer.in_flight_size += size
        peer.in_flight_count += 1
        self._in_flight_size += size + REQUEST_SIZE

    def _answer_hello(self, name: bytes, hello: Hello, fd: int, now_ms: int) -> None:
        mine = self._identity
        if hello.magic != MAGIC:
            raise MalformedMessageError(f"magic {hello.magic!r} is not {MAGIC!r}")
        if hello.version_min > VERSION_MAX or hello.version_max < VERSION_MIN:
            raise UnsupportedVersionError(
                f"bookie {mine.bookie_id} speaks versions {VERSION_MIN} to {VERSION_MAX}, "
                f"the client {hello.version_min} to {hello.version_max}"
            )
        for ours, theirs, what in (
            (mine.instance_id, hello.instance_id, "cluster instance"),
            (mine.bookie_id, hello.bookie_id, "bookie"),
        ):
            if theirs and ours != theirs:
                raise WrongBookieError(f"this is {what} {ours}, not {theirs}")
        self._take_events()  # first: its connection may have come just now
        if not self._connections.greet(fd):
            raise BusyError(
                f"bookie {mine.bookie_id} has {self._limits.greeted_max} connections, "
                "as many as it may have: see connection_count_max and `ulimit -n`"
            )
        version = min(VERSION_MAX, hello.version_max)
        self._take_in(name, fd, version, now_ms)
        answer = HelloAnswer(
            request_id=hello.request_id,
            incarnation=mine.incarnation,
            version=version,
            instance_id=mine.instance_id,
            bookie_id=mine.bookie_id,
            credit_size=mine.credit_size,
            entry_size_max=mine.entry_size_max,
            is_readonly=self.is_readonly,
        )
        self._push(name, [codec.encode(answer)])

    def _send_answers(self) -> None:
        while self._answers:
            outbounds = self._answers.popleft()
            if len(outbounds) == 1:
                self._send_one(outbounds[0])
            else:
                self._send_many(outbounds)

    def _send_one(self, outbound: Outbound) -> None:
        if self._settle(outbound.inbound) is not None:
            frames = [codec.encode(outbound.answer), *outbound.frames]
            self._push(outbound.inbound.peer, frames)

    def _send_many(self, outbounds: Sequence[Outbound]) -> None:
        """Send answers, those to one peer in order and in as few messages as possible."""
        parts: dict[bytes, list[Part]] = {}
        for outbound in outbounds:
            if self._settle(outbound.inbound) is not None:
                part = (outbound.answer, outbound.frames)
                parts.setdefault(outbound.inbound.peer, []).append(part)
        for name, own in parts.items():
            peer = self._peers.get(name)  # it may have ended meanwhile
            for group in groups(own, VERSION_MIN if peer is None else peer.version):
                for frames in answer_messages(group):
                    self._push(name, frames)

    def _settle(self, inbound: Inbound) -> _Peer | None:
        """Give back what a request has taken; return the peer that is to be answered."""
        self._in_flight_size -= inbound.size + REQUEST_SIZE
        peer = self._peers.get(inbound.peer)
        if peer is not None and inbound.life is not peer:
            peer = None  # that was another life of the connection
        self._budget.arrived(None if peer is None else peer.answers, inbound.expected_size)
        if peer is None:
            self.counts.dropped_answer_count += 1
            return None
        peer.in_flight_size -= inbound.size
        peer.in_flight_count -= 1
        return peer

    def _push(self, name: bytes, frames: list[Frame]) -> None:
        """Send to a peer, or keep it for later, in order."""
        peer = self._peers.get(name)
        if peer is None:
            self._try_send(name, frames)  # for whoever has not said HELLO nothing is kept
            return
        size = wire_size(frames)
        if peer.outbox or not self._may_hand_over(peer) or not self._try_send(name, frames):
            if name not in self._peers:
                return
            peer.outbox.append((monotonic_ms(), frames))
            self._budget.queue(peer.answers, size)
            self._backlogged.add(name)
            if len(peer.outbox) > OUTBOX_COUNT_MAX:
                self._end_peer(name, f"does not take its answers: {OUTBOX_COUNT_MAX} wait")
            return
        self._budget.hand_over(peer.answers, size)

    def _try_send(self, name: bytes, frames: list[Frame]) -> bool:
        """Send or forget the peer; False if it must be tried again."""
        try:
            send_frames(self._socket, [name, *frames], COPY_SIZE_MAX)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._forget(name)
        return True

    def _may_hand_over(self, peer: _Peer) -> bool:
        """Return whether ZeroMQ and the kernel hold few enough bytes for a peer."""
        answers, now_ms = peer.answers, monotonic_ms()
        is_much = answers.handed_size - peer.looked_size >= LOOK_SIZE
        if is_much or now_ms - peer.moved_ms >= LOOK_MS:
            self._look(peer, now_ms)
        return answers.untaken_size < UNTAKEN_SIZE_MAX

    def _look(self, peer: _Peer, now_ms: int) -> None:
        """Ask the kernel what a peer has taken."""
        answers = peer.answers
        peer.looked_size = answers.handed_size
        counts = tcp_counts(peer.fd)
        acked_size = answers.handed_size if counts is None else counts.acked_size
        taken_size = acked_size - peer.overhead_size
        if taken_size > answers.handed_size:
            peer.overhead_size += taken_size - answers.handed_size
        if self._budget.take(answers, taken_size) or not answers.untaken_size:
            peer.moved_ms = now_ms

    def _retry_backlog(self) -> None:
        """Send what waits, as far as it is taken; end those who take nothing."""
        now_ms = monotonic_ms()
        for name in [*self._backlogged, *self._holding]:
            peer = self._peers.get(name)
            if peer is not None:
                self._look(peer, now_ms)
                self._send_outbox(name, peer, now_ms)

    def _send_outbox(self, name: bytes, peer: _Peer, now_ms: int) -> None:
        while peer.outbox and self._may_hand_over(peer):
            _, frames = peer.outbox[0]
            if not self._try_send(name, frames):
                break
            if name not in self._peers:
                return
            peer.outbox.popleft()
            self._budget.unqueue(peer.answers, wire_size(frames))
            self._budget.hand_over(peer.answers, wire_size(frames))
        if not peer.outbox:
            self._backlogged.discard(name)
        self._check_patience(name, peer, now_ms)

    def _check_patience(self, name: bytes, peer: _Peer, now_ms: int) -> None:
        """End a connection whose peer has not taken its answers for too long."""
        wait_ms = self._answer_wait_ms
        if self._budget.is_pressed:
            wait_ms //= PRESSED_WAIT_PART
        since_ms = peer.outbox[0][0] if peer.outbox else peer.moved_ms
        if peer.answers.untaken_size >= LOOK_SIZE or peer.outbox:
            waited_ms = now_ms - min(since_ms, peer.moved_ms)
            if waited_ms >= wait_ms:
                size = peer.answers.size
                self._end_peer(
                    name, f"has not taken its answers for {waited_ms} ms: {size} bytes wait"
                )

    def _take_in(self, name: bytes, fd: int, version: int, now_ms: int) -> None:
        """Begin the life of a peer that has said HELLO, perhaps not for the first time."""
        before = self._names_by_fd.get(fd)
        if before is not None and before != name:
            self._forget(before)  # of a connection that has ended: each has one name
        peer = self._peers.get(name)
        if peer is None:
            peer = self._peers[name] = _Peer(fd, now_ms)
            self.counts.peer_count = len(self._peers)
        elif peer.fd != fd and self._names_by_fd.get(peer.fd) == name:
            del self._names_by_fd[peer.fd]
        peer.fd, peer.seen_ms, peer.version = fd, now_ms, version
        connection, counts = self._connections.find(fd), tcp_counts(fd)
        if connection is not None and counts is not None:
            if not connection.inflow.began_ms:
                connection.inflow.begin(counts.received_size - counts.unread_size, now_ms)
            peer.inflow = connection.inflow
        self._peers.move_to_end(name)
        self._names_by_fd[fd] = name

    def _end_peer(self, name: bytes, reason: str) -> None:
        """Close a peer's connection, and forget what was to be sent."""
        peer = self._peers[name]
        untaken_size = peer.answers.untaken_size
        self._inflow_total.ended(peer.inflow)
        self._note_gone(name)
        self._report_end(name, reason)
        self._forget(name)
        connection = self._connections.end(peer.fd)
        if connection is not None:
            # what ZeroMQ holds for it is given back a moment later
            self._ending[peer.fd] = ending = PeerAnswers()
            self._budget.hand_over(ending, untaken_size)
            end_connection(connection.fd, connection.cookie)

    def _forget(self, name: bytes) -> None:
        peer = self._peers.pop(name, None)
        if peer is not None:
            if self._names_by_fd.get(peer.fd) == name:
                del self._names_by_fd[peer.fd]
            self._backlogged.discard(name)
            self._holding.pop(name, None)
            self._budget.forget(peer.answers)
            for inbound in peer.held:
                self._in_flight_size -= inbound.size + REQUEST_SIZE
            # requests know their peer, and a circle of megabytes is looked for seldom
            peer.held.clear()
            peer.outbox.clear()
            self.counts.peer_count = len(self._peers)

    def _look_around(self, now_ms: int) -> None:
        """Look at those whom ZeroMQ has something for: they may be silent."""
        for name, peer in [*self._peers.items()]:
            if peer.answers.untaken_size and name not in self._backlogged:
                self._look(peer, now_ms)
                self._check_patience(name, peer, now_ms)

    def _look_at_inflow(self, now_ms: int, *, is_drained: bool) -> None:
        """End connections that have sent more than they may, or do not finish what they send."""
        self._inflow_ms = now_ms
        limits = InflowLimits(self._identity.credit_size, self._message_size_max)
        inflows: dict[Inflow, Connection] = {}
        for connection in self._connections.all():
            counts = tcp_counts(connection.fd)
            if counts is None:
                continue
            read_size = counts.received_size - counts.unread_size
            why = connection.inflow.look(read_size, now_ms, limits, is_drained=is_drained)
            if why is not None:
                self._alert_until_ms = now_ms + ALERT_MS
                self._end_connection(connection, why)
            else:
                inflows[connection.inflow] = connection
        largest = self._inflow_total.too_large(inflows)
        if largest is not None:
            why = f"sent {largest.backlog_size} bytes more than was received, and there is no room"
            self._end_connection(inflows[largest], why)

    def _end_connection(self, connection: Connection, reason: str) -> None:
        name = self._names_by_fd.get(connection.fd)
        if name is not None:
            self._end_peer(name, reason)
            return
        self._report_end(b"", reason)
        if self._connections.end(connection.fd) is not None:
            end_connection(connection.fd, connection.cookie)

    def _sweep(self, now_ms: int) -> None:
        """Forget peers that have been silent for very long; the oldest are in front.

        One that waits for an answer is not silent: forgotten, it would never get it.
        """
        while self._peers:
            name, peer = next(iter(self._peers.items()))
            if now_ms - peer.seen_ms < self._peer_idle_ms:
                return
            if peer.in_flight_size or peer.outbox:
                peer.seen_ms = now_ms
                self._peers.move_to_end(name)
                continue
            self._forget(name)
