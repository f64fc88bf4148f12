"""How long requests take: kept from when that is wanted, by operation."""

from tests.support.waiting import wait_until
from tests.support.wire_peers import Inbox, outgoing
from zbk.metrics.sampling import SHARES
from zbk.transport.dealer import BookiePool
from zbk.transport.events import Reply
from zbk.transport.request_counts import RequestCounts
from zbk.wire.messages import Add, Hello, Message, Read, ReadLac, WriteLac


def ask(client: BookiePool, count: int) -> None:
    inbox = Inbox()
    for number in range(count):
        client.request(outgoing(inbox, number))
    inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == count - 1)


def test_times_are_counted_by_operation() -> None:
    counts = RequestCounts()
    times = counts.keep_times()
    taken: list[tuple[type[Message], int]] = [
        *((Add, 3), (Add, 3), (Add, 4)),
        *((Read, 70), (ReadLac, 1), (WriteLac, 2), (Hello, 5)),
    ]
    for kind, took_ms in taken:
        times.count(kind, took_ms, now_ms=10_000)

    for _reading in range(2):
        found = {name: (sum(one.counts), one.sum_us) for name, one in counts.times.items()}

        assert found["add"] == (3, 10_000)
        assert found["read"] == (1, 70_000)
        assert found["lac"] == (2, 3_000)
        assert found["other"] == (1, 5_000)
        assert found["sync"] == (0, 0)


def test_a_pool_keeps_no_times_until_they_are_wanted(client: BookiePool) -> None:
    ask(client, 3)
    assert client.counts.answered is None
    assert sum(client.counts.times["other"].counts) == 0

    client.counts.keep_times()
    ask(client, 3)

    wait_until(lambda: sum(client.counts.times["other"].counts) == 3)


def test_frequent_answers_are_counted_in_part_and_stand_for_all(client: BookiePool) -> None:
    times = client.counts.keep_times()

    ask(client, 2_000)  # most of them come in bundles

    def count() -> int:
        untimed_count = times.share - times.left_count
        return sum(client.counts.times["other"].counts) + untimed_count

    wait_until(lambda: count() == 2_000)
    assert times.share in SHARES
