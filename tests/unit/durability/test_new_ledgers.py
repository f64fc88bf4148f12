"""What makes a ledger known at a bookie: a rule, and a waiting room beside a twin."""

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zbk.durability.new_ledgers import (
    LOOKUP_COUNT_MAX,
    Finding,
    KnownLedger,
    WaitingRoom,
    check_claim,
)
from zbk.errors import (
    BusyError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnsupportedLedgerError,
)
from zbk.protocol.entry.words import LedgerType

KEY, OTHER_KEY = bytes(range(16)), bytes(16)
PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL
KNOWN = KnownLedger(KEY, PD)


def test_a_request_with_key_and_type_of_the_metadata_is_accepted() -> None:
    check_claim(7, KEY, PD, KNOWN)


def test_metadata_without_a_key_accept_any() -> None:
    check_claim(7, OTHER_KEY, PD, KnownLedger(b"", PD))


@pytest.mark.parametrize(
    ("key", "kind", "found", "error"),
    [
        (OTHER_KEY, PD, KNOWN, UnauthorizedError),
        (KEY, VD, KNOWN, UnsupportedLedgerError),
        (KEY, PD, NoSuchLedgerError(7), NoSuchLedgerError),
        (KEY, PD, MetadataUnavailableError("zk://x", "down"), MetadataUnavailableError),
    ],
)
def test_any_other_is_refused(
    key: bytes, kind: LedgerType, found: Finding, error: type[Exception]
) -> None:
    with pytest.raises(error):
        check_claim(7, key, kind, found)


def test_requests_of_a_ledger_are_released_in_order_and_asked_for_once() -> None:
    room: WaitingRoom[str] = WaitingRoom()
    for name, ledger_id in (("a", 7), ("b", 8), ("c", 7)):
        room.put(ledger_id, name, 1)

    assert room.next_batch() == [7, 8]
    room.put(7, "d", 1)
    assert room.next_batch() == ()
    released = room.answered({7: KNOWN, 8: KNOWN})

    assert [(one.ledger_id, one.requests) for one in released] == [(7, ["a", "c", "d"]), (8, ["b"])]
    assert room.next_batch() == []


@pytest.mark.parametrize("found", [NoSuchLedgerError(7), MetadataUnavailableError("zk://x", "")])
def test_an_answer_refuses_nothing_that_came_after_its_question(found: Finding) -> None:
    """Its ledger may have been made since: then a stranger's claim would refuse its writer."""
    room: WaitingRoom[str] = WaitingRoom()
    room.put(7, "claim", 1)
    assert room.next_batch() == [7]
    room.put(7, "writer", 1)

    [released] = room.answered({7: found})

    assert released.requests == ["claim"]
    assert room.next_batch() == [7]
    [released] = room.answered({7: KNOWN})
    assert released.requests == ["writer"]


def test_many_new_ledgers_are_asked_for_in_batches() -> None:
    room: WaitingRoom[int] = WaitingRoom()
    for ledger_id in range(LOOKUP_COUNT_MAX + 1):
        room.put(ledger_id, ledger_id, 1)

    batch = room.next_batch()
    room.answered(dict.fromkeys(batch, KNOWN))

    assert batch == [*range(LOOKUP_COUNT_MAX)]
    assert room.next_batch() == [LOOKUP_COUNT_MAX]


@pytest.mark.parametrize("sizes", [[1, 1, 1], [10]])
def test_more_than_the_room_takes_is_refused(sizes: list[int]) -> None:
    room: WaitingRoom[int] = WaitingRoom(count_max=3, size_max=12)
    for size in sizes:
        room.put(7, size, size)

    with pytest.raises(BusyError):
        room.put(8, 0, 3)

    assert (len(room), room.size) == (len(sizes), sum(sizes))
    assert not room.has(8)


