"""The way from the application to the writer's actor: order, bounds, rousing, the end."""

import threading
from collections.abc import Callable

import pytest

from tests.support.waiting import wait_until
from zbk.client.write.append_budget import AppendBudget
from zbk.client.write.append_future import AppendFuture
from zbk.client.write.mailbox import LONE_SIZE_MAX, AppendMailbox
from zbk.errors import ClientClosedError, LedgerClosedError, RequestTimeoutError
from zbk.system.clock import monotonic_s


class Bell:
    def __init__(self) -> None:
        self.count = 0
        self.lone: list[bool] = []

    def __call__(self, is_lone: bool) -> None:
        self.count += 1
        self.lone.append(is_lone)


def ticket(size: int) -> AppendFuture:
    return AppendFuture(size=size)


def test_the_reader_is_roused_once_for_all_that_joins() -> None:
    bell = Bell()
    mailbox = AppendMailbox(1_000, bell)
    tickets = [ticket(1) for _ in range(5)]

    for one in tickets:
        mailbox.put(one, (b"x",), 1)

    assert bell.count == 1
    assert [t for t, _payloads in mailbox.take()] == tickets


def test_the_reader_may_take_a_part_and_is_roused_again_only_after_the_rest() -> None:
    bell = Bell()
    mailbox = AppendMailbox(1_000, bell)
    tickets = [ticket(size) for size in (30, 30, 30, 200, 10)]
    for one in tickets:
        mailbox.put(one, (b"x",), 1)

    taken = []
    while mailbox.items:
        taken.append([tickets.index(one) for one, _payloads in mailbox.take(70)])

    assert taken == [[0, 1], [2], [3], [4]]
    assert bell.count == 1
    mailbox.put(ticket(1), (b"y",), 1)
    assert bell.count == 2


def test_what_joins_after_a_take_rouses_again() -> None:
    bell = Bell()
    mailbox = AppendMailbox(1_000, bell)
    mailbox.put(ticket(1), (b"x",), 1)
    mailbox.take()

    mailbox.put(ticket(1), (b"y",), 1)

    assert bell.count == 2
    assert [payloads for _t, payloads in mailbox.take()] == [(b"y",)]


def test_the_reader_hears_whether_an_append_is_alone() -> None:
    bell = Bell()
    mailbox = AppendMailbox(10 * LONE_SIZE_MAX, bell)

    mailbox.put(ticket(LONE_SIZE_MAX), (b"small",), 1)
    mailbox.take()
    mailbox.put(ticket(1), (b"the one before is not answered",), 1)
    mailbox.take()
    mailbox.release(LONE_SIZE_MAX + 1)
    mailbox.put(ticket(LONE_SIZE_MAX + 1), (b"large",), 1)

    assert bell.lone == [True, False, False]


def test_a_full_mailbox_times_out_and_adds_nothing() -> None:
    mailbox = AppendMailbox(10, Bell())
    mailbox.put(ticket(10), (b"x" * 10,), 1)

    with pytest.raises(RequestTimeoutError):
        mailbox.put(ticket(1), (b"y",), 0.01)

    assert len(mailbox.take()) == 1


def test_taking_gives_no_room_but_releasing_does() -> None:
    mailbox = AppendMailbox(10, Bell())
    mailbox.put(ticket(10), (b"x" * 10,), 1)
    mailbox.take()
    with pytest.raises(RequestTimeoutError):
        mailbox.put(ticket(1), (b"y",), 0.01)

    mailbox.release(10)

    mailbox.put(ticket(1), (b"y",), 0.01)
    assert mailbox.pending_size == 1


def test_a_waiter_goes_on_when_room_is_released() -> None:
    mailbox = AppendMailbox(10, Bell())
    mailbox.put(ticket(10), (b"x" * 10,), 1)
    waiter = threading.Thread(target=mailbox.put, args=(ticket(5), (b"y" * 5,), 20))
    waiter.start()

    mailbox.release(10)
    waiter.join(20)

    assert not waiter.is_alive()
    assert mailbox.pending_size == 5


def test_one_append_over_the_limit_goes_in_alone() -> None:
    mailbox = AppendMailbox(10, Bell())

    mailbox.put(ticket(1_000), (b"x" * 1_000,), 0.01)

    assert mailbox.pending_size == 1_000


def test_after_the_end_nothing_goes_in() -> None:
    mailbox = AppendMailbox(10, Bell())
    mailbox.end(LedgerClosedError(4))
    mailbox.end(ClientClosedError())

    with pytest.raises(LedgerClosedError):
        mailbox.put(ticket(1), (b"x",), 1)


def test_the_end_wakes_whoever_waits_for_room() -> None:
    mailbox = AppendMailbox(10, Bell())
    mailbox.put(ticket(10), (b"x" * 10,), 1)
    errors: list[Exception] = []

    def wait() -> None:
        try:
            mailbox.put(ticket(5), (b"y" * 5,), 20)
        except LedgerClosedError as error:
            errors.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    mailbox.end(LedgerClosedError(4))
    waiter.join(20)

    assert [type(error) for error in errors] == [LedgerClosedError]


class NotedBudget(AppendBudget):
    """Notes how long it was allowed to wait."""

    def __init__(self, size_max: int) -> None:
        super().__init__(size_max)
        self.timeouts_s: list[float] = []

    def take(
        self, size: int, timeout_s: float, check: Callable[[], None], ahead_size: int = 0
    ) -> int:
        self.timeouts_s.append(timeout_s)
        return super().take(size, timeout_s, check, ahead_size)


def test_the_waits_of_an_append_share_its_time_out() -> None:
    budget = NotedBudget(100)
    mailbox = AppendMailbox(10, Bell(), budget)
    mailbox.put(ticket(10), (b"x" * 10,), 60)
    mailbox.take()
    waiter = threading.Thread(target=mailbox.put, args=(ticket(5), (b"y" * 5,), 60))
    began_s = monotonic_s()
    waiter.start()
    wait_until(lambda: mailbox._waiter_count == 1)
    waited_s = monotonic_s()
    wait_until(lambda: monotonic_s() > waited_s + 0.05)

    mailbox.release(10)
    waiter.join(20)

    assert budget.timeouts_s[0] == 60
    assert 60 - (monotonic_s() - began_s) <= budget.timeouts_s[1] <= 60 - 0.05
