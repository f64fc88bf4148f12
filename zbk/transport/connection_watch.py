"""The watch over a front's connections: accepted, greeted, ended; what they sent, and the gate.

TCP connections are counted by the events of the socket's monitor, in order, by their descriptors.
Connections that say no HELLO are ended (``zbk.transport.connections``), and those that have sent
more than they may, or do not finish a message (``zbk.transport.inflow``): libzmq keeps the frames
of a message until the last one has come, whatever their number.

Runs in the thread of the front (``zbk.transport.router``), under its lock.
"""

import struct
from typing import Final

import zmq

from zbk.system.clock import monotonic_ms
from zbk.system.event_log import EventLog
from zbk.system.memory import peak_memory_size
from zbk.system.tcp import Listener, cookie_of, end_connection, peer_address, tcp_counts
from zbk.transport.answer_sender import AnswerSender
from zbk.transport.connection_ends import REPORT_MS, ConnectionEnds
from zbk.transport.connections import Connection, ConnectionLimits
from zbk.transport.inflow import Inflow, InflowLimits
from zbk.transport.peers import PeerTable

LOG = EventLog(__name__)

POLL_MS: Final = 500
SWEEP_MS_MIN: Final = 20
INFLOW_LOOK_MS: Final = 20
"""Time between two checks of what was sent, while more comes than the front receives."""

ALERT_MS: Final = 10_000
"""How long the checks stay that frequent after a connection was ended for what it sent."""

MEMORY_LOOK_MS: Final = 50
"""Time between two looks at the size of the process, while there are connections."""

EVENT_COUNT_MAX: Final = 4_096
"""Events of connections in one turn; the next sweep takes the rest at the latest."""

_EVENT: Final = struct.Struct("=HI")  # event and value, of a monitor


