"""Several requests in one message: real sockets, peers of both versions, and hostile ones."""

from functools import partial

import msgspec
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scripted_bookie import ScriptedBookie, greeted
from tests.support.waiting import wait_until
from tests.support.wire_peers import BOOKIE_ID, Echo, Inbox, front, outgoing, pool
from zbk.errors import BusyError, HelloRequiredError, NoSuchLedgerError, WrongBookieError, from_wire
from zbk.protocol.entry.words import LedgerType
from zbk.transport.bundles import LIMITS, Part, groups
from zbk.transport.dealer import BookiePool
from zbk.transport.events import Reply
from zbk.transport.inbound import Inbound, Outbound
from zbk.transport.router import RouterFront
from zbk.wire import codec
from zbk.wire.messages import (
    BUNDLE_VERSION,
    PART_COUNT_MAX,
    VERSION_MIN,
    Answer,
    AnswerBundle,
    Bundle,
    GetBookieInfo,
    Hello,
    LacAnswer,
    Message,
    PartRequest,
    ReadLac,
    Refused,
)

KEY = bytes(16)


class ListEcho(Echo):
    """Answers all that arrived together in one list, as a turn of a bookie does."""

    def deliver(self, batch: list[Inbound]) -> None:
        answers: list[Outbound] = []
        for inbound in batch:
            request = inbound.request
            answer: Message = LacAnswer(request_id=request.request_id, incarnation=1, lac=7)
            if getattr(request, "ledger_id", 0) == 13:
                refusal = codec.refusal(request.request_id, 1, NoSuchLedgerError(13))
                answers.append(Outbound(inbound, refusal))
            else:
                answers.append(Outbound(inbound, answer, inbound.frames))
        assert self.front is not None
        self.front.send(answers)


@pytest.fixture
def echo() -> Echo:
    return ListEcho()


def lac_request(ledger_id: int = 0, request_id: int = 0) -> ReadLac:
    return ReadLac(
        request_id=request_id,
        ledger_id=ledger_id,
        ledger_key=KEY,
        ledger_type=LedgerType.PD_JOURNAL,
    )


def ask_together(client: BookiePool, inbox: Inbox, requests: list[Message]) -> list[Reply]:
    """Send the requests in one turn of the pool; return the replies, in order."""

    def ask() -> None:
        for number, request in enumerate(requests):
            frames = (b"frame %d" % number,) if isinstance(request, ReadLac) else ()
            one = outgoing(inbox, number, request=request, frames=frames)
            client.request(msgspec.structs.replace(one, size=512))

    client.call_soon(ask)
    wait_until(lambda: len(inbox.news) >= len(requests), what="the answers")
    replies = [one for one in inbox.news if isinstance(one, Reply)]
    assert len(replies) == len(requests), "one for each"
    return sorted(replies, key=lambda one: int(str(one.key)))


def connect(client: BookiePool, inbox: Inbox) -> None:
    client.request(outgoing(inbox))
    inbox.wait_for_kind(Reply)
    inbox.forget()


def test_requests_of_one_turn_leave_as_one_message(client: BookiePool, server: RouterFront) -> None:
    inbox = Inbox()
    connect(client, inbox)
    before = server.counts.message_count

    replies = ask_together(client, inbox, [lac_request(100)] * PART_COUNT_MAX)

    assert server.counts.message_count == before + 1
    assert [one.key for one in replies] == list(range(PART_COUNT_MAX))
    assert [one.frames for one in replies] == [
        (b"frame %d" % number,) for number in range(PART_COUNT_MAX)
    ]


def test_a_refused_part_fails_no_other(client: BookiePool) -> None:
    inbox = Inbox()
    connect(client, inbox)

    replies = ask_together(client, inbox, [lac_request(one) for one in range(10, 20)])

    assert [type(one.outcome) for one in replies].count(LacAnswer) == 9
    assert isinstance(replies[3].outcome, NoSuchLedgerError)


