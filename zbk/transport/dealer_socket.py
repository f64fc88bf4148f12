"""A DEALER socket with its monitor: one life of a connection to a bookie.

ZeroMQ's own silent reconnect is off. Each life has its own socket and routing id, so that an answer
to an earlier life cannot arrive.
"""

import os
import struct
from collections.abc import Sequence
from typing import Final

import zmq

from zbk.transport.attempt import Attempt
from zbk.transport.curve import connect_encrypted
from zbk.transport.frames import Frame, send_frames

_MONITOR_HEAD: Final = struct.Struct("=Hi")
"""Event and value, the first frame of a monitor's message; ``zmq.utils.monitor`` loads asyncio."""

COPY_SIZE_MAX: Final = 64 * 1024
HEARTBEAT_MS: Final = 2_000
HEARTBEAT_TIMEOUT_MS: Final = 6_000
ANSWER_SIZE_MAX: Final = 512 * 1024 * 1024
LINGER_MS: Final = 0
NEVER_AGAIN_MS: Final = 10 * 24 * 3600 * 1000
"""libzmq's own pause before it reconnects: the socket is closed long before.

-1, which stands for "never", and ``IMMEDIATE`` both end the pipe of a lost connection at once. In
the middle of a message that has arrived (libzmq looks at each hundredth frame) that aborts the
process: ``Assertion failed: !_more (src/fq.cpp)``.
"""


class DealerSocket:
    """A socket and the monitor that reports what becomes of its TCP connection.

    The monitor does not report ``EVENT_HANDSHAKE_FAILED_PROTOCOL`` (see ``router.EVENTS``), and the
    socket has no limit on messages that wait (see ``zbk.transport.inflow``): both let a peer abort
    this process. What waits is bounded by what this client has asked for.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", life: Attempt) -> None:
        self.socket = socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.ROUTING_ID, b"z" + os.urandom(15))
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.RECONNECT_IVL, NEVER_AGAIN_MS)
        socket.setsockopt(zmq.CONNECT_TIMEOUT, life.timeout_ms)
        socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
        socket.setsockopt(zmq.MAXMSGSIZE, ANSWER_SIZE_MAX)
        socket.setsockopt(zmq.RCVHWM, 0)
        if life.door.public_key:
            pair = life.credentials.pair
            assert pair is not None, "an encrypted connection has two keys"
            connect_encrypted(socket, pair, life.door.public_key)
        monitor = socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED
            | zmq.EVENT_DISCONNECTED
            | zmq.EVENT_CLOSED
            | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
            | zmq.EVENT_HANDSHAKE_FAILED_AUTH
        )
        assert monitor is not None, "a new socket has no monitor yet"
        self.monitor = monitor

    def next_event(self) -> int | None:
        """Return the next event of the monitor; ``None`` if there is none now."""
        try:
            head, _endpoint = self.monitor.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        event: int = _MONITOR_HEAD.unpack(head)[0]
        return event

    def try_send(self, frames: Sequence[Frame]) -> bool:
        """Send a message; return false, with nothing sent, if the socket takes no more now."""
        try:
            send_frames(self.socket, frames, COPY_SIZE_MAX)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        """Close the socket and its monitor."""
        self.socket.disable_monitor()
        self.monitor.close(LINGER_MS)
        self.socket.close(LINGER_MS)
