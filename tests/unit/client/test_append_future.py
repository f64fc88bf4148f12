"""Futures that share a condition behave as the standard ones do."""

import asyncio
import threading
from concurrent.futures import ALL_COMPLETED, Future, as_completed, wait

import pytest

from zbk.client.append_future import AppendFuture, resolve_all
from zbk.errors import LedgerClosedError

DEADLINE_S = 20.0


def make(count: int) -> tuple[threading.Condition, list[AppendFuture]]:
    condition = threading.Condition()
    return condition, [AppendFuture(condition) for _ in range(count)]


def test_it_has_all_that_a_standard_future_has() -> None:
    standard: Future[object] = Future()
    own = AppendFuture()
    for name, value in vars(standard).items():
        assert type(getattr(own, name)) is type(value), name
        assert name == "_condition" or getattr(own, name) == value, name
    with pytest.raises(AttributeError, match="no attribute 'more'"):
        own.more  # noqa: B018 - it is the looking that fails


def test_each_gets_its_own_result() -> None:
    condition, futures = make(3)

    resolve_all(condition, zip(futures, "abc", strict=True))

    assert [future.result(0) for future in futures] == ["a", "b", "c"]
    assert all(future.done() and future.exception() is None for future in futures)


def test_waiting_for_one_is_not_ended_by_another() -> None:
    condition, (first, second) = make(2)
    results: list[object] = []
    waiter = threading.Thread(target=lambda: results.append(second.result(DEADLINE_S)))
    waiter.start()

    resolve_all(condition, [(first, 1)])
    assert results == []
    resolve_all(condition, [(second, 2)])
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


def test_it_can_not_be_cancelled() -> None:
    condition, (future,) = make(1)

    assert not future.cancel()
    resolve_all(condition, [(future, 3)])
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
    resolve_all(condition, [(futures[0], "a"), (futures[1], "b")])

    assert called == ["b", "a"]


def test_the_standard_ways_of_waiting_work() -> None:
    condition, futures = make(5)
    resolver = threading.Thread(
        target=resolve_all, args=(condition, list(zip(futures, range(5), strict=True)))
    )
    resolver.start()

    done, pending = wait(futures, DEADLINE_S, ALL_COMPLETED)
    resolver.join(DEADLINE_S)

    assert (len(done), len(pending)) == (5, 0)
    assert sorted(future.result() for future in as_completed(futures, DEADLINE_S)) == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_asyncio_can_wait_for_one() -> None:
    condition, (future,) = make(1)

    async def main() -> object:
        threading.Thread(target=resolve_all, args=(condition, [(future, "x")])).start()
        return await asyncio.wait_for(asyncio.wrap_future(future), DEADLINE_S)

    assert asyncio.run(main()) == "x"
