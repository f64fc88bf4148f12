"""Coverage: against brute force over who could hide an entry."""

from itertools import combinations, product

import pytest

from zbk.protocol.ledger.coverage import Coverage
from zbk.protocol.ledger.quorum import Quorum

QUORUMS = [Quorum(e, w, a) for e, w, a in product(range(1, 6), repeat=3) if e >= w >= a]


def hides(quorum: Quorum, unknown: set[int]) -> bool:
    """Return whether some entry could have its ack quorum among the unknown slots alone."""
    return any(
        len(unknown & set(quorum.write_set(entry_id))) >= quorum.ack_size
        for entry_id in range(quorum.ensemble_size)
    )


@pytest.mark.parametrize("quorum", QUORUMS, ids=str)
def test_the_known_slots_cover_the_ensemble_exactly_when_nobody_hides_anything(
    quorum: Quorum,
) -> None:
    """T1: for all sizes, striped or not."""
    slots = range(quorum.ensemble_size)
    for count in range(quorum.ensemble_size + 1):
        for known in combinations(slots, count):
            coverage = Coverage(quorum)
            for slot in known:
                coverage.know(slot)

            assert coverage.is_complete != hides(quorum, set(slots) - set(known))
            assert coverage.known_count == count
            assert [slot for slot in slots if coverage.is_known(slot)] == list(known)


@pytest.mark.parametrize("quorum", QUORUMS, ids=str)
def test_it_is_reachable_exactly_when_the_lost_ones_can_hide_nothing(quorum: Quorum) -> None:
    slots = range(quorum.ensemble_size)
    for count in range(quorum.ensemble_size + 1):
        for lost in combinations(slots, count):
            assert Coverage(quorum).is_reachable(lost) != hides(quorum, set(lost))


def test_a_slot_that_was_heard_before_it_was_lost_counts() -> None:
    coverage = Coverage(Quorum(3, 3, 2))
    coverage.know(0)

    assert coverage.is_reachable([0, 1])
    assert not coverage.is_reachable([1, 2])


@pytest.mark.parametrize("size", range(1, 6))
def test_without_stripes_it_takes_ensemble_minus_ack_quorum_and_one(size: int) -> None:
    """T1: (E - Qa) + 1 of the ensemble."""
    for ack_size in range(1, size + 1):
        coverage = Coverage(Quorum(size, size, ack_size))
        heard_count = 0
        while not coverage.is_complete:
            coverage.know(heard_count)
            heard_count += 1
        assert heard_count == size - ack_size + 1
