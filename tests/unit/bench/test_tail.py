"""When a writer knew of an entry, and how long after that somebody else had it."""

from concurrent.futures import Future

from zbk.bench.tail import Acknowledged, delays
from zbk.errors import LedgerFencedError


class FakeClock:
    """Gives the times that it was given."""

    def __init__(self, *times_s: float) -> None:
        self._times_s = list(times_s)

    def __call__(self) -> float:
        return self._times_s.pop(0)


def test_a_delay_is_from_the_acknowledgement_to_the_sight() -> None:
    assert delays([1.0, 2.0], [1.25, 2.5]) == ([0.25, 0.5], 0)


def test_an_entry_that_was_seen_first_has_no_delay_and_is_counted() -> None:
    assert delays([1.0, 2.0, 3.0], [0.5, 2.0, 3.5]) == ([0.0, 0.0, 0.5], 1)


def test_a_lac_covers_all_entries_up_to_it_from_the_time_when_it_is_known() -> None:
    acknowledged = Acknowledged(FakeClock(1.0, 2.0))

    acknowledged.up_to(0)
    acknowledged.up_to(2)

    assert list(acknowledged.at_s) == [1.0, 2.0, 2.0]


def test_a_lac_that_is_no_news_changes_no_time() -> None:
    acknowledged = Acknowledged(FakeClock(1.0))

    acknowledged.up_to(1)
    acknowledged.up_to(0)
    acknowledged.up_to(1)

    assert list(acknowledged.at_s) == [1.0, 1.0]


def test_an_answer_covers_up_to_its_entry_and_an_error_covers_nothing() -> None:
    acknowledged = Acknowledged(FakeClock(1.0))
    answer: Future[int] = Future()
    answer.set_result(1)
    refusal: Future[int] = Future()
    refusal.set_exception(LedgerFencedError(7))

    acknowledged.by(answer)
    acknowledged.by(refusal)

    assert list(acknowledged.at_s) == [1.0, 1.0]
