"""Which messages of a bookie's clients go on as requests: the checks, in their order.

Size and frames, the HELLO of the connection, the incarnation, the peer's credit, and room for the
answer. A message that fails a check is answered where it names a request, and counted, so that it
cannot hurt other peers. A connection that goes on sending refused messages is ended.

Runs in the thread of the front (``zbk.transport.router``), under its lock.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import zmq

from zbk.errors import BusyError, HelloRequiredError, ZbkError
from zbk.metrics.refusals import Refusals
from zbk.system.tcp import peer_address
from zbk.transport.answer_sender import AnswerSender
from zbk.transport.bundles import parts_of
from zbk.transport.connection_ends import ConnectionEnds
from zbk.transport.connection_watch import ConnectionWatch
from zbk.transport.frames import source_fd, wire_size
from zbk.transport.greeting import Identity
from zbk.transport.inbound import Inbound, Outbound
from zbk.transport.inflow import Inflow
from zbk.transport.peers import SHARE_PART, PeerTable
from zbk.wire import codec
from zbk.wire.messages import Add, Bundle, GetLedgerInfo, Hello, Ping, Pong, Read, Request

if TYPE_CHECKING:
    from zbk.tracing.request_spans import RequestSpans

ANSWER_SIZE_MIN: Final = 64 * 1024
"""Bytes set aside at least for the answer to a read, and for one about a ledger."""

REFUSED_COUNT_MAX: Final = 4_096
"""Answers that may wait for a peer whose requests are refused."""

LOBBY_COUNT_MAX: Final = 64
"""Messages that a connection may send before its HELLO; each of them is refused."""

_HELLO_PART: Final = b"hello"  # its tag
_HELLO_SIZE_MAX: Final = 1_024


class Admission:
    """Checks messages, and turns them into requests."""

    def __init__(
        self,
        identity: Identity,
        read_size_max: int,
        greeted_max: int,
        peers: PeerTable,
        ends: ConnectionEnds,
        watch: ConnectionWatch,
        sender: AnswerSender,
        spans: "RequestSpans | None" = None,
    ) -> None:
        self._identity = identity
        self._read_size_max = read_size_max
        self._greeted_max = greeted_max
        self._peers = peers
        self._counts = peers.counts
        self._ends = ends
        self._watch = watch
        self._sender = sender
        self._guard = ends.guard
        self._spans = spans
        self.is_readonly = False  # as HELLO says to clients
        self.refusals = Refusals()

    def check(self, frames: list[bytes], last: zmq.Frame, now_ms: int) -> list[Inbound]:
        """Return the requests of a message that go on now; answer, hold or drop the others.

        ``frames`` begin with the name of the connection; ``last`` is the last of them.
        """
        counts = self._counts
        counts.message_count += 1
        name = frames[0]
        known = self._peers.by_name.get(name)
        if self._guard is not None and known is not None and known.key != self._guard.key_of(last):
            self._peers.forget(name)  # its connection has ended, and another one took the name
            known = None
        if known is not None:
            known.inflow.deliver(wire_size(frames[1:]))
        elif name in self._peers.gone_names and _HELLO_PART not in frames[-1][:_HELLO_SIZE_MAX]:
            return []  # no peer is left to be answered
        if len(frames) < 2 or len(frames) > codec.FRAME_COUNT_MAX + 1:
            counts.refused_count += 1
            return []
        refused_count = counts.refused_count
        found: list[Inbound] = []
        try:
            request = codec.decode_request(frames[1])
            if isinstance(request, Hello):
                self._greet(name, request, last, now_ms)
            elif isinstance(request, Bundle):
                header_size = len(frames[1]) // len(request.parts)
                parts = parts_of(request.parts, request.sizes, frames[2:])
                found = self._admit_all(name, parts, request.incarnation, header_size, now_ms)
            else:
                header_size = len(name) + len(frames[1])
                alone = [(request, tuple(frames[2:]))]
                found = self._admit_all(name, alone, request.incarnation, header_size, now_ms)
        except ZbkError as error:
            self._refuse(name, codec.peek_request_id(frames[1]), error)
        if counts.refused_count != refused_count:
            self._check_refused(name, last)
        return found

    def _greet(self, name: bytes, hello: Hello, last: zmq.Frame, now_ms: int) -> None:
        version = self._identity.agree(hello)
        key, has_role = "", False
        if self._guard is not None:
            key = self._guard.key_of(last)
            self._guard.check_key(self._identity.bookie_id, key)
            has_role = self._guard.has_role(key)
            self._check_share(name, key, has_role=has_role)
        fd = source_fd(last)
        if self._has_ended(name, fd):
            return
        if not self._watch.greet(name, fd, version, now_ms):
            raise BusyError(
                f"bookie {self._identity.bookie_id} has {self._greeted_max} connections, "
                "as many as it may have: see connection_count_max and `ulimit -n`"
            )
        self._peers.identify(name, key, has_role=has_role, address=peer_address(fd))
        answer = self._identity.answer(hello, version, is_readonly=self.is_readonly)
        self._sender.push(name, [codec.encode(answer)])

    def _has_ended(self, name: bytes, fd: int) -> bool:
        """Return whether a HELLO is of a connection that has ended: another has its descriptor."""
        if self._peers.name_of(fd) in (None, name):
            return False
        self._watch.take_events()  # of the two, the other one may have ended
        is_taken = self._peers.name_of(fd) not in (None, name)
        return is_taken and not self._is_open(name, "another connection has the descriptor")

    def _check_share(self, name: bytes, key: str, *, has_role: bool) -> None:
        """Refuse one more connection of a key that has its share of them.

        Raises:
            BusyError: it has.
        """
        count_max = max(1, self._greeted_max // SHARE_PART)
        is_known = name in self._peers.by_name
        if key and not (has_role or is_known) and self._peers.connection_count(key) >= count_max:
            raise BusyError(
                f"{count_max} connections with this key are open, one half of those that bookie "
                f"{self._identity.bookie_id} may have: close some, or see connection_count_max"
            )

    def _admit_all(
        self,
        name: bytes,
        parts: Iterable[tuple[Request, tuple[bytes, ...]]],
        incarnation: int,
        header_size: int,
        now_ms: int,
    ) -> list[Inbound]:
        """Return the requests of a message that go on now; answer the others here, or hold them."""
        peers = self._peers
        peer = peers.by_name.get(name)
        try:
            if peer is None:
                raise HelloRequiredError("say HELLO first")
            peers.by_name.move_to_end(name)
            peer.seen_ms = now_ms
            self._identity.check_incarnation(incarnation)
        except ZbkError as error:
            for request, _frames in parts:
                self._refuse(name, request.request_id, error)
            return []
        found = []
        for request, frames in parts:
            size = header_size + sum(map(len, frames))
            expected_size = 0 if isinstance(request, Add) else self._expected_size(request)
            try:
                peers.take_credit(peer, size, is_held=bool(expected_size))
            except ZbkError as error:
                self._refuse(name, request.request_id, error)
                if peers.by_name.get(name) is not peer:
                    break  # the refusal found its connection gone
                continue
            span = None if self._spans is None else self._spans.start(request, size)
            inbound = Inbound(name, request, frames, size, expected_size, peer, span)
            if isinstance(request, Ping):
                pong = Pong(request_id=request.request_id, incarnation=self._identity.incarnation)
                self._sender.send([Outbound(inbound, pong)])
            elif not expected_size or peers.expect_answer(inbound, peer):
                found.append(inbound)
        return found

    def _expected_size(self, request: Request) -> int:
        """Return the bytes to set aside for the answer; 0 for answers that are always small."""
        match request:
            case Read():
                return max(ANSWER_SIZE_MIN, min(request.size_max, self._read_size_max))
            case GetLedgerInfo():
                return ANSWER_SIZE_MIN
            case _:
                return 0

    def _refuse(self, name: bytes, request_id: int, error: ZbkError) -> None:
        self._counts.refused_count += 1
        self.refusals.count(error)
        if request_id:
            refusal = codec.refusal(request_id, self._identity.incarnation, error)
            self._sender.push(name, [codec.encode(refusal)])

    def _check_refused(self, name: bytes, last: zmq.Frame) -> None:
        """End a connection that sends too many messages that are refused."""
        peer = self._peers.by_name.get(name)
        if peer is None:
            connection = self._ends.connections.find(source_fd(last))
            if connection is None or connection.is_greeted:
                return
            connection.inflow.deliver(0)
            if connection.inflow.delivered_count > LOBBY_COUNT_MAX:
                reason = f"sent {LOBBY_COUNT_MAX} messages and no HELLO"
                self._peers.note_gone(name)
                if self._is_open(name, reason):
                    self._ends.end(connection, reason)
                else:  # a later connection has the descriptor now, and sent none of these
                    connection.inflow = Inflow()
        elif len(peer.outbox) > REFUSED_COUNT_MAX:
            waiting = f"{len(peer.outbox)} answers wait"
            self._ends.end_peer(name, f"asks for more than it may and takes no answers: {waiting}")

    def _is_open(self, name: bytes, reason: str) -> bool:
        """Return whether a connection that has said no HELLO is open, by telling it why it ends.

        Its descriptor does not say that: libzmq hands out what a connection sent also when it has
        closed the descriptor, and the number may belong to another connection by then.
        """
        refusal = codec.refusal(0, self._identity.incarnation, HelloRequiredError(reason))
        return self._sender.reaches(name, [codec.encode(refusal)])
