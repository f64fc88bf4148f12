"""The bookie's front: one thread that owns the ROUTER socket.

It drains what came, checks it (size, frames, HELLO, incarnation, credit), and hands *lists* of
requests to ``deliver``; answers come back through ``send`` from any thread. It holds no rule of
ledgers.

Whoever has answers while the thread waits sends them itself: a wake-up costs more than that. A
socket may go from thread to thread with a lock around it, and while the thread waits it looks at
the socket's descriptor, not at the socket. That descriptor tells only of news: after each use of
the socket by somebody else, what has come has to be looked for.

A *peer* is one connection, named by its routing id. A peer that has not said HELLO in its present
life gets ``HelloRequiredError`` for everything else. Nothing that a peer sends can hurt another:
malformed messages are answered where they name a request, and counted.

Limits: bytes in flight a peer (``credit_size``: the peer is told, and going over it is answered
with ``BusyError``); bytes in flight in all; peers (the longest silent one without work is
forgotten); bytes of answers that wait for a slow peer (over it the peer is forgotten: its requests
time out and it says HELLO again).

Decisions: ROUTER_MANDATORY with NOBLOCK sends, so that nothing is dropped silently;
ROUTER_HANDOVER off, so that nobody takes over a routing id. libzmq can not bound an unfinished
multipart message: run untrusted networks behind an address-space limit.
"""

import logging
import select
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
from zbk.system.wakeup import Wakeup
from zbk.transport.frames import Frame, receive_frames, send_frames
from zbk.wire import codec
from zbk.wire.messages import (
    MAGIC,
    VERSION_MAX,
    VERSION_MIN,
    Hello,
    HelloAnswer,
    Message,
    Ping,
    Pong,
    Request,
)

logger = logging.getLogger(__name__)

DRAIN_COUNT_MAX: Final = 256
POLL_MS: Final = 500
SWEEP_MS_MIN: Final = 20
LINGER_MS: Final = 500
PEER_OUTBOX_SIZE_MAX: Final = 64 * 1024 * 1024
IN_FLIGHT_SIZE_MAX: Final = 192 * 1024 * 1024
COPY_SIZE_MAX: Final = 1024 * 1024
HEARTBEAT_MS: Final = 2_000
HEARTBEAT_TIMEOUT_MS: Final = 8_000
HANDSHAKE_MS: Final = 5_000
BACKLOG: Final = 1_024

_EVENTS: Final = int(zmq.EVENTS)
_POLLIN: Final = int(zmq.POLLIN)


class Inbound(msgspec.Struct, frozen=True):
    """One checked request, with the frames behind its header. Answer it exactly once."""

    peer: bytes
    request: Request
    frames: tuple[bytes, ...]
    size: int  # bytes, given back to the peer's credit when it is answered


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


class _Peer:
    __slots__ = ("has_hello", "in_flight_size", "outbox", "outbox_size", "seen_ms")

    def __init__(self, now_ms: int) -> None:
        self.has_hello = False
        self.in_flight_size = 0
        self.outbox: deque[list[Frame]] = deque()
        self.outbox_size = 0
        self.seen_ms = now_ms


