"""SyncedLac: the proposal's example, and brute force over all small clusters."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.quorums import unstriped_quorums
from zbk.durability.synced_lac import SyncedLac
from zbk.errors import UnsupportedLedgerError
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


def test_a_striped_ledger_is_refused() -> None:
    with pytest.raises(UnsupportedLedgerError):
        SyncedLac(Quorum(4, 3, 2))
