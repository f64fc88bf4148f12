"""LacRead: coverage, against brute force over who could have confirmed more."""

from itertools import combinations, product

import pytest

from zbk.errors import (
    BookieUnavailableError,
    DigestMismatchError,
    MalformedMessageError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    RequestTimeoutError,
    UnauthorizedError,
    ZbkError,
)
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.read.lac_read import LacRead

QUORUMS = [Quorum(e, w, a) for e, w, a in product(range(1, 6), repeat=3) if e >= w >= a]


def answered(read: LacRead, answers: dict[int, int | ZbkError]) -> int | ZbkError | None:
    """Return the LAC or the error of the read; ``None``: it is not over."""
    for slot, answer in answers.items():
        read.answered(slot, answer)
    return read.lac if read.is_found else read.error


@pytest.mark.parametrize("quorum", QUORUMS, ids=str)
def test_the_lac_stands_when_no_ack_quorum_could_hide_behind_the_silent_ones(
    quorum: Quorum,
) -> None:
    slots = range(quorum.ensemble_size)
    for count in range(quorum.ensemble_size + 1):
        for silent in combinations(slots, count):
            read = LacRead(quorum)

            outcome = answered(read, {slot: 5 for slot in slots if slot not in silent})

            could_hide = any(
                len(set(quorum.write_set(entry_id)) & set(silent)) >= quorum.ack_size
                for entry_id in slots
            )
            assert read.is_found is not could_hide, silent
            assert could_hide or outcome == 5


def test_the_highest_answer_counts_and_the_floor() -> None:
    quorum = Quorum(3, 3, 2)

    assert answered(LacRead(quorum), {0: 4, 2: 9}) == 9
    assert answered(LacRead(quorum, floor=12), {0: 4, 2: 9}) == 12
    assert answered(LacRead(quorum), {0: -1, 1: -1}) == -1


@pytest.mark.parametrize("absence", [NoSuchLedgerError(7), NoSuchEntryError(7, -1)])
def test_a_bookie_that_never_saw_the_ledger_is_heard(absence: ZbkError) -> None:
    assert answered(LacRead(Quorum(3, 3, 2)), {0: absence, 1: 3}) == 3


@pytest.mark.parametrize(
    "error",
    [
        DigestMismatchError(7, 9),
        MalformedMessageError("garbage"),
        RequestTimeoutError("read_lac", 5.0),
        BookieUnavailableError("b0", "is down"),
    ],
)
def test_a_bookie_that_could_not_tell_is_not_heard(error: ZbkError) -> None:
    read = LacRead(Quorum(3, 3, 2))

    assert answered(read, {0: error, 1: 3}) is None
    assert answered(read, {2: 4}) == 4


def test_without_coverage_the_read_fails_when_nobody_is_left() -> None:
    read = LacRead(Quorum(3, 3, 2))
    down = BookieUnavailableError("b0", "is down")

    error = answered(read, {0: down, 1: 3, 2: down})

    assert isinstance(error, NotEnoughBookiesError)
    assert error.args[:2] == (2, 1)
    assert "slot 2: bookie b0: is down" in str(error)


def test_a_wrong_password_fails_at_once() -> None:
    error = UnauthorizedError(7)

    assert answered(LacRead(Quorum(3, 3, 2)), {1: error}) is error


def test_after_the_end_everything_is_late_news() -> None:
    read = LacRead(Quorum(3, 3, 2))
    answered(read, {0: 3, 1: 3})

    assert read.is_over
    assert answered(read, {2: 9, 0: UnauthorizedError(7)}) == 3


def test_an_answer_after_a_refusal_counts() -> None:
    read = LacRead(Quorum(2, 2, 1))

    assert answered(read, {0: RequestTimeoutError("read_lac", 5.0)}) is None
    assert answered(read, {0: 3}) is None
    assert answered(read, {1: 4}) == 4
