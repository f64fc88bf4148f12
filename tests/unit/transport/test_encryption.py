"""A front with a key, and who gets through to it: real sockets, real CURVE."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import zmq

from tests.support.waiting import wait_until
from tests.support.wire_peers import BOOKIE_ID, INSTANCE_ID, Echo, Inbox, front, outgoing, pool
from zbk.errors import (
    BookieUnavailableError,
    KeyFileError,
    KeyRefusedError,
    MissingDependencyError,
    SecurityMismatchError,
    ZbkError,
)
from zbk.security.credentials import ANONYMOUS, BookieDoors, Credentials
from zbk.security.keys import KeyPair
from zbk.security.principals import KeyTable, Principal
from zbk.transport.curve import check_curve, connect_encrypted, new_pair
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieDown, Reply
from zbk.transport.router import FrontSecurity, KeyCounts, RouterFront
from zbk.wire import codec
from zbk.wire.messages import GetBookieInfo, Hello, HelloAnswer, LacAnswer, Refused

BOOKIE, ALICE, BOB, MALLORY = (new_pair(name) for name in ("bookie", "alice", "bob", "mallory"))


def table(*pairs: KeyPair) -> KeyTable:
    return KeyTable(Principal(name=one.name, keys=(one.public_key,)) for one in pairs)


@pytest.fixture
def server(echo: Echo) -> Iterator[RouterFront]:
    """A front that requires encryption and admits Alice and Bob."""
    made = front(echo, security=FrontSecurity(BOOKIE, table(ALICE, BOB)))
    yield made
    made.stop()
    assert echo.failures == []


def doors(server: RouterFront, key: str = BOOKIE.public_key) -> BookieDoors:
    return BookieDoors(server.endpoint, key, server.secure_endpoint)


@contextmanager
def connected(pair: KeyPair | None, doors: BookieDoors) -> Iterator[BookiePool]:
    credentials = ANONYMOUS if pair is None else Credentials(pair, "required")
    made = pool(credentials=credentials)
    made.set_doors({BOOKIE_ID: doors})
    yield made
    made.close()


def outcome(client: BookiePool, frames: tuple[bytes, ...] = ()) -> object:
    inbox = Inbox()
    client.request(outgoing(inbox, frames=frames))
    reply = inbox.wait_for_kind(Reply)
    assert isinstance(reply, Reply)
    return reply.outcome


def refused(client: BookiePool) -> ZbkError:
    found = outcome(client)
    assert isinstance(found, ZbkError)
    return found


class RawClient:
    """A bare socket that speaks zbk's messages as an attacker would."""

    def __init__(self, server: RouterFront, pair: KeyPair | None, routing_id: bytes = b"") -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVTIMEO, 10_000)
        if routing_id:
            self.socket.setsockopt(zmq.ROUTING_ID, routing_id)
        if pair is not None:
            connect_encrypted(self.socket, pair, BOOKIE.public_key)
        self.socket.connect(server.endpoint)

    def hello(self) -> object:
        hello = Hello(request_id=1, instance_id=INSTANCE_ID, bookie_id=BOOKIE_ID, software="x")
        self.socket.send(codec.encode(hello))
        return codec.decode_answer(self.socket.recv_multipart()[0])

    def ask(self) -> object:
        self.socket.send_multipart([codec.encode(GetBookieInfo(request_id=2, incarnation=1))])
        return codec.decode_answer(self.socket.recv_multipart()[0])

    def close(self) -> None:
        self.context.destroy(linger=0)


def test_a_principal_gets_answers(server: RouterFront) -> None:
    with connected(ALICE, doors(server)) as client:
        assert isinstance(outcome(client, (b"payload",)), LacAnswer)


def test_a_client_without_a_key_does_not_even_try(server: RouterFront, echo: Echo) -> None:
    with connected(None, doors(server)) as client:
        error = refused(client)

    assert isinstance(error, SecurityMismatchError)
    assert "give one with --key" in str(error)
    assert server.counts.connection_count == 0
    assert not echo.arrived.acquire(blocking=False)


