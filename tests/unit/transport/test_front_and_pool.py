"""The ROUTER front and the DEALER pool exchange requests and replies over loopback sockets."""

import pytest

from tests.support.waiting import wait_until
from tests.support.wire_peers import BOOKIE_ID, Echo, Inbox, error_of, front, outgoing, pool
from zbk.errors import BookieError, ClientClosedError, RequestTimeoutError
from zbk.transport import peers
from zbk.transport.dealer import BookiePool
from zbk.transport.events import Reply
from zbk.transport.router import RouterFront
from zbk.wire.messages import LacAnswer


def test_a_request_comes_back_with_its_frames(client: BookiePool) -> None:
    inbox = Inbox()

    client.request(outgoing(inbox, "mine", frames=(b"abc", b"")))

    reply = inbox.wait_for_kind(Reply)
    assert isinstance(reply, Reply)
    assert reply.key == "mine"
    assert isinstance(reply.outcome, LacAnswer)
    assert reply.outcome.incarnation == 1
    assert reply.frames == (b"abc", b"")


def test_a_thousand_requests_each_get_one_reply_in_order(client: BookiePool) -> None:
    inbox = Inbox()

    for number in range(1000):
        client.request(outgoing(inbox, number, frames=(b"x" * 1000,)))

    inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == 999)
    assert [one.key for one in inbox.news if isinstance(one, Reply)] == list(range(1000))


def test_an_unanswered_request_times_out() -> None:
    echo, inbox, client = Echo(is_holding=True), Inbox(), pool()
    server = front(echo)
    client.set_addresses({BOOKIE_ID: server.endpoint})

    client.request(outgoing(inbox, timeout_ms=100))

    error = error_of(inbox.wait_for_kind(Reply))
    assert isinstance(error, RequestTimeoutError)
    assert error.outcome == "unknown"
    client.close()
    server.stop()


def test_a_closed_pool_fails_what_it_had_and_what_comes_later() -> None:
    echo, inbox, client = Echo(is_holding=True), Inbox(), pool()
    server = front(echo)
    client.set_addresses({BOOKIE_ID: server.endpoint})
    client.request(outgoing(inbox, "early"))
    assert echo.arrived.acquire(timeout=10)

    client.close()
    client.request(outgoing(inbox, "late"))

    assert [type(error_of(one)) for one in inbox.news] == [ClientClosedError, ClientClosedError]
    server.stop()


def test_the_client_keeps_within_the_credit_and_all_arrives() -> None:
    echo, inbox, client = Echo(), Inbox(), pool()
    server = front(echo, credit_size=10_000)
    client.set_addresses({BOOKIE_ID: server.endpoint})

    for number in range(50):
        client.request(outgoing(inbox, number, frames=(b"x" * 4_000,)))

    inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == 49)
    assert all(isinstance(one.outcome, LacAnswer) for one in inbox.news if isinstance(one, Reply))
    client.close()
    server.stop()


def test_an_answer_gives_back_what_its_request_has_taken_of_the_bookie() -> None:
    """In all more is sent than the bookie may have in flight at once."""
    size = 32 << 20
    echo, client = Echo(is_holding=True), pool()
    server = front(echo, credit_size=2 * size, message_size_max=2 * size)
    client.set_addresses({BOOKIE_ID: server.endpoint})

    for _ in range(peers.IN_FLIGHT_SIZE_MAX // size + 1):
        client.request(outgoing(inbox := Inbox(), frames=(bytes(size),)))
        assert echo.arrived.acquire(timeout=10), "it was refused"
        echo.answer(echo.held.pop(), ())
        reply = inbox.wait_for_kind(Reply)
        assert isinstance(reply, Reply)
        assert isinstance(reply.outcome, LacAnswer)

    client.close()
    server.stop()


def test_an_answer_gives_back_what_its_request_has_taken_of_the_connection(
    client: BookiePool, server: RouterFront, echo: Echo
) -> None:
    echo.is_holding = True
    inbox = Inbox()
    for number in range(5):
        client.request(outgoing(inbox, number, frames=(b"x" * 100,)))
    wait_until(lambda: len(echo.held) == 5)
    (peer,) = server._peers.by_name.values()
    assert peer.in_flight_count == 5
    assert peer.in_flight_size == sum(one.size for one in echo.held)

    for one in echo.held:
        echo.answer(one)

    inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == 4)
    assert (peer.in_flight_count, peer.in_flight_size) == (0, 0)


def test_a_taken_port_is_said_clearly(server: RouterFront) -> None:
    with pytest.raises(BookieError, match="another bookie"):
        front(Echo(), endpoint=server.endpoint)
