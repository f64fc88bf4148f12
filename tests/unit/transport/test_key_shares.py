"""The share of one key: of the connections, and of the bytes in flight."""

from collections.abc import Iterator

import pytest

from tests.support.wire_peers import Echo, front
from tests.unit.transport.test_encryption import ALICE, BOB, BOOKIE, RawClient
from zbk.errors import BusyError, from_wire
from zbk.security.keys import KeyPair
from zbk.security.principals import KeyTable, Principal
from zbk.transport.connections import ConnectionLimits
from zbk.transport.inbound import Inbound
from zbk.transport.peers import IN_FLIGHT_SIZE_MAX, SHARE_PART, FrontCounts, PeerTable
from zbk.transport.router import FrontSecurity, RouterFront
from zbk.wire.messages import HelloAnswer, Ping, Refused

MIB = 1 << 20


@pytest.fixture
def peers() -> PeerTable:
    return PeerTable(FrontCounts(), 64 * MIB)


def greet(peers: PeerTable, name: bytes, key: str, *, has_role: bool = False) -> None:
    peers.greet(name, int.from_bytes(name, "big"), 3, 0)
    peers.identify(name, key, has_role=has_role)


def fill(peers: PeerTable, name: bytes, count: int) -> list[Inbound]:
    """Send requests of a mebibyte each, without an answer."""
    peer = peers.by_name[name]
    for _ in range(count):
        peers.take_credit(peer, MIB, is_held=False)
    return [Inbound(name, Ping(request_id=1), (), MIB, life=peer) for _ in range(count)]


def test_the_connections_of_one_key_have_half_of_the_bytes_in_flight(peers: PeerTable) -> None:
    for name in (b"a", b"b", b"c"):
        greet(peers, name, "alice")
    greet(peers, b"d", "bob")
    half_count = IN_FLIGHT_SIZE_MAX // SHARE_PART // MIB - 1  # each takes a little more

    taken = fill(peers, b"a", 40) + fill(peers, b"b", half_count - 40)
    with pytest.raises(BusyError, match="with one key"):
        fill(peers, b"c", 1)
    fill(peers, b"d", 40)
    peers.settle(taken.pop())

    fill(peers, b"c", 1)


def test_a_principal_with_a_role_and_a_connection_without_a_key_have_no_share(
    peers: PeerTable,
) -> None:
    greet(peers, b"a", "auditor", has_role=True)
    greet(peers, b"b", "auditor", has_role=True)
    greet(peers, b"c", "")

    fill(peers, b"a", 60)
    fill(peers, b"b", 60)
    fill(peers, b"c", 60)


def test_what_a_gone_connection_has_in_flight_counts_until_it_is_answered(peers: PeerTable) -> None:
    greet(peers, b"a", "alice")
    greet(peers, b"b", "alice")
    taken = fill(peers, b"a", 60)

    peers.forget(b"a")

    assert peers.connection_count("alice") == 1
    with pytest.raises(BusyError, match="with one key"):
        fill(peers, b"b", 40)
    for one in taken:
        peers.settle(one)
    fill(peers, b"b", 10)


def test_nothing_is_kept_of_a_key_without_connections(peers: PeerTable) -> None:
    greet(peers, b"a", "alice")
    greet(peers, b"a", "alice")  # HELLO again
    taken = fill(peers, b"a", 1)

    peers.forget(b"a")
    assert peers.connection_count("alice") == 0
    peers.settle(taken[0])

    assert peers._shares == {}
    assert peers.in_flight_size == 0


@pytest.fixture
def server(echo: Echo) -> Iterator[RouterFront]:
    """A front for four connections."""
    principals = [Principal(name=one.name, keys=(one.public_key,)) for one in (ALICE, BOB)]
    operator = Principal(name="o", keys=(BOOKIE.public_key,), roles=("operator",))
    limits = ConnectionLimits(greeted_max=4, lobby_max=100, handshake_ms=5_000)
    security = FrontSecurity(BOOKIE, KeyTable([*principals, operator]))
    made = front(echo, limits=limits, security=security)
    yield made
    made.stop()
    assert echo.failures == []


def test_one_key_gets_half_of_the_connections(server: RouterFront) -> None:
    clients: list[RawClient] = []

    def hello(pair: KeyPair) -> object:
        clients.append(RawClient(server, pair))
        return clients[-1].hello()

    try:
        assert isinstance(hello(ALICE), HelloAnswer)
        assert isinstance(hello(ALICE), HelloAnswer)
        refused = hello(ALICE)
        assert isinstance(refused, Refused)
        error = from_wire(refused.code, tuple(refused.fields))
        assert isinstance(error, BusyError)
        assert "one half" in str(error)
        assert isinstance(clients[0].hello(), HelloAnswer)  # it has its place
        assert isinstance(hello(BOB), HelloAnswer)
        assert isinstance(hello(BOOKIE), HelloAnswer)
    finally:
        for one in clients:
            one.close()
