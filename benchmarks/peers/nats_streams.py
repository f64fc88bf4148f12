"""The load on many JetStream streams of three copies, through nats-py.

The client has a connection to each server, and publishes to a stream on the connection of the
server that leads it, so that messages go directly to it. One event loop runs all of it.

- ``async``: an inbox for each connection receives the acknowledgements, each of which publishes the
  next message of its stream, without a future: the least work for a client;
- ``sync``: ``publish``, which waits for the acknowledgement, in a task for each stream, because
  nats-py has no threads.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import nats
from nats.errors import Error as NatsError

from benchmarks.peers.load import PeerFailedError
from benchmarks.peers.nats_load import Client, check_answer
from benchmarks.peers.nats_servers import CONNECT_TIMEOUT_S, subject_of
from benchmarks.peers.servers import HOST
from benchmarks.peers.streams import ANSWER_TIMEOUT_S, StreamJob, Timed
from zbk.system.clock import monotonic_s


class StreamsInbox:
    """Receives the acknowledgements of streams' messages; each publishes the next message."""

    def __init__(self, client: Client, payload: bytes, subjects: list[str]) -> None:
        self.latencies_s: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._client = client
        self._payload = payload
        self._prefix: str = client.new_inbox()
        self._subjects = {f"{self._prefix}.{n}": subject for n, subject in enumerate(subjects)}
        self._sent_s: dict[str, float] = {}
        self._until_s = 0.0
        self._open_count = len(subjects)

    async def open(self) -> None:
        """Subscribe to acknowledgements."""
        await self._client.subscribe(f"{self._prefix}.*", cb=self._on_answer)

    async def start(self, until_s: float) -> None:
        """Publish to each stream, and continue until a time; ``done`` is set at the end."""
        self._until_s = until_s
        if not self._subjects:
            self.done.set_result(None)
        for reply in self._subjects:
            await self._publish(reply)

    async def _publish(self, reply: str) -> None:
        self._sent_s[reply] = monotonic_s()
        await self._client.publish(self._subjects[reply], self._payload, reply=reply)

    async def _on_answer(self, message: Any) -> None:  # noqa: ANN401 - nats-py's
        try:
            check_answer(message.data)
        except PeerFailedError as error:
            if not self.done.done():
                self.done.set_exception(error)
            return
        now_s = monotonic_s()
        self.latencies_s.append(now_s - self._sent_s[message.subject])
        if now_s < self._until_s:
            await self._publish(message.subject)
            return
        self._open_count -= 1
        if not self._open_count and not self.done.done():
            self.done.set_result(None)


def write_streams(job: StreamJob, before_start: Callable[[], None]) -> Timed:
    """Connect to all servers, call ``before_start``, write until the time is over.

    Raises:
        PeerFailedError: NATS did not answer, or refused a message.
    """
    try:
        return asyncio.run(_write(job, before_start))
    except (NatsError, OSError, TimeoutError) as error:
        raise PeerFailedError(f"NATS: {error or type(error).__name__}") from error


async def connect(port: int) -> Client:
    """Return a client that is connected only to this server."""
    return await nats.connect(
        f"nats://{HOST}:{port}",
        connect_timeout=CONNECT_TIMEOUT_S,
        allow_reconnect=False,
        error_cb=_say_nothing,
    )


async def _write(job: StreamJob, before_start: Callable[[], None]) -> Timed:
    payload = os.urandom(job.load.entry_size)
    clients = [await connect(port) for port in job.ports]
    try:
        for name, leader in zip(job.streams, job.leaders, strict=True):
            stream = clients[leader].jetstream(timeout=ANSWER_TIMEOUT_S)
            await stream.publish(subject_of(name), b"warm-up")
        write = _write_sync if job.load.api == "sync" else _write_async
        return await write(job, clients, payload, before_start)
    finally:
        for client in clients:
            with suppress(NatsError, OSError):
                await client.close()


async def _write_async(
    job: StreamJob, clients: list[Client], payload: bytes, before_start: Callable[[], None]
) -> Timed:
    inboxes = []
    for place, client in enumerate(clients):
        led = [
            subject_of(name)
            for name, leader in zip(job.streams, job.leaders, strict=True)
            if leader == place
        ]
        inboxes.append(StreamsInbox(client, payload, led))
        await inboxes[-1].open()
        await client.flush()
    before_start()
    started_s = monotonic_s()
    async with asyncio.timeout(job.load.seconds + ANSWER_TIMEOUT_S):
        for inbox in inboxes:
            await inbox.start(started_s + job.load.seconds)
        await asyncio.gather(*(inbox.done for inbox in inboxes))
    ended_s = monotonic_s()
    return started_s, ended_s, [latency for inbox in inboxes for latency in inbox.latencies_s]


async def _write_sync(
    job: StreamJob, clients: list[Client], payload: bytes, before_start: Callable[[], None]
) -> Timed:
    latencies_s: list[float] = []
    streams = [client.jetstream(timeout=ANSWER_TIMEOUT_S) for client in clients]

    async def run(name: str, leader: int) -> None:
        publish, subject = streams[leader].publish, subject_of(name)
        while (sent_s := monotonic_s()) < until_s:
            await publish(subject, payload)
            latencies_s.append(monotonic_s() - sent_s)

    before_start()
    started_s = monotonic_s()
    until_s = started_s + job.load.seconds
    await asyncio.gather(*map(run, job.streams, job.leaders))
    return started_s, monotonic_s(), latencies_s


async def _say_nothing(_error: Exception) -> None:
    """Drop nats-py's own log: the calls that wait raise its errors."""