class RouterFront:
    """The ROUTER socket and its thread."""

    def __init__(
        self,
        endpoint: str,
        identity: Identity,
        deliver: Callable[[list[Inbound]], None],
        *,
        message_size_max: int,
        peer_count_max: int,
        peer_idle_ms: int,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._identity = identity
        self._deliver = deliver
        self._peer_count_max = peer_count_max
        self._peer_idle_ms = peer_idle_ms
        self._on_failure = on_failure
        self._peers: OrderedDict[bytes, _Peer] = OrderedDict()
        self._in_flight_size = 0
        self._backlogged: set[bytes] = set()
        self._answers: deque[Sequence[Outbound]] = deque()
        self._lock = threading.Lock()  # of the socket, the peers, and what is in flight
        self._wakeup = Wakeup()
        self._is_stopping = False
        self.is_readonly = False
        self.counts = RouterCounts()
        self._context = zmq.Context()
        self._socket = self._bind(endpoint, message_size_max)
        self.endpoint = str(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self._thread = threading.Thread(target=self._run, name="zbk-router", daemon=True)

    def _bind(self, endpoint: str, message_size_max: int) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.MAXMSGSIZE, message_size_max)
        socket.setsockopt(zmq.RCVHWM, 1_000)
        socket.setsockopt(zmq.SNDHWM, 1_000)
        socket.setsockopt(zmq.BACKLOG, BACKLOG)
        socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
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
            raise BookieError(f"can not listen on {endpoint}: {told}; {hint}") from error
        return socket

    # -------------------------------------------------------------- any thread

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def send(self, answers: Sequence[Outbound]) -> None:
        """Send answers. Any thread; never blocks."""
        self._answers.append(answers)
        if self._lock.acquire(blocking=False):
            try:
                if self._send_here():
                    return
            finally:
                self._lock.release()
        self._wakeup.wake()

    def _send_here(self) -> bool:
        """Send what waits, with the lock held; tell whether nothing is left for the thread."""
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
            self._socket.close(0)
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
                self._socket.close(LINGER_MS)
            self._context.term()
            self._wakeup.close()

    def _loop(self) -> None:
        poller = select.poll()
        poller.register(self._socket.FD, select.POLLIN)
        poller.register(self._wakeup.fd, select.POLLIN)
        next_sweep_ms = monotonic_ms() + POLL_MS
        is_drained = True
        while True:
            sweep_ms = min(POLL_MS, max(SWEEP_MS_MIN, self._peer_idle_ms))
            pause_ms = 20 if self._backlogged else sweep_ms
            poller.poll(pause_ms if is_drained else 0)
            self._wakeup.clear()
            with self._lock:
                is_stopping = self._is_stopping
                self._send_answers()
                if is_stopping:
                    return
                if self._backlogged:
                    self._retry_backlog()
                # last: to send may take from the descriptor what it had to tell of requests
                is_drained = not self._has_news() or self._receive()
                now_ms = monotonic_ms()
                if now_ms >= next_sweep_ms:
                    next_sweep_ms = now_ms + sweep_ms
                    self._sweep(now_ms)

    def _has_news(self) -> bool:
        """Tell whether something can be received: the descriptor tells of what comes next."""
        return bool(int(self._socket.get(_EVENTS)) & _POLLIN)

    def _receive(self) -> bool:
        """Take in what came; tell whether that was all."""
        now_ms = monotonic_ms()
        batch: list[Inbound] = []
        is_drained = False
        for _ in range(DRAIN_COUNT_MAX):
            try:
                frames = receive_frames(self._socket)
            except zmq.Again:
                is_drained = True
                break
            inbound = self._check(frames, now_ms)
            if inbound is not None:
                batch.append(inbound)
        if batch:
            self._deliver(batch)
        return is_drained

    def _check(self, frames: list[bytes], now_ms: int) -> Inbound | None:
        """Return the request if it may go on; answer or count it otherwise."""
        self.counts.message_count += 1
        name = frames[0]
        peer = self._peer(name, now_ms)
        if len(frames) < 2 or len(frames) > codec.FRAME_COUNT_MAX + 1:
            self.counts.refused_count += 1
            return None
        try:
            request = codec.decode_request(frames[1])
            if isinstance(request, Hello):
                self._answer_hello(name, peer, request)
                return None
            self._check_session(peer, request)
            size = sum(map(len, frames))
            self._take_credit(peer, size)
        except ZbkError as error:
            self.counts.refused_count += 1
            request_id = codec.peek_request_id(frames[1])
            if request_id:
                refusal = codec.refusal(request_id, self._identity.incarnation, error)
                self._push(name, [codec.encode(refusal)])
            return None
        inbound = Inbound(name, request, tuple(frames[2:]), size)
        if isinstance(request, Ping):
            pong = Pong(request_id=request.request_id, incarnation=self._identity.incarnation)
            self._send_one(Outbound(inbound, pong))
            return None
        return inbound

    def _check_session(self, peer: _Peer, request: Request) -> None:
        if not peer.has_hello:
            raise HelloRequiredError("say HELLO first")
        if request.incarnation != self._identity.incarnation:
            raise WrongBookieError(
                f"meant for incarnation {request.incarnation}, "
                f"this is incarnation {self._identity.incarnation}"
            )

    def _take_credit(self, peer: _Peer, size: int) -> None:
        if peer.in_flight_size + size > self._identity.credit_size:
            raise BusyError(
                f"over the credit of {self._identity.credit_size} bytes in flight a connection"
            )
        if self._in_flight_size + size > IN_FLIGHT_SIZE_MAX:
            raise BusyError(f"over {IN_FLIGHT_SIZE_MAX} bytes in flight at this bookie")
        peer.in_flight_size += size
        self._in_flight_size += size

    def _answer_hello(self, name: bytes, peer: _Peer, hello: Hello) -> None:
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
        peer.has_hello = True
        answer = HelloAnswer(
            request_id=hello.request_id,
            incarnation=mine.incarnation,
            version=min(VERSION_MAX, hello.version_max),
            instance_id=mine.instance_id,
            bookie_id=mine.bookie_id,
            credit_size=mine.credit_size,
            entry_size_max=mine.entry_size_max,
            is_readonly=self.is_readonly,
        )
        self._push(name, [codec.encode(answer)])

    def _send_answers(self) -> None:
        while self._answers:
            for outbound in self._answers.popleft():
                self._send_one(outbound)

    def _send_one(self, outbound: Outbound) -> None:
        inbound = outbound.inbound
        self._in_flight_size -= inbound.size
        peer = self._peers.get(inbound.peer)
        if peer is None:
            self.counts.dropped_answer_count += 1
            return
        peer.in_flight_size = max(0, peer.in_flight_size - inbound.size)  # it may be a new life
        self._push(inbound.peer, [codec.encode(outbound.answer), *outbound.frames])

    def _push(self, name: bytes, frames: list[Frame]) -> None:
        peer = self._peers[name]
        if peer.outbox or not self._try_send(name, frames):
            if name not in self._peers:
                return
            peer.outbox.append(frames)
            peer.outbox_size += sum(map(len, frames))
            self._backlogged.add(name)
            if peer.outbox_size > PEER_OUTBOX_SIZE_MAX:
                self._forget(name, "does not take its answers")

    def _try_send(self, name: bytes, frames: list[Frame]) -> bool:
        """Send or forget the peer; False if it must be tried again."""
        try:
            send_frames(self._socket, [name, *frames], COPY_SIZE_MAX)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._forget(name, "is gone")
        return True

    def _retry_backlog(self) -> None:
        for name in list(self._backlogged):
            peer = self._peers.get(name)
            while peer is not None and peer.outbox:
                frames = peer.outbox[0]
                if not self._try_send(name, frames):
                    break
                peer.outbox.popleft()
                peer.outbox_size -= sum(map(len, frames))
                peer = self._peers.get(name)
            if peer is None or not peer.outbox:
                self._backlogged.discard(name)

    def _peer(self, name: bytes, now_ms: int) -> _Peer:
        peer = self._peers.get(name)
        if peer is None:
            if len(self._peers) >= self._peer_count_max:
                self._forget_idlest()
            peer = self._peers[name] = _Peer(now_ms)
            self.counts.peer_count = len(self._peers)
        else:
            self._peers.move_to_end(name)
        peer.seen_ms = now_ms
        return peer

    def _forget_idlest(self) -> None:
        for name, peer in self._peers.items():
            if not peer.in_flight_size:
                self._forget(name, "was silent longest of too many")
                return
        self._forget(next(iter(self._peers)), "is one too many")

    def _forget(self, name: bytes, reason: str) -> None:
        if self._peers.pop(name, None) is not None:
            self._backlogged.discard(name)
            self.counts.peer_count = len(self._peers)
            logger.info("connection %s %s", name.hex(), reason)

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
            self._forget(name, "was silent for long")
