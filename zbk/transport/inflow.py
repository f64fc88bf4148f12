"""What a connection has sent and the front has not received: how much of it may be there.

libzmq reads from all connections as fast as it can, and keeps what it has read: messages that wait
for the front, and the frames of a message whose last one has not come, whatever their number. A
limit of messages would stop it from reading; but where it has stopped, and the connection breaks,
version 4.3.5 ends the process (an assertion: ``!_io_error``), at the will of any stranger. So it
has no limit, and the front looks at bytes: what the kernel has handed out less what has come here
is what libzmq holds. Who has too much of that is disconnected.

    before the HELLO        ``LOBBY_SIZE_MAX`` in all: a HELLO is small
    one connection          its credit, and the longest message: who keeps to the protocol sends no
                            more than that before it is answered
    an unfinished message   the longest that is allowed; and, however short, ``UNFINISHED_MS``
    all connections         ``TOTAL_COST_MAX``, as it is in memory: small messages cost more than
                            their bytes. Above it, ``PATIENCE_COUNT`` times in a row, the largest
                            goes. What ended connections have left counts until it was received,
                            and keeps the gate shut

All connections are looked at every half second, and within fifty milliseconds after the process
grew beyond its largest size so far: in half a second a quick network delivers a gigabyte.

A message that is not finished holds back all that follow it in its connection, so that nothing
arrives of that one: only then, and while nothing waits to be received, it is told from others.

Pure. Owned by the front (``zbk.transport.router``).
"""

from collections.abc import Iterable
from typing import Final

import msgspec

LOBBY_SIZE_MAX: Final = 64 * 1024
SLACK_SIZE: Final = 256 * 1024
"""Bytes beside messages, and what has come since it was looked."""

UNFINISHED_MS: Final = 20_000
TOTAL_COST_MAX: Final = 64 * 1024 * 1024
PATIENCE_COUNT: Final = 3
GROWTH_SIZE: Final = 16 * 1024 * 1024
"""Bytes by which the process has to grow before all connections are looked at."""

LARGE_COST: Final = 4 * 1024 * 1024
"""Nobody is disconnected for less, for the sake of all."""

MESSAGE_COST: Final = 256
"""Bytes that a message takes in libzmq beside its own, about."""

SIGN_RATE: Final = 64
"""Bytes a second that signs of life may take, and are no part of a message."""


class InflowLimits(msgspec.Struct, frozen=True):
    """What one connection may have sent at most."""

    credit_size: int
    message_size_max: int


class Inflow:
    """What has come by one connection."""

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
        self.began_ms = 0  # when its HELLO came; 0: it has not
        self.begin_size = 0  # that libzmq had read by then
        self.delivered_size = 0  # since, to the front
        self.delivered_count = 0
        self.backlog_size = 0  # as it was looked last
        self.seen_count = -1  # messages when it was looked last
        self.stalled_ms = 0  # since when nothing has come though something is there

    def begin(self, read_size: int, now_ms: int) -> None:
        """Count from the HELLO on; libzmq has read so much."""
        self.begin_size = read_size
        self.began_ms = now_ms
        self.delivered_size = self.delivered_count = 0

    def deliver(self, size: int) -> None:
        """Note that a message has come to the front."""
        self.delivered_size += size
        self.delivered_count += 1

    @property
    def cost(self) -> int:
        """What the backlog takes in memory, about."""
        if not self.delivered_count:
            return self.backlog_size
        return self.backlog_size + self.backlog_size * MESSAGE_COST * self.delivered_count // max(
            1, self.delivered_size
        )

    def look(
        self, read_size: int, now_ms: int, limits: InflowLimits, *, is_drained: bool
    ) -> str | None:
        """Note what libzmq has read; return why the connection has to end, if it does.

        ``is_drained``: nothing that was finished waits to be received.
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
    """What all connections together have sent and the front has not received."""

    def __init__(self) -> None:
        self._left_cost = 0  # by connections that have ended
        self._over_count = 0
        self._peak_size = 0  # of the process, when it was asked last
        self.is_watched = False  # a connection has a backlog: the next look comes soon

    @property
    def is_gate_shut(self) -> bool:
        """True while so much is left of ended connections that no new ones should come."""
        return self._left_cost > TOTAL_COST_MAX // 4

    def has_grown(self, peak_size: int) -> bool:
        """Return whether the process grew enough for a look at all connections.

        A look at each connection costs two system calls, a look at the process one.
        """
        if peak_size < self._peak_size + GROWTH_SIZE:
            return False
        self._peak_size = peak_size
        return True

    def ended(self, inflow: Inflow) -> None:
        """Note that a connection has ended whose messages are still to be received."""
        self._left_cost += inflow.cost

    def drained(self) -> None:
        """Note that nothing waits to be received."""
        self._left_cost = 0

    def too_large(self, inflows: Iterable[Inflow]) -> Inflow | None:
        """Return the one that has to end, if all together cost too much for too long."""
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