def test_what_cannot_be_a_part_goes_alone_and_in_order(
    client: BookiePool, server: RouterFront
) -> None:
    inbox = Inbox()
    connect(client, inbox)
    before = server.counts.message_count
    info = GetBookieInfo(request_id=0)

    ask_together(client, inbox, [lac_request(), lac_request(), info, lac_request(), lac_request()])

    assert server.counts.message_count == before + 3
    assert [one.key for one in inbox.news if isinstance(one, Reply)] == [0, 1, 2, 3, 4]


def test_parts_over_the_credit_wait(echo: Echo) -> None:
    server = front(echo, credit_size=4_000)
    client = pool()
    client.set_addresses({BOOKIE_ID: server.endpoint})
    try:
        inbox = Inbox()
        replies = ask_together(client, inbox, [lac_request(one) for one in range(100, 400)])
        assert all(isinstance(one.outcome, LacAnswer) for one in replies)
        assert server.counts.refused_count == 0
    finally:
        client.close()
        server.stop()


# -------------------------------------------------------------- both versions


def test_a_bookie_of_version_2_gets_one_request_a_message() -> None:
    def script(message: Message) -> list[Answer]:
        if isinstance(message, Hello):
            return [greeted(Hello(request_id=message.request_id, version_max=VERSION_MIN))]
        return [LacAnswer(request_id=message.request_id, incarnation=1, lac=7)]

    client = pool()
    with ScriptedBookie(script) as bookie:
        client.set_addresses({BOOKIE_ID: bookie.endpoint})
        try:
            inbox = Inbox()
            replies = ask_together(client, inbox, [lac_request(one) for one in range(50)])
        finally:
            client.close()

    assert [one.key for one in replies] == list(range(50))
    assert [type(one) for one in bookie.seen] == [Hello] + [ReadLac] * 50


def greet(raw: zmq.Socket[bytes], version: int) -> None:
    raw.send(codec.encode(Hello(request_id=1, version_max=version)))
    raw.recv_multipart()


def bundle(*requests: PartRequest, incarnation: int = 1) -> bytes:
    sizes: list[list[int]] = [[] for _ in requests]
    return codec.encode(
        Bundle(request_id=0, incarnation=incarnation, parts=list(requests), sizes=sizes)
    )


def test_a_client_of_version_2_gets_one_answer_a_message(raw: zmq.Socket[bytes]) -> None:
    greet(raw, VERSION_MIN)
    for number in (5, 6, 7):
        request = msgspec.structs.replace(lac_request(request_id=number), incarnation=1)
        raw.send(codec.encode(request))

    answers = [codec.decode_answer(raw.recv_multipart()[0]) for _ in range(3)]

    assert [type(one) for one in answers] == [LacAnswer] * 3
    assert [one.request_id for one in answers] == [5, 6, 7]


# -------------------------------------------------------------- what should not come


def refusals(raw: zmq.Socket[bytes], count: int) -> list[tuple[int, type[Exception]]]:
    found: list[tuple[int, type[Exception]]] = []
    while len(found) < count:
        answer = codec.decode_answer(raw.recv_multipart()[0])
        parts = answer.parts if isinstance(answer, AnswerBundle) else [answer]
        for part in parts:
            assert isinstance(part, Refused)
            found.append((part.request_id, type(from_wire(part.code, tuple(part.fields)))))
    return found


def test_each_part_of_a_bundle_for_an_earlier_life_is_refused(raw: zmq.Socket[bytes]) -> None:
    greet(raw, BUNDLE_VERSION)
    both = bundle(lac_request(request_id=5), lac_request(request_id=6), incarnation=9)
    raw.send_multipart([both, b""])

    assert refusals(raw, 2) == [(5, WrongBookieError), (6, WrongBookieError)]


def test_each_part_of_a_bundle_ahead_of_hello_is_refused(raw: zmq.Socket[bytes]) -> None:
    raw.send_multipart([bundle(lac_request(request_id=5), lac_request(request_id=6)), b""])

    assert refusals(raw, 2) == [(5, HelloRequiredError), (6, HelloRequiredError)]


