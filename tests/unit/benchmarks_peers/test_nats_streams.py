"""Many JetStream streams: each acknowledgement publishes the next message of its stream."""

import asyncio
import math
from collections.abc import Awaitable, Callable

import msgspec
import pytest

pytest.importorskip("nats", reason="requirements/peers.txt is not installed")

from benchmarks.peers.load import PeerFailedError
from benchmarks.peers.nats_streams import StreamsInbox

TAKEN = b'{"stream":"zbk-peers-0","seq":7}'
REFUSED = b'{"error":{"code":503,"description":"maximum messages exceeded"}}'
SUBJECTS = ["zbk.peers.0", "zbk.peers.1"]


class Message(msgspec.Struct):
    subject: str
    data: bytes


class FakeClient:
    """Notes what is published; answers when it is told to."""

    def __init__(self) -> None:
        self.published: list[tuple[str, str]] = []
        self._callback: Callable[[Message], Awaitable[None]] | None = None

    def new_inbox(self) -> str:
        return "_INBOX.x"

    async def subscribe(self, subject: str, cb: Callable[[Message], Awaitable[None]]) -> None:
        assert subject == "_INBOX.x.*"
        self._callback = cb

    async def publish(self, subject: str, _payload: bytes, reply: str) -> None:
        self.published.append((subject, reply))

    async def answer(self, reply: str, data: bytes = TAKEN) -> None:
        assert self._callback is not None
        await self._callback(Message(reply, data))


async def an_open_inbox(client: FakeClient, subjects: list[str], until_s: float) -> StreamsInbox:
    inbox = StreamsInbox(client, b"x", subjects)
    await inbox.open()
    await inbox.start(until_s)
    return inbox


def test_an_acknowledgement_publishes_to_its_own_stream_until_the_time_is_over() -> None:
    async def story() -> None:
        client = FakeClient()
        inbox = await an_open_inbox(client, SUBJECTS, math.inf)
        assert client.published == [("zbk.peers.0", "_INBOX.x.0"), ("zbk.peers.1", "_INBOX.x.1")]

        await client.answer("_INBOX.x.1")

        assert client.published[2:] == [("zbk.peers.1", "_INBOX.x.1")]
        assert len(inbox.latencies_s) == 1
        assert not inbox.done.done()

    asyncio.run(story())


def test_it_is_done_once_every_stream_has_its_last_acknowledgement() -> None:
    async def story() -> None:
        client = FakeClient()
        inbox = await an_open_inbox(client, SUBJECTS, 0.0)

        await client.answer("_INBOX.x.0")
        assert not inbox.done.done()
        await client.answer("_INBOX.x.1")

        assert inbox.done.done()
        assert len(client.published) == 2
        assert len(inbox.latencies_s) == 2

    asyncio.run(story())


def test_a_server_that_leads_no_stream_is_done_at_once() -> None:
    async def story() -> None:
        inbox = await an_open_inbox(FakeClient(), [], math.inf)
        assert inbox.done.done()

    asyncio.run(story())


def test_a_refused_message_ends_the_load() -> None:
    async def story() -> None:
        client = FakeClient()
        inbox = await an_open_inbox(client, SUBJECTS, math.inf)

        await client.answer("_INBOX.x.0", REFUSED)
        await client.answer("_INBOX.x.1", REFUSED)

        with pytest.raises(PeerFailedError, match="maximum messages exceeded"):
            await inbox.done

    asyncio.run(story())
