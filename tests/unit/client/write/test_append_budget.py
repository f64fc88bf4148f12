"""What the writers of one client may have pending together."""

import threading

import pytest

from tests.support.waiting import wait_until
from zbk.client.write.append_budget import AppendBudget
from zbk.client.write.append_future import AppendFuture
from zbk.client.write.mailbox import AHEAD_SIZE, AppendMailbox
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


def test_a_busy_writer_takes_ahead_and_gives_it_back() -> None:
    budget = AppendBudget(1_000_000)
    one = AppendMailbox(100_000, lambda _is_lone: None, budget)

    put(one, 100)
    assert budget.size == 100  # it is alone: nothing ahead
    put(one, 100)
    assert budget.size == 200 + AHEAD_SIZE
    put(one, AHEAD_SIZE - 100)
    assert budget.size == 200 + AHEAD_SIZE  # from what it had

    one.release(100)
    assert budget.size == 200 + AHEAD_SIZE  # it is still busy
    one.release(AHEAD_SIZE)
    assert budget.size == 0


def test_nothing_is_taken_ahead_while_room_is_scarce() -> None:
    budget = AppendBudget(2 * AHEAD_SIZE)
    one, other = (AppendMailbox(100_000, lambda _is_lone: None, budget) for _ in range(2))
    put(one, 100)
    put(one, 100)
    assert budget.size == 200

    put(other, 2 * AHEAD_SIZE - 200)

    with pytest.raises(RequestTimeoutError):
        put(one, 1)


def test_an_append_over_the_limit_does_not_wait_for_what_its_own_writer_has_ahead() -> None:
    budget = AppendBudget(100)
    one = mailbox(budget)
    one._granted_size = budget.take(30, 1, lambda: None)  # another thread is about to put

    put(one, 150)

    assert budget.size == 150


def test_the_end_gives_back_what_was_taken_ahead() -> None:
    budget = AppendBudget(1_000_000)
    one = AppendMailbox(100_000, lambda _is_lone: None, budget)
    put(one, 100)
    put(one, 100)

    one.end(LedgerClosedError(7))
    one.release(200)

    assert budget.size == 0


def test_a_budget_is_whole_after_writers_and_answers_raced() -> None:
    budget = AppendBudget(40_000)
    boxes = [AppendMailbox(9_000, lambda _is_lone: None, budget) for _ in range(3)]
    is_over = threading.Event()

    def answer() -> None:
        while not is_over.is_set() or any(box.items for box in boxes):
            for box in boxes:
                box.release(sum(future.size for future, _payloads in box.take()))

    def write(box: AppendMailbox) -> None:
        for size in range(1, 1_500):
            put(box, size, 20)

    answerer = threading.Thread(target=answer)
    writers = [threading.Thread(target=write, args=(box,)) for box in boxes * 2]
    for thread in (answerer, *writers):
        thread.start()
    for thread in writers:
        thread.join(30)
    is_over.set()
    answerer.join(30)

    assert [box.pending_size for box in boxes] == [0, 0, 0]
    assert budget.size == 0
