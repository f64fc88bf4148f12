"""AppendQueue: every payload in order, every ticket once, no batch too large."""

from hypothesis import given
from hypothesis import strategies as st

from zbk.protocol.write.append_queue import AppendQueue

OVERHEAD_SIZE = 10
SIZE_MAX = 100
COUNT_MAX = 4

payload = st.integers(0, 130).map(bytes)
of_one = payload.map(lambda one: [one])
appends = st.lists(of_one | of_one | st.lists(payload, max_size=10), max_size=12)


def make_queue() -> AppendQueue:
    return AppendQueue(entry_overhead_size=OVERHEAD_SIZE, size_max=SIZE_MAX, count_max=COUNT_MAX)


@given(appends=appends, interleave=st.lists(st.booleans(), max_size=12))
def test_what_is_added_is_taken_in_order_and_in_small_batches(
    appends: list[list[bytes]], interleave: list[bool]
) -> None:
    queue = make_queue()
    payloads: list[bytes] = []
    tickets: list[tuple[int, int, int]] = []

    def take() -> None:
        taken = queue.take()
        size = sum(map(len, taken.payloads)) + OVERHEAD_SIZE * len(taken.payloads)
        assert len(taken.payloads) <= COUNT_MAX
        assert size <= SIZE_MAX or len(taken.payloads) == 1
        assert taken.payloads or taken.tickets, "every batch brings something"
        payloads.extend(taken.payloads)
        tickets.extend(taken.tickets)
        for _ticket, first, count in taken.tickets:
            assert first + count <= len(payloads), "a ticket comes with its last entry"

    for ticket, append in enumerate(appends):
        queue.add([(ticket, append)])
        assert queue.last_entry_id == sum(map(len, appends[: ticket + 1])) - 1
        if ticket < len(interleave) and interleave[ticket]:
            take()
    while queue.waiting:
        take()

    assert payloads == [payload for append in appends for payload in append]
    firsts = [sum(map(len, appends[:ticket])) for ticket in range(len(appends))]
    assert tickets == [(t, firsts[t], len(append)) for t, append in enumerate(appends)]


@given(appends=appends, take_count=st.integers(0, 6))
def test_tickets_that_were_not_taken_to_the_end_are_drained_once(
    appends: list[list[bytes]], take_count: int
) -> None:
    queue = make_queue()
    done: list[int] = []
    for ticket, append in enumerate(appends):
        queue.add([(ticket, append)])
    for _ in range(take_count):
        if queue.waiting:
            done += [ticket for ticket, _first, _count in queue.take().tickets]

    drained = queue.drain()

    assert done + drained == list(range(len(appends)))
    assert not queue.waiting
    assert queue.last_entry_id == sum(map(len, appends)) - 1, "ids are not given out again"


def test_small_appends_share_a_batch_and_one_that_does_not_fit_waits_whole() -> None:
    queue = make_queue()
    for ticket, sizes in enumerate([(10,), (10, 10), (30, 30)]):
        queue.add([(ticket, [bytes(size) for size in sizes])])

    assert queue.take().tickets == [(0, 0, 1), (1, 1, 2)]
    assert queue.take().tickets == [(2, 3, 2)]


def test_appends_of_one_entry_leave_together_as_far_as_they_fit() -> None:
    queue = make_queue()
    queue.add([(ticket, [bytes(30)]) for ticket in range(4)])
    queue.add([(4, [bytes(10), bytes(10)]), (5, [bytes(10)])])

    assert queue.take().tickets == [(0, 0, 1), (1, 1, 1)], "a third one would be over 100 bytes"
    assert queue.take().tickets == [(2, 2, 1), (3, 3, 1)], "the next one is not of one entry"
    assert queue.take().tickets == [(4, 4, 2), (5, 6, 1)]
    assert not queue.waiting
