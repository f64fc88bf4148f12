"""What a slot lacks and who has it: against plain lists of ids."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.support.recovery_world import ledger
from tests.support.replica_world import held
from zbk.protocol.ledger.metadata import Fragment
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.repair.copy_order import (
    LostEntries,
    due_count,
    ends_of,
    missing_spans,
    without_source,
)

QUORUMS = st.sampled_from(
    [Quorum(3, 3, 2), Quorum(1, 1, 1), Quorum(3, 2, 2), Quorum(5, 2, 1), Quorum(4, 3, 2)]
)
IDS = st.integers(0, 30)


def due(quorum: Quorum, slot: int, first: int, last: int) -> list[int]:
    return [i for i in range(first, last + 1) if slot in quorum.write_set(i)]


@given(quorum=QUORUMS, slot=st.integers(0, 4), first=IDS, count=st.integers(0, 20))
def test_due_entries_are_counted(quorum: Quorum, slot: int, first: int, count: int) -> None:
    slot %= quorum.ensemble_size
    last = first + count - 1

    assert due_count(quorum, slot, first, last) == len(due(quorum, slot, first, last))


@given(quorum=QUORUMS, slot=st.integers(0, 4), first=IDS, last=IDS, have=st.sets(IDS))
def test_missing_spans_have_all_that_is_missing_and_nothing_that_is_held(
    quorum: Quorum, slot: int, first: int, last: int, have: set[int]
) -> None:
    slot %= quorum.ensemble_size
    spans = missing_spans(quorum, slot, (first, last), held(have, 0, 30))

    found = [i for a, b in spans for i in due(quorum, slot, a, b)]
    assert found == [i for i in due(quorum, slot, first, last) if i not in have]
    assert all(quorum.holds(slot, end) for span in spans for end in span)
    for (_, end), (start, _) in pairwise(spans):
        assert any(i in have for i in due(quorum, slot, end + 1, start - 1)), "they are apart"


@given(
    quorum=QUORUMS, slot=st.integers(0, 4), first=IDS, count=st.integers(1, 20),
    sources=st.sets(st.integers(0, 4)),
)  # fmt: skip
def test_entries_without_a_source_are_told(
    quorum: Quorum, slot: int, first: int, count: int, sources: set[int]
) -> None:
    slot %= quorum.ensemble_size
    last = first + count - 1
    lost = [
        i for i in due(quorum, slot, first, last) if not sources.intersection(quorum.write_set(i))
    ]

    found = without_source(quorum, slot, (first, last), sources)

    if not lost:
        assert found is None
    else:
        assert found is not None
        told = (found.first_entry_id, found.last_entry_id, found.count)
        assert told == (lost[0], lost[-1], len(lost))


def test_the_ends_of_fragments() -> None:
    """B21: the last fragment may be empty, and only an open ledger has one without an end."""
    bookies = ("b0", "b1", "b2")
    open_one = ledger(Quorum(3, 3, 2), Fragment(0, bookies), Fragment(10, bookies))

    assert ends_of(open_one) == [9, None]
    assert ends_of(open_one.with_closed(9, 0)) == [9, 9]
    assert ends_of(open_one.with_closed(12, 0)) == [9, 12]
    assert ends_of(ledger(Quorum(3, 3, 2)).with_closed(-1, 0)) == [-1]


def test_lost_entries_are_told_in_words() -> None:
    assert str(LostEntries(3, 3, 1, "gone")) == "entry 3: gone"
    assert str(LostEntries(3, 5, 3, "gone")) == "3 entries, 3 .. 5: gone"
    assert str(LostEntries(3, 9, 3, "gone")) == "3 entries, among 3 .. 9: gone"
