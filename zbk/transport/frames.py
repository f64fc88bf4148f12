"""Multipart messages over a socket that never waits, at half of the price.

``send_multipart`` and ``recv_multipart`` combine flags as enumerations and ask the socket, frame by
frame, whether more follow: 5 µs a message, which a lone add pays twelve times.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import zmq

Frame: TypeAlias = bytes | bytearray | memoryview

_LAST: Final = int(zmq.NOBLOCK)
_SHORT_SIZE_MAX: Final = 255
_LONG_HEADER_SIZE: Final = 9
_MORE: Final = int(zmq.NOBLOCK) | int(zmq.SNDMORE)


def send_frames(socket: zmq.Socket[bytes], frames: Sequence[Frame], copy_size_max: int) -> None:
    """Send a message, all of it or nothing. Frames over ``copy_size_max`` bytes are not copied.

    Raises:
        zmq.Again: the socket takes nothing now.
        zmq.ZMQError: as ZeroMQ has it.
    """
    last = len(frames) - 1
    for number, frame in enumerate(frames):
        flags = _LAST if number == last else _MORE
        socket.send(frame, flags, copy=len(frame) <= copy_size_max)


def receive_frames(socket: zmq.Socket[bytes]) -> list[bytes]:
    """Return the message that came.

    Raises:
        zmq.Again: none has.
    """
    return receive_message(socket)[0]


def receive_message(socket: zmq.Socket[bytes]) -> tuple[list[bytes], zmq.Frame]:
    """Return the message that came, and its last frame, which says where it came from.

    Raises:
        zmq.Again: none has.
    """
    frame = socket.recv(_LAST, copy=False)
    frames = [frame.bytes]
    while frame.more:
        frame = socket.recv(_LAST, copy=False)
        frames.append(frame.bytes)
    return frames, frame


def wire_size(frames: Sequence[Frame]) -> int:
    """Return the bytes that a message takes on its way, frame headers included."""
    size = 0
    for frame in frames:
        frame_size = len(frame)
        size += frame_size + (_LONG_HEADER_SIZE if frame_size > _SHORT_SIZE_MAX else 2)
    return size


def source_fd(frame: zmq.Frame) -> int:
    """Return the descriptor of the connection that a frame came by; -1 if it is not known."""
    return frame.get(zmq.SRCFD)
