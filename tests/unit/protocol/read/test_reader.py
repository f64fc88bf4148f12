"""RangeRead: how often it asks, how it fails, and when it asks the next replica.

The stories are in ``test_reader_golden``, random replicas in ``test_reader_oracle``.
"""

from itertools import permutations

import pytest

from tests.support.recovery_world import LEDGER_ID, payload
from tests.support.replica_reads import DAMAGED, Replicas, encoded, make_read, run_read, timeout
from zbk.errors import BookieUnavailableError, EntryUnreadableError, NoSuchEntryError
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.read.range_read import (
    Delivered,
    ReadAnswered,
    ReadFailed,
    ReadStarted,
    ReadTicked,
    SendRead,
)

# ------------------------------------------------------------------ what the others do not show


def test_a_healthy_read_asks_one_bookie_once_and_delivers_at_once() -> None:
    read = make_read(Quorum(3, 3, 2), 0, 999, slot_order=[2, 0, 1])

    assert read.handle(ReadStarted(), 0) == [SendRead(2, range(1000), 0)]
    effects = read.handle(ReadAnswered(2, 0, b"".join(map(encoded, range(1000)))), 0)

    assert [type(effect) for effect in effects] == [Delivered]
    assert read.is_over


def test_a_bookie_that_lost_a_long_run_is_not_asked_entry_by_entry() -> None:
    quorum = Quorum(3, 3, 2)
    replicas = Replicas(quorum, range(500), 1, 1.0)
    replicas.answer_counts = [1000]
    replicas.state |= {(0, entry_id): DAMAGED for entry_id in range(100, 500)}
    read = make_read(quorum, 0, 499, slot_order=[0, 1, 2])

    delivered, end, request_count = run_read(read, replicas)

    assert len(delivered) == 500
    assert isinstance(end, Delivered)
    assert request_count == 3, "the chunk, the first damaged entry, and what comes after it"


def test_late_news_of_a_read_that_is_over_changes_nothing() -> None:
    read = make_read(Quorum(1, 1, 1), 0, 0)
    read.handle(ReadStarted(), 0)
    read.handle(ReadAnswered(0, 0, encoded(0)), 0)

    assert read.handle(ReadAnswered(0, 0, encoded(0)), 0) == []
    assert read.handle(ReadAnswered(0, 0, timeout(0)), 0) == []


def test_an_answer_from_another_slot_than_asked_is_not_taken() -> None:
    read = make_read(Quorum(3, 3, 2), 0, 0)
    read.handle(ReadStarted(), 0)

    assert read.handle(ReadAnswered(1, 0, encoded(0)), 0) == []
    assert read.handle(ReadAnswered(0, 7, encoded(0)), 0) == []
    assert not read.is_over


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_a_read_fails_as_the_replica_does_that_may_still_be_read(order: tuple[int, ...]) -> None:
    """Seed 62008048: damage on one bookie ended a tail while the other one was only away."""
    errors = [
        NoSuchEntryError(LEDGER_ID, 0),
        EntryUnreadableError(LEDGER_ID, 0, "bad sector"),
        BookieUnavailableError("b2", "was lost"),
    ]
    read = make_read(Quorum(3, 3, 2), 0, 0)
    effects = read.handle(ReadStarted(), 0)

    for slot, which in enumerate(order):
        effects = read.handle(ReadAnswered(slot, slot, errors[which]), 0)

    (failed,) = effects
    assert isinstance(failed, ReadFailed)
    assert failed.error is errors[2]


# ------------------------------------------------------------------ speculation


def test_the_next_replica_is_asked_only_when_the_time_is_over() -> None:
    read = make_read(Quorum(3, 3, 2), 0, 9, speculative_ms=200)
    read.handle(ReadStarted(), 1_000)

    assert read.speculate_at_ms == 1_200
    assert read.handle(ReadTicked(), 1_199) == []
    assert read.handle(ReadTicked(), 1_200) == [SendRead(1, range(10), 1)]
    assert read.speculate_at_ms == 1_400
    assert read.handle(ReadTicked(), 1_400) == [SendRead(2, range(10), 2)]
    assert read.handle(ReadTicked(), 1_600) == []
    assert read.speculate_at_ms is None, "there is nobody left to ask"


def test_without_speculation_time_makes_no_difference() -> None:
    read = make_read(Quorum(3, 3, 2), 0, 9)
    read.handle(ReadStarted(), 1_000)

    assert read.speculate_at_ms is None
    assert read.handle(ReadTicked(), 1_000_000) == []


def test_a_read_of_one_slot_is_not_speculated_on() -> None:
    read = make_read(Quorum(3, 3, 2), 0, 9, only_slot=1, speculative_ms=200)
    read.handle(ReadStarted(), 0)

    assert read.handle(ReadTicked(), 200) == []


@pytest.mark.parametrize("winner", [0, 1])
def test_the_first_valid_answer_wins_and_the_other_is_late(winner: int) -> None:
    read = make_read(Quorum(3, 3, 2), 0, 9, speculative_ms=200)
    read.handle(ReadStarted(), 0)
    read.handle(ReadTicked(), 200)
    body = b"".join(map(encoded, range(10)))

    (effect,) = read.handle(ReadAnswered(winner, winner, body), 210)

    assert isinstance(effect, Delivered)
    assert effect.is_last
    assert read.handle(ReadAnswered(1 - winner, 1 - winner, body), 220) == []


@pytest.mark.parametrize("quorum", [Quorum(3, 3, 2), Quorum(2, 2, 2), Quorum(4, 2, 2)], ids=str)
def test_b27_a_read_with_one_damaged_replica_completes_from_the_others(quorum: Quorum) -> None:
    """B27: the damaged answer comes while another replica is asked, and hangs nothing."""
    for seed in range(50):
        replicas = Replicas(quorum, range(40), seed, 1.0)
        damaged_slot = seed % quorum.ensemble_size
        for slot, entry_id in replicas.state:
            if slot == damaged_slot:
                replicas.state[slot, entry_id] = DAMAGED
        size = quorum.ensemble_size
        order = [(damaged_slot + i) % size for i in range(size)]
        read = make_read(quorum, 0, 39, slot_order=order, speculative_ms=200)

        delivered, end, _ = run_read(read, replicas, slowness=0.5)

        assert delivered == [(e, payload(e)) for e in range(40)]
        assert isinstance(end, Delivered)
        assert read.strike_count(damaged_slot) > 0
