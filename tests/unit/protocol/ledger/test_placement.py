"""Which bookies are taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.errors import NotEnoughBookiesError
from zbk.protocol.ledger.placement import (
    Candidate,
    FailureMemory,
    PlacementPolicy,
    RackAwarePlacement,
    RandomPlacement,
)
from zbk.protocol.ledger.quorum import Quorum

RANDOM, RACKS = RandomPlacement(), RackAwarePlacement()
POLICIES = pytest.mark.parametrize("policy", [RANDOM, RACKS], ids=["random", "rack"])


def bookies(text: str) -> list[Candidate]:
    """Return candidates out of ``"a b:rack1"``."""
    parts = (word.partition(":") for word in text.split())
    return [Candidate(bookie_id, rack) for bookie_id, _, rack in parts]


@POLICIES
def test_the_first_ones_are_taken_in_their_order(policy: PlacementPolicy) -> None:
    assert policy.new_ensemble(bookies("c a b"), 2) == ("c", "a")


@POLICIES
def test_excluded_and_repeated_ones_are_passed_over(policy: PlacementPolicy) -> None:
    chosen = policy.new_ensemble(bookies("c a c b d"), 3, exclude={"a"})

    assert chosen == ("c", "b", "d")


@POLICIES
def test_too_few_say_how_many(policy: PlacementPolicy) -> None:
    with pytest.raises(NotEnoughBookiesError, match="need 3 bookies, have 1") as raised:
        policy.new_ensemble(bookies("a b b"), 3, exclude=["a"])

    assert raised.value.args[:2] == (3, 1)


@POLICIES
def test_avoided_ones_are_taken_when_there_is_no_other(policy: PlacementPolicy) -> None:
    free = bookies("a:r1 b:r1 c:r1 d:r2")

    assert set(policy.new_ensemble(free, 2, avoid={"a", "d"})) == {"b", "c"}
    assert set(policy.new_ensemble(free, 3, avoid={"a", "d"})) > {"b", "c"}


@POLICIES
def test_a_replacement_is_no_member_and_not_excluded(policy: PlacementPolicy) -> None:
    free = bookies("a b c d e f")

    assert policy.replacements(free, ("a", "b", "c"), [1], exclude={"d"}) == {1: "e"}


@POLICIES
def test_a_failed_member_does_not_replace_another_one(policy: PlacementPolicy) -> None:
    assert policy.replacements(bookies("a b c"), ("a", "b", "c"), [0, 2]) == {}


@POLICIES
def test_as_many_are_replaced_as_there_are_others(policy: PlacementPolicy) -> None:
    assert policy.replacements(bookies("a b c d"), ("a", "b", "c"), [2, 0]) == {0: "d"}


def test_a_new_ensemble_spreads_over_racks() -> None:
    free = bookies("a:r1 b:r1 c:r1 d:r2 e:r2 f:r3")

    assert RANDOM.new_ensemble(free, 3) == ("a", "b", "c")
    assert RACKS.new_ensemble(free, 3) == ("a", "d", "f")


def test_bookies_of_one_rack_are_not_neighbours_in_a_striped_ensemble() -> None:
    free = bookies("a:r1 b:r2 c:r2 d:r1")

    racks = {"a": 1, "b": 2, "c": 2, "d": 1}
    ensemble = RACKS.new_ensemble(free, 4)

    assert all(racks[ensemble[slot]] != racks[ensemble[slot - 1]] for slot in range(4))


@pytest.mark.parametrize(
    ("ensemble_size", "write_size", "rack_count", "size"),
    [(6, 2, 3, 2), (6, 3, 3, 2), (9, 3, 3, 5), (8, 4, 4, 2), (7, 3, 4, 4), (10, 3, 5, 2)],
)
@given(data=st.data())
def test_the_write_sets_of_a_striped_ensemble_spread_over_racks(
    ensemble_size: int, write_size: int, rack_count: int, size: int, data: st.DataObject
) -> None:
    """The loss of one rack takes one replica of each entry."""
    free = [
        Candidate(f"b{rack}.{n}", f"r{rack}") for rack in range(rack_count) for n in range(size)
    ]
    rack_of = {one.bookie_id: one.rack for one in free}

    ensemble = RACKS.new_ensemble(data.draw(st.permutations(free)), ensemble_size)

    for write_set in Quorum(ensemble_size, write_size, write_size).write_sets:
        assert len({rack_of[ensemble[slot]] for slot in write_set}) == write_size


@given(data=st.data(), failed=st.integers(0, 5))
def test_a_replacement_keeps_the_write_sets_on_different_racks(
    data: st.DataObject, failed: int
) -> None:
    ensemble = ("a1", "b1", "c1", "a2", "b2", "c2")
    free = bookies("a1:a b1:b c1:c a2:a b2:b c2:c a3:a b3:b c3:c")

    found = RACKS.replacements(data.draw(st.permutations(free)), ensemble, [failed])

    assert found == {failed: f"{ensemble[failed][0]}3"}


def test_a_replacement_stands_in_a_rack_that_the_others_do_not_stand_in() -> None:
    free = bookies("d:r2 e:r3 a:r1 b:r2 c:r3")

    assert RANDOM.replacements(free, ("a", "b", "c"), [2]) == {2: "d"}
    assert RACKS.replacements(free, ("a", "b", "c"), [2]) == {2: "e"}


def test_a_rack_is_a_wish_and_no_condition() -> None:
    assert RACKS.new_ensemble(bookies("a:r1 b:r1 c"), 3) == ("a", "c", "b")
    assert RACKS.replacements(bookies("d:r1"), ("a", "b", "c"), [0]) == {0: "d"}


def test_a_bookie_that_failed_is_avoided_for_a_while() -> None:
    memory = FailureMemory(100)
    memory.failed("a", now_ms=0)
    memory.failed("b", now_ms=50)
    memory.failed("a", now_ms=60)

    assert memory.avoided(now_ms=149) == {"a", "b"}
    assert memory.avoided(now_ms=150) == {"a"}
    assert memory.avoided(now_ms=160) == set()


def test_the_memory_of_failures_is_bounded() -> None:
    memory = FailureMemory(100, count_max=2)
    for name in ("a", "b", "c"):
        memory.failed(name, now_ms=0)

    assert memory.avoided(now_ms=1) == {"b", "c"}


names = st.sampled_from("abcdefgh")
candidates = st.lists(st.builds(Candidate, names, st.sampled_from(["", "r1", "r2"])), max_size=10)


@POLICIES
@given(
    free=candidates,
    ensemble=st.lists(names, min_size=1, max_size=5, unique=True),
    failed=st.sets(st.integers(0, 4)),
    exclude=st.sets(names, max_size=3),
    avoid=st.sets(names, max_size=3),
)
def test_replacements_fit_whatever_there_is(
    policy: PlacementPolicy,
    free: list[Candidate],
    ensemble: list[str],
    failed: set[int],
    exclude: set[str],
    avoid: set[str],
) -> None:
    slots = {slot for slot in failed if slot < len(ensemble)}

    found = policy.replacements(free, ensemble, slots, exclude, avoid)

    fitting = {one.bookie_id for one in free} - set(ensemble) - exclude
    taken = set(found.values())
    assert found.keys() <= slots
    assert len(taken) == len(found) == min(len(slots), len(fitting))
    assert taken <= fitting
    assert not taken & avoid or fitting - avoid <= taken
