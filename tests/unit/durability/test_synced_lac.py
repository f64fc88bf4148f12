"""SyncedLac: the proposal's example, and brute force over all small clusters."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.quorums import unstriped_quorums
from zbk.durability.synced_lac import SyncedLac
from zbk.protocol.ledger.quorum import Quorum


@pytest.mark.parametrize(("ack_size", "lac"), [(1, 3), (2, 2), (3, 1)])
def test_the_example_of_the_proposal(ack_size: int, lac: int) -> None:
    synced = SyncedLac(Quorum(3, 3, ack_size))

    for slot, last_add_synced in enumerate([1, 2, 3]):
        synced.update(slot, 1, last_add_synced)

    assert synced.lac == lac


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_lac_is_the_highest_id_that_an_ack_quorum_has_synced(size: int) -> None:
    for ack_size in range(1, size + 1):
        for values in product(range(-1, 4), repeat=size):
            synced = SyncedLac(Quorum(size, size, ack_size))
            for slot, value in enumerate(values):
                synced.update(slot, 1, value)

            brute = max(e for e in range(-1, 4) if sum(v >= e for v in values) >= ack_size)
            assert synced.lac == brute, (values, ack_size)


@given(
    quorum=unstriped_quorums,
    updates=st.lists(
        st.tuples(st.integers(0, 4), st.integers(1, 3), st.integers(-1, 20)), max_size=40
    ),
)
@settings(deadline=None)
def test_values_of_two_lives_are_never_mixed(
    quorum: Quorum, updates: list[tuple[int, int, int]]
) -> None:
    synced = SyncedLac(quorum)
    twin: dict[int, list[tuple[int, int]]] = {slot: [] for slot in range(quorum.ensemble_size)}
    best = -1

    for slot, incarnation, value in updates:
        index = slot % quorum.ensemble_size
        twin[index].append((incarnation, value))
        has_advanced = synced.update(index, incarnation, value)

        of_last_life = [
            max((v for i, v in told if i == max(told)[0]), default=-1) for told in twin.values()
        ]
        reached = sorted(of_last_life)[quorum.write_size - quorum.ack_size]
        assert synced._values[: len(twin)] == of_last_life
        assert has_advanced == (reached > best)
        best = max(best, reached)
        assert synced.lac == best


def test_a_bookie_that_never_answered_counts_as_minus_one() -> None:
    synced = SyncedLac(Quorum(3, 3, 2))

    assert not synced.update(0, 1, 100)
    assert synced.lac == -1


def test_a_restart_voids_what_the_bookie_said_but_not_the_lac() -> None:
    synced = SyncedLac(Quorum(3, 3, 2))
    synced.update(0, 1, 5)
    synced.update(1, 1, 5)

    synced.update(0, 2, -1)  # it lost everything
    synced.update(2, 1, 9)  # 9 and 5: only 5 is on two bookies

    assert synced.lac == 5
    assert synced._values[0] == -1


def test_late_news_of_an_earlier_life_changes_nothing() -> None:
    synced = SyncedLac(Quorum(2, 2, 1))
    synced.update(0, 2, 3)

    assert not synced.update(0, 1, 100)
    assert synced.lac == 3


STRIPED = [Quorum(3, 2, 1), Quorum(3, 2, 2), Quorum(4, 2, 2), Quorum(5, 3, 2), Quorum(5, 2, 1)]


def durable_until(quorum: Quorum, synced: list[set[int]], end: int) -> int:
    """Return the end of the longest durable run, entry by entry."""
    for entry_id in range(end):
        count = sum(entry_id in synced[slot] for slot in quorum.write_set(entry_id))
        if count < quorum.ack_size:
            return entry_id - 1
    return end - 1


@given(
    quorum=st.sampled_from(STRIPED),
    synced_counts=st.lists(st.integers(0, 12), min_size=5, max_size=5),
    order=st.permutations(range(5)),
)
def test_the_lac_of_a_striped_ledger_is_the_longest_durable_run(
    quorum: Quorum, synced_counts: list[int], order: list[int]
) -> None:
    synced = SyncedLac(quorum)
    size, end = quorum.ensemble_size, 40
    have: list[set[int]] = [set() for _ in range(size)]
    for slot in order:
        if slot < size:
            due = [one for one in range(end) if quorum.holds(slot, one)][: synced_counts[slot]]
            have[slot] = set(due)
            synced.update(slot, 1, due[-1] if due else -1)
            assert synced.lac == durable_until(quorum, have, end)


def test_a_write_set_without_an_ack_quorum_stops_the_lac() -> None:
    synced = SyncedLac(Quorum(4, 2, 2))
    for slot, last_add_synced in enumerate([11, 9, 10]):
        synced.update(slot, 1, last_add_synced)

    assert synced.lac == 1  # entry 2 is due at slots 2 and 3

    synced.update(3, 1, 3)
    assert synced.lac == 5


def test_a_lac_that_is_due_elsewhere_is_a_value_like_others() -> None:
    synced = SyncedLac(Quorum(4, 2, 2))

    for slot in range(4):
        synced.update(slot, 1, 6)  # due at slots 2 and 3; a LAC raised the other cursors

    assert synced.lac == 6


def test_another_bookie_in_a_slot_of_a_striped_ledger_counts_from_the_confirmed_entry_on() -> None:
    synced = SyncedLac(Quorum(3, 2, 2))
    for slot in range(3):
        synced.update(slot, 1, 9)
    assert synced.lac >= 7

    synced.replaced(1, 4)

    assert synced.lac == 5  # the bookies that stayed have 5, and slot 1 does not hold it
    synced.update(1, 1, 4)
    assert synced.lac == 5
    synced.update(1, 1, 7)
    assert synced.lac == 8


def test_a_bookie_that_joined_an_idle_ledger_does_not_hold_the_lac_where_nothing_is_due_at_it() -> (
    None
):
    synced = SyncedLac(Quorum(4, 2, 2))
    for slot in range(4):
        synced.update(slot, 1, 99)
    synced.replaced(3, 99)

    synced.update(0, 1, 100)
    synced.update(1, 1, 100)
    assert synced.lac == 100

    synced.update(1, 1, 101)
    synced.update(2, 1, 103)
    assert synced.lac == 101, "entry 102 is due at slot 3"
    synced.update(3, 1, 102)
    assert synced.lac == 102


def test_a_bookie_that_lost_all_does_not_hold_the_lac_where_nothing_is_due_at_it() -> None:
    synced = SyncedLac(Quorum(4, 2, 1))
    for slot in range(3):
        synced.update(slot, 1, 99)
    assert synced.lac == 99

    synced.update(2, 2, -1)
    synced.update(3, 2, -1)
    synced.update(0, 1, 100)

    assert synced.lac == 100


def test_what_is_known_to_be_durable_needs_no_value() -> None:
    synced = SyncedLac(Quorum(4, 2, 2), 99)
    assert synced.lac == 99

    synced.update(0, 1, 100)
    synced.update(1, 1, 100)

    assert synced.lac == 100
