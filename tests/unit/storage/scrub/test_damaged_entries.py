"""What is known to be damaged, against a twin that keeps every id."""

from random import Random

import pytest

from zbk.protocol.entry.spans import spans_of
from zbk.storage.scrub.damaged_entries import DamagedEntryIds, without


def ids_of(ranges: list[tuple[int, int]]) -> set[int]:
    return {one for first, last in ranges for one in range(first, last + 1)}


def test_what_is_damaged_is_not_held_until_it_is_stored_anew() -> None:
    damaged = DamagedEntryIds()
    damaged.add(7, 3, 5, 1)

    assert damaged.held(7, [(0, 9)]) == [(0, 2), (6, 9)]
    assert damaged.held(8, [(0, 9)]) == [(0, 9)]

    damaged.remove(7, range(3, 5))
    assert damaged.held(7, [(0, 9)]) == [(0, 4), (6, 9)]
    damaged.remove(7, [1, 5])
    assert damaged.held(7, [(0, 9)]) == [(0, 9)]
    assert not damaged


def test_a_pass_that_does_not_find_it_any_more_forgets_it() -> None:
    damaged = DamagedEntryIds()
    damaged.add(7, 0, 1, 1)
    damaged.add(8, 0, 1, 1)
    damaged.add(8, 4, 4, 2)

    damaged.end_pass(2)

    assert damaged.held(7, [(0, 9)]) == [(0, 9)]
    assert damaged.held(8, [(0, 9)]) == [(0, 3), (5, 9)]


def test_ranges_are_bounded() -> None:
    damaged = DamagedEntryIds(range_count_max=3)
    for first in range(0, 20, 2):
        damaged.add(7, first, first, 1)
        damaged.add(8, first, first, 1)

    assert len(damaged.held(7, [(0, 19)])) + len(damaged.held(8, [(0, 19)])) <= 3 + 2
    damaged.end_pass(2)
    assert not damaged


@pytest.mark.parametrize("seed", range(20))
def test_a_twin_that_keeps_every_id_agrees(seed: int) -> None:
    rng = Random(seed)
    damaged, twin = DamagedEntryIds(), {7: set[int](), 8: set[int]()}
    passes = {7: 0, 8: 0}
    for _ in range(300):
        ledger_id, first = rng.choice((7, 8)), rng.randrange(50)
        last = first + rng.randrange(6)
        if rng.random() < 0.6:
            pass_no = passes[ledger_id] + (rng.random() < 0.05)
            if pass_no != passes[ledger_id]:
                twin[ledger_id].clear()
            passes[ledger_id] = pass_no
            damaged.add(ledger_id, first, last, pass_no)
            twin[ledger_id].update(range(first, last + 1))
        else:
            ids = sorted(rng.sample(range(60), 5))
            damaged.remove(ledger_id, ids)
            twin[ledger_id].difference_update(ids)
        for one in (7, 8):
            assert ids_of(damaged.held(one, [(0, 99)])) == set(range(100)) - twin[one]


def test_runs_and_what_is_left_of_them() -> None:
    assert spans_of(range(3, 7)) == [(3, 6)]
    assert spans_of([]) == []
    assert without([(0, 3), (5, 8)], 0, 8) == []
