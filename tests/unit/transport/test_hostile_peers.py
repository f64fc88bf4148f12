"""Peers that do not take what they asked for, do not end what they began, or break off."""

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support.raw_peers import RawPeer
from tests.support.waiting import wait_until
from tests.support.wire_peers import BOOKIE_ID, Echo, Inbox, front, outgoing, pool
from zbk.protocol.entry.words import LedgerType
from zbk.transport import answer_budget
from zbk.transport.admission import LOBBY_COUNT_MAX
from zbk.transport.answer_sender import UNTAKEN_SIZE_MAX
from zbk.transport.dealer import BookiePool
from zbk.transport.events import Reply
from zbk.transport.router import RouterFront
from zbk.wire import codec
from zbk.wire.messages import GetBookieInfo, Hello, LacAnswer, Read

MIB = 1 << 20
ANSWER_WAIT_MS = 1_000


def read(request_id: int) -> Read:
    return Read(
        request_id=request_id,
        incarnation=1,
        ledger_id=7,
        ledger_key=bytes(16),
        ledger_type=LedgerType.PD_JOURNAL,
        first_entry_id=0,
        last_entry_id=0,
        size_max=MIB,
    )


@pytest.fixture
def server(echo: Echo) -> Iterator[RouterFront]:
    made = front(echo, answer_wait_ms=ANSWER_WAIT_MS)
    yield made
    made.stop()
    assert echo.failures == []


@pytest.fixture
def peer(server: RouterFront) -> Iterator[RawPeer]:
    """Return a peer that has said HELLO."""
    with RawPeer(server.endpoint, is_greeting=True) as made:
        made.send_message(codec.encode(Hello(request_id=1)))
        yield made


def serves(client: BookiePool) -> None:
    """Check that another client is answered."""
    client.request(outgoing(inbox := Inbox()))
    reply = inbox.wait_for_kind(Reply)
    assert isinstance(reply, Reply)
    assert isinstance(reply.outcome, LacAnswer)


def test_reads_wait_while_their_answers_have_no_room_and_the_peer_that_takes_none_ends(
    server: RouterFront, peer: RawPeer, client: BookiePool, echo: Echo
) -> None:
    echo.is_holding = True
    read_count = 300
    for number in range(read_count):
        peer.send_message(codec.encode(read(number + 2)))
    room = answer_budget.TOTAL_SIZE_MAX // (1 + answer_budget.SHARE) // MIB
    wait_until(lambda: len(echo.held) >= room, what="the reads that there is room for")
    serves_later = Inbox()
    client.request(outgoing(serves_later, "beside"))
    wait_until(lambda: any(one.peer[:1] == b"z" for one in echo.held), what="the other client")
    assert len(echo.held) <= room + 1

    answered = 0
    while server.counts.peer_count == 2:  # each answer lets in no more than the peer takes
        while echo.held:
            echo.answer(echo.held.pop(0), (bytes(MIB),))
            answered += 1
        assert server._peers.budget.used_size <= answer_budget.TOTAL_SIZE_MAX
        wait_until(lambda: bool(echo.held) or server.counts.peer_count == 1)

    assert answered < read_count
    wait_until(lambda: server._peers.budget.used_size < 2 * MIB, what="the answers to be dropped")
    serves_later.wait_for_kind(Reply)
    peer.wait_until_ended()
    while echo.held:
        echo.answer(echo.held.pop(), (b"for a peer that is gone",))
    wait_until(lambda: server._peers.in_flight_size == 0, what="the requests to be given back")


def test_a_peer_that_takes_its_answers_gets_all_of_them(echo: Echo) -> None:
    server, client = front(echo), pool()
    client.set_addresses({BOOKIE_ID: server.endpoint})
    echo.is_holding = True
    answers = {number: bytes([number]) * MIB for number in range(100)}
    inbox = Inbox()
    for number in answers:
        client.request(outgoing(inbox, number, request=read(0)))

    for number, answer in answers.items():
        assert echo.arrived.acquire(timeout=10), "held ones come when others are taken"
        echo.answer(echo.held[number], (answer,))

    inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == 99)
    found = [one for one in inbox.news if isinstance(one, Reply)]
    assert [one.frames for one in found] == [(answers[number],) for number in answers]
    client.close()
    server.stop()


