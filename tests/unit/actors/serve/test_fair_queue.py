"""The queue before the storage actor: shares of a turn, and the order within a ledger."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.actors.serve.fair_queue import (
    HURRY_US,
    PACE_SIZE,
    SLICE_SIZE,
    SMALL_SIZE_MAX,
    TURN_SIZE,
    FairQueue,
)
from zbk.protocol.entry.words import LedgerType
from zbk.transport.inbound import Inbound
from zbk.wire.messages import GetBookieInfo, ReadLac

LARGE_SIZE = TURN_SIZE


def inbound(peer: str, ledger_id: int, number: int, size: int = 100) -> Inbound:
    request = ReadLac(
        request_id=number, ledger_id=ledger_id, ledger_key=b"", ledger_type=LedgerType.PD_JOURNAL
    )
    return Inbound(peer.encode(), request, (), size)


def numbers(batch: Sequence[Inbound]) -> list[int]:
    return [one.request.request_id for one in batch]


@pytest.fixture
def queue() -> FairQueue:
    return FairQueue()


def take_numbers(queue: FairQueue, unsynced_size: int = 0, now_us: int = 0) -> list[int]:
    return numbers(queue.take(unsynced_size, now_us).batch)


def test_a_request_of_another_connection_is_in_the_next_turn(queue: FairQueue) -> None:
    queue.put([inbound("greedy", 1, number, LARGE_SIZE) for number in range(100)], 10)
    queue.put([inbound("lone", 2, 1_000)], 20)

    taken = queue.take(0, 30)

    assert 1_000 in numbers(taken.batch)
    assert sum(one.size for one in taken.batch) < TURN_SIZE + LARGE_SIZE + SLICE_SIZE
    assert taken.received_us == 10
    assert taken.is_more


def test_a_small_request_overtakes_those_of_another_ledger_only(queue: FairQueue) -> None:
    queue.put([inbound("peer", 1, number, LARGE_SIZE) for number in range(20)], 0)
    queue.put([inbound("peer", 2, 1_000), inbound("peer", 1, 1_001)], 0)

    first = take_numbers(queue)
    rest: list[int] = []
    while len(first) + len(rest) < 22:
        rest += take_numbers(queue)

    assert first[0] == 1_000
    assert [*first[1:], *rest] == [*range(20), 1_001]


def test_a_request_of_no_ledger_is_taken_too(queue: FairQueue) -> None:
    queue.put([inbound("peer", 1, 1, LARGE_SIZE)], 0)
    queue.put([Inbound(b"peer", GetBookieInfo(request_id=2), (), LARGE_SIZE)], 0)

    assert take_numbers(queue) == [1]
    assert take_numbers(queue) == [2]


@pytest.mark.parametrize("size", [1, SMALL_SIZE_MAX, SLICE_SIZE, TURN_SIZE, 40 * TURN_SIZE])
def test_connections_with_requests_of_one_size_get_as_many_bytes(
    queue: FairQueue, size: int
) -> None:
    queue.put([inbound("a", 1, number, size) for number in range(2_000)], 0)
    queue.put([inbound("b", 2, number, size) for number in range(2_000)], 0)

    counts = {b"a": 0, b"b": 0}
    for _ in range(200):
        for one in queue.take(0, 0).batch:
            counts[one.peer] += 1
            assert abs(counts[b"a"] - counts[b"b"]) * size <= 2 * max(SLICE_SIZE, size)
    assert min(counts.values()) > 0


def test_the_actor_is_told_once_until_it_has_taken_everything(queue: FairQueue) -> None:
    assert queue.put([inbound("a", 1, 1, TURN_SIZE), inbound("a", 1, 2, TURN_SIZE)], 0)
    assert not queue.put([inbound("a", 1, 3, TURN_SIZE)], 0)

    assert queue.take(0, 0).is_more
    assert not queue.put([inbound("b", 1, 4)], 0)  # it goes on by itself
    while queue.take(0, 0).is_more:
        pass

    assert queue.is_empty
    assert queue.put([inbound("a", 1, 5)], 0)


def test_large_requests_are_held_while_small_ones_come_and_a_sync_has_much_to_do(
    queue: FairQueue,
) -> None:
    queue.put([inbound("greedy", 1, number, LARGE_SIZE) for number in range(4)], 0)
    queue.put([inbound("lone", 2, 1_000)], 10)

    taken = queue.take(PACE_SIZE, 20)

    assert numbers(taken.batch) == [1_000]
    assert taken.is_held
    assert not taken.is_more
    assert queue.put([inbound("lone", 2, 1_001)], 30)  # the actor is told of each one that comes
    assert take_numbers(queue, PACE_SIZE, 40) == [1_001]
    assert take_numbers(queue, PACE_SIZE - 1, 50) == [0]  # a sync has ended
    assert take_numbers(queue, PACE_SIZE, 50 + HURRY_US) == [1]  # no small one came for long


def test_large_requests_are_not_held_when_no_small_ones_come(queue: FairQueue) -> None:
    queue.put([inbound("small", 2, 1_000)], 0)  # long before
    queue.put([inbound("greedy", 1, 0, LARGE_SIZE)], HURRY_US)

    taken = queue.take(100 * PACE_SIZE, HURRY_US)

    assert numbers(taken.batch) == [1_000, 0]
    assert not taken.is_held


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.integers(1, 3),
            st.sampled_from([1, SMALL_SIZE_MAX, SMALL_SIZE_MAX + 1, SLICE_SIZE, TURN_SIZE]),
            st.one_of(st.none(), st.sampled_from([0, PACE_SIZE])),
        ),
        max_size=60,
    )
)
def test_requests_of_a_ledger_stay_in_order_and_none_is_lost(
    steps: list[tuple[str, int, int, int | None]],
) -> None:
    queue = FairQueue()
    order: dict[tuple[bytes, int], list[int]] = {}
    served: dict[tuple[bytes, int], list[int]] = {}

    def serve(unsynced_size: int, now_us: int) -> None:
        for one in queue.take(unsynced_size, now_us).batch:
            key = (one.peer, one.request.ledger_id)  # type: ignore[union-attr]
            served.setdefault(key, []).append(one.request.request_id)

    for number, (peer, ledger_id, size, unsynced_size) in enumerate(steps):
        queue.put([inbound(peer, ledger_id, number, size)], number)
        order.setdefault((peer.encode(), ledger_id), []).append(number)
        if unsynced_size is not None:
            serve(unsynced_size, number)
    while not queue.is_empty:
        serve(0, len(steps))

    assert served == order
