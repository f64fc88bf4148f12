"""A front that echoes, a pool, and a bare socket; a module may have its own of each."""

from collections.abc import Iterator

import pytest
import zmq

from tests.support.wire_peers import BOOKIE_ID, Echo, front, pool
from zbk.transport.dealer import BookiePool
from zbk.transport.router import RouterFront


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def server(echo: Echo) -> Iterator[RouterFront]:
    made = front(echo)
    yield made
    made.stop()
    assert echo.failures == []


@pytest.fixture
def client(server: RouterFront) -> Iterator[BookiePool]:
    made = pool()
    made.set_addresses({BOOKIE_ID: server.endpoint})
    yield made
    made.close()


@pytest.fixture
def raw(server: RouterFront) -> Iterator["zmq.Socket[bytes]"]:
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.RCVTIMEO, 10_000)
    socket.connect(server.endpoint)
    yield socket
    context.destroy(linger=0)
