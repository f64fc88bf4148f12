"""What a request counts against a bookie's credit, and how long it may take."""

from typing import cast

from tests.support.wire_peers import Inbox
from zbk.client.cluster.requests import REQUEST_OVERHEAD_SIZE, Requests
from zbk.transport.dealer import BookiePool
from zbk.transport.events import Outgoing
from zbk.wire.messages import GetBookieInfo


class Pool:
    """Keeps what it is to send."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []

    def request(self, outgoing: Outgoing) -> None:
        self.sent.append(outgoing)


def test_a_request_counts_with_all_its_frames_and_waits_as_long_as_it_may() -> None:
    pool = Pool()
    requests = Requests(cast("BookiePool", pool), timeout_ms=1_000)

    requests.send("b", GetBookieInfo(request_id=0), (b"abc", b"", b"defgh"), Inbox(), "key")
    requests.send("b", GetBookieInfo(request_id=0), (), Inbox(), "key", wait_ms=500)

    assert [one.size for one in pool.sent] == [REQUEST_OVERHEAD_SIZE + 8, REQUEST_OVERHEAD_SIZE]
    assert [one.timeout_ms for one in pool.sent] == [1_000, 1_500]
