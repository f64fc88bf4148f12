"""The TCP connections of a bookie: which are counted, which wait in the lobby, which have to end.

Words: the *lobby* is where a connection is from its acceptance until its HELLO; it holds
``lobby_max``, and for ``handshake_ms`` each. When one more comes, the one that has been there
longest ends: a client says HELLO within milliseconds, so that it passes even while silent ones
come by the thousand. A connection that has said HELLO is *greeted* and does not end for the sake of
others: while there are ``greeted_max`` of them, a new HELLO is refused.

The *gate* is shut, and the kernel lets no more in, while those in the lobby, the greeted ones and
those that were told to end leave no room.

A connection is known by the number of its descriptor. The number may be used again: ``ended`` is
told first, in order, and what is carried out names the connection's cookie as well.

Pure. Owned by the front (``zbk.transport.router``). What a peer is allowed is decided where its
HELLO is taken in, in ``greet``: limits by who the peer is belong there.
"""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from zbk.transport.inflow import Inflow

GATE_MARGIN_SHARE: Final = 4
"""The gate opens again when a part of the lobby, one in so many, is free."""

SHORT_MS: Final = 250
"""So long the gate stays shut after there was no descriptor for a connection."""


class ConnectionLimits(msgspec.Struct, frozen=True):
    """How many connections of each kind there may be."""

    greeted_max: int
    lobby_max: int
    handshake_ms: int

    @property
    def open_max(self) -> int:
        """Connections of all kinds at which no more are accepted."""
        return self.greeted_max + self.lobby_max


class Connection:
    """One TCP connection."""

    __slots__ = ("cookie", "fd", "inflow", "is_ending", "is_greeted", "late_ms")

    def __init__(self, fd: int, cookie: int, late_ms: int) -> None:
        self.fd = fd
        self.cookie = cookie
        self.late_ms = late_ms  # when it is to have said HELLO
        self.is_greeted = False
        self.is_ending = False  # it was told to, and is still open
        self.inflow = Inflow()


class ConnectionTable:
    """All connections of one front.

    Invariants, checked in ``_check``:
      * the lobby has those that are neither greeted nor ending;
      * no more than ``greeted_max`` are greeted.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._open: dict[int, Connection] = {}
        self._lobby: OrderedDict[int, Connection] = OrderedDict()  # the longest there in front
        self._greeted_count = 0
        self.is_gate_shut = False
        self._short_until_ms = 0
        self.ended_count = 0  # that had to, for want of a HELLO

    @property
    def open_count(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def greeted_count(self) -> int:
        """How many have said HELLO."""
        return self._greeted_count

    @property
    def lobby_count(self) -> int:
        """How many may still say it."""
        return len(self._lobby)

    def find(self, fd: int) -> Connection | None:
        """Return the connection of a descriptor, if it is known."""
        return self._open.get(fd)

    def all(self) -> Iterable[Connection]:
        """Return all that are open and do not have to end."""
        return [one for one in self._open.values() if not one.is_ending]

    def accepted(self, fd: int, cookie: int, now_ms: int) -> None:
        """Record a new connection."""
        self.ended(fd)  # it may have ended unseen
        self._open[fd] = self._lobby[fd] = Connection(
            fd, cookie, now_ms + self._limits.handshake_ms
        )
        self._check()

    def ended(self, fd: int) -> None:
        """Forget a connection: its descriptor is being given back."""
        connection = self._open.pop(fd, None)
        if connection is not None:
            self._lobby.pop(fd, None)
            self._greeted_count -= connection.is_greeted
        self._check()

    def greet(self, fd: int) -> bool:
        """Note that a connection has said HELLO; false, and nothing changed, if there is no room.

        One that is not known here, which the kernel has not told of, is let in uncounted.
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
        """Return a connection that is to end now, unless it is gone, or ending already."""
        connection = self._open.get(fd)
        if connection is None or connection.is_ending:
            return None
        connection.is_ending = True
        self._lobby.pop(fd, None)
        return connection

    def take_late(self, now_ms: int) -> list[Connection]:
        """Return those that have to end for want of a HELLO: the late ones, and one too many."""
        late = []
        while self._lobby:
            connection = next(iter(self._lobby.values()))
            is_late = now_ms >= connection.late_ms
            if not is_late and len(self._lobby) <= self._limits.lobby_max:
                break
            ending = self.end(connection.fd)
            assert ending is not None, "what is in the lobby is open"
            late.append(ending)
        self.ended_count += len(late)
        self._check()
        return late

    def no_descriptor(self, now_ms: int) -> None:
        """Note that a connection was not accepted for want of a descriptor: the lobby makes room.

        Half of those who are there are late from now on.
        """
        self._short_until_ms = now_ms + SHORT_MS
        for connection in [*islice(self._lobby.values(), (len(self._lobby) + 1) // 2)]:
            connection.late_ms = min(connection.late_ms, now_ms)

    def turn_gate(self, now_ms: int) -> bool:
        """Decide whether new connections are let in; return true if they are not."""
        limits = self._limits
        margin = limits.lobby_max // GATE_MARGIN_SHARE if self.is_gate_shut else 0
        is_full = len(self._open) >= limits.open_max - margin
        self.is_gate_shut = is_full or now_ms < self._short_until_ms
        return self.is_gate_shut

    def _check(self) -> None:
        assert self._greeted_count <= self._limits.greeted_max
        assert len(self._lobby) + self._greeted_count <= len(self._open)
