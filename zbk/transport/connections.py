"""The TCP connections of a bookie: those in the lobby, those with a HELLO, those that must end.

Words: a connection is in the *lobby* from its acceptance to its HELLO. The lobby holds
``lobby_max`` connections, each for ``handshake_ms``. When one more comes, the oldest in the lobby
ends: a client says HELLO within milliseconds, so that it passes even while thousands of silent
connections come. A connection that has said HELLO is *greeted* and does not end to make room for
others: while ``greeted_max`` connections are greeted, a new HELLO is refused.

The *gate* is shut, and the kernel accepts no connection, while the lobby, the greeted connections
and those that are ending leave no room.

A connection is identified by the number of its descriptor. The number may be used again: the caller
reports ``ended`` before ``accepted``, and names the connection's cookie when it ends one.

Pure. Owned by the front (``zbk.transport.connection_ends``). Limits that depend on the peer's
identity belong in ``greet``.
"""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from zbk.transport.inflow import Inflow

GATE_MARGIN_SHARE: Final = 4
"""The gate opens again when this part of the lobby (one in four) is free."""

SHORT_MS: Final = 250
"""How long the gate stays shut after a connection found no free descriptor."""


class ConnectionLimits(msgspec.Struct, frozen=True):
    """The numbers of connections that a front accepts."""

    greeted_max: int
    lobby_max: int
    handshake_ms: int

    @property
    def open_max(self) -> int:
        """The number of open connections at which the gate is shut."""
        return self.greeted_max + self.lobby_max


class Connection:
    """One TCP connection."""

    __slots__ = (
        "accepted_ms",
        "address",
        "cookie",
        "fd",
        "inflow",
        "is_ending",
        "is_greeted",
        "late_ms",
    )

    def __init__(self, fd: int, cookie: int, accepted_ms: int, late_ms: int, address: str) -> None:
        self.fd = fd
        self.cookie = cookie
        self.accepted_ms = accepted_ms
        self.late_ms = late_ms  # when it must have said HELLO
        self.address = address  # of the peer, as host:port; "" if it is not known
        self.is_greeted = False
        self.is_ending = False  # it was shut down, and is not closed yet
        self.inflow = Inflow()


class ConnectionTable:
    """All connections of one front.

    Invariants, checked in ``_check``:
      * the lobby has the connections that are neither greeted nor ending;
      * no more than ``greeted_max`` are greeted.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._open: dict[int, Connection] = {}
        self._lobby: OrderedDict[int, Connection] = OrderedDict()  # the oldest first
        self._greeted_count = 0
        self.is_gate_shut = False
        self._short_until_ms = 0
        self.ended_count = 0  # connections that were ended because they said no HELLO

    @property
    def open_count(self) -> int:
        """The number of open connections."""
        return len(self._open)

    @property
    def greeted_count(self) -> int:
        """The number of connections that have said HELLO."""
        return self._greeted_count

    @property
    def lobby_count(self) -> int:
        """The number of connections in the lobby."""
        return len(self._lobby)

    def find(self, fd: int) -> Connection | None:
        """Return the connection of a descriptor; ``None`` if it is unknown."""
        return self._open.get(fd)

    def all(self) -> Iterable[Connection]:
        """Return the open connections that are not ending."""
        return [one for one in self._open.values() if not one.is_ending]

    def accepted(self, fd: int, cookie: int, now_ms: int, address: str = "") -> None:
        """Record a new connection."""
        self.ended(fd)  # its end may have been missed
        late_ms = now_ms + self._limits.handshake_ms
        self._open[fd] = self._lobby[fd] = Connection(fd, cookie, now_ms, late_ms, address)
        self._check()

    def ended(self, fd: int) -> None:
        """Forget a connection: its descriptor is being closed."""
        connection = self._open.pop(fd, None)
        if connection is not None:
            self._lobby.pop(fd, None)
            self._greeted_count -= connection.is_greeted
        self._check()

    def greet(self, fd: int) -> bool:
        """Record a HELLO; return false, and change nothing, if there is no room.

        A connection that the monitor has not reported is accepted and not counted.
        """
        connection = self._open.get(fd)
        if connection is None or connection.is_greeted:
            return True
        if self._greeted_count >= self._limits.greeted_max:
            return False
        connection.is_greeted = True
        self._greeted_count += 1
        self._lobby.pop(fd, None)
        self._check()
        return True

    def end(self, fd: int) -> Connection | None:
        """Mark a connection as ending and return it; ``None`` if it is gone or ending already."""
        connection = self._open.get(fd)
        if connection is None or connection.is_ending:
            return None
        connection.is_ending = True
        self._lobby.pop(fd, None)
        return connection

    def take_late(self, now_ms: int) -> list[Connection]:
        """Return the connections that must end: too late with their HELLO, or too many."""
        late = []
        while self._lobby:
            connection = next(iter(self._lobby.values()))
            is_late = now_ms >= connection.late_ms
            if not is_late and len(self._lobby) <= self._limits.lobby_max:
                break
            ending = self.end(connection.fd)
            assert ending is not None, "a connection in the lobby is open"
            late.append(ending)
        self.ended_count += len(late)
        self._check()
        return late

    def no_descriptor(self, now_ms: int) -> None:
        """Record that a connection was not accepted for want of a descriptor.

        Half of the lobby is late from now on, which makes room.
        """
        self._short_until_ms = now_ms + SHORT_MS
        for connection in [*islice(self._lobby.values(), (len(self._lobby) + 1) // 2)]:
            connection.late_ms = min(connection.late_ms, now_ms)

    def turn_gate(self, now_ms: int) -> bool:
        """Decide whether new connections are accepted; return true if they are not."""
        limits = self._limits
        margin = limits.lobby_max // GATE_MARGIN_SHARE if self.is_gate_shut else 0
        is_full = len(self._open) >= limits.open_max - margin
        self.is_gate_shut = is_full or now_ms < self._short_until_ms
        return self.is_gate_shut

    def _check(self) -> None:
        assert self._greeted_count <= self._limits.greeted_max
        assert len(self._lobby) + self._greeted_count <= len(self._open)