def test_answers_without_a_limit_of_their_own_end_the_peer_that_takes_none(
    server: RouterFront, peer: RawPeer, client: BookiePool, echo: Echo
) -> None:
    echo.is_holding = True
    for number in range(2):
        peer.send_message(codec.encode(GetBookieInfo(request_id=number + 2, incarnation=1)))
    wait_until(lambda: len(echo.held) == 2)
    first, second = echo.held
    echo.is_holding = False
    echo.answer(first, (bytes(4 * UNTAKEN_SIZE_MAX),))
    echo.answer(second, (b"x",))

    wait_until(lambda: server.counts.peer_count == 0, what="the end of the peer")
    wait_until(lambda: server._peers.budget.used_size == 0, what="what is held to be given back")
    peer.wait_until_ended()
    serves(client)


@pytest.mark.parametrize("frame_size", [MIB // 2, 100, 0])
def test_a_message_that_never_ends_ends_its_connection(
    peer: RawPeer, client: BookiePool, frame_size: int
) -> None:
    frames = peer.frame(bytes(frame_size), has_more=True)
    frames *= max(1, 65_536 // len(frames))
    sent_size = 0
    with pytest.raises(OSError, match=r"reset|Broken"):  # noqa: PT012 - one send of many fails
        while True:
            peer.socket.sendall(frames)
            sent_size += len(frames)
            assert sent_size < 2_000 * MIB
    serves(client)


def test_a_flood_ahead_of_the_hello_ends_its_connection(
    server: RouterFront, client: BookiePool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "zbk.transport")
    for _ in range(3):
        with RawPeer(server.endpoint, is_greeting=True) as stranger:
            frames = stranger.frame(b"x" * 10) * 1_000
            with pytest.raises(OSError, match=r"reset|Broken"):  # noqa: PT012 - as above
                while True:
                    stranger.socket.sendall(frames)
    serves(client)
    (line,) = (text for text in caplog.messages if "ends: it sent" in text)
    assert line.endswith("(1 connections since the last report)"), "the others are told later"


def test_a_peer_that_floods_and_breaks_off_does_not_end_the_process(
    server: RouterFront, client: BookiePool
) -> None:
    """libzmq 4.3.5 does that where it has stopped reading, and a sign of life is to be answered."""
    ping = bytes([4, 7]) + b"\4PING\0\0"
    hello = codec.encode(Hello(request_id=1))
    with_reset = struct.pack("ii", 1, 0)
    for _ in range(10):
        with suppress(OSError), RawPeer(server.endpoint, is_greeting=True) as stranger:
            stranger.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, with_reset)
            message = stranger.frame(b"x" * 10)
            stranger.send_message(hello)
            for _ in range(200):  # until the front is faster, perhaps
                stranger.socket.sendall(message * 400 + ping)
    serves(client)


def test_what_a_peer_left_is_not_held_against_the_next_one(server: RouterFront) -> None:
    """The next connection gets the descriptor of the one before, whose messages still wait."""
    left_count = 2 * LOBBY_COUNT_MAX
    with server._lock:
        with RawPeer(server.endpoint, is_greeting=True) as stranger:
            stranger.socket.sendall(stranger.frame(b"x") * left_count)
            stranger.socket.shutdown(socket.SHUT_WR)
            stranger.wait_until_ended()  # its descriptor is free, at both sides
        peer = RawPeer(server.endpoint, is_greeting=True)
        server._watch.take_events()
    with peer:
        wait_until(lambda: server.counts.message_count == left_count, what="the messages")
        peer.send_message(codec.encode(Hello(request_id=1)))
        wait_until(lambda: server.counts.peer_count == 1, what="the HELLO")