class ConnectionWatch:
    """Checks all connections of one front, each check as often as it is due."""

    def __init__(
        self,
        monitor: "zmq.Socket[bytes]",
        limits: ConnectionLimits,
        inflow_limits: InflowLimits,
        peer_idle_ms: int,
        peers: PeerTable,
        ends: ConnectionEnds,
        sender: AnswerSender,
    ) -> None:
        self._monitor = monitor
        self._limits = limits
        self._inflow_limits = inflow_limits
        self._peer_idle_ms = peer_idle_ms
        self._peers = peers
        self._ends = ends
        self._sender = sender
        self._connections = ends.connections
        self._inflow_total = ends.inflow_total
        self._listeners: list[Listener] = []
        self._reported_ms = -REPORT_MS
        self._reported_count = 0
        self._inflow_ms = 0
        self._swept_ms = self._memory_ms = monotonic_ms()
        self._alert_until_ms = 0

    def close(self) -> None:
        """Close the monitor, and give the listeners' descriptors back."""
        self._monitor.close(0)
        for listener in self._listeners:
            listener.close()

    # -------------------------------------------------------------- checks

    @property
    def pause_ms(self) -> int:
        """How long the front may wait for messages before the next check."""
        return min(self._sweep_ms, MEMORY_LOOK_MS if self._connections.open_count else POLL_MS)

    @property
    def _sweep_ms(self) -> int:
        """Milliseconds between two checks of everything."""
        if self._inflow_total.is_watched or self._swept_ms < self._alert_until_ms:
            return INFLOW_LOOK_MS
        return min(POLL_MS, max(SWEEP_MS_MIN, self._peer_idle_ms))

    def check(self, now_ms: int, *, is_drained: bool) -> None:
        """Do the checks that are due. ``is_drained``: no finished message waits to be received."""
        if is_drained:
            self._inflow_total.drained()
            self._peers.gone_names.clear()
        elif now_ms >= self._inflow_ms + INFLOW_LOOK_MS:
            self._check_inflow(now_ms, is_drained=False)
            self._turn_gate(now_ms)
        if now_ms >= self._swept_ms + self._sweep_ms:
            self._swept_ms = self._memory_ms = now_ms
            self.take_events()
            self._sender.check_silent(now_ms)
            self._check_inflow(now_ms, is_drained=is_drained)
            self._peers.forget_idle(now_ms, self._peer_idle_ms)
        elif now_ms >= self._memory_ms + MEMORY_LOOK_MS:
            self._memory_ms = now_ms
            if self._inflow_total.has_grown(peak_memory_size()):
                self._check_inflow(now_ms, is_drained=is_drained)

    def _check_inflow(self, now_ms: int, *, is_drained: bool) -> None:
        """End connections that have sent more than they may, or do not finish a message."""
        self._inflow_ms = now_ms
        inflows: dict[Inflow, Connection] = {}
        for connection in self._connections.all():
            counts = tcp_counts(connection.fd)
            if counts is None:
                continue
            read_size = counts.received_size - counts.unread_size
            reason = connection.inflow.look(
                read_size, now_ms, self._inflow_limits, is_drained=is_drained
            )
            if reason is not None:
                self._alert_until_ms = now_ms + ALERT_MS
                self._ends.end(connection, reason)
            else:
                inflows[connection.inflow] = connection
        largest = self._inflow_total.too_large(inflows)
        if largest is not None:
            size = largest.backlog_size
            reason = f"sent {size} bytes more than was received, and there is no room"
            self._ends.end(inflows[largest], reason)

    # -------------------------------------------------------------- connections

    def take_events(self) -> None:
        """Record which connections have come and gone; end those that are late with their HELLO."""
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
                    self._ends.forget(fd)
                    address = "" if self._ends.guard is None else peer_address(fd)
                    connections.accepted(fd, cookie_of(fd), now_ms, address)
                case zmq.EVENT_DISCONNECTED:
                    self._ends.note_unheard(fd)
                    self._ends.forget(fd)
                    connections.ended(fd)
                case zmq.EVENT_LISTENING:
                    self._listeners.append(Listener(fd))
                case zmq.EVENT_ACCEPT_FAILED:
                    is_short = True
        if is_short:  # other parts of this process or machine have too many files open
            connections.no_descriptor(now_ms)
        for late in connections.take_late(now_ms):
            end_connection(late.fd, late.cookie)
        self._turn_gate(now_ms)
        counts = self._peers.counts
        counts.connection_count = connections.open_count
        counts.ended_count = connections.ended_count
        self._report(now_ms)

    def greet(self, name: bytes, fd: int, version: int, now_ms: int) -> bool:
        """Record that a connection has said HELLO; return false if there are too many of them."""
        self.take_events()  # its connection may have been accepted just now
        if not self._connections.greet(fd):
            return False
        peer = self._peers.greet(name, fd, version, now_ms)
        connection, counts = self._connections.find(fd), tcp_counts(fd)
        if connection is not None and counts is not None:
            if not connection.inflow.began_ms:
                connection.inflow.begin(counts.received_size - counts.unread_size, now_ms)
            peer.inflow = connection.inflow
        return True

    def _turn_gate(self, now_ms: int) -> None:
        is_shut = self._connections.turn_gate(now_ms) or self._inflow_total.is_gate_shut
        for listener in self._listeners:
            if is_shut:
                listener.shut()
            else:
                listener.open()

    def _report(self, now_ms: int) -> None:
        """Write the log lines about ended connections that are due."""
        self._ends.report(now_ms)
        count = self._connections.ended_count
        if count > self._reported_count and now_ms >= self._reported_ms + REPORT_MS:
            LOG.info(
                "connection.refused",
                "%(refused_count)d connections ended that had said no HELLO within "
                "%(handshake_ms)d ms, or were too many; %(open_count)d are open, "
                "%(greeted_count)d of them with a HELLO (limit %(greeted_max)d)",
                refused_count=count - self._reported_count,
                handshake_ms=self._limits.handshake_ms,
                open_count=self._connections.open_count,
                greeted_count=self._connections.greeted_count,
                greeted_max=self._limits.greeted_max,
            )
            self._reported_ms, self._reported_count = now_ms, count
