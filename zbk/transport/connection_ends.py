"""Connections that the front ends: shut down, reported, and counted until libzmq has let them go.

libzmq can end one connection of a socket only together with its listener. So the front shuts the
connection down by its descriptor (``zbk.system.tcp``), and libzmq gives it back then.

Every use is under the lock of the front (``zbk.transport.router``).
"""

from typing import Final

from zbk.system.clock import monotonic_ms
from zbk.system.event_log import EventLog
from zbk.system.report_pace import ReportPace
from zbk.system.tcp import end_connection
from zbk.transport.answer_budget import PeerAnswers
from zbk.transport.connections import Connection, ConnectionLimits, ConnectionTable
from zbk.transport.inflow import InflowTotal
from zbk.transport.key_guard import KeyGuard
from zbk.transport.peers import PeerTable

LOG = EventLog(__name__)

REPORT_MS: Final = 60_000
"""The shortest time between two reports of ended connections."""


class ConnectionEnds:
    """The connections of one front, and how they are ended."""

    def __init__(
        self, peers: PeerTable, limits: ConnectionLimits, guard: KeyGuard | None = None
    ) -> None:
        self._peers = peers
        self.guard = guard  # None: no connection is encrypted
        self.connections = ConnectionTable(limits)
        self.inflow_total = InflowTotal()
        self._ending: dict[int, PeerAnswers] = {}  # by descriptor: bytes that libzmq still holds
        self._ends = ReportPace[tuple[bytes, str]](REPORT_MS)

    def end_peer(self, name: bytes, reason: str) -> None:
        """End a peer's connection, and drop what was to be sent."""
        peer = self._peers.by_name[name]
        untaken_size = peer.answers.untaken_size
        self.inflow_total.ended(peer.inflow)
        self._peers.note_gone(name)
        self._note(name, reason)
        self._peers.forget(name)
        connection = self.connections.end(peer.fd)
        if connection is not None:
            # libzmq frees what it holds for the connection a moment later
            self._ending[peer.fd] = ending = PeerAnswers()
            self._peers.budget.hand_over(ending, untaken_size)
            end_connection(connection.fd, connection.cookie)

    def end_refused(self) -> None:
        """End the connections whose keys are gone; note the roles of the others."""
        if self.guard is None:
            return
        for name, peer in [*self._peers.by_name.items()]:
            if not self.guard.admits(peer.key):
                self.end_peer(name, "has a key that was removed")
            else:
                peer.has_role = self.guard.has_role(peer.key)

    def end(self, connection: Connection, reason: str) -> None:
        """End a connection, with or without a HELLO."""
        name = self._peers.name_of(connection.fd)
        if name is not None:
            self.end_peer(name, reason)
            return
        self._note(b"", reason)
        if self.connections.end(connection.fd) is not None:
            end_connection(connection.fd, connection.cookie)

    def note_unheard(self, fd: int) -> None:
        """Count a connection that the other side, or its handshake, ended before a HELLO."""
        connection = self.connections.find(fd)
        if self.guard is None or connection is None:
            return
        if connection.is_greeted or connection.is_ending:
            return
        if not self.guard.was_refused(connection.address, connection.accepted_ms):
            self._peers.counts.handshake_failed_count += 1
            if self.guard.on_refused is not None:
                why = "it has no key, or expects another of the bookie"
                self.guard.on_refused("", connection.address, why)

    def forget(self, fd: int) -> None:
        """Forget the connection of a descriptor: libzmq has given it back."""
        name = self._peers.name_of(fd)
        if name is not None:
            self._peers.forget(name)
        ending = self._ending.pop(fd, None)
        if ending is not None:
            self._peers.budget.forget(ending)

    def report(self, now_ms: int) -> None:
        """Write a log line about the connections that ended, if one is due."""
        due = self._ends.take_due(now_ms)
        if due is not None:
            count, (name, reason) = due
            LOG.info(
                "connection.ended",
                "connection %(connection)s ends: it %(reason)s (%(connection_count)d connections "
                "since the last report)",
                connection=name.hex(),
                reason=reason,
                connection_count=count,
            )

    def _note(self, name: bytes, reason: str) -> None:
        self._ends.note((name, reason))
        self.report(monotonic_ms())