@pytest.mark.parametrize("sizes", [[1, 1], [6]])
def test_a_key_has_one_half_of_the_room(sizes: list[int]) -> None:
    room: WaitingRoom[int] = WaitingRoom(count_max=4, size_max=12)
    for number, size in enumerate(sizes):
        room.put(number, size, size, "a")

    with pytest.raises(BusyError, match="one half"):
        room.put(8, 0, 1, "a")
    room.put(8, 0, 1, "b")
    room.put(9, 0, 1)  # of no share

    assert [one.requests for one in room.answered(dict.fromkeys(room.next_batch(), KNOWN))]
    for number, size in enumerate(sizes):
        room.put(number, size, size, "a")
    assert room.take_all() == sizes
    assert room._shares == {}


def test_each_key_has_its_part_of_a_look_up() -> None:
    room: WaitingRoom[int] = WaitingRoom()
    for ledger_id in range(2 * LOOKUP_COUNT_MAX):
        room.put(ledger_id, 0, 1, "greedy")
    room.put(1_000, 0, 1, "modest")
    room.put(1_001, 0, 1)

    batch = room.next_batch()
    room.answered(dict.fromkeys(batch, KNOWN))

    assert batch[:4] == [0, 1_000, 1_001, 1]
    assert len(batch) == LOOKUP_COUNT_MAX
    assert [*batch[3:], *room.next_batch()][:200] == [*range(1, 201)]


class RoomMachine(RuleBasedStateMachine):
    """The room beside a list of all that waits, each with the question that it waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.room: WaitingRoom[int] = WaitingRoom(count_max=6, size_max=20)
        self.waiting: list[tuple[int, int, int, str]] = []  # ledger, request, size, key
        self.asked: dict[int, list[int]] = {}
        self.number = 0

    def of(self, ledger_id: int) -> list[int]:
        return [request for one, request, _, _ in self.waiting if one == ledger_id]

    @rule(ledger_id=st.integers(0, 3), size=st.integers(0, 9), key=st.sampled_from(["", "a", "b"]))
    def put(self, ledger_id: int, size: int, key: str) -> None:
        self.number += 1
        is_room = len(self.waiting) < 6 and sum(w[2] for w in self.waiting) + size <= 20
        sizes = [one[2] for one in self.waiting if one[3] == key]
        has_share = not key or (len(sizes) < 3 and sum(sizes) + size <= 10)
        try:
            self.room.put(ledger_id, self.number, size, key)
        except BusyError:
            assert not (is_room and has_share)
        else:
            assert is_room
            assert has_share
            self.waiting.append((ledger_id, self.number, size, key))

    @precondition(lambda self: not self.asked)
    @rule()
    def ask(self) -> None:
        batch = self.room.next_batch()
        assert set(batch) == {ledger_id for ledger_id, _, _, _ in self.waiting}
        assert len(set(batch)) == len(batch)
        self.asked = {ledger_id: self.of(ledger_id) for ledger_id in batch}

    @precondition(lambda self: self.asked)
    @rule(are_known=st.lists(st.booleans(), min_size=4, max_size=4))
    def answer(self, are_known: list[bool]) -> None:
        findings: dict[int, Finding] = {
            one: KNOWN if are_known[one] else NoSuchLedgerError(one) for one in self.asked
        }
        expected = {
            one: self.of(one)
            if are_known[one]
            else [request for request in requests if request in self.of(one)]
            for one, requests in self.asked.items()
        }
        released = {one.ledger_id: list(one.requests) for one in self.room.answered(findings)}
        assert released == {one: requests for one, requests in expected.items() if requests}
        self.forget([request for requests in expected.values() for request in requests])
        self.asked = {}

    @rule()
    def give_up(self) -> None:
        taken = self.room.take_all()
        assert sorted(taken) == [request for _, request, _, _ in self.waiting]
        self.waiting = []

    def forget(self, requests: Sequence[int]) -> None:
        self.waiting = [one for one in self.waiting if one[1] not in requests]

    @invariant()
    def holds_what_the_twin_holds(self) -> None:
        assert len(self.room) == len(self.waiting)
        assert self.room.size == sum(size for _, _, size, _ in self.waiting)
        assert {one for one in range(4) if self.room.has(one)} == {w[0] for w in self.waiting}


TestWaitingRoom = RoomMachine.TestCase
TestWaitingRoom.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
