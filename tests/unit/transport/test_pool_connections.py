"""The pool's connections to real and missing bookies: made, refused, lost, and made again."""

import socket

from tests.support.wire_peers import BOOKIE_ID, Echo, Inbox, error_of, front, outgoing, pool
from zbk.errors import BookieUnavailableError, WrongBookieError
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieDown, BookieUp, Reply
from zbk.transport.router import RouterFront
from zbk.wire.messages import VERSION_MAX


def test_a_subscriber_hears_of_the_connection_and_of_its_loss(
    client: BookiePool, server: RouterFront
) -> None:
    inbox = Inbox()
    client.subscribe(BOOKIE_ID, inbox)
    up = inbox.wait_for_kind(BookieUp)
    assert up == BookieUp(BOOKIE_ID, 1, 1 << 20, version=VERSION_MAX)

    server.stop()

    down = inbox.wait_for_kind(BookieDown)
    assert isinstance(down, BookieDown)
    assert "lost" in str(down.error)


def test_a_host_that_drops_packets_gives_no_answer_and_does_not_refuse() -> None:
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for one in (first, second):  # the queue is full: the kernel drops what comes next
            one.settimeout(0)
            one.connect_ex(listener.getsockname())
        host, port = listener.getsockname()
        client = pool(connect_timeout_ms=300)
        client.set_addresses({BOOKIE_ID: f"tcp://{host}:{port}"})
        inbox = Inbox()

        client.subscribe(BOOKIE_ID, inbox)

        down = inbox.wait_for_kind(BookieDown)
        assert isinstance(down, BookieDown)
        assert f"no answer from tcp://{host}:{port} within 0.3 s" in str(down.error)
        client.close()


def test_who_accepts_a_connection_and_closes_it_does_not_refuse_it() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        host, port = listener.getsockname()
        client = pool()
        client.set_addresses({BOOKIE_ID: f"tcp://{host}:{port}"})
        inbox = Inbox()

        client.subscribe(BOOKIE_ID, inbox)
        listener.accept()[0].close()

        down = inbox.wait_for_kind(BookieDown)
        assert isinstance(down, BookieDown)
        assert f"tcp://{host}:{port} closed the connection before" in str(down.error)
        client.close()


def test_a_port_where_nobody_listens_refuses() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host, port = taken.getsockname()
        client = pool()
        client.set_addresses({BOOKIE_ID: f"tcp://{host}:{port}"})
        inbox = Inbox()

        client.subscribe(BOOKIE_ID, inbox)

        down = inbox.wait_for_kind(BookieDown)
        assert isinstance(down, BookieDown)
        assert f"the connection to tcp://{host}:{port} was refused" in str(down.error)
        client.close()


def test_a_lost_connection_fails_what_is_outstanding_at_once() -> None:
    echo, inbox, client = Echo(is_holding=True), Inbox(), pool()
    server = front(echo)
    client.set_addresses({BOOKIE_ID: server.endpoint})
    client.request(outgoing(inbox, timeout_ms=600_000))
    assert echo.arrived.acquire(timeout=10)

    server.stop()

    assert isinstance(error_of(inbox.wait_for_kind(Reply)), BookieUnavailableError)
    client.close()


def test_a_connection_is_made_again_and_tells_the_new_incarnation() -> None:
    inbox, client = Inbox(), pool()
    first = front(Echo())
    client.set_addresses({BOOKIE_ID: first.endpoint})
    client.subscribe(BOOKIE_ID, inbox)
    inbox.wait_for_kind(BookieUp)

    first.stop()
    inbox.wait_for_kind(BookieDown)
    second = front(Echo(), endpoint=first.endpoint, incarnation=2)

    inbox.wait_for(lambda one: isinstance(one, BookieUp) and one.incarnation == 2)
    client.close()
    second.stop()


def test_a_moved_bookie_is_found_at_its_new_address() -> None:
    inbox, client = Inbox(), pool()
    first, second = front(Echo()), front(Echo(), incarnation=2)
    client.set_addresses({BOOKIE_ID: first.endpoint})
    client.subscribe(BOOKIE_ID, inbox)
    inbox.wait_for_kind(BookieUp)

    client.set_addresses({BOOKIE_ID: second.endpoint})
    first.stop()

    inbox.wait_for(lambda one: isinstance(one, BookieUp) and one.incarnation == 2)
    client.close()
    second.stop()


def test_nobody_listens_there(client: BookiePool) -> None:
    inbox = Inbox()
    client.set_addresses({"b-2": "tcp://127.0.0.1:1"})

    client.request(outgoing(inbox, bookie_id="b-2"))

    assert isinstance(error_of(inbox.wait_for_kind(Reply)), BookieUnavailableError)


def test_an_unregistered_bookie_fails_at_once(client: BookiePool) -> None:
    inbox = Inbox()

    client.request(outgoing(inbox, bookie_id="b-unknown"))

    assert "is not registered" in str(error_of(inbox.wait_for_kind(Reply)))


def test_another_bookie_at_the_address_is_refused(client: BookiePool, server: RouterFront) -> None:
    inbox = Inbox()
    client.set_addresses({"b-2": server.endpoint})

    client.request(outgoing(inbox, bookie_id="b-2"))

    assert isinstance(error_of(inbox.wait_for_kind(Reply)), WrongBookieError)


def test_a_client_of_another_cluster_is_refused(server: RouterFront) -> None:
    inbox, client = Inbox(), pool(instance_id="cluster-2")
    client.set_addresses({BOOKIE_ID: server.endpoint})

    client.request(outgoing(inbox))

    assert isinstance(error_of(inbox.wait_for_kind(Reply)), WrongBookieError)
    client.close()
