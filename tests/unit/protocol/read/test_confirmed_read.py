"""ConfirmedRead: bookies and the metadata store answer in any order, or not at all."""

from itertools import permutations

import pytest

from tests.support.ledgers import metadata_maker
from zbk.errors import (
    BookieUnavailableError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    RequestTimeoutError,
    UnauthorizedError,
    ZbkError,
)
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read.confirmed_read import (
    METADATA_WAIT_MS,
    AskLac,
    Confirmed,
    ConfirmedRead,
    ConfirmedReadFailed,
    ConfirmedReadStarted,
    ConfirmedReadTicked,
    Effect,
    Event,
    LacAnswered,
    MetadataRead,
    TimeIsOver,
    is_older,
)

OPEN = metadata_maker()(7)
CLOSED = OPEN.with_closed(9, 0)
MOVED = OPEN.with_replaced_bookie(0, "b1", "new")
SILENT = MetadataUnavailableError("zk://x", "no answer")
GONE = BookieUnavailableError("b1", "is gone")
LATE = RequestTimeoutError("LAC of ledger 7", 1.0)


def told(*lacs: int, round_id: int = 0) -> list[Event]:
    """Return the answers of the first bookies: two of the three suffice."""
    return [LacAnswered(round_id, slot, lac) for slot, lac in enumerate(lacs)]


def refused(count: int, error: ZbkError = GONE) -> list[Event]:
    return [LacAnswered(0, slot, error) for slot in range(count)]


def look(*events: Event, floor: int = -1, now_ms: int = 0, is_silent: bool = False) -> list[Effect]:
    """Return what follows from these events, beside the questions of the beginning."""
    read = ConfirmedRead(OPEN, floor)
    asked = read.handle(ConfirmedReadStarted(is_store_silent=is_silent), 0)
    assert asked == [AskLac(0, slot, bookie) for slot, bookie in enumerate(("b1", "b2", "b3"))]
    return [effect for event in events for effect in read.handle(event, now_ms)]


@pytest.mark.parametrize("events", list(permutations([*told(4, 5), MetadataRead(OPEN)])))
def test_the_answer_comes_with_the_last_of_what_is_needed(events: tuple[Event, ...]) -> None:
    assert look(*events[:-1]) == []
    assert look(*events) == [Confirmed(5)]


def test_a_store_that_does_not_answer_is_waited_for_once() -> None:
    tick = ConfirmedReadTicked()

    assert look(*told(4, 5), tick, now_ms=METADATA_WAIT_MS - 1) == []
    assert look(*told(4, 5), tick, now_ms=METADATA_WAIT_MS) == [Confirmed(5)]
    assert look(*told(4, 5), MetadataRead(SILENT)) == [Confirmed(5)]
    assert look(*told(4, 5), is_silent=True) == [Confirmed(5)]


@pytest.mark.parametrize(
    ("outcome", "is_silent"), [(OPEN, False), (CLOSED, False), (SILENT, True), (None, True)]
)
def test_whether_the_store_is_silent_is_known_to_the_next_look(
    outcome: LedgerMetadata | ZbkError | None, is_silent: bool
) -> None:
    read = ConfirmedRead(OPEN, -1)
    read.handle(ConfirmedReadStarted(is_store_silent=False), 0)
    if outcome is not None:
        read.handle(MetadataRead(outcome), 0)

    assert read.is_store_silent is is_silent


def test_time_makes_a_difference_only_while_the_metadata_alone_are_missing() -> None:
    read = ConfirmedRead(OPEN, -1)
    read.handle(ConfirmedReadStarted(is_store_silent=False), 100)
    assert read.due_ms is None
    for event in told(1, 1):
        read.handle(event, 120)
    assert read.due_ms == 100 + METADATA_WAIT_MS
    read.handle(MetadataRead(OPEN), 130)
    assert read.due_ms is None


def test_the_end_of_a_closed_ledger_is_the_answer_whatever_bookies_say() -> None:
    assert look(MetadataRead(CLOSED)) == [Confirmed(9)]
    assert look(*told(4, 5), MetadataRead(CLOSED), *told(6)) == [Confirmed(9)]


def test_a_new_ensemble_is_asked_and_answers_of_the_old_one_do_not_count_for_it() -> None:
    asked = [AskLac(1, slot, bookie) for slot, bookie in enumerate(("new", "b2", "b3"))]

    assert look(*told(4, 5), MetadataRead(MOVED)) == asked
    assert look(MetadataRead(MOVED), *told(8, 8, 8)) == asked
    assert look(*told(4, 5), MetadataRead(MOVED), *told(6, 6, round_id=1)) == [*asked, Confirmed(6)]
    assert look(*told(4, 5), MetadataRead(MOVED), *told(3, 3, round_id=1)) == [*asked, Confirmed(5)]


def test_a_new_fragment_confirms_what_lies_before_it() -> None:
    longer = OPEN.with_new_fragment(6, ("b1", "b2", "new"))

    effects = look(MetadataRead(longer), *told(-1, -1, round_id=1))

    assert effects[-1] == Confirmed(5)


def test_too_few_bookies_are_an_error_once_the_metadata_name_no_others() -> None:
    assert look(*refused(2)) == []
    for outcome in (OPEN, SILENT):
        (failed,) = look(*refused(2), told(1, 1, 1)[2], MetadataRead(outcome))
        assert isinstance(failed, ConfirmedReadFailed)
        assert isinstance(failed.error, NotEnoughBookiesError)
    moved = look(*refused(2), told(1, 1, 1)[2], MetadataRead(MOVED), *told(2, 2, round_id=1))
    assert moved[-1] == Confirmed(2)


def test_a_wrong_key_and_a_deleted_ledger_are_errors_at_once() -> None:
    wrong, deleted = UnauthorizedError(7), NoSuchLedgerError(7)

    assert look(*refused(1, wrong)) == [ConfirmedReadFailed(wrong)]
    assert look(MetadataRead(deleted)) == [ConfirmedReadFailed(deleted)]


def test_at_the_end_of_the_time_what_is_known_is_said() -> None:
    over = TimeIsOver(LATE)

    assert look(*told(4, 5), over) == [Confirmed(5)]
    assert look(*told(4), over) == [ConfirmedReadFailed(LATE)]
    (failed,) = look(*refused(3), over)
    assert isinstance(failed, ConfirmedReadFailed)
    assert isinstance(failed.error, NotEnoughBookiesError)


def test_the_lac_does_not_go_down_and_nothing_follows_the_end() -> None:
    assert look(*told(2, 2), MetadataRead(OPEN), *told(9, 9), floor=3) == [Confirmed(3)]


def test_metadata_that_come_late_are_known_as_older() -> None:
    longer = OPEN.with_new_fragment(6, ("b1", "b2", "new"))

    assert is_older(OPEN, longer)
    assert is_older(longer, CLOSED)
    assert not is_older(longer, OPEN)
    assert not is_older(CLOSED, longer)
    assert not is_older(OPEN, MOVED)
