"""Acknowledgements of JetStream, counted by batch."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from benchmarks.peers.load import PeerFailedError, PeerLoad
from benchmarks.peers.nats_load import CountedInbox, check_answer, write

TAKEN = b'{"stream":"zbk-peers","seq":7}'
REFUSED = b'{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}'


class Message(msgspec.Struct):
    subject: str
    data: bytes


class FakeClient:
    """Answers what was published when it is told to, or at once."""

    def __init__(self, *, answers_at_once: bool = False, answer: bytes = TAKEN) -> None:
        self.published: list[str] = []
        self._answers_at_once = answers_at_once
        self._answer = answer
        self._callback: Callable[[Message], Awaitable[None]] | None = None

    def new_inbox(self) -> str:
        return "_INBOX.x"

    async def subscribe(self, subject: str, cb: Callable[[Message], Awaitable[None]]) -> None:
        assert subject == "_INBOX.x.*"
        self._callback = cb

    async def publish(self, subject: str, payload: bytes, reply: str) -> None:
        self.published.append(reply)
        if self._answers_at_once:
            await self.answer(reply, self._answer)

    async def answer(self, reply: str, data: bytes = TAKEN) -> None:
        assert self._callback is not None
        await self._callback(Message(reply, data))


def a_load(entry_count: int) -> PeerLoad:
    return PeerLoad(entry_size=10, entry_count=entry_count, api="many", batch_count=4, window=2)


def test_an_acknowledgement_has_a_number() -> None:
    check_answer(TAKEN)


@pytest.mark.parametrize("data", [REFUSED, b"", b"{}", b"no json"])
def test_anything_else_is_an_error(data: bytes) -> None:
    with pytest.raises(PeerFailedError):
        check_answer(data)


def test_a_batch_is_done_with_its_last_acknowledgement_and_others_do_not_count() -> None:
    async def story() -> None:
        client = FakeClient()
        inbox = CountedInbox(client)
        await inbox.open()
        first = await inbox.publish(b"x", 2)
        second = await inbox.publish(b"x", 1)
        of_first, of_second = client.published[0], client.published[2]

        await client.answer(of_first)
        await client.answer(of_second)
        assert second.done()
        assert not first.done()
        await client.answer(of_first)
        assert first.done()

    asyncio.run(story())


def test_a_refused_message_fails_its_batch() -> None:
    async def story() -> None:
        client = FakeClient()
        inbox = CountedInbox(client)
        await inbox.open()
        done = await inbox.publish(b"x", 2)
        await client.answer(client.published[0], REFUSED)
        with pytest.raises(PeerFailedError, match="maximum messages exceeded"):
            await done
        await client.answer(client.published[1])  # comes late and changes nothing

    asyncio.run(story())


def test_a_load_publishes_every_entry_and_times_every_batch() -> None:
    client = FakeClient(answers_at_once=True)

    latencies_s = asyncio.run(write(client, a_load(10)))

    assert len(client.published) == 10
    assert len(latencies_s) == 3
    assert all(latency_s >= 0 for latency_s in latencies_s)


def test_a_load_ends_with_the_first_refusal() -> None:
    client = FakeClient(answers_at_once=True, answer=REFUSED)

    with pytest.raises(PeerFailedError, match="refused"):
        asyncio.run(write(client, a_load(10)))


def test_what_a_failed_load_leaves_is_not_told_of_once_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """asyncio logs a failure that nobody looked at, whenever the collector comes by."""
    client = FakeClient(answers_at_once=True, answer=REFUSED)

    with pytest.raises(PeerFailedError):
        asyncio.run(write(client, a_load(10)))

    gc.collect()
    assert caplog.records == []
