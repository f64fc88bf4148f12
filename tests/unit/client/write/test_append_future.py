"""Futures that share a condition behave as the standard ones do."""

import asyncio
import threading
from concurrent.futures import ALL_COMPLETED, Future, as_completed, wait

import pytest

from zbk.client.write.append_future import (
    AppendFuture,
    SharedCondition,
    fail_unless_done,
    resolve_all,
)
from zbk.errors import LedgerClosedError

DEADLINE_S = 20.0


def make(count: int) -> tuple[SharedCondition, list[AppendFuture]]:
    condition = SharedCondition()
    return condition, [AppendFuture(condition) for _ in range(count)]


def test_it_has_all_that_a_standard_future_has() -> None:
    standard: Future[object] = Future()
    own = AppendFuture()
    for name, value in vars(standard).items():
        if name == "_result":  # nothing looks at it before there is one
            continue
        assert isinstance(getattr(own, name), type(value)), name
        assert name == "_condition" or getattr(own, name) == value, name


def test_each_gets_its_own_result() -> None:
    condition, futures = make(2)
    futures.append(AppendFuture(condition, is_many=True))
    assert not any(future.done() for future in futures)

    resolve_all(condition, [(futures[0], 4, 1), (futures[1], 5, 1), (futures[2], 6, 3)])

    assert [future.result(0) for future in futures] == [4, 5, range(6, 9)]
    assert all(future.done() and future.exception() is None for future in futures)


def test_a_callback_that_comes_late_is_called_at_once() -> None:
    condition, (future,) = make(1)
    resolve_all(condition, [(future, 7, 1)])
    called: list[object] = []

    future.add_done_callback(lambda done: called.append(done.result()))

    assert called == [7]


def test_a_callback_that_raises_hurts_no_other(caplog: pytest.LogCaptureFixture) -> None:
    condition, (future,) = make(1)
    called: list[object] = []

    def fail(_future: "Future[object]") -> None:
        raise KeyError("a bug of the application")

    future.add_done_callback(fail)
    future.add_done_callback(lambda done: called.append(done.result()))
    resolve_all(condition, [(future, 7, 1)])

    assert called == [7]
    assert "exception calling callback" in caplog.text


def test_a_callback_beside_the_result_is_called_once() -> None:
    condition, futures = make(200)
    called: list[int] = []
    resolver = threading.Thread(
        target=resolve_all, args=(condition, [(f, i, 1) for i, f in enumerate(futures)])
    )
    resolver.start()

    for future in futures:
        future.add_done_callback(lambda done: called.append(done.result()))
    resolver.join(DEADLINE_S)

    assert sorted(called) == list(range(200))


def test_waiting_for_one_is_not_ended_by_another() -> None:
    condition, (first, second) = make(2)
    results: list[object] = []
    waiter = threading.Thread(target=lambda: results.append(second.result(DEADLINE_S)))
    waiter.start()

    resolve_all(condition, [(first, 1, 1)])
    assert results == []
    resolve_all(condition, [(second, 2, 1)])
    waiter.join(DEADLINE_S)

    assert results == [2]


def test_a_result_that_does_not_come_times_out() -> None:
    _condition, (future,) = make(1)

    with pytest.raises(TimeoutError):
        future.result(0.01)
    with pytest.raises(TimeoutError):
        future.exception(0.01)


def test_an_error_is_raised() -> None:
    _condition, (future,) = make(1)

    future.set_exception(LedgerClosedError(3))

    with pytest.raises(LedgerClosedError):
        future.result(1)
    assert isinstance(future.exception(1), LedgerClosedError)


def test_the_first_of_two_answers_counts() -> None:
    condition, (failed, resolved) = make(2)
    resolve_all(condition, [(resolved, 3, 1)])

    assert fail_unless_done(failed, LedgerClosedError(1))
    assert not fail_unless_done(failed, LedgerClosedError(2))
    assert not fail_unless_done(resolved, LedgerClosedError(2))

    error = failed.exception(0)
    assert isinstance(error, LedgerClosedError)
    assert error.ledger_id == 1
    assert resolved.result(0) == 3


def test_it_cannot_be_cancelled() -> None:
    condition, (future,) = make(1)

    assert not future.cancel()
    resolve_all(condition, [(future, 3, 1)])
    assert future.result() == 3
    assert not future.cancelled()


def test_callbacks_are_called_once_and_without_the_lock() -> None:
    condition, futures = make(2)
    called: list[object] = []

    def note(future: "Future[object]") -> None:
        other = threading.Thread(target=lambda: called.append(futures[1].result(DEADLINE_S)))
        other.start()
        other.join(DEADLINE_S)
        called.append(future.result())

    futures[0].add_done_callback(note)
    resolve_all(condition, [(futures[0], 1, 1), (futures[1], 2, 1)])

    assert called == [2, 1]


def test_the_standard_ways_of_waiting_work() -> None:
    condition, futures = make(5)
    resolver = threading.Thread(
        target=resolve_all, args=(condition, [(f, i, 1) for i, f in enumerate(futures)])
    )
    resolver.start()

    done, pending = wait(futures, DEADLINE_S, ALL_COMPLETED)
    resolver.join(DEADLINE_S)

    assert (len(done), len(pending)) == (5, 0)
    standard: list[Future[int]] = list(futures)
    assert sorted(future.result() for future in as_completed(standard, DEADLINE_S)) == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_asyncio_can_wait_for_one() -> None:
    condition, (future,) = make(1)

    async def main() -> object:
        threading.Thread(target=resolve_all, args=(condition, [(future, 8, 1)])).start()
        return await asyncio.wait_for(asyncio.wrap_future(future), DEADLINE_S)

    assert asyncio.run(main()) == 8
