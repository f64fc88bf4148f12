"""What the writers of one client may have pending together."""

import threading

import pytest

from tests.support.waiting import wait_until
from zbk.client.append_budget import AppendBudget
from zbk.client.append_future import AppendFuture
from zbk.client.mailbox import AppendMailbox
from zbk.errors import LedgerClosedError, RequestTimeoutError


def mailbox(budget: AppendBudget) -> AppendMailbox:
    return AppendMailbox(1_000, lambda _is_lone: None, budget)


def put(into: AppendMailbox, size: int, timeout_s: float = 0.01) -> None:
    into.put(AppendFuture(size=size), (b"x",), timeout_s)


def test_the_writers_of_a_client_share_a_limit() -> None:
    budget = AppendBudget(10)
    one, other = mailbox(budget), mailbox(budget)
    put(one, 6)

    with pytest.raises(RequestTimeoutError, match="together"):
        put(other, 6)

    assert (budget.size, len(other.take())) == (6, 0)
    one.release(6)
    put(other, 6)
    assert budget.size == 6


def test_one_append_over_the_limit_goes_in_alone() -> None:
    budget = AppendBudget(10)
    one, other = mailbox(budget), mailbox(budget)

    put(one, 50)

    with pytest.raises(RequestTimeoutError):
        put(other, 1)


def test_an_append_that_waits_goes_on_when_another_writer_is_answered() -> None:
    budget = AppendBudget(10)
    one, other = mailbox(budget), mailbox(budget)
    put(one, 10)
    thread = threading.Thread(target=put, args=(other, 5, 20))
    thread.start()
    wait_until(lambda: budget._waiting_count == 1)

    one.release(10)

    thread.join(20)
    assert len(other.take()) == 1


def test_an_append_that_waits_ends_with_its_writer() -> None:
    budget = AppendBudget(10)
    one, other = mailbox(budget), mailbox(budget)
    put(one, 10)
    caught: list[BaseException] = []

    def wait() -> None:
        with pytest.raises(LedgerClosedError) as error:
            put(other, 5, 60)
        caught.append(error.value)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: budget._waiting_count == 1)

    other.end(LedgerClosedError(7))

    thread.join(20)
    assert len(caught) == 1
    assert budget.size == 10


def test_what_does_not_fit_in_the_writer_itself_is_given_back() -> None:
    budget = AppendBudget(5_000)
    one = mailbox(budget)
    put(one, 1_000)

    with pytest.raises(RequestTimeoutError):
        put(one, 1)

    assert budget.size == 1_000
