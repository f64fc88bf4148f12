"""Operations on a TCP connection that another library owns, by the number of its descriptor.

The owner may close the descriptor at any time, and its number may be used again for another
connection or a file. So each connection has a *cookie*, the kernel's number for a socket, which is
not used again while the machine runs. Each function that changes a connection first compares the
cookie, on a duplicate descriptor that only this module closes.
"""

import ctypes
import os
import socket
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

_SO_COOKIE: Final = 57
_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_TCP_INFO: Final = 11
_ACKED_OFFSET: Final = 120  # of ``struct tcp_info``
_ACKED_RECEIVED: Final = struct.Struct("=QQ")
_INFO_SIZE: Final = _ACKED_OFFSET + _ACKED_RECEIVED.size

_libc = ctypes.PyDLL(None)  # the calls do not wait: releasing Python's lock would cost more
_info = ctypes.create_string_buffer(
    _INFO_SIZE
)  # used by one thread at a time: Python's lock is held

_DROP_ALL: Final = struct.pack("HBBI", 0x06, 0, 0, 0)  # classic BPF: return 0 bytes of the packet


def cookie_of(fd: int) -> int:
    """Return the cookie of an open socket; 0 if it is not a socket, or is closed."""
    with _own(fd) as own:
        return 0 if own is None else _cookie(own)


def end_connection(fd: int, cookie: int) -> None:
    """End the connection with this cookie, in both directions, if ``fd`` still belongs to it.

    The owner of the descriptor sees the end of the stream, and closes it. The kernel drops unsent
    bytes.
    """
    with _own(fd) as own:
        if own is not None and cookie and _cookie(own) == cookie:
            with suppress(OSError):  # the peer was faster
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                own.shutdown(socket.SHUT_RDWR)


def peer_address(fd: int) -> str:
    """Return the address of the peer of a connection, as host:port; "" if there is none."""
    with _own(fd) as own:
        found = None
        if own is not None:
            with suppress(OSError):
                found = own.getpeername()
    if not isinstance(found, tuple):
        return ""
    host = f"[{found[0]}]" if ":" in found[0] else found[0]
    return f"{host}:{found[1]}"


class TcpCounts(NamedTuple):
    """The kernel's counts of a connection, in bytes."""

    acked_size: int  # acknowledged by the peer's machine
    received_size: int  # received in order, read or not
    unread_size: int  # received and not read yet


def tcp_counts(fd: int) -> TcpCounts | None:
    """Return the counts of the connection of a descriptor; ``None`` if it is not TCP."""
    size = ctypes.c_uint32(_INFO_SIZE)
    if _libc.getsockopt(fd, socket.IPPROTO_TCP, _TCP_INFO, _info, ctypes.byref(size)):
        return None
    if size.value < _INFO_SIZE:
        return None  # an old kernel
    acked_size, received_size = _ACKED_RECEIVED.unpack_from(_info, _ACKED_OFFSET)
    unread = ctypes.c_int(0)
    if _libc.ioctl(fd, termios.FIONREAD, ctypes.byref(unread)):
        return None
    return TcpCounts(acked_size, received_size, unread.value)


class Listener:
    """A listening socket that another library accepts connections from."""

    def __init__(self, fd: int) -> None:
        self._socket: socket.socket | None = socket.socket(fileno=os.dup(fd))
        self.is_shut = False

    def shut(self) -> None:
        """Refuse new connections: the kernel drops their packets, and the peers retry.

        Connections that wait to be accepted still are. Nothing happens if the kernel refuses.
        """
        if self._socket is not None and not self.is_shut:
            program = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
            filter_ = struct.pack("HP", 1, ctypes.addressof(program))
            with suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)
            self.is_shut = True

    def open(self) -> None:
        """Accept new connections again."""
        if self._socket is not None and self.is_shut:
            with suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            self.is_shut = False

    def close(self) -> None:
        """Close the descriptor."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


@contextmanager
def _own(fd: int) -> Iterator[socket.socket | None]:
    """Yield a duplicate of the socket that ``fd`` is now; ``None`` if it is not a socket."""
    own: socket.socket | None = None
    with suppress(OSError):
        copy = os.dup(fd)
        try:
            own = socket.socket(fileno=copy)
        except OSError:
            os.close(copy)
    try:
        yield own
    finally:
        if own is not None:
            own.close()


def _cookie(own: socket.socket) -> int:
    try:
        return int.from_bytes(own.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8), "little")
    except OSError:
        return 0
