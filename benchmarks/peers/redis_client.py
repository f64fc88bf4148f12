"""A run against Redis Streams: servers, load, count, end; through redis-py and hiredis."""

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

from redis.connection import Connection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from benchmarks.peers.load import (
    SAMPLE_EVERY,
    Meter,
    PeerFailedError,
    PeerLoad,
    PeerRun,
    check_kept,
)
from benchmarks.peers.redis_load import write
from benchmarks.peers.redis_servers import (
    CONFIRM_TIMEOUT_MS,
    STREAM,
    Command,
    add_command,
    confirm_commands,
    is_confirmed,
    online_replica_count,
    server_arguments,
)
from benchmarks.peers.redis_streams import write_streams
from benchmarks.peers.servers import HOST, SERVER_COUNT, Servers, Version
from benchmarks.peers.streams import StreamJob, measure, stream_names
from zbk.system.clock import monotonic_s
from zbk.system.ports import free_ports

ANSWER_TIMEOUT_S: Final = 3 * CONFIRM_TIMEOUT_MS / 1000


def run(server: Path, version: Version, load: PeerLoad) -> PeerRun:
    """Start a master and two replicas, write, count the entries, stop them.

    Raises:
        PeerFailedError: Redis did not start, answer, confirm, or keep what it confirmed.
    """
    with Servers("redis") as servers, ExitStack() as stack:
        port = _start(servers, server)
        try:
            if load.seconds:
                return _write_streams(servers, port, version, load)
            lines = [stack.enter_context(_Line(port, version)) for _ in range(load.window)]
            servers.wait_until(lambda: _is_whole(lines[0]), "Redis' replicas")
            for line in lines:
                line.send(b"warm-up", 1)
                line.confirm()
            meter = Meter(servers.pids)
            started_s = monotonic_s()
            latencies_s = write(lines, load)
            seconds = monotonic_s() - started_s
            cost = meter.cost(load.entry_count)
            kept_count = int(lines[0].ask("XLEN", STREAM))
        except RedisError as error:
            servers.check_running()
            raise PeerFailedError(f"Redis: {error}") from error
        check_kept("Redis", load.entry_count + len(lines), kept_count)
    return PeerRun(seconds, latencies_s, cost, load.entry_count)


def _write_streams(servers: Servers, port: int, version: Version, load: PeerLoad) -> PeerRun:
    names = stream_names(load)
    job = StreamJob(peer="redis", ports=[port], version=version, load=load, streams=names)
    with _Line(port, version) as line:
        servers.wait_until(lambda: _is_whole(line), "Redis' replicas")
        run = measure(servers, job, write_streams)
        kept_count = sum(int(line.ask("XLEN", name)) for name in names)
    check_kept("Redis", run.entry_count + len(names), kept_count)
    return run


class _Line:
    """A ``Line`` of ``redis_load``."""

    def __init__(self, port: int, version: Version) -> None:
        self._connection: Any = Connection(host=HOST, port=port, socket_timeout=ANSWER_TIMEOUT_S)
        self._confirm = confirm_commands(version)
        self._sent_count = 0
        self._sent_s: list[float] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.disconnect()

    def send(self, payload: bytes, count: int) -> None:
        """Send a batch and ask for its confirmation."""
        self._sent_s = [monotonic_s()]
        self._send([add_command(payload)] * count + self._confirm)
        self._sent_count = count

    def send_singly(self, payload: bytes, count: int) -> None:
        """Send entries, one call each, and ask for their confirmation."""
        self._sent_s = []
        for number in range(count):
            if number % SAMPLE_EVERY == 0:
                self._sent_s.append(monotonic_s())
            self._send([add_command(payload)])
        self._send(self._confirm)
        self._sent_count = count

    def confirm(self) -> list[float]:
        """Wait for the answers to all that was sent; return the measured latencies in seconds.

        Raises:
            PeerFailedError: too few copies confirmed in time.
        """
        for _ in range(self._sent_count):
            self._connection.read_response()
        for command in self._confirm:
            answer = self._connection.read_response()
            if not is_confirmed(answer):
                raise PeerFailedError(
                    f"Redis: {command[0]!r} not fulfilled in {CONFIRM_TIMEOUT_MS} ms: {answer}"
                )
        now_s = monotonic_s()
        return [now_s - sent_s for sent_s in self._sent_s]

    def ask(self, *command: str) -> Any:  # noqa: ANN401 - what redis-py gives
        """Return the answer to one command."""
        self._connection.send_command(*command)
        return self._connection.read_response()

    def _send(self, commands: list[Command]) -> None:
        self._connection.send_packed_command(self._connection.pack_commands(commands))


def _start(servers: Servers, server: Path) -> int:
    """Start master and replicas; return the master's port."""
    ports = free_ports(SERVER_COUNT)
    for index, port in enumerate(ports):
        folder = servers.folder / f"redis{index}"
        folder.mkdir()
        arguments = server_arguments(folder, port, ports[0] if index else None)
        servers.start(f"redis {index}", [str(server), *arguments])
    return ports[0]


def _is_whole(line: _Line) -> bool:
    with suppress(RedisConnectionError):  # not listening yet
        text = bytes(line.ask("INFO", "replication")).decode()
        return online_replica_count(text) == SERVER_COUNT - 1
    return False
