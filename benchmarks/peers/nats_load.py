"""The load on JetStream, through a nats-py client that is connected to the stream's leader.

JetStream takes messages one by one; nats-py has no batches.

- ``many``: the messages of a batch, published with one inbox for their acknowledgements, which are
  counted: the least work for a client. A batch is timed from its first message to its last
  acknowledgement;
- ``async``: ``publish_async``, nats-py's own, with a future for each message;
- ``sync``: ``publish``, which waits for the acknowledgement, one after another.

One event loop runs all of it.
"""

import asyncio
import os
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from benchmarks.peers.load import SAMPLE_EVERY, PeerFailedError, PeerLoad, batch_sizes
from benchmarks.peers.nats_servers import SUBJECT
from zbk.conversion import decode_json
from zbk.system.clock import monotonic_s

ANSWER_TIMEOUT_S: Final = 60.0

Client = Any  # nats-py's type is not known where nats-py is not installed


class Answer(msgspec.Struct, frozen=True):
    """The used part of JetStream's answer to a message."""

    seq: int = 0
    error: dict[str, Any] | None = None


def check_answer(data: bytes) -> None:
    """Check an acknowledgement.

    Raises:
        PeerFailedError: the message was refused.
    """
    try:
        answer = decode_json(data, Answer)
    except msgspec.DecodeError as error:
        raise PeerFailedError(f"NATS: no acknowledgement: {data!r} ({error})") from error
    if answer.error is not None or not answer.seq:
        raise PeerFailedError(f"NATS: a message was refused: {answer.error}")


class CountedInbox:
    """Counts the acknowledgements of batches, each with its own subject below a common one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._prefix: str = client.new_inbox()
        self._left_counts: dict[str, int] = {}
        self._done: dict[str, asyncio.Future[None]] = {}
        self._batch_count = 0

    async def open(self) -> None:
        """Subscribe to acknowledgements."""
        await self._client.subscribe(f"{self._prefix}.*", cb=self._on_answer)

    async def publish(self, payload: bytes, count: int) -> asyncio.Future[None]:
        """Publish a batch; return a future that is done when all of it is acknowledged."""
        self._batch_count += 1
        subject = f"{self._prefix}.{self._batch_count}"
        done = asyncio.get_running_loop().create_future()
        self._left_counts[subject], self._done[subject] = count, done
        for _ in range(count):
            await self._client.publish(SUBJECT, payload, reply=subject)
        return done

    async def _on_answer(self, message: Any) -> None:  # noqa: ANN401 - nats-py's
        done = self._done[message.subject]
        try:
            check_answer(message.data)
        except PeerFailedError as error:
            if not done.done():
                done.set_exception(error)
            return
        self._left_counts[message.subject] -= 1
        if not self._left_counts[message.subject] and not done.done():
            done.set_result(None)


async def write(client: Client, load: PeerLoad) -> list[float]:
    """Write the load; return latencies in seconds.

    Raises:
        PeerFailedError: a message was refused.
        TimeoutError: an acknowledgement did not come.
    """
    latencies_s: list[float] = []
    payload = os.urandom(load.entry_size)
    writers = {"many": _write_many, "async": _write_async, "sync": _write_sync}
    await writers[load.api](client, load, payload, latencies_s)
    return latencies_s


async def _write_many(
    client: Client, load: PeerLoad, payload: bytes, latencies_s: list[float]
) -> None:
    inbox = CountedInbox(client)
    await inbox.open()
    waiting: deque[asyncio.Future[None]] = deque()
    try:
        for count in batch_sizes(load):
            if len(waiting) == load.window:
                await _wait(waiting.popleft())
            sent_s = monotonic_s()
            waiting.append(await inbox.publish(payload, count))
            _time(waiting[-1], sent_s, latencies_s)
        while waiting:
            await _wait(waiting.popleft())
    finally:
        _leave(waiting)


async def _write_async(
    client: Client, load: PeerLoad, payload: bytes, latencies_s: list[float]
) -> None:
    window_max = load.window * load.batch_count  # as many bytes in flight as in batches
    stream = client.jetstream(publish_async_max_pending=window_max)
    waiting: deque[asyncio.Future[Any]] = deque()
    try:
        for number in range(load.entry_count):
            if len(waiting) == window_max:
                await _wait(waiting.popleft())
            sent_s = monotonic_s()
            waiting.append(
                await stream.publish_async(SUBJECT, payload, wait_stall=ANSWER_TIMEOUT_S)
            )
            if number % SAMPLE_EVERY == 0:
                _time(waiting[-1], sent_s, latencies_s)
        while waiting:
            await _wait(waiting.popleft())
    finally:
        _leave(waiting)


async def _write_sync(
    client: Client, load: PeerLoad, payload: bytes, latencies_s: list[float]
) -> None:
    stream = client.jetstream(timeout=ANSWER_TIMEOUT_S)
    for _ in range(load.entry_count):
        sent_s = monotonic_s()
        await stream.publish(SUBJECT, payload)
        latencies_s.append(monotonic_s() - sent_s)


async def _wait(future: asyncio.Future[Any]) -> None:
    if future.done():
        future.result()
        return
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        await future


def _leave(futures: Iterable[asyncio.Future[Any]]) -> None:
    """Drop these futures: the first failure was raised, and asyncio must not log the others."""
    for future in futures:
        if future.done():
            _look_at(future)
        else:
            future.add_done_callback(_look_at)


def _look_at(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


def _time(future: asyncio.Future[Any], sent_s: float, latencies_s: list[float]) -> None:
    future.add_done_callback(lambda _future: latencies_s.append(monotonic_s() - sent_s))
