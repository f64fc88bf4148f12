"""LacSession: many watches at one bookie with at most two requests on their way."""

from itertools import count
from random import Random

import pytest

from zbk.errors import BookieUnavailableError, ZbkError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.read.lac_session import (
    BEGIN_COUNT_MAX,
    LacSession,
    Watched,
    WatchEnd,
    WatchRequest,
)

GONE = BookieUnavailableError("b1", "is gone")


def session() -> LacSession:
    return LacSession(count(1))


def watch(number: int, known_lac: int = -1) -> Watched:
    return Watched(number, 100 + number, bytes(16), LedgerType.PD_JOURNAL, known_lac)


def sent(one: LacSession) -> WatchRequest:
    request = one.next_request()
    assert request is not None
    return request


def numbers(request: WatchRequest) -> list[int]:
    return [one.number for one in request.begun]


def test_watches_that_begin_together_leave_together_and_one_request_listens() -> None:
    one = session()
    assert one.next_request() is None
    for number in range(3):
        one.begin(watch(number))

    request = sent(one)

    assert (numbers(request), request.is_first) == ([0, 1, 2], True)
    assert one.next_request() is None, "it listens"
    assert one.answered(request, [(1, 7)], [(2, GONE)], is_lost=False) == [(1, 7), (2, GONE)]
    again = sent(one)
    assert (numbers(again), again.is_first) == ([], False)
    assert again.session_id == request.session_id
    assert one.answered(again, [(0, 3)], [], is_lost=False) == [(0, 3)]
    assert one.next_request() is None, "nothing is left to listen for"
    assert len(one) == 0


def test_a_second_request_brings_what_is_new_and_no_third_one_leaves() -> None:
    one = session()
    one.begin(watch(0))
    first = sent(one)
    one.begin(watch(1))
    assert numbers(sent(one)) == [1]
    one.begin(watch(2))
    one.begin(watch(3))
    assert one.next_request() is None

    one.answered(first, [], [], is_lost=False)

    assert numbers(sent(one)) == [2, 3]


def test_a_watch_that_is_dropped_is_not_reported_and_leaves_with_the_next_request() -> None:
    one = session()
    one.begin(watch(0))
    one.begin(watch(1))
    request = sent(one)
    one.end(0)
    one.begin(watch(2))
    one.end(2)  # was never sent
    assert one.next_request() is None

    assert one.answered(request, [(0, 5)], [], is_lost=False) == []

    again = sent(one)
    assert (again.ended, numbers(again)) == ([0], [])


def test_what_one_request_cannot_carry_comes_with_the_next_ones() -> None:
    one = session()
    for number in range(2 * BEGIN_COUNT_MAX + 1):
        one.begin(watch(number))

    counts = [len(sent(one).begun) for _ in range(2)]

    assert counts == [BEGIN_COUNT_MAX] * 2
    assert one.next_request() is None


def test_a_session_that_the_bookie_forgot_begins_anew_and_nobody_notices() -> None:
    one = session()
    one.begin(watch(0))
    first = sent(one)
    one.begin(watch(1))
    second = sent(one)

    assert one.answered(first, [], [], is_lost=True) == []

    again = sent(one)
    assert again.is_first
    assert again.session_id != first.session_id
    assert sorted(numbers(again)) == [0, 1]
    assert one.answered(second, [(1, 9)], [], is_lost=False) == [], "of the session before"
    assert one.answered(again, [(1, 9)], [], is_lost=False) == [(1, 9)]


def test_an_error_ends_all_watches_once() -> None:
    one = session()
    one.begin(watch(0))
    first = sent(one)
    one.begin(watch(1))
    second = sent(one)
    one.begin(watch(2))

    assert one.failed(first, GONE) == [(0, GONE), (1, GONE), (2, GONE)]

    assert one.failed(second, GONE) == []
    assert one.next_request() is None
    one.begin(watch(3))
    again = sent(one)
    assert (again.is_first, numbers(again)) == (True, [3])


