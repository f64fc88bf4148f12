"""Rows that are counted later: each once, in order, while others put more."""

from threading import Thread

from zbk.metrics.deferred import ROW_COUNT_MAX, Deferred


def test_rows_are_counted_when_asked_for_and_in_order() -> None:
    counted: list[int] = []
    deferred = Deferred(counted.extend)
    deferred.put(3)
    deferred.put(1)
    assert counted == []
    deferred.count()
    deferred.count()
    assert counted == [3, 1]


def test_many_rows_are_counted_by_themselves() -> None:
    counted: list[int] = []
    deferred = Deferred(counted.extend)
    for number in range(ROW_COUNT_MAX + 1):
        deferred.put(number)
    assert counted == list(range(ROW_COUNT_MAX))


def test_threads_that_put_and_readers_lose_no_row_and_count_none_twice() -> None:
    counted: list[int] = []
    deferred = Deferred(counted.extend)
    count = 100 * ROW_COUNT_MAX

    def put(first: int) -> None:
        for number in range(first, 2 * count, 2):
            deferred.put(number)

    writers = [Thread(target=put, args=(first,)) for first in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        deferred.count()
    deferred.count()
    assert sorted(counted) == list(range(2 * count))
