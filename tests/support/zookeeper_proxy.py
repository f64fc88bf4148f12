"""A proxy before a ZooKeeper that loses replies, falsifies them, or lets nothing through, on cue.

It reads the lengths, request ids and operation codes of the ZooKeeper protocol and nothing else.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

CREATE, DELETE, EXISTS, GET, SET, GET_CHILDREN, MULTI = 1, 2, 3, 4, 5, 8, 14
"""Operation codes of ZooKeeper requests."""

_HEAD = struct.Struct(
    ">ii"
)  # request id and operation code; of a reply: request id and half a zxid


class ZooKeeperProxy:
    """Listens on loopback and forwards to the ZooKeeper at ``server_port``."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._lock = threading.Lock()
        self._doomed_operations: frozenset[int] = frozenset()
        self._is_falsifying = False
        self._held_operation = 0
        self._may_go_on = threading.Event()
        self.request_is_held = threading.Event()
        self._is_open = threading.Event()
        self._is_open.set()
        self._connections: list[_Connection] = []
        self.reply_was_lost = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="proxy-accept", daemon=True)
        self._thread.start()

    def uri_like(self, uri: str) -> str:
        """Return the address, behind this proxy, of the root that ``uri`` names."""
        root = uri.partition("://")[2].partition("/")[2]
        return f"zk://127.0.0.1:{self.port}/{root}"

    def lose_next_reply(self, *operations: int) -> None:
        """Cut the connection instead of passing on the answer to the next of these requests."""
        with self._lock:
            self._doomed_operations = frozenset(operations)

    def falsify_next_reply(self) -> None:
        """Put an impossible request id into the next reply."""
        with self._lock:
            self._is_falsifying = True

    def hold_next_request(self, operation: int) -> None:
        """Keep the next such request back, and those behind it, until ``release_request``."""
        self.request_is_held.clear()
        self._may_go_on.clear()
        with self._lock:
            self._held_operation = operation

    def release_request(self) -> None:
        """Pass on a request that is held."""
        self._may_go_on.set()

    def block(self) -> None:
        """Pass nothing on any more: connections stay open, new ones hang."""
        self._is_open.clear()

    def unblock(self) -> None:
        """Pass everything on again, also what waited."""
        self._is_open.set()

    def cut(self) -> None:
        """Cut all connections."""
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.cut()

    def close(self) -> None:
        """End."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        self.unblock()
        self.release_request()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port), 5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            connection = _Connection(client, server)
            with self._lock:
                self._connections.append(connection)
            for target in (self._forward_requests, self._forward_replies):
                threading.Thread(target=target, args=(connection,), daemon=True).start()

    def _forward_requests(self, connection: "_Connection") -> None:
        with connection, suppress(OSError):
            for number, frame in enumerate(_frames(connection.client)):
                self._is_open.wait()
                request_id, operation = _HEAD.unpack_from(frame, 4)
                with self._lock:
                    if number and operation in self._doomed_operations:
                        self._doomed_operations = frozenset()
                        connection.doomed_request_id = request_id
                    is_held = number > 0 and operation == self._held_operation
                    self._held_operation = 0 if is_held else self._held_operation
                if is_held:
                    self.request_is_held.set()
                    self._may_go_on.wait()
                connection.server.sendall(frame)

    def _forward_replies(self, connection: "_Connection") -> None:
        with connection, suppress(OSError):
            for number, frame in enumerate(_frames(connection.server)):
                self._is_open.wait()
                request_id, _ = _HEAD.unpack_from(frame, 4)
                if number and request_id == connection.doomed_request_id:
                    self.reply_was_lost.set()
                    return
                with self._lock:
                    is_false = number > 0 and request_id > 0 and self._is_falsifying
                    self._is_falsifying = self._is_falsifying and not is_false
                if is_false:
                    frame = frame[:4] + struct.pack(">i", request_id + 1000) + frame[8:]  # noqa: PLW2901
                connection.client.sendall(frame)


class _Connection:
    """A client's connection and ours to the server. Leaving a ``with`` cuts both."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.doomed_request_id: int | None = None

    def cut(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_details: object) -> None:
        self.cut()


def _frames(source: socket.socket) -> Iterator[bytes]:
    """Yield each message with its four bytes of length."""
    buffer = b""
    while True:
        while len(buffer) < 4 or len(buffer) < 4 + int.from_bytes(buffer[:4], "big"):
            part = source.recv(65_536)
            if not part:
                return
            buffer += part
        end = 4 + int.from_bytes(buffer[:4], "big")
        yield buffer[:end]
        buffer = buffer[end:]