def test_only_the_parts_over_the_credit_are_refused(echo: Echo) -> None:
    server = front(echo, credit_size=3_000)
    context = zmq.Context()
    raw = context.socket(zmq.DEALER)
    raw.setsockopt(zmq.RCVTIMEO, 10_000)
    raw.connect(server.endpoint)
    try:
        greet(raw, BUNDLE_VERSION)
        parts: list[PartRequest] = [lac_request(request_id=one) for one in (5, 6, 7)]
        header = Bundle(request_id=0, incarnation=1, parts=parts, sizes=[[1_000], [1_000], [1_000]])
        raw.send_multipart([codec.encode(header), bytes(3_000)])

        assert refusals(raw, 1) == [(7, BusyError)]
    finally:
        context.destroy(linger=0)
        server.stop()


@pytest.mark.parametrize(
    ("sizes", "frames"),
    [([[3], []], (b"ab",)), ([[2]], (b"ab",)), ([[1], [1]], (b"a", b"b")), ([[1], []], ())],
    ids=["too short", "sizes of one part", "two frames", "no frame"],
)
def test_a_bundle_that_is_no_bundle_is_counted_and_nothing_of_it_is_done(
    raw: zmq.Socket[bytes],
    server: RouterFront,
    sizes: list[list[int]],
    frames: tuple[bytes, ...],
) -> None:
    greet(raw, BUNDLE_VERSION)
    parts: list[PartRequest] = [lac_request(request_id=5), lac_request(request_id=6)]
    header = Bundle(request_id=0, incarnation=1, parts=parts, sizes=sizes)
    before = server.counts.refused_count

    raw.send_multipart([codec.encode(header), *frames])

    wait_until(lambda: server.counts.refused_count == before + 1, what="the count")
    raw.send_multipart([bundle(lac_request(request_id=8)), b""])
    answer = codec.decode_answer(raw.recv_multipart()[0])
    assert answer.request_id == 8, "the connection goes on"


def test_an_answer_bundle_that_makes_no_sense_ends_the_connection() -> None:
    def script(message: Message) -> list[Answer]:
        if isinstance(message, Hello):
            return [greeted(message)]
        part = LacAnswer(request_id=message.request_id, incarnation=1, lac=7)
        wrong = AnswerBundle(request_id=0, parts=[part], sizes=[[5]])
        return [wrong]  # type: ignore[list-item]

    client = pool()
    with ScriptedBookie(script) as bookie:
        client.set_addresses({BOOKIE_ID: bookie.endpoint})
        try:
            inbox = Inbox()
            (reply,) = ask_together(client, inbox, [lac_request()])
        finally:
            client.close()

    assert "a bundle of 5 bytes" in str(reply.outcome)


# -------------------------------------------------------------- what leaves together


def part(size: int, *, is_bundled: bool = True) -> Part:
    request: Message = lac_request() if is_bundled else GetBookieInfo(request_id=0)
    return request, (bytes(size),)


@given(
    st.lists(
        st.builds(
            partial(part),
            st.sampled_from([0, 100, LIMITS.part_size_max, LIMITS.part_size_max + 1]),
            is_bundled=st.booleans(),
        ),
        min_size=1,
        max_size=500,
    )
)
def test_groups_keep_the_order_and_the_limits(parts: list[Part]) -> None:
    found = list(groups(parts, BUNDLE_VERSION))

    assert [one for group in found for one in group] == parts
    for group in found:
        assert 1 <= len(group) <= PART_COUNT_MAX
        if len(group) > 1:
            assert sum(len(frames[0]) for _request, frames in group) <= LIMITS.size_max
            assert all(isinstance(request, ReadLac) for request, _frames in group)
    assert [len(group) for group in groups(parts, VERSION_MIN)] == [1] * len(parts)
