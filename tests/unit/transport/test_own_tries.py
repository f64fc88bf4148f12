"""What a request to one bookie gets when the bookie has just come back.

A request that names its bookie, such as ``collect_garbage``, has no other one to turn to. The
failure of a try that began before the request says nothing about the bookie now.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.wire_peers import BOOKIE_ID, Echo, Inbox, front, outgoing, pool
from zbk.errors import BookieUnavailableError
from zbk.system.clock import monotonic_ms
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieDown, News, Outgoing, Reply
from zbk.wire.messages import LacAnswer


class Port:
    """A port of a bookie that is not up: taken, and at first nothing listens."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        host, port = self._socket.getsockname()
        self.endpoint = f"tcp://{host}:{port}"

    def listen(self) -> None:
        self._socket.listen(5)

    def accept(self) -> socket.socket:
        """Return the next connection, which it waits for."""
        self._socket.settimeout(20)
        return self._socket.accept()[0]

    def is_asked(self) -> bool:
        """Return whether another connection has come."""
        self._socket.settimeout(0)
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def port() -> Iterator[Port]:
    made = Port()
    yield made
    made.close()


@pytest.fixture
def client(port: Port) -> Iterator[BookiePool]:
    made = pool()
    made.set_addresses({BOOKIE_ID: port.endpoint})
    yield made
    made.close()


def own_try(inbox: Inbox, key: object = "k") -> Outgoing:
    made = outgoing(inbox, key)
    made.needs_own_try = True
    return made


def ask(client: BookiePool, *requests: Outgoing) -> None:
    """Send requests, and wait until the connection has them."""
    for request in requests:
        client.request(request)
    is_there = threading.Event()
    client.call_at(monotonic_ms(), is_there.set)
    assert is_there.wait(20)


def outcomes(inbox: Inbox, *keys: object) -> list[object]:
    """Return the outcome of each request, waiting for it."""
    left = set(keys)

    def is_last(one: News) -> bool:
        if isinstance(one, Reply):
            left.discard(one.key)
        return not left

    inbox.wait_for(is_last)
    found = {one.key: one.outcome for one in inbox.news if isinstance(one, Reply)}
    return [found[key] for key in keys]


def test_a_refusal_shortly_before_a_request_does_not_count(client: BookiePool, port: Port) -> None:
    with ExitStack() as stack:
        inbox = Inbox()

        class Returning(Inbox):
            """Starts the bookie when the first try has failed, and asks it."""

            def deliver(self, news: list[News]) -> None:
                super().deliver(news)
                if any(isinstance(one, BookieDown) for one in news):
                    client.unsubscribe(BOOKIE_ID, self)
                    port.close()
                    server = front(Echo(), endpoint=port.endpoint)
                    stack.callback(server.stop)
                    client.request(own_try(inbox))

        client.subscribe(BOOKIE_ID, Returning())

        (outcome,) = outcomes(inbox, "k")

    assert isinstance(outcome, LacAnswer)


def test_a_try_that_began_before_the_requests_is_repeated_once_for_all_of_them(
    client: BookiePool, port: Port
) -> None:
    inbox = Inbox()
    port.listen()
    client.subscribe(BOOKIE_ID, Inbox())
    with port.accept():
        ask(client, own_try(inbox, "first"), outgoing(inbox, "other"), own_try(inbox, "second"))
        port.close()
        server = front(Echo(), endpoint=port.endpoint)
    first, other, second = outcomes(inbox, "first", "other", "second")
    server.stop()

    assert isinstance(first, LacAnswer)
    assert isinstance(other, BookieUnavailableError), "it may turn to another bookie"
    assert isinstance(second, LacAnswer)


def test_a_request_that_joined_a_try_causes_one_more_and_not_two(
    client: BookiePool, port: Port
) -> None:
    inbox = Inbox()
    port.listen()
    client.request(own_try(inbox, "first"))
    with port.accept():
        ask(client, own_try(inbox, "second"), own_try(inbox, "third"))
    port.accept().close()
    first, second, third = outcomes(inbox, "first", "second", "third")

    for outcome in (first, second, third):
        assert isinstance(outcome, BookieUnavailableError)
        assert f"{port.endpoint} closed the connection before it answered" in str(outcome)
    assert not port.is_asked()


def test_a_try_that_took_all_its_time_is_not_repeated(port: Port) -> None:
    client, inbox = pool(connect_timeout_ms=200), Inbox()
    client.set_addresses({BOOKIE_ID: port.endpoint})
    port.listen()
    client.request(own_try(inbox, "first"))
    with port.accept():
        ask(client, own_try(inbox, "second"))
        first, second = outcomes(inbox, "first", "second")
    client.close()

    for outcome in (first, second):
        assert isinstance(outcome, BookieUnavailableError)
        assert f"no answer from {port.endpoint} within 0.2 s" in str(outcome)
    assert not port.is_asked()
