"""A front and a pool on loopback, for tests: real sockets, and a bookie that only echoes."""

import threading
from collections.abc import Callable

import zmq

from zbk.errors import ZbkError, from_wire
from zbk.security.credentials import ANONYMOUS, Credentials
from zbk.system.clock import monotonic_s
from zbk.tracing.request_spans import RequestSpans
from zbk.transport.connections import ConnectionLimits
from zbk.transport.dealer import BookiePool
from zbk.transport.events import DealerOptions, News, Outgoing, Reply
from zbk.transport.greeting import Identity
from zbk.transport.inbound import Inbound, Outbound
from zbk.transport.router import FrontLimits, FrontSecurity, RouterFront
from zbk.wire import codec
from zbk.wire.messages import GetBookieInfo, LacAnswer, Message, Refused

BOOKIE_ID = "b-1"
INSTANCE_ID = "cluster-1"
DEADLINE_S = 20.0
LIMITS = ConnectionLimits(greeted_max=100, lobby_max=100, handshake_ms=5_000)


class Inbox:
    """A sink that keeps all news and can wait for some."""

    def __init__(self) -> None:
        self.news: list[News] = []
        self._changed = threading.Condition()

    def deliver(self, news: list[News]) -> None:
        with self._changed:
            self.news += news
            self._changed.notify_all()

    def wait_for(self, is_there: Callable[[News], bool]) -> News:
        """Return the first news that fit, waiting for them."""
        deadline_s = monotonic_s() + DEADLINE_S
        with self._changed:
            while True:
                for one in self.news:
                    if is_there(one):
                        return one
                left_s = deadline_s - monotonic_s()
                assert left_s > 0, f"did not come; there were {self.news}"
                self._changed.wait(left_s)

    def wait_for_kind(self, kind: type[News]) -> News:
        return self.wait_for(lambda one: isinstance(one, kind))

    def forget(self) -> None:
        with self._changed:
            self.news.clear()


class Echo:
    """Answers everything, or keeps it for the test to answer."""

    def __init__(self, *, is_holding: bool = False) -> None:
        self.is_holding = is_holding
        self.held: list[Inbound] = []
        self.arrived = threading.Semaphore(0)
        self.front: RouterFront | None = None
        self.failures: list[BaseException] = []

    def deliver(self, batch: list[Inbound]) -> None:
        for inbound in batch:
            if self.is_holding:
                self.held.append(inbound)
            else:
                self.answer(inbound)
            self.arrived.release()

    def answer(self, inbound: Inbound, frames: tuple[bytes, ...] | None = None) -> None:
        assert self.front is not None
        answer = LacAnswer(request_id=inbound.request.request_id, incarnation=1, lac=7)
        echoed = inbound.frames if frames is None else frames
        self.front.send([Outbound(inbound, answer, echoed)])


def front(
    echo: Echo,
    *,
    endpoint: str = "tcp://127.0.0.1:*",
    incarnation: int = 1,
    credit_size: int = 1 << 20,
    message_size_max: int = 1 << 20,
    peer_idle_ms: int = 600_000,
    instance_id: str = INSTANCE_ID,
    limits: ConnectionLimits = LIMITS,
    answer_wait_ms: int = 10_000,
    spans: RequestSpans | None = None,
    security: FrontSecurity | None = None,
) -> RouterFront:
    identity = Identity(instance_id, BOOKIE_ID, incarnation, credit_size, 1 << 20)
    front_limits = FrontLimits(
        message_size_max=message_size_max,
        connections=limits,
        backlog=128,
        peer_idle_ms=peer_idle_ms,
        read_size_max=1 << 20,
        answer_wait_ms=answer_wait_ms,
    )
    made = RouterFront(
        endpoint, identity, front_limits, echo.deliver, echo.failures.append, spans, security
    )
    echo.front = made
    made.start()
    return made


def pool(
    *,
    connect_timeout_ms: int = 2_000,
    instance_id: str = INSTANCE_ID,
    credentials: Credentials = ANONYMOUS,
) -> BookiePool:
    return BookiePool(
        DealerOptions(instance_id, "test", connect_timeout_ms, credentials=credentials)
    )


def outgoing(
    sink: Inbox,
    key: object = "k",
    *,
    frames: tuple[bytes, ...] = (),
    timeout_ms: int = 10_000,
    request: Message | None = None,
    bookie_id: str = BOOKIE_ID,
) -> Outgoing:
    return Outgoing(
        bookie_id,
        GetBookieInfo(request_id=0) if request is None else request,
        frames,
        sink,
        key,
        timeout_ms,
        sum(map(len, frames)) + 100,
    )


def error_of(reply: object) -> ZbkError:
    """Return the error that a reply brings."""
    assert isinstance(reply, Reply)
    assert isinstance(reply.outcome, ZbkError)
    return reply.outcome


def say(socket: zmq.Socket[bytes], *frames: bytes) -> list[bytes]:
    """Send frames and return the frames of the answer."""
    socket.send_multipart(frames)
    return socket.recv_multipart()


def refused(frames: list[bytes]) -> type[ZbkError]:
    """Return the kind of error that an answer refuses with."""
    answer = codec.decode_answer(frames[0])
    assert isinstance(answer, Refused)
    return type(from_wire(answer.code, tuple(answer.fields)))
