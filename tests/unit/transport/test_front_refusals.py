"""A ROUTER front refuses bad greetings, requests and connections, and goes on with the others."""

from contextlib import ExitStack

import msgpack
import pytest
import zmq

from tests.support.raw_peers import RawPeer
from tests.support.waiting import wait_until
from tests.support.wire_peers import (
    BOOKIE_ID,
    INSTANCE_ID,
    Echo,
    Inbox,
    front,
    outgoing,
    pool,
    refused,
    say,
)
from zbk.errors import (
    BusyError,
    HelloRequiredError,
    MalformedMessageError,
    UnknownOperationError,
    UnsupportedVersionError,
    WrongBookieError,
    ZbkError,
)
from zbk.transport.connections import ConnectionLimits
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieDown, Reply
from zbk.transport.router import RouterFront
from zbk.wire import codec
from zbk.wire.messages import GetBookieInfo, Hello, HelloAnswer, LacAnswer, Ping, Pong


def test_a_peer_that_ignores_its_credit_is_told_busy(raw: zmq.Socket[bytes], echo: Echo) -> None:
    echo.is_holding = True
    say(raw, codec.encode(Hello(request_id=1)))
    info = codec.encode(GetBookieInfo(request_id=2, incarnation=1))

    raw.send_multipart([info, b"x" * 900_000])
    again = codec.encode(GetBookieInfo(request_id=3, incarnation=1))

    assert refused(say(raw, again, b"x" * 900_000)) is BusyError


def test_nothing_is_served_before_hello(raw: zmq.Socket[bytes]) -> None:
    request = codec.encode(GetBookieInfo(request_id=5, incarnation=1))

    assert refused(say(raw, request)) is HelloRequiredError


def test_an_earlier_incarnation_is_refused(raw: zmq.Socket[bytes]) -> None:
    say(raw, codec.encode(Hello(request_id=1)))

    assert refused(say(raw, codec.encode(Ping(request_id=2, incarnation=99)))) is WrongBookieError


def test_ping_is_answered(raw: zmq.Socket[bytes]) -> None:
    say(raw, codec.encode(Hello(request_id=1)))

    answer = codec.decode_answer(say(raw, codec.encode(Ping(request_id=2, incarnation=1)))[0])

    assert isinstance(answer, Pong)


@pytest.mark.parametrize(
    ("header", "error"),
    [
        (msgpack.packb({"op": "explode", "request_id": 9}), UnknownOperationError),
        (msgpack.packb({"op": "add", "request_id": 9}), MalformedMessageError),
        (msgpack.packb({"op": "hello", "request_id": 9, "magic": "xyz"}), MalformedMessageError),
        (
            msgpack.packb({"op": "hello", "request_id": 9, "version_min": 7, "version_max": 9}),
            UnsupportedVersionError,
        ),
    ],
    ids=["unknown operation", "missing fields", "wrong magic", "future version"],
)
def test_what_names_a_request_is_refused_with_the_reason(
    raw: zmq.Socket[bytes], header: bytes, error: type[ZbkError]
) -> None:
    assert refused(say(raw, header)) is error


def test_garbage_is_counted_and_hurts_nobody(
    raw: zmq.Socket[bytes], client: BookiePool, server: RouterFront
) -> None:
    """All of it is less than a connection may send ahead of its HELLO (``LOBBY_SIZE_MAX``)."""
    for frames in (
        [b""],
        [b"\xff" * 100],
        [b"a", b"b", b"c", b"d", b"e", b"f"],
        [msgpack.packb([1, 2, 3])],
        [b"\x93" * 20_000],
        [b"\xdf\xff\xff\xff\xff"],
        [b"x" * 30_000],
    ):
        raw.send_multipart(frames)
    inbox = Inbox()

    client.request(outgoing(inbox))
    inbox.wait_for_kind(Reply)
    answer = codec.decode_answer(say(raw, codec.encode(Hello(request_id=1)))[0])

    assert isinstance(answer, HelloAnswer)
    assert answer.instance_id == INSTANCE_ID
    assert server.counts.refused_count == 7


def test_an_oversized_frame_ends_only_its_own_connection(
    raw: zmq.Socket[bytes], client: BookiePool
) -> None:
    raw.send_multipart([b"x" * (2 << 20)])
    inbox = Inbox()

    client.request(outgoing(inbox))

    assert isinstance(inbox.wait_for_kind(Reply), Reply)


def test_a_hello_too_many_is_refused_and_those_who_are_there_stay() -> None:
    server = front(Echo(), limits=ConnectionLimits(greeted_max=2, lobby_max=9, handshake_ms=5_000))
    context = zmq.Context()
    peers = []
    for _ in range(3):
        peer = context.socket(zmq.DEALER)
        peer.setsockopt(zmq.RCVTIMEO, 10_000)
        peer.connect(server.endpoint)
        peers.append(peer)
    hello, ping = codec.encode(Hello(request_id=1)), codec.encode(Ping(request_id=2, incarnation=1))
    for peer in peers[:2]:
        say(peer, hello)

    assert refused(say(peers[2], hello)) is BusyError
    for peer in peers[:2]:
        assert isinstance(codec.decode_answer(say(peer, ping)[0]), Pong)
    peers[0].close(linger=0)
    wait_until(lambda: server.counts.peer_count == 1, what="the end of a connection")
    assert isinstance(codec.decode_answer(say(peers[2], hello)[0]), HelloAnswer)
    context.destroy(linger=0)
    server.stop()


@pytest.mark.parametrize("is_greeting", [False, True], ids=["mute", "after the greeting"])
def test_a_connection_that_says_no_hello_in_time_ends(*, is_greeting: bool) -> None:
    server = front(Echo(), limits=ConnectionLimits(greeted_max=9, lobby_max=9, handshake_ms=100))
    with RawPeer(server.endpoint, is_greeting=is_greeting) as peer:
        peer.wait_until_ended()

    wait_until(lambda: server.counts.connection_count == 0, what="the end of the connection")
    server.stop()


@pytest.mark.parametrize("is_greeting", [False, True], ids=["mute", "after the greeting"])
def test_silent_connections_by_the_hundred_leave_clients_alone(*, is_greeting: bool) -> None:
    """None of them is late: the lobby has room for eight."""
    limits = ConnectionLimits(greeted_max=4, lobby_max=8, handshake_ms=600_000)
    server, early, late = front(Echo(), limits=limits), pool(), pool()
    early.set_addresses({BOOKIE_ID: server.endpoint})
    early.request(outgoing(inbox := Inbox()))
    inbox.wait_for_kind(Reply)
    early.subscribe(BOOKIE_ID, inbox)

    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(RawPeer(server.endpoint, is_greeting=is_greeting))
        late.set_addresses({BOOKIE_ID: server.endpoint})
        late.request(outgoing(late_inbox := Inbox()))
        early.request(outgoing(inbox, "again"))

        inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == "again")
        late_inbox.wait_for(lambda one: isinstance(one.outcome, LacAnswer))  # type: ignore[union-attr]
        wait_until(lambda: server.counts.connection_count <= 10, what="the end of the silent ones")
    assert not any(isinstance(one, BookieDown) for one in inbox.news)
    for one in (early, late):
        one.close()
    server.stop()
