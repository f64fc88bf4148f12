"""The span of a request whose connection ends before the answer ends, too, as failed."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from tests.support.raw_peers import RawPeer
from tests.support.traces import Traces
from tests.support.waiting import wait_until
from tests.support.wire_peers import Echo, front
from zbk.protocol.entry.words import LedgerType
from zbk.tracing.request_spans import RequestSpans
from zbk.transport import answer_budget
from zbk.transport.router import RouterFront
from zbk.wire import codec
from zbk.wire.messages import Hello, Read

MIB = 1 << 20
COUNT = 2 * answer_budget.TOTAL_SIZE_MAX // (1 + answer_budget.SHARE) // MIB
"""Reads of one connection: there is room for the answers of about half of them."""

TRACEPARENT = f"00-{'1' * 32}-{'2' * 16}-01"


@pytest.fixture
def server(traces: Traces) -> Iterator[tuple[RouterFront, Echo]]:
    """A bookie that keeps all requests, and has a connection with reads on it."""
    del traces  # before the front: it traces if there is a provider
    echo = Echo(is_holding=True)
    made = front(echo, spans=RequestSpans("b"))
    yield made, echo
    if not made._is_stopping:
        made.stop()
    assert echo.failures == []


def ask(peer: RawPeer) -> None:
    peer.send_message(codec.encode(Hello(request_id=1)))
    for number in range(COUNT):
        read = Read(
            request_id=number + 2, incarnation=1, ledger_id=7, ledger_key=bytes(16),
            ledger_type=LedgerType.PD_JOURNAL, first_entry_id=0, last_entry_id=0, size_max=MIB,
            traceparent=TRACEPARENT,
        )  # fmt: skip
        peer.send_message(codec.encode(read))


def wait_for_all(made: RouterFront, echo: Echo) -> None:
    """Wait until all reads have come: some go on, some wait for room."""

    def held() -> int:
        return sum(len(peer.held) for peer in list(made._peers.by_name.values()))

    wait_until(lambda: len(echo.held) + held() == COUNT, what="all requests")
    assert 0 < held() < COUNT


def failures(spans: list[ReadableSpan]) -> set[tuple[StatusCode, str | None]]:
    return {(span.status.status_code, span.status.description) for span in spans}


ENDED = (StatusCode.ERROR, "the connection ended before the answer")


def test_a_read_that_was_held_and_one_that_was_under_way_end_as_failed(
    server: tuple[RouterFront, Echo], traces: Traces
) -> None:
    made, echo = server
    with RawPeer(made.endpoint, is_greeting=True) as peer:
        ask(peer)
        wait_for_all(made, echo)
        assert "zbk.bookie.read" not in traces.names
    wait_until(lambda: made.counts.peer_count == 0, what="the connection to end")
    count = COUNT - len(echo.held)  # until now one more may have had room
    held = traces.named("zbk.bookie.read", count)
    assert (len(held), failures(held)) == (count, {ENDED})

    for inbound in echo.held:
        echo.answer(inbound)
    spans = traces.named("zbk.bookie.read", COUNT)
    assert (len(spans), failures(spans)) == (COUNT, {ENDED})


def test_a_read_that_is_held_when_the_bookie_stops_ends_as_failed(
    server: tuple[RouterFront, Echo], traces: Traces
) -> None:
    made, echo = server
    with RawPeer(made.endpoint, is_greeting=True) as peer:
        ask(peer)
        wait_for_all(made, echo)
        made.stop()
        count = COUNT - len(echo.held)
        held = traces.named("zbk.bookie.read", count)
        assert (len(held), failures(held)) == (count, {ENDED})