def test_a_key_of_no_principal_is_refused_by_name(server: RouterFront) -> None:
    with connected(MALLORY, doors(server)) as client:
        error = refused(client)

    assert isinstance(error, KeyRefusedError)
    assert MALLORY.public_key in str(error)
    assert "zbk principal add" in str(error)
    wait_until(lambda: server.key_counts.refused_count > 0)
    assert server.counts.message_count == 0


def test_a_client_that_believes_in_plain_text_learns_what_to_do(server: RouterFront) -> None:
    with connected(None, BookieDoors(server.endpoint)) as client:
        error = refused(client)

    assert isinstance(error, BookieUnavailableError)
    wait_until(lambda: server.key_counts.failed_count > 0)
    assert server.counts.message_count == 0


def test_a_bookie_with_another_key_than_registered_is_not_accepted(server: RouterFront) -> None:
    with connected(ALICE, doors(server, key=MALLORY.public_key)) as client:
        error = refused(client)

    assert isinstance(error, SecurityMismatchError)
    assert "does not have the key of its registration" in str(error)
    assert server.counts.message_count == 0


def test_a_bookie_that_does_not_encrypt_is_not_accepted_for_one_that_does(echo: Echo) -> None:
    plain = front(echo)
    try:
        with connected(ALICE, BookieDoors(plain.endpoint, BOOKIE.public_key)) as client:
            assert isinstance(refused(client), SecurityMismatchError)
        assert plain.counts.message_count == 0
    finally:
        plain.stop()


def test_a_client_that_requires_encryption_does_not_connect_without(echo: Echo) -> None:
    plain = front(echo)
    try:
        with connected(ALICE, BookieDoors(plain.endpoint)) as client:
            error = refused(client)
        assert isinstance(error, SecurityMismatchError)
        assert "give the bookie a key" in str(error)
        assert plain.counts.connection_count == 0
    finally:
        plain.stop()


def test_a_connection_ends_when_its_key_is_removed(server: RouterFront) -> None:
    inbox = Inbox()
    with connected(ALICE, doors(server)) as client:
        client.subscribe(BOOKIE_ID, inbox)
        assert isinstance(outcome(client), LacAnswer)
        inbox.forget()
        server.set_keys(table(BOB))

        down = inbox.wait_for_kind(BookieDown)
        assert isinstance(down, BookieDown)
        inbox.wait_for(
            lambda news: isinstance(news, BookieDown) and isinstance(news.error, KeyRefusedError)
        )
        with connected(BOB, doors(server)) as other:
            assert isinstance(outcome(other), LacAnswer)


def test_the_other_connections_stay_when_a_key_is_removed(server: RouterFront) -> None:
    inbox = Inbox()
    with connected(BOB, doors(server)) as client:
        client.subscribe(BOOKIE_ID, inbox)
        assert isinstance(outcome(client), LacAnswer)
        server.set_keys(table(BOB))

        assert isinstance(outcome(client), LacAnswer)
        assert not [news for news in inbox.news if isinstance(news, BookieDown)]


def test_a_key_that_was_removed_before_its_hello_is_refused(server: RouterFront) -> None:
    early = RawClient(server, ALICE)
    try:
        wait_until(lambda: server.counts.connection_count == 1)
        early.socket.send(b"x")  # it has passed the handshake
        wait_until(lambda: server.counts.message_count == 1)
        server.set_keys(table(BOB))

        answer = early.hello()

        assert isinstance(answer, Refused)
        assert answer.code == KeyRefusedError.code
    finally:
        early.close()