class ModelBookie:
    """A bookie that answers as the wire says, with LACs that rise at random."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.lacs: dict[int, int] = {}
        self.session_id = 0
        self.watches: dict[int, Watched] = {}
        self.waiting: WatchRequest | None = None
        self.answers: list[tuple[WatchRequest, list[tuple[int, int]], bool]] = []

    def take(self, request: WatchRequest) -> None:
        if request.is_first:
            self.answer()
            self.session_id, self.watches = request.session_id, {}
        elif request.session_id != self.session_id:
            self.answers.append((request, [], True))
            return
        self.answer()
        self.waiting = request
        for number in request.ended:
            self.watches.pop(number, None)
        self.watches.update({one.number: one for one in request.begun})
        if self.risen():
            self.answer()

    def risen(self) -> list[tuple[int, int]]:
        lacs = self.lacs
        return [
            (number, lacs[one.ledger_id])
            for number, one in self.watches.items()
            if lacs.get(one.ledger_id, -1) > one.known_lac
        ]

    def answer(self) -> None:
        if self.waiting is not None:
            risen = self.risen()
            for number, _ in risen:
                del self.watches[number]
            self.answers.append((self.waiting, risen, False))
            self.waiting = None

    def rise(self, ledger_id: int, lac: int) -> None:
        self.lacs[ledger_id] = lac
        if self.risen():
            self.answer()

    def forget(self) -> None:
        self.answer()
        self.session_id, self.watches = 0, {}


@pytest.mark.parametrize("seed", range(30))
def test_each_watch_ends_once_with_a_lac_above_the_known_one(  # noqa: C901, PLR0912 - events
    seed: int,
) -> None:
    """Any order of begins, drops, rises, answers, lost sessions and errors."""
    rng = Random(seed)
    one, bookie = session(), ModelBookie(rng)
    open_watches: dict[int, Watched] = {}
    on_their_way: list[WatchRequest] = []
    ends: list[WatchEnd] = []
    serial = count()

    def note(some: list[WatchEnd]) -> None:
        for number, outcome in some:
            known = open_watches.pop(number).known_lac
            assert isinstance(outcome, ZbkError) or outcome > known
            ends.append((number, outcome))

    def deliver() -> None:
        request, risen, is_lost = bookie.answers.pop(0)
        note(one.answered(request, risen, [], is_lost=is_lost))

    for _ in range(400):
        match rng.randrange(9):
            case 0 | 1 | 2:
                number = next(serial)
                new = Watched(
                    number, rng.randrange(5), bytes(16), LedgerType.PD_JOURNAL, rng.randrange(40)
                )
                open_watches[number] = new
                one.begin(new)
            case 3 if open_watches:
                number = rng.choice(list(open_watches))
                del open_watches[number]
                one.end(number)
            case 4:
                ledger_id = rng.randrange(5)
                bookie.rise(ledger_id, bookie.lacs.get(ledger_id, -1) + rng.randrange(1, 4))
            case 5 | 6 if bookie.answers:
                deliver()
            case 7 if on_their_way:
                bookie.take(on_their_way.pop(0))
            case 8 if rng.random() < 0.1:
                bookie.forget()
            case 8 if rng.random() < 0.1 and on_their_way:
                note(one.failed(on_their_way[0], GONE))
        while (request := one.next_request()) is not None:
            on_their_way.append(request)
        assert len(one) == len(open_watches)

    for ledger_id in range(5):  # all rise in the end, and nothing is left waiting
        bookie.rise(ledger_id, 1_000)
    for _ in range(1_000):
        if on_their_way:
            bookie.take(on_their_way.pop(0))
        if bookie.answers:
            deliver()
        while (request := one.next_request()) is not None:
            on_their_way.append(request)
    assert not open_watches
    assert any(not isinstance(outcome, ZbkError) for _, outcome in ends)
