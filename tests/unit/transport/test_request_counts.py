"""How long requests take: kept from when that is wanted, and counted many at a time."""

from tests.support.waiting import wait_until
from tests.support.wire_peers import Inbox, outgoing
from zbk.metrics.deferred import ROW_COUNT_MAX
from zbk.transport.dealer import BookiePool
from zbk.transport.events import Reply
from zbk.transport.request_counts import RequestCounts
from zbk.wire.messages import Add, Hello, Read


def ask(client: BookiePool, count: int) -> None:
    inbox = Inbox()
    for number in range(count):
        client.request(outgoing(inbox, number))
    inbox.wait_for(lambda one: isinstance(one, Reply) and one.key == count - 1)


def test_times_are_counted_by_operation() -> None:
    counts = RequestCounts()
    counts.keep_times()
    assert counts.answered is not None
    counts.answered.rows += [(Add, 3), (Read, 70), (Add, 3), (Add, 4), (Hello, 5)]

    found = {name: (sum(one.counts), one.sum_us) for name, one in counts.times.items()}

    assert found["add"] == (3, 10_000)
    assert found["read"] == (1, 70_000)
    assert found["other"] == (1, 5_000)
    assert found["sync"] == found["lac"] == (0, 0)


def test_a_pool_keeps_no_times_until_they_are_wanted(client: BookiePool) -> None:
    ask(client, 3)
    assert client.counts.answered is None

    client.counts.keep_times()
    ask(client, 3)

    wait_until(lambda: sum(client.counts.times["other"].counts) == 3)


def test_a_pool_counts_what_it_keeps_at_the_end_of_a_turn(client: BookiePool) -> None:
    client.counts.keep_times()
    answered = client.counts.answered
    assert answered is not None

    ask(client, 2 * ROW_COUNT_MAX)

    wait_until(lambda: len(answered.rows) < ROW_COUNT_MAX, what="the end of the turn")
    assert sum(client.counts._times["other"].counts) >= ROW_COUNT_MAX
    assert sum(client.counts.times["other"].counts) == 2 * ROW_COUNT_MAX