def test_the_key_and_not_the_routing_id_says_whose_a_message_is(
    server: RouterFront, echo: Echo
) -> None:
    victim = RawClient(server, ALICE, b"alice's routing id")
    assert isinstance(victim.hello(), HelloAnswer)
    victim.close()
    thief = RawClient(server, BOB, b"alice's routing id")
    try:
        answer = thief.ask()  # in the name of a connection that the front may still know

        assert isinstance(answer, Refused)
        assert not echo.arrived.acquire(blocking=False)
        assert isinstance(thief.hello(), HelloAnswer)  # in its own name
    finally:
        thief.close()


def test_a_routing_id_in_use_cannot_be_taken(server: RouterFront, echo: Echo) -> None:
    echo.is_holding = True
    victim = RawClient(server, ALICE, b"alice's routing id")
    assert isinstance(victim.hello(), HelloAnswer)
    thief = RawClient(server, BOB, b"alice's routing id")
    try:
        victim.socket.send_multipart([codec.encode(GetBookieInfo(request_id=2, incarnation=1))])
        assert echo.arrived.acquire(timeout=10)
        echo.answer(echo.held[0])

        assert isinstance(codec.decode_answer(victim.socket.recv_multipart()[0]), LacAnswer)
        assert not thief.socket.poll(50)
    finally:
        victim.close()
        thief.close()


@pytest.mark.parametrize("security", ["plain", "unknown"])
def test_nothing_of_a_stranger_is_delivered(server: RouterFront, security: str) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    if security == "plain":
        socket.setsockopt(zmq.PLAIN_USERNAME, b"alice")
        socket.setsockopt(zmq.PLAIN_PASSWORD, b"secret")
    else:
        connect_encrypted(socket, MALLORY, BOOKIE.public_key)
    hello = Hello(request_id=1, instance_id=INSTANCE_ID, bookie_id=BOOKIE_ID, software="x")
    try:
        socket.connect(server.endpoint)
        socket.send(codec.encode(hello))

        wait_until(lambda: server.key_counts != KeyCounts(0, 0))
        assert server.counts.message_count == 0
        assert server.counts.peer_count == 0
    finally:
        context.destroy(linger=0)


def test_a_front_that_allows_both_has_an_address_for_each(echo: Echo) -> None:
    security = FrontSecurity(BOOKIE, table(ALICE), "tcp://127.0.0.1:*")
    both = front(echo, security=security)
    try:
        assert both.secure_endpoint not in ("", both.endpoint)
        with connected(ALICE, doors(both)) as client:
            assert isinstance(outcome(client), LacAnswer)
        with connected(None, doors(both)) as client:
            assert isinstance(outcome(client), LacAnswer)
        with connected(MALLORY, doors(both)) as client:
            assert isinstance(refused(client), KeyRefusedError)
        with connected(None, BookieDoors(both.secure_endpoint)) as client:
            assert isinstance(refused(client), BookieUnavailableError)
    finally:
        both.stop()


class OtherLibzmq:
    """A libzmq that is older, or has no CURVE."""

    def __init__(self, version: tuple[int, int, int], *, has_curve: bool) -> None:
        self.version = version
        self.has_curve = has_curve


@pytest.mark.parametrize(
    ("libzmq", "reason"),
    [
        (OtherLibzmq((4, 3, 4), has_curve=True), "this is 4.3.4"),
        (OtherLibzmq((4, 3, 5), has_curve=False), "built without CURVE"),
    ],
)
def test_a_libzmq_that_cannot_encrypt_is_refused_with_the_reason(
    libzmq: OtherLibzmq, reason: str
) -> None:
    check_curve(ANONYMOUS, libzmq)
    check_curve(Credentials(ALICE, "off"), libzmq)
    for security in ("allowed", "required"):
        with pytest.raises(MissingDependencyError, match=reason):
            check_curve(Credentials(ALICE, security), libzmq)


def test_two_halves_that_do_not_belong_together_are_refused() -> None:
    mixed = KeyPair("mixed", ALICE.public_key, BOB.secret_key)

    with pytest.raises(KeyFileError, match="does not belong"):
        check_curve(Credentials(mixed, "required"))
