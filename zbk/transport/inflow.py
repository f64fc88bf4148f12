"""Bytes that a connection has sent and the front has not received, and their limits.

libzmq reads from all connections as fast as it can, and keeps what it has read: messages that wait
for the front, and the frames of a message whose last one has not come, whatever their number. A
limit on messages would stop it from reading; but when it has stopped and the connection breaks,
libzmq 4.3.5 ends the process (an assertion: ``!_io_error``), and any peer can cause that. So libzmq
has no limit, and the front counts bytes: libzmq holds what the kernel has handed out and the front
has not received. A connection with too many of these bytes is ended.

    before the HELLO        ``LOBBY_SIZE_MAX`` in all: a HELLO is small
    one connection          its credit plus the longest message: a peer that keeps to the protocol
                            sends no more than that before it is answered
    an unfinished message   the longest message that is allowed, and ``UNFINISHED_MS``
    all connections         ``TOTAL_COST_MAX`` of memory: small messages cost more than their
                            bytes. When it is exceeded ``PATIENCE_COUNT`` times in a row, the
                            largest connection is ended. Bytes that ended connections have left
                            count until they are received, and keep the gate shut

All connections are checked every half second, and within fifty milliseconds after the process grew
beyond its largest size so far: a fast network delivers a gigabyte in half a second.

An unfinished message holds back all that follow it in its connection, so that nothing arrives from
there. It is recognized by that, while no finished message waits to be received.

Pure. Owned by the front (``zbk.transport.router``).
"""

from collections.abc import Iterable
from typing import Final

import msgspec

LOBBY_SIZE_MAX: Final = 64 * 1024
SLACK_SIZE: Final = 256 * 1024
"""Allowance for bytes outside of messages, and for what came since the last check."""

UNFINISHED_MS: Final = 20_000
TOTAL_COST_MAX: Final = 64 * 1024 * 1024
PATIENCE_COUNT: Final = 3
GROWTH_SIZE: Final = 16 * 1024 * 1024
"""Bytes by which the process must grow before all connections are checked."""

LARGE_COST: Final = 4 * 1024 * 1024
"""A connection that costs less is not ended to make room for others."""

MESSAGE_COST: Final = 256
"""Bytes that libzmq uses for a message besides its content, about."""

SIGN_RATE: Final = 64
"""Bytes a second that heartbeats may take; they are no part of a message."""


class InflowLimits(msgspec.Struct, frozen=True):
    """Limits on what one connection may have sent."""

    credit_size: int
    message_size_max: int


class Inflow:
    """Bytes and messages of one connection."""

    __slots__ = (
        "backlog_size",
        "began_ms",
        "begin_size",
        "delivered_count",
        "delivered_size",
        "seen_count",
        "stalled_ms",
    )

    def __init__(self) -> None:
        self.began_ms = 0  # when its HELLO came; 0: it has not come
        self.begin_size = 0  # bytes that libzmq had read by then
        self.delivered_size = 0  # bytes that the front has received since
        self.delivered_count = 0
        self.backlog_size = 0  # bytes that libzmq held at the last check
        self.seen_count = -1  # messages at the last check
        self.stalled_ms = 0  # since when no message came although bytes are there

    def begin(self, read_size: int, now_ms: int) -> None:
        """Start to count: the HELLO came, and libzmq has read ``read_size`` bytes so far."""
        self.begin_size = read_size
        self.began_ms = now_ms
        self.delivered_size = self.delivered_count = 0

    def deliver(self, size: int) -> None:
        """Record that the front has received a message."""
        self.delivered_size += size
        self.delivered_count += 1

    @property
    def cost(self) -> int:
        """Bytes of memory that the backlog takes, about."""
        if not self.delivered_count:
            return self.backlog_size
        return self.backlog_size + self.backlog_size * MESSAGE_COST * self.delivered_count // max(
            1, self.delivered_size
        )

    def look(
        self, read_size: int, now_ms: int, limits: InflowLimits, *, is_drained: bool
    ) -> str | None:
        """Record what libzmq has read; return why the connection must end, ``None`` if it may stay.

        ``is_drained``: no finished message waits to be received.
        """
        if not self.began_ms:
            is_much = read_size > LOBBY_SIZE_MAX
            return f"sent {read_size} bytes and no HELLO" if is_much else None
        signs_size = SIGN_RATE * (now_ms - self.began_ms) // 1_000
        backlog_size = read_size - self.begin_size - self.delivered_size - signs_size
        self.backlog_size = max(0, backlog_size)
        longest_size = limits.message_size_max + SLACK_SIZE
        if self.backlog_size > limits.credit_size + longest_size:
            return f"sent {self.backlog_size} bytes more than was received: its credit is less"
        is_stalled = self.seen_count == self.delivered_count and is_drained
        self.seen_count = self.delivered_count
        if not is_stalled or self.backlog_size <= LOBBY_SIZE_MAX:
            self.stalled_ms = now_ms
        elif self.backlog_size > longest_size or now_ms - self.stalled_ms >= UNFINISHED_MS:
            return f"sent {self.backlog_size} bytes of a message and does not finish it"
        return None


class InflowTotal:
    """Bytes that all connections together have sent and the front has not received."""

    def __init__(self) -> None:
        self._left_cost = 0  # of connections that have ended
        self._over_count = 0
        self._peak_size = 0  # of the process, at the last check
        self.is_watched = False  # a connection has a backlog: the next check comes soon

    @property
    def is_gate_shut(self) -> bool:
        """True while ended connections have left so much that no new ones are accepted."""
        return self._left_cost > TOTAL_COST_MAX // 4

    def has_grown(self, peak_size: int) -> bool:
        """Return whether the process grew enough for a check of all connections.

        A check of a connection costs two system calls, a check of the process one.
        """
        if peak_size < self._peak_size + GROWTH_SIZE:
            return False
        self._peak_size = peak_size
        return True

    def ended(self, inflow: Inflow) -> None:
        """Record the end of a connection whose messages are still to be received."""
        self._left_cost += inflow.cost

    def drained(self) -> None:
        """Record that no message waits to be received."""
        self._left_cost = 0

    def too_large(self, inflows: Iterable[Inflow]) -> Inflow | None:
        """Return the connection that must end if all together cost too much for too long."""
        total_cost = self._left_cost
        largest: Inflow | None = None
        is_watched = False
        for one in inflows:
            total_cost += one.cost
            is_watched |= one.backlog_size > SLACK_SIZE
            if largest is None or one.cost > largest.cost:
                largest = one
        self.is_watched = is_watched
        self._over_count = self._over_count + 1 if total_cost > TOTAL_COST_MAX else 0
        is_over = self._over_count >= PATIENCE_COUNT
        return largest if is_over and largest is not None and largest.cost > LARGE_COST else None
