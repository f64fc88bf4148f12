"""Peers that are bare TCP sockets: mute, or speaking as much of ZMTP 3 as a test wants."""

import socket
import struct
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from tests.support.machine import patient_s


def greeting(mechanism: bytes) -> bytes:
    """Return the first bytes of a connection by ZMTP 3.1 that names a mechanism."""
    return b"\xff" + bytes(8) + b"\x7f\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32)


_GREETING: Final = greeting(b"NULL")
_TIMEOUT_S: Final = patient_s(20.0)
_SHORT_SIZE_MAX: Final = 255


class RawPeer:
    """One TCP connection to a bookie, or to its HTTP server."""

    def __init__(self, endpoint: str, *, is_greeting: bool = False) -> None:
        host, _, port = endpoint.rpartition("//")[2].rpartition(":")
        self._address = (host, int(port))
        self.socket = socket.create_connection(self._address, timeout=_TIMEOUT_S)
        if is_greeting:
            try:
                self.greet()
            except OSError:
                self.close()
                raise

    def connect_again(self) -> None:
        """Connect anew."""
        self.close()
        self.socket = socket.create_connection(self._address, timeout=_TIMEOUT_S)

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def greet(self, user_id: bytes = b"") -> None:
        """Go through the handshake of ZeroMQ, as a DEALER; say nothing after it.

        ``user_id``: who it says that it is.
        """
        self.socket.sendall(_GREETING + ready(user_id))
        self._receive(len(_GREETING))
        _flags, size = self._receive(2)
        self._receive(size)  # nothing else may be said before the other side is ready

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += (more := self.socket.recv(size - len(data)))
            if not more:
                raise ConnectionResetError("it was ended in the handshake")
        return data

    @staticmethod
    def frame(data: bytes, *, has_more: bool = False) -> bytes:
        """Return one frame of a message."""
        if len(data) <= _SHORT_SIZE_MAX:
            return bytes([has_more, len(data)]) + data
        return struct.pack(">BQ", 2 | has_more, len(data)) + data

    def send_message(self, *frames: bytes) -> None:
        """Send a message of these frames."""
        for number, frame in enumerate(frames):
            self.socket.sendall(self.frame(frame, has_more=number < len(frames) - 1))

    def receive_frame(self) -> bytes:
        """Return the next frame."""
        flags, size = self._receive(2)
        if flags & 2:  # a long one: seven more bytes of its size
            size = int.from_bytes(bytes([size]) + self._receive(7), "big")
        return self._receive(size)

    def wait_until_ended(self) -> None:
        """Return once the bookie has closed the connection."""
        self.receive_all()

    def receive_all(self) -> bytes:
        """Return what comes until the bookie closes the connection."""
        data = b""
        with suppress(ConnectionResetError):
            while more := self.socket.recv(65_536):
                data += more
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def ready(user_id: bytes = b"") -> bytes:
    """Return the command with which a DEALER without encryption is ready."""
    body = _property("Socket-Type", b"DEALER")
    return command(b"READY", body + (_property("User-Id", user_id) if user_id else b""))


def command(name: bytes, body: bytes) -> bytes:
    """Return a command of ZMTP."""
    data = bytes([len(name)]) + name + body
    return bytes([4, len(data)]) + data


def _property(name: str, value: bytes) -> bytes:
    return bytes([len(name)]) + name.encode() + struct.pack(">I", len(value)) + value
