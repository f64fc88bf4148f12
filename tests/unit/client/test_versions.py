"""A client and a bookie of which one speaks version 2 of the protocol: an upgrade, in both orders.

A whole bookie in this process; a peer of version 2 is one that says so, and gets no bundle.
"""

from functools import partial

import pytest

from tests.support.bookie_here import ONE, BookieHere
from zbk.client.api import Client
from zbk.transport import events, greeting
from zbk.wire import codec
from zbk.wire.messages import VERSION_MIN, AnswerBundle, Bundle, Hello, Message


@pytest.fixture
def bundles(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """All bundles that any side has sent."""
    sent: list[Message] = []
    encode = codec.encode

    def watch(message: Message) -> bytes:
        if isinstance(message, Bundle | AnswerBundle):
            sent.append(message)
        return encode(message)

    monkeypatch.setattr(codec, "encode", watch)
    return sent


def use(client: Client) -> None:
    """Do what makes bundles: much in many ledgers at once."""
    writers = client.create_ledgers(30, **ONE)
    futures = [writer.append_async(b"%d" % number) for number in range(5) for writer in writers]
    assert [future.result(20) for future in futures] == [at // 30 for at in range(150)]
    assert client.close_all(writers) == [4] * 30
    for writer in writers:
        reader = client.open_ledger(writer.ledger_id)
        assert [bytes(entry.payload) for entry in reader.read(0, 4)] == [
            b"0",
            b"1",
            b"2",
            b"3",
            b"4",
        ]


def test_both_of_version_3(world: BookieHere, bundles: list[Message]) -> None:
    with world.connect() as client:
        use(client)
    assert {type(one) for one in bundles} == {Bundle, AnswerBundle}


def test_a_client_of_version_2(
    world: BookieHere, bundles: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "Hello", partial(Hello, version_max=VERSION_MIN))
    with world.connect() as client:
        use(client)
    assert not bundles


def test_a_bookie_of_version_2(
    world: BookieHere, bundles: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greeting, "VERSION_MAX", VERSION_MIN)
    with world.connect() as client:
        use(client)
    assert not bundles


@pytest.mark.parametrize("first", ["bookie", "client"])
def test_an_upgrade_while_ledgers_are_written(
    world: BookieHere, bundles: list[Message], monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """One side is of version 2 at first, and is of version 3 when it comes back."""
    with monkeypatch.context() as patch:
        if first == "client":  # is upgraded first: the bookie is the old one
            patch.setattr(greeting, "VERSION_MAX", VERSION_MIN)
        else:
            patch.setattr(events, "Hello", partial(Hello, version_max=VERSION_MIN))
        before = world.connect()
        use(before)
        assert not bundles
    with world.connect() as after:
        use(after)
        assert bundles
        if first == "bookie":  # the old client goes on beside the new one
            use(before)
    before.close()
