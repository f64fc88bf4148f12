"""A proxy before any TCP server: it holds bytes back, one way or both, and cuts in the middle.

It knows nothing of what it carries. Held bytes wait, as they do in a TCP connection over a broken
network, and go on when the way is free again; bytes that were on their way when a connection is
cut are lost, and nobody is told which.
"""

import socket
import threading
from contextlib import suppress
from typing import Final, Literal

CHUNK_SIZE: Final = 65_536
CONNECT_TIMEOUT_S: Final = 5.0

Direction = Literal["to_server", "to_client"]


class TcpProxy:
    """Listens at ``host`` and forwards to ``target``, which may be down for a while."""

    def __init__(
        self,
        target: tuple[str, int],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        is_recording: bool = False,
    ) -> None:
        self.target = target
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self._is_free: dict[Direction, threading.Event] = {
            "to_server": threading.Event(),
            "to_client": threading.Event(),
        }
        self.unblock()
        self._left_size: int | None = None  # bytes to the server until the connection is cut
        self.cut_count = 0
        self._frozen: list[_Link] = []
        self._is_recording = is_recording
        self.recorded: dict[Direction, bytearray] = {
            "to_server": bytearray(),
            "to_client": bytearray(),
        }
        self._listener = socket.create_server((host, port))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="tcp-proxy", daemon=True)
        self._thread.start()

    # -------------------------------------------------------------- faults

    def block(self, *directions: Direction) -> None:
        """Hold bytes back, both ways if none is named; connections stay open."""
        for direction in directions or tuple(self._is_free):
            self._is_free[direction].clear()

    def unblock(self) -> None:
        """Pass everything on again, what waited first."""
        for event in self._is_free.values():
            event.set()

    def freeze(self) -> None:
        """Hold back what the connections of now send to the server; later ones are free."""
        with self._lock:
            self._frozen = list(self._links)
        for link in self._frozen:
            link.is_moving.clear()

    def thaw(self) -> None:
        """Deliver, late, what was frozen."""
        for link in self._frozen:
            link.is_moving.set()

    def cut(self) -> None:
        """Cut all connections; new ones are taken at once."""
        with self._lock:
            links, self._links = self._links, []
            self.cut_count += bool(links)
        for link in links:
            link.cut()

    def cut_after(self, size: int) -> None:
        """Pass ``size`` more bytes on to the server; cut the connection whose byte is the next."""
        with self._lock:
            self._left_size = size

    def repeat(self, data: bytes, direction: Direction = "to_server") -> None:
        """Send bytes in all connections, as if the other end had sent them."""
        with self._lock:
            for link in self._links:
                link.send(data, direction)

    def close(self) -> None:
        """End."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(CONNECT_TIMEOUT_S)
        self.unblock()
        self.thaw()
        self.cut()

    # -------------------------------------------------------------- private

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target, CONNECT_TIMEOUT_S)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            link = _Link(client, server)
            with self._lock:
                self._links.append(link)
            for source, target, direction in (
                (client, server, "to_server"),
                (server, client, "to_client"),
            ):
                threading.Thread(
                    target=self._forward, args=(link, source, target, direction), daemon=True
                ).start()

    def _forward(
        self, link: "_Link", source: socket.socket, target: socket.socket, direction: Direction
    ) -> None:
        is_free = self._is_free[direction]
        with suppress(OSError):
            while data := source.recv(CHUNK_SIZE):
                is_free.wait()
                if direction == "to_server":
                    link.is_moving.wait()
                kept = self._spared(data) if direction == "to_server" else data
                if self._is_recording:
                    self.recorded[direction] += kept
                target.sendall(kept)
                if len(kept) < len(data):
                    break
        link.cut()

    def _spared(self, data: bytes) -> bytes:
        """Return what may pass of ``data``: less than all of it means that the end has come."""
        with self._lock:
            if self._left_size is None:
                return data
            kept = data[: self._left_size]
            self._left_size -= len(kept)
            if len(kept) < len(data):
                self._left_size = None
                self.cut_count += 1
            return kept


class _Link:
    """A client's connection and ours to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._ends = (client, server)
        self.is_moving = threading.Event()
        self.is_moving.set()

    def send(self, data: bytes, direction: Direction) -> None:
        """Send bytes one way; a connection that has ended takes none."""
        with suppress(OSError):
            self._ends[direction == "to_server"].sendall(data)

    def cut(self) -> None:
        """Close both. Twice is fine."""
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
