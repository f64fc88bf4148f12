"""Write sets, and who holds what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.quorums import quorums
from zbk.errors import InvalidQuorumError
from zbk.protocol.ledger.quorum import ENSEMBLE_SIZE_MAX, Quorum


def test_write_sets_are_those_of_the_protocol_page() -> None:
    quorum = Quorum(ensemble_size=4, write_size=3, ack_size=2)

    assert [quorum.write_set(entry_id) for entry_id in range(6)] == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 0),
        (3, 0, 1),
        (0, 1, 2),
        (1, 2, 3),
    ]


@given(quorum=quorums, entry_id=st.integers(0, 1000))
def test_a_write_set_has_write_size_different_slots(quorum: Quorum, entry_id: int) -> None:
    slots = quorum.write_set(entry_id)

    assert len(set(slots)) == quorum.write_size
    assert all(0 <= slot < quorum.ensemble_size for slot in slots)


@given(quorum=quorums, first=st.integers(0, 50), count=st.integers(1, 30))
def test_a_slot_holds_the_entries_whose_write_set_it_is_in(
    quorum: Quorum, first: int, count: int
) -> None:
    ids = range(first, first + count)

    for slot in range(quorum.ensemble_size):
        expected = [entry_id for entry_id in ids if slot in quorum.write_set(entry_id)]
        assert list(quorum.entry_ids(slot, first, first + count - 1)) == expected
        assert [e for e in ids if quorum.holds(slot, e)] == expected


@given(quorum=quorums)
def test_a_ledger_is_striped_when_some_slot_lacks_an_entry(quorum: Quorum) -> None:
    lacks = any(not quorum.holds(slot, 0) for slot in range(quorum.ensemble_size))

    assert quorum.is_striped == lacks


@pytest.mark.parametrize(
    "sizes", [(2, 3, 1), (3, 2, 3), (1, 1, 0), (0, 0, 0), (ENSEMBLE_SIZE_MAX + 1, 3, 2), (3, 3, -1)]
)
def test_impossible_sizes_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidQuorumError):
        Quorum(*sizes)
