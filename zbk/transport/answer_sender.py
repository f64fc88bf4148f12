"""Answers on their way to peers: sent, or kept in a peer's outbox until the peer takes them.

What ZeroMQ holds of answers is limited in bytes: the kernel reports how many of them a peer has
taken. A connection whose peer takes nothing for ``ANSWER_WAIT_MS`` is ended.

Every use is under the lock of the front (``zbk.transport.router``).
"""

from collections.abc import Sequence
from typing import Final

import zmq

from zbk.system.clock import monotonic_ms
from zbk.system.tcp import tcp_counts
from zbk.transport.bundles import Part, answer_messages, groups
from zbk.transport.connection_ends import ConnectionEnds
from zbk.transport.frames import Frame, send_frames, wire_size
from zbk.transport.inbound import Outbound
from zbk.transport.peers import Peer, PeerTable
from zbk.wire import codec
from zbk.wire.messages import VERSION_MIN

UNTAKEN_SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes of answers that ZeroMQ and the kernel may hold for one peer; one answer may exceed it."""

LOOK_SIZE: Final = 256 * 1024
LOOK_MS: Final = 1_000
"""The kernel's counters are read after so many bytes handed over, or after such a time."""

OUTBOX_COUNT_MAX: Final = 65_536
ANSWER_WAIT_MS: Final = 10_000
"""How long a peer may leave an answer untaken. A client waits for 5 s, by default, and asks another
bookie then."""

PRESSED_WAIT_PART: Final = 2
"""The wait is divided by this while there is little room for the answers of others."""

COPY_SIZE_MAX: Final = 1024 * 1024


class AnswerSender:
    """Sends answers over the ROUTER socket."""

    def __init__(
        self,
        socket: "zmq.Socket[bytes]",
        peers: PeerTable,
        ends: ConnectionEnds,
        wait_ms: int = ANSWER_WAIT_MS,
    ) -> None:
        self._socket = socket
        self._peers = peers
        self._budget = peers.budget
        self._ends = ends
        self._wait_ms = wait_ms

    def send(self, outbounds: Sequence[Outbound]) -> None:
        """Send answers: those to one peer in order, in as few messages as possible."""
        if len(outbounds) == 1:
            (outbound,) = outbounds
            if self._settle(outbound):
                frames = [codec.encode(outbound.answer), *outbound.frames]
                self.push(outbound.inbound.peer, frames)
            return
        parts: dict[bytes, list[Part]] = {}
        for outbound in outbounds:
            if self._settle(outbound):
                part = (outbound.answer, outbound.frames)
                parts.setdefault(outbound.inbound.peer, []).append(part)
        for name, own in parts.items():
            peer = self._peers.by_name.get(name)  # a send to it may have found it gone
            for group in groups(own, VERSION_MIN if peer is None else peer.version):
                for frames in answer_messages(group):
                    self.push(name, frames)

    def _settle(self, outbound: Outbound) -> bool:
        """Give back what an answered request took, and end its span; return whether to send."""
        is_awaited = self._peers.settle(outbound.inbound) is not None
        span = outbound.inbound.span
        if span is not None:
            if is_awaited:
                span.answered(outbound.answer)
            else:
                span.unanswered()
        return is_awaited

    def push(self, name: bytes, frames: list[Frame]) -> None:
        """Send a message to a peer, after those that wait in its outbox."""
        peer = self._peers.by_name.get(name)
        if peer is None:
            self._try_send(name, frames)  # nothing is kept for a connection without a HELLO
            return
        size = wire_size(frames)
        if peer.outbox or not self._may_hand_over(peer) or not self._try_send(name, frames):
            if name not in self._peers.by_name:
                return
            peer.outbox.append((monotonic_ms(), frames))
            self._budget.queue(peer.answers, size)
            self._peers.backlogged.add(name)
            if len(peer.outbox) > OUTBOX_COUNT_MAX:
                self._ends.end_peer(name, f"does not take its answers: {OUTBOX_COUNT_MAX} wait")
            return
        self._budget.hand_over(peer.answers, size)

    def reaches(self, name: bytes, frames: list[Frame]) -> bool:
        """Send a message unless there is no room; return false if the connection has ended."""
        try:
            send_frames(self._socket, [name, *frames], COPY_SIZE_MAX)
        except zmq.Again:
            return True
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        return True

    def retry(self) -> None:
        """Send what waits, as far as it is taken; end the connections that take nothing."""
        now_ms = monotonic_ms()
        for name in [*self._peers.backlogged, *self._peers.holding]:
            peer = self._peers.by_name.get(name)
            if peer is not None:
                self._look(peer, now_ms)
                self._send_outbox(name, peer, now_ms)

    def check_silent(self, now_ms: int) -> None:
        """End connections that take nothing of what ZeroMQ holds for them."""
        for name, peer in [*self._peers.by_name.items()]:
            if peer.answers.untaken_size and name not in self._peers.backlogged:
                self._look(peer, now_ms)
                self._check_patience(name, peer, now_ms)

    def _try_send(self, name: bytes, frames: list[Frame]) -> bool:
        """Return false if the message must be sent later; forget a peer that is gone."""
        try:
            send_frames(self._socket, [name, *frames], COPY_SIZE_MAX)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._peers.forget(name)
        return True

    def _may_hand_over(self, peer: Peer) -> bool:
        """Return whether ZeroMQ and the kernel hold few enough bytes for a peer."""
        answers, now_ms = peer.answers, monotonic_ms()
        is_much = answers.handed_size - peer.looked_size >= LOOK_SIZE
        if is_much or now_ms - peer.moved_ms >= LOOK_MS:
            self._look(peer, now_ms)
        return answers.untaken_size < UNTAKEN_SIZE_MAX

    def _look(self, peer: Peer, now_ms: int) -> None:
        """Read from the kernel how many bytes a peer has taken."""
        answers = peer.answers
        peer.looked_size = answers.handed_size
        counts = tcp_counts(peer.fd)
        acked_size = answers.handed_size if counts is None else counts.acked_size
        taken_size = acked_size - peer.overhead_size
        if taken_size > answers.handed_size:
            peer.overhead_size += taken_size - answers.handed_size
        if self._budget.take(answers, taken_size) or not answers.untaken_size:
            peer.moved_ms = now_ms

    def _send_outbox(self, name: bytes, peer: Peer, now_ms: int) -> None:
        while peer.outbox and self._may_hand_over(peer):
            _, frames = peer.outbox[0]
            if not self._try_send(name, frames):
                break
            if name not in self._peers.by_name:
                return
            peer.outbox.popleft()
            self._budget.unqueue(peer.answers, wire_size(frames))
            self._budget.hand_over(peer.answers, wire_size(frames))
        if not peer.outbox:
            self._peers.backlogged.discard(name)
        self._check_patience(name, peer, now_ms)

    def _check_patience(self, name: bytes, peer: Peer, now_ms: int) -> None:
        """End a connection whose peer has not taken its answers for too long."""
        wait_ms = self._wait_ms
        if self._budget.is_pressed:
            wait_ms //= PRESSED_WAIT_PART
        since_ms = peer.outbox[0][0] if peer.outbox else peer.moved_ms
        if peer.answers.untaken_size >= LOOK_SIZE or peer.outbox:
            waited_ms = now_ms - min(since_ms, peer.moved_ms)
            if waited_ms >= wait_ms:
                size = peer.answers.size
                self._ends.end_peer(
                    name, f"has not taken its answers for {waited_ms} ms: {size} bytes wait"
                )
