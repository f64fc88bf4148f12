"""Rates of one client: what is over them waits, and nobody else does."""

import pytest

from tests.support.storage_actor import read_lac
from zbk.actors.serve.fair_queue import SMALL_SIZE_MAX, TURN_SIZE, FairQueue
from zbk.actors.serve.identity_rates import IDENTITY_COUNT_MAX, RateLimits, RateTable
from zbk.protocol.throttle import BURST_MS
from zbk.transport.inbound import Inbound
from zbk.transport.peers import Peer
from zbk.wire.messages import Ping

SECOND_US = 1_000_000


def ping(name: str, number: int, *, peer: Peer | None = None, size: int = 100) -> Inbound:
    return Inbound(name.encode(), Ping(request_id=number), (), size, life=peer)


def fence(name: str, number: int, size: int = 100) -> Inbound:
    return Inbound(name.encode(), read_lac(request_id=number, is_fencing=True), (), size)


def lac(name: str, number: int, size: int) -> Inbound:
    return Inbound(name.encode(), read_lac(request_id=number), (), size)


def peer_of(key: str, *, has_role: bool = False) -> Peer:
    peer = Peer(1, 0)
    peer.key, peer.has_role = key, has_role
    return peer


def served(queue: FairQueue, until_us: int) -> dict[bytes, int]:
    """Take a turn each millisecond; return how many requests of each connection came."""
    counts: dict[bytes, int] = {}
    for now_us in range(0, until_us, 1_000):
        for one in queue.take(0, now_us).batch:
            counts[one.peer] = counts.get(one.peer, 0) + 1
    return counts


@pytest.mark.parametrize(
    "limits", [RateLimits(request_rate=100), RateLimits(size_rate=10_000)], ids=["count", "size"]
)
def test_a_client_over_its_rate_is_served_at_that_rate(limits: RateLimits) -> None:
    queue = FairQueue(limits)
    queue.put([ping("greedy", number) for number in range(10_000)], 0)
    queue.put([ping("modest", number) for number in range(10)], 0)

    counts = served(queue, 10 * SECOND_US)

    assert counts[b"modest"] == 10
    burst_count = 100 * BURST_MS // 1_000
    assert abs(counts[b"greedy"] - (10 * 100 + burst_count)) <= 2


def test_connections_with_one_key_share_its_rate() -> None:
    queue = FairQueue(RateLimits(request_rate=100))
    for name in ("a", "b", "c"):
        queue.put([ping(name, number, peer=peer_of("k" * 40)) for number in range(1_000)], 0)

    counts = served(queue, 4 * SECOND_US)

    assert sum(counts.values()) <= 4 * 100 + 100 * BURST_MS // 1_000 + 2
    assert min(counts.values()) > 100


@pytest.mark.parametrize(
    "limits", [RateLimits(request_rate=100), RateLimits(size_rate=10_000)], ids=["count", "size"]
)
@pytest.mark.parametrize(
    "lone",
    [lac("peer", 0, SMALL_SIZE_MAX + 1), lac("peer", 0, TURN_SIZE), fence("peer", 0)],
    ids=["large", "larger", "fence"],
)
def test_small_requests_at_the_rate_stop_no_other_of_the_client(
    limits: RateLimits, lone: Inbound
) -> None:
    queue = FairQueue(limits)
    queue.put([ping("peer", number) for number in range(100)], 0)
    served(queue, 10_000)  # what may come at once
    queue.put([lone], 10_000)

    for now_us in range(10_000, 10 * SECOND_US, 10_000):
        batch = queue.take(0, now_us).batch
        if lone in batch:
            return
        queue.put([ping("peer", 1) for _ in batch], now_us)

    pytest.fail("it waits as long as smaller ones come")


def test_a_principal_with_a_role_has_no_limit() -> None:
    queue = FairQueue(RateLimits(request_rate=1, size_rate=1, fence_rate=1))
    queue.put([ping("auditor", n, peer=peer_of("k" * 40, has_role=True)) for n in range(1_000)], 0)

    assert len(queue.take(0, 0).batch) == 1_000


def test_fences_have_a_rate_of_their_own() -> None:
    queue = FairQueue(RateLimits(fence_rate=20))
    queue.put([fence("hostile", number) for number in range(1_000)], 0)
    queue.put([ping("hostile", number) for number in range(50)], 0)

    first = queue.take(0, 0)

    assert len(first.batch) == 50 + 20 * BURST_MS // 1_000 + 1
    assert (first.is_more, first.is_held, first.is_throttled) == (False, False, True)
    assert not queue.take(0, 1_000).batch
    assert 2 * 20 - 2 <= served(queue, 2 * SECOND_US)[b"hostile"] <= 2 * 20 + 2


@pytest.mark.parametrize("size", [SMALL_SIZE_MAX, SMALL_SIZE_MAX + 1])
@pytest.mark.parametrize("first_size", [100, TURN_SIZE])
def test_a_fence_counts_whatever_its_size_and_what_it_follows(size: int, first_size: int) -> None:
    queue = FairQueue(RateLimits(fence_rate=20))
    queue.put([lac("hostile", 1_000, first_size)], 0)
    queue.put([fence("hostile", number, size) for number in range(1_000)], 0)
    queue.put([lac("modest", number, SMALL_SIZE_MAX + 1) for number in range(100)], 0)

    first = queue.take(0, 0)
    while first.is_more:
        first = queue.take(0, 0)
    counts = served(queue, 2 * SECOND_US)

    assert (first.is_held, first.is_throttled) == (False, True)
    assert 2 * 20 - 2 <= counts[b"hostile"] <= 2 * 20 + 2
    assert not counts.get(b"modest")


def test_what_counts_does_not_pass_the_queue() -> None:
    assert FairQueue().may_pass([ping("peer", 1)])
    assert not FairQueue().may_pass([ping("peer", 1), fence("peer", 2)])
    assert not FairQueue(RateLimits(request_rate=1)).may_pass([ping("peer", 1)])


def test_a_stop_takes_what_is_throttled() -> None:
    queue = FairQueue(RateLimits(request_rate=1, fence_rate=1))
    queue.put([fence("peer", 1), fence("peer", 2), ping("peer", 3)], 0)
    queue.take(0, 0)

    assert len(queue.take_all()) == 2
    assert queue.is_empty
    assert queue.put([ping("peer", 4)], 0)


def test_identities_that_wait_for_nothing_are_forgotten() -> None:
    table = RateTable(RateLimits(request_rate=1))
    waiting = table.of(ping("waiting", 1), 0)
    for _ in range(10):
        waiting.spend(ping("waiting", 1), 0)
    idle = table.of(ping("idle", 1), 0)

    for number in range(IDENTITY_COUNT_MAX):
        table.of(ping(f"peer {number}", 1), 0)

    assert table.of(ping("waiting", 1), 0) is waiting
    assert table.of(ping("idle", 1), 0) is not idle


def test_other_rates_count_for_those_that_wait_already() -> None:
    queue = FairQueue(RateLimits(request_rate=1, fence_rate=1))
    queue.put([ping("a", number) for number in range(100)], 0)
    queue.put([fence("a", number) for number in range(100)], 0)
    before = served(queue, SECOND_US).get(b"a", 0)
    assert before < 5

    queue.change(RateLimits())

    assert served(queue, SECOND_US) == {b"a": 200 - before}
    assert queue.is_empty
