"""Peers that are bare TCP sockets: mute, or speaking as much of ZMTP 3 as a test wants."""

import socket
import struct
from types import TracebackType
from typing import Final, Self

_GREETING: Final = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_TIMEOUT_S: Final = 20.0


class RawPeer:
    """One TCP connection to a bookie."""

    def __init__(self, endpoint: str, *, is_greeting: bool = False) -> None:
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
        if is_greeting:
            self.greet()

    def greet(self) -> None:
        """Go through the handshake of ZeroMQ, as a DEALER; say nothing after it."""
        self.socket.sendall(_GREETING + _command(b"READY", _property("Socket-Type", b"DEALER")))

    def send_frame(self, data: bytes, *, has_more: bool) -> None:
        """Send one frame of a message."""
        self.socket.sendall(struct.pack(">BQ", 2 | has_more, len(data)) + data)

    def wait_until_ended(self) -> None:
        """Return once the bookie has closed the connection."""
        try:
            while self.socket.recv(65_536):
                pass
        except ConnectionResetError:
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.socket.close()


def _command(name: bytes, body: bytes) -> bytes:
    data = bytes([len(name)]) + name + body
    return bytes([4, len(data)]) + data


def _property(name: str, value: bytes) -> bytes:
    return bytes([len(name)]) + name.encode() + struct.pack(">I", len(value)) + value
