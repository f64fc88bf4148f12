"""Peers that claim to be others: by the user id of libzmq, or by the descriptor of others."""

import os
import threading
from contextlib import suppress

import pytest

from tests.support.raw_peers import RawPeer
from tests.support.waiting import wait_until
from tests.support.wire_peers import BOOKIE_ID, INSTANCE_ID, Echo, front
from zbk.security.principals import KeyTable, Principal
from zbk.system.tcp import tcp_counts
from zbk.transport.curve import new_pair
from zbk.transport.inbound import Inbound
from zbk.transport.peers import Peer
from zbk.transport.router import FrontSecurity, RouterFront
from zbk.wire import codec
from zbk.wire.messages import GetBookieInfo, Hello, HelloAnswer, LacAnswer, Message

BOOKIE, ALICE = new_pair("bookie"), new_pair("alice")
HELLO = codec.encode(Hello(request_id=1, instance_id=INSTANCE_ID, bookie_id=BOOKIE_ID))
SLOW_ID = 99


def ask(request_id: int) -> bytes:
    return codec.encode(GetBookieInfo(request_id=request_id, incarnation=1))


def answer(peer: RawPeer) -> Message:
    return codec.decode_answer(peer.receive_frame())


def the_peer(server: RouterFront) -> Peer:
    [peer] = server._peers.by_name.values()
    return peer


@pytest.mark.parametrize(
    "user_id",
    [b"\xff\xfe", b":", ALICE.public_key.encode(), b":" + ALICE.public_key.encode()],
    ids=["no text", "no key", "a key", "a key and an empty seal"],
)
def test_a_peer_without_a_key_has_none_whatever_it_says(user_id: bytes, echo: Echo) -> None:
    """libzmq takes the user id of a connection without encryption from its peer."""
    keys = KeyTable([Principal(name="alice", keys=(ALICE.public_key,), roles=("operator",))])
    security = FrontSecurity(BOOKIE, keys, secure_endpoint="tcp://127.0.0.1:0")
    server = front(echo, security=security)
    try:
        with RawPeer(server.endpoint) as peer:
            peer.greet(user_id)
            peer.send_message(HELLO)
            assert isinstance(answer(peer), HelloAnswer)
            peer.send_message(ask(2))
            assert isinstance(answer(peer), LacAnswer)
            assert (the_peer(server).key, the_peer(server).has_role) == ("", False)
    finally:
        server.stop()
    assert echo.failures == []


class SlowEcho(Echo):
    """One of its requests holds the front until the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def deliver(self, batch: list[Inbound]) -> None:
        if any(one.request.request_id == SLOW_ID for one in batch):
            self.gate.wait()
        super().deliver(batch)


def is_open(fd: int) -> bool:
    with suppress(OSError):
        os.fstat(fd)
        return True
    return False


def test_a_hello_of_an_ended_connection_forgets_no_peer_that_has_its_descriptor() -> None:
    echo = SlowEcho()
    server = front(echo)
    try:
        with RawPeer(server.endpoint, is_greeting=True) as late:
            late.send_message(HELLO)
            assert isinstance(answer(late), HelloAnswer)
            fd = the_peer(server).fd
            late.send_message(ask(SLOW_ID))
            for _ in range(50):
                late.send_message(HELLO)
            wait_until(lambda: has_read_all(fd, 50 * len(HELLO)))
        wait_until(lambda: not is_open(fd))
        with RawPeer(server.endpoint, is_greeting=True) as honest:
            for message in (HELLO, ask(5), ask(6), ask(7)):
                honest.send_message(message)
            wait_until(lambda: has_read_all(fd, len(HELLO)))
            echo.gate.set()

            answers = [answer(honest) for _ in range(4)]

            assert [type(one) for one in answers] == [HelloAnswer, *[LacAnswer] * 3]
            assert the_peer(server).fd == fd, "it is the descriptor of the other one"
    finally:
        echo.gate.set()
        server.stop()
    assert echo.failures == []


def has_read_all(fd: int, size_min: int) -> bool:
    """Return whether libzmq has read what has come through a connection."""
    counts = tcp_counts(fd)
    return counts is not None and counts.received_size > size_min and not counts.unread_size
