"""Connections that end before a HELLO: each counts once, as refused or as a failed handshake."""

from collections.abc import Iterator

import pytest
import zmq

from zbk.security.principals import KeyTable
from zbk.transport.connection_ends import ConnectionEnds
from zbk.transport.connections import ConnectionLimits
from zbk.transport.curve import DOMAIN
from zbk.transport.key_guard import REMEMBERED_COUNT_MAX, ZAP_ENDPOINT, ZAP_VERSION, KeyGuard
from zbk.transport.peers import FrontCounts, PeerTable

HANDSHAKE_MS = 1_000
HERE, THERE = "10.0.0.7", "10.0.0.8"


class Front:
    """The tables of a front, with a guard that libzmq's side of ZAP asks."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.guard = KeyGuard(self.context, KeyTable([]), accepts_plain=False)
        self.audited: list[tuple[str, str]] = []  # key and address
        self.guard.on_refused = lambda key, address, _why: self.audited.append((key, address))
        self.counts = FrontCounts()
        limits = ConnectionLimits(64, 64, HANDSHAKE_MS)
        self.ends = ConnectionEnds(PeerTable(self.counts, 1_000), limits, self.guard)
        self._asker = self.context.socket(zmq.REQ)
        self._asker.connect(ZAP_ENDPOINT)

    def accept(self, fd: int, now_ms: int, address: str = HERE) -> None:
        self.ends.connections.accepted(fd, fd, now_ms, f"{address}:{40_000 + fd}")

    def refuse(self, now_ms: int, address: str = HERE) -> None:
        """Ask about the key of a stranger."""
        question = [ZAP_VERSION, b"1", DOMAIN, address.encode(), b"", b"CURVE", bytes(32)]
        self._asker.send_multipart(question)
        self.guard.answer(now_ms)
        assert self._asker.recv_multipart()[2] == b"400"

    def end(self, fd: int) -> None:
        """Record that libzmq has closed a connection."""
        self.ends.note_unheard(fd)
        self.ends.connections.ended(fd)

    def end_late(self, now_ms: int) -> int:
        """End what said no HELLO in time; return how many."""
        late = self.ends.connections.take_late(now_ms)
        for one in late:
            self.end(one.fd)
        return len(late)


@pytest.fixture
def front() -> Iterator[Front]:
    made = Front()
    yield made
    made.guard.close()
    made.context.destroy(linger=0)


def test_a_refused_connection_is_no_failed_handshake(front: Front) -> None:
    front.accept(5, 0)
    front.refuse(10)
    front.end(5)

    assert (front.guard.refused_count, front.counts.handshake_failed_count) == (1, 0)
    assert [address for _key, address in front.audited] == [HERE]


def test_a_failed_handshake_is_counted_with_its_address(front: Front) -> None:
    front.accept(5, 0)
    front.end(5)

    assert (front.guard.refused_count, front.counts.handshake_failed_count) == (0, 1)
    assert front.audited == [("", f"{HERE}:40005")]


def test_refused_connections_that_stay_silent_hide_no_later_failure(front: Front) -> None:
    """The bookie ends them itself, and their refusals are theirs alone."""
    for fd in range(5, 25):
        front.accept(fd, 0)
        front.refuse(10)
    assert front.end_late(HANDSHAKE_MS) == 20
    for fd in range(5, 25):
        front.accept(fd, 2_000)
        front.end(fd)

    assert (front.guard.refused_count, front.counts.handshake_failed_count) == (20, 20)


def test_the_refusal_of_one_host_hides_no_failure_of_another(front: Front) -> None:
    front.accept(5, 0, THERE)
    front.accept(6, 0)
    front.refuse(10, THERE)
    front.end(6)
    assert front.counts.handshake_failed_count == 1
    front.end(5)
    assert front.counts.handshake_failed_count == 1


def test_refusals_that_are_remembered_are_bounded(front: Front) -> None:
    for number in range(REMEMBERED_COUNT_MAX + 100):
        front.refuse(number, f"10.1.{number >> 8}.{number & 255}")

    assert front.guard.remembered_count == REMEMBERED_COUNT_MAX
