"""How requests to one bookie leave: in order for each ledger, the small ones first."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.wire_peers import Inbox
from zbk.protocol.entry.words import LedgerType
from zbk.transport.bundles import LIMITS
from zbk.transport.events import Outgoing
from zbk.transport.request_queue import HURRY_MS, PACE_SIZE, RequestQueue
from zbk.wire.messages import HelloAnswer, WriteLac

CREDIT_SIZE = 64 * PACE_SIZE
SMALL_SIZE = 600
LARGE_SIZE = PACE_SIZE // 2


def hello(credit_size: int = CREDIT_SIZE) -> HelloAnswer:
    return HelloAnswer(
        request_id=1, version=3, instance_id="i", bookie_id="b", credit_size=credit_size,
        entry_size_max=1,
    )  # fmt: skip


class Queue:
    """A queue, the requests in the order in which they left, and the clock."""

    def __init__(self) -> None:
        self.requests = RequestQueue()
        self.left: list[tuple[int, object]] = []
        self.unanswered: list[int] = []
        self.now_ms = 0
        self._next_id = itertools.count(1).__next__
        self._numbers = itertools.count()

    def add(self, ledger_id: int, size: int) -> None:
        request = WriteLac(
            request_id=0, ledger_id=ledger_id, ledger_key=bytes(16),
            ledger_type=LedgerType.PD_JOURNAL, lac=next(self._numbers),
        )  # fmt: skip
        outgoing = Outgoing("b", request, (), Inbox(), None, 5_000, size)
        assert self.requests.add(outgoing, self.now_ms)

    def send(self, credit_size: int = CREDIT_SIZE) -> list[int]:
        """Send what may be sent; return the ledgers."""
        parts = self.requests.within_credit(hello(credit_size), self._next_id, self.now_ms)
        self.requests.handed_over(parts, self.now_ms)
        for request, _frames in parts:
            assert isinstance(request, WriteLac)
            self.left.append((request.ledger_id, request.lac))
            self.unanswered.append(request.request_id)
        return [ledger_id for ledger_id, _lac in self.left[len(self.left) - len(parts) :]]

    def answer(self, at: int = 0) -> None:
        assert self.requests.outstanding.take(self.unanswered.pop(at), self.now_ms) is not None


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_a_lone_ledger_has_all_of_the_credit(queue: Queue) -> None:
    for _ in range(10):
        queue.add(1, LARGE_SIZE)
        queue.add(1, SMALL_SIZE)

    assert queue.send() == [1] * 20


def test_a_small_request_overtakes_the_large_ones_of_another_ledger(queue: Queue) -> None:
    for _ in range(10):
        queue.add(1, LARGE_SIZE)
    queue.add(2, SMALL_SIZE)

    assert queue.send() == [2, 1, 1], "and few of these are outstanding then"

    queue.answer()
    assert queue.send() == []
    queue.answer()
    assert queue.send() == [1]


def test_the_large_lane_has_its_credit_again_when_small_requests_come_no_more(
    queue: Queue,
) -> None:
    for _ in range(10):
        queue.add(1, LARGE_SIZE)
    queue.add(2, SMALL_SIZE)
    queue.send()

    queue.now_ms = HURRY_MS

    assert queue.send() == [1] * 8


def test_many_small_ledgers_are_not_paced(queue: Queue) -> None:
    for ledger_id in range(5_000):
        queue.add(ledger_id, LIMITS.part_size_max)

    assert len(queue.send()) == 4_096, "as many as the credit has room for"


def test_small_requests_that_fill_the_credit_do_not_keep_a_large_one_waiting(
    queue: Queue,
) -> None:
    credit_size = 100 * SMALL_SIZE
    queue.add(1, LARGE_SIZE)
    queue.add(2, SMALL_SIZE)
    for ledger_id in range(3, 203):
        queue.add(ledger_id, SMALL_SIZE)
    queue.send(credit_size)

    for ledger_id in range(203, 703):  # each answer makes room for one more of these
        if (1, 0) in queue.left:
            break
        queue.add(ledger_id, SMALL_SIZE)
        queue.answer()
        queue.send(credit_size)
    while queue.unanswered and (1, 0) not in queue.left:  # it is larger than the credit: alone
        queue.answer()
        queue.send(credit_size)

    assert len(queue.left) < 250, "those that waited before it, and few more"


def test_what_was_refused_for_want_of_a_hello_leaves_first(queue: Queue) -> None:
    queue.add(1, LARGE_SIZE)
    queue.add(2, SMALL_SIZE)
    queue.send()
    outstanding = queue.requests.outstanding
    for one in queue.unanswered:
        outgoing = outstanding.take(one, 0)
        assert outgoing is not None
        queue.requests.refused(outgoing)
    queue.add(1, SMALL_SIZE)
    queue.add(2, SMALL_SIZE)

    queue.requests.repeat_refused()

    queue.left.clear()
    queue.send()
    assert queue.left == [(2, 1), (1, 0), (2, 3), (1, 2)]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 4), st.sampled_from([SMALL_SIZE, LARGE_SIZE])),
        st.tuples(st.just("send"), st.sampled_from([CREDIT_SIZE, 2 * PACE_SIZE]), st.just(0)),
        st.tuples(st.just("answer"), st.integers(0, 100), st.integers(0, HURRY_MS)),
    ),
    max_size=80,
)


@settings(max_examples=200)
@given(steps)
def test_all_requests_of_a_ledger_leave_in_order_and_all_leave(
    steps: list[tuple[str, int, int]],
) -> None:
    queue = Queue()
    added: list[int] = []
    for step, one, other in steps:
        match step:
            case "add":
                queue.add(one, other)
                added.append(one)
            case "send":
                queue.send(one)
            case _ if queue.unanswered:
                queue.now_ms += other
                queue.answer(one % len(queue.unanswered))
    for _ in range(len(added) + 1):
        queue.send()
        while queue.unanswered:
            queue.answer()

    assert not queue.requests
    assert not queue.requests.outstanding.large_counts
    for ledger_id in set(added):
        own = [number for other, number in queue.left if other == ledger_id]
        assert own == [number for number, other in enumerate(added) if other == ledger_id]
