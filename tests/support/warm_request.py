"""What a process and the starter say to each other: JSON, with descriptors beside it."""

import socket
from collections.abc import Sequence
from typing import Final

import msgspec

REQUEST_SIZE_MAX: Final = 1 << 20
FILE_COUNT: Final = 4
"""Standard input, output and error of a process, and where its id and its exit status go."""


class Request(msgspec.Struct, frozen=True):
    """A module to run as ``python -m`` does. Its files come beside it."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    has_session: bool


def send_request(starter: socket.socket, request: Request, files: Sequence[int]) -> None:
    """Ask for a process with these files; the last one is where its id and exit status go."""
    socket.send_fds(starter, [msgspec.json.encode(request)], files)


def receive_request(asking: socket.socket) -> tuple[Request, list[int]] | None:
    """Return a request and its files, or ``None`` when the process that asked has ended."""
    data, files, _, _ = socket.recv_fds(asking, REQUEST_SIZE_MAX, FILE_COUNT)
    return (msgspec.json.decode(data, type=Request), files) if data else None


def send_number(receiver: socket.socket, number: int) -> None:
    """Send a process id or an exit status."""
    receiver.sendall(number.to_bytes(8, "little"))


def receive_number(receiver: socket.socket, flags: int = socket.MSG_WAITALL) -> int:
    """Return a process id or an exit status; fail if the starter has ended before."""
    data = receiver.recv(8, flags)
    assert data, "the starter ended before the process"
    return int.from_bytes(data, "little")
