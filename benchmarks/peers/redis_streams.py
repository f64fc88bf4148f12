"""The load on many Redis streams: a connection for each, an append and its confirmation on it.

A confirm command blocks its connection, so independent streams need a connection each. Sockets are
read directly, and answers parsed by hiredis: redis-py's connections cost several times as much, and
would measure the client instead of Redis.

- ``async``: one thread serves all connections with epoll; an answer sends the next append;
- ``sync``: a thread for each stream, which sends and waits.
"""

import os
import select
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final, Self

import hiredis

from benchmarks.peers.load import PeerFailedError
from benchmarks.peers.redis_servers import Command, confirm_commands, is_confirmed
from benchmarks.peers.servers import HOST, Version
from benchmarks.peers.streams import ANSWER_TIMEOUT_S, StreamJob, Timed
from zbk.system.clock import monotonic_s

READ_SIZE: Final = 16 * 1024


class StreamLine:
    """A connection with at most one append in flight, always to the same stream."""

    def __init__(
        self, connection: socket.socket, stream: str, payload: bytes, version: Version
    ) -> None:
        self._connection = connection
        commands: list[Command] = [
            ("XADD", stream, "*", "p", payload),
            *confirm_commands(version),
        ]
        self._request = b"".join(map(hiredis.pack_command, commands))
        self._answer_count = len(commands)
        self._left_count = 0
        self._reader: Any = hiredis.Reader()
        self.sent_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._connection.fileno()

    def send(self) -> None:
        """Append an entry and ask for its confirmation."""
        self._left_count = self._answer_count
        self.sent_s = monotonic_s()
        self._connection.sendall(self._request)

    def receive(self) -> bool:
        """Read the received bytes; return whether the append is confirmed.

        Raises:
            PeerFailedError: the append was refused, or too few copies confirmed in time.
        """
        data = self._connection.recv(READ_SIZE)
        if not data:
            raise PeerFailedError("Redis: the connection was closed")
        self._reader.feed(data)
        while self._left_count and (answer := self._reader.gets()) is not False:
            is_first = self._left_count == self._answer_count
            if not (isinstance(answer, bytes) if is_first else is_confirmed(answer)):
                raise PeerFailedError(f"Redis: an append was not confirmed: {answer!r}")
            self._left_count -= 1
        return not self._left_count

    def append(self) -> float:
        """Append an entry; return its latency in seconds when it is confirmed."""
        self.send()
        while not self.receive():
            pass
        return monotonic_s() - self.sent_s


def write_streams(job: StreamJob, before_start: Callable[[], None]) -> Timed:
    """Open a connection for each stream, call ``before_start``, write until the time is over.

    Raises:
        PeerFailedError: Redis did not answer or confirm.
    """
    payload = os.urandom(job.load.entry_size)
    try:
        with ExitStack() as exits:
            lines = [
                exits.enter_context(StreamLine(_connect(job.ports[0]), name, payload, job.version))
                for name in job.streams
            ]
            for line in lines:
                line.append()
            before_start()
            started_s = monotonic_s()
            until_s = started_s + job.load.seconds
            write = _write_sync if job.load.api == "sync" else _write_async
            latencies_s = write(lines, until_s)
            return started_s, monotonic_s(), latencies_s
    except OSError as error:
        raise PeerFailedError(f"Redis: {error!r}") from error


def _write_async(lines: list[StreamLine], until_s: float) -> list[float]:
    latencies_s: list[float] = []
    lines_by_fd = {line.fileno(): line for line in lines}
    with select.epoll(len(lines)) as poll:
        for line in lines:
            poll.register(line, select.EPOLLIN)
            line.send()
        open_count = len(lines)
        while open_count:
            events = poll.poll(ANSWER_TIMEOUT_S, len(lines))
            if not events:
                raise PeerFailedError(f"Redis: no answer in {ANSWER_TIMEOUT_S:g} s")
            for fd, _ in events:
                line = lines_by_fd[fd]
                if not line.receive():
                    continue
                now_s = monotonic_s()
                latencies_s.append(now_s - line.sent_s)
                if now_s < until_s:
                    line.send()
                else:
                    open_count -= 1
    return latencies_s


def _write_sync(lines: list[StreamLine], until_s: float) -> list[float]:
    def run(line: StreamLine) -> list[float]:
        latencies_s = []
        while monotonic_s() < until_s:
            latencies_s.append(line.append())
        return latencies_s

    if len(lines) == 1:
        return run(lines[0])
    with ThreadPoolExecutor(len(lines)) as threads:
        return [latency_s for its in threads.map(run, lines) for latency_s in its]


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection((HOST, port), ANSWER_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
