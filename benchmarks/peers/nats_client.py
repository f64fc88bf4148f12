"""A run against NATS JetStream: servers, stream, load, count, end.

The client is connected to the server that leads the stream, so that messages go directly to it.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

from nats.errors import Error as NatsError
from nats.js.api import StorageType

from benchmarks.peers.load import Meter, PeerFailedError, PeerLoad, PeerRun, check_kept
from benchmarks.peers.nats_load import ANSWER_TIMEOUT_S, write
from benchmarks.peers.nats_servers import STREAM, SUBJECT, configuration, subject_of
from benchmarks.peers.nats_streams import connect, write_streams
from benchmarks.peers.servers import (
    LOOK_INTERVAL_S,
    SERVER_COUNT,
    START_TIMEOUT_S,
    Servers,
    Version,
)
from benchmarks.peers.streams import StreamJob, measure, stream_names
from zbk.system.clock import monotonic_s
from zbk.system.ports import free_ports

ASK_TIMEOUT_S: Final = 2.0
ASKED_AT_ONCE: Final = 16
"""Streams that are created at the same time."""


def run(server: Path, version: Version, load: PeerLoad) -> PeerRun:
    """Start three servers and a stream of three copies, write, count the entries, stop them.

    Raises:
        PeerFailedError: NATS did not start, answer, or keep what it acknowledged.
    """
    with Servers("nats") as servers:
        ports = _start(servers, server, version)
        try:
            if load.seconds:
                return _write_streams(servers, ports, version, load)
            return asyncio.run(_measure(servers, ports, load))
        except (NatsError, OSError, TimeoutError) as error:
            servers.check_running()
            raise PeerFailedError(f"NATS: {error or type(error).__name__}") from error


async def _measure(servers: Servers, ports: list[int], load: PeerLoad) -> PeerRun:
    leader_port = ports[await _make_stream(servers, ports, STREAM)]
    client = await connect(leader_port)
    try:
        stream = client.jetstream(timeout=ANSWER_TIMEOUT_S)
        await stream.publish(SUBJECT, b"warm-up")
        meter = Meter(servers.pids)
        started_s = monotonic_s()
        latencies_s = await write(client, load)
        seconds = monotonic_s() - started_s
        cost = meter.cost(load.entry_count)
        info = await stream.stream_info(STREAM)
        check_kept("NATS", load.entry_count + 1, info.state.messages)
    finally:
        await client.close()
    return PeerRun(seconds, latencies_s, cost, load.entry_count)


def _write_streams(servers: Servers, ports: list[int], version: Version, load: PeerLoad) -> PeerRun:
    names = stream_names(load)
    leaders = asyncio.run(_make_streams(servers, ports, names))
    job = StreamJob(
        peer="nats", ports=ports, version=version, load=load, streams=names, leaders=leaders
    )
    run = measure(servers, job, write_streams)
    check_kept("NATS", run.entry_count + len(names), asyncio.run(_kept_count(ports[0], names)))
    return run


async def _make_streams(servers: Servers, ports: list[int], names: list[str]) -> list[int]:
    """Create the streams; return the numbers of the servers that lead them."""
    leaders = [await _make_stream(servers, ports, names[0])]  # once the cluster has formed
    turns = asyncio.Semaphore(ASKED_AT_ONCE)

    async def make(name: str) -> int:
        async with turns:
            return await _make_stream(servers, ports, name)

    return leaders + await asyncio.gather(*map(make, names[1:]))


async def _kept_count(port: int, names: list[str]) -> int:
    """Return how many messages these streams have."""
    client = await connect(port)
    try:
        stream = client.jetstream(timeout=ANSWER_TIMEOUT_S)
        return sum([(await stream.stream_info(name)).state.messages for name in names])
    finally:
        await client.close()


def _start(servers: Servers, server: Path, version: Version) -> list[int]:
    """Start the servers; return the ports for clients."""
    all_ports = free_ports(2 * SERVER_COUNT)
    ports, cluster_ports = all_ports[:SERVER_COUNT], all_ports[SERVER_COUNT:]
    for index in range(SERVER_COUNT):
        folder = servers.folder / f"nats{index}"
        folder.mkdir()
        file = servers.folder / f"nats{index}.conf"
        file.write_text(configuration(folder, index, version, ports, cluster_ports), "utf-8")
        servers.start(f"nats {index}", [str(server), "-c", str(file)])
    return ports


async def _make_stream(servers: Servers, ports: list[int], name: str) -> int:
    """Create a stream when the cluster has formed; return the number of the server that leads it.

    Raises:
        PeerFailedError: a server ended, or the cluster took longer than ``START_TIMEOUT_S``.
    """
    deadline_s = monotonic_s() + START_TIMEOUT_S
    why: Exception | None = None
    while monotonic_s() < deadline_s:
        servers.check_running()
        try:
            return await _try_make_stream(ports[0], name)
        except (
            NatsError,
            OSError,
            TimeoutError,
        ) as error:  # not listening, or without a leader yet
            why = error
        await asyncio.sleep(LOOK_INTERVAL_S)
    raise PeerFailedError(f"NATS' cluster: not within {START_TIMEOUT_S:g} s ({why!r})")


async def _try_make_stream(port: int, name: str) -> int:
    client = await connect(port)
    try:
        stream = client.jetstream(timeout=ASK_TIMEOUT_S)
        with suppress(
            TimeoutError
        ):  # the request may still succeed; the next look finds the stream
            await stream.add_stream(
                name=name,
                subjects=[subject_of(name)],
                storage=StorageType.FILE,
                num_replicas=SERVER_COUNT,
            )
        cluster = (await stream.stream_info(name)).cluster
        replicas = cluster.replicas or []
        if not cluster.leader or sum(replica.current for replica in replicas) < SERVER_COUNT - 1:
            raise TimeoutError("the stream's replicas are not there yet")
        return int(cluster.leader.removeprefix("nats"))
    finally:
        await client.close()
