"""The fragments of a ledger's metadata: which ones are added, repaired, cut and found."""

import msgspec
import pytest

from tests.support.ledger_states import CLOSED, IN_RECOVERY, LONGER, OPEN, changed
from zbk.errors import IllegalTransitionError
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata, check_transition

# ------------------------------------------------------------------ legal changes


def test_a_writer_may_add_a_fragment() -> None:
    assert LONGER.fragments == (Fragment(0, ("a", "b", "c")), Fragment(10, ("a", "d", "c")))
    assert LONGER.last_fragment == Fragment(10, ("a", "d", "c"))


def test_the_length_before_the_last_fragment_goes_with_it() -> None:
    noted = OPEN.with_new_fragment(10, ("a", "d", "c"), 1_000)

    assert noted.length_before == 1_000
    assert noted.with_recovery().length_before == 1_000
    assert noted.with_replaced_bookie(0, "b", "z").length_before == 1_000
    assert noted.with_new_fragment(12, ("a", "e", "c")).length_before is msgspec.UNSET
    assert noted.with_closed(19, 2_000) == CLOSED
    assert noted.with_recovery().with_closed_by_recovery((), 19, 2_000) == CLOSED


def test_the_length_before_a_fragment_never_changes() -> None:
    noted = OPEN.with_new_fragment(10, ("a", "d", "c"), 1_000)

    with pytest.raises(IllegalTransitionError, match="length before"):
        check_transition(noted, changed(noted, length_before=1_001))
    with pytest.raises(IllegalTransitionError, match="length before"):
        check_transition(LONGER, noted)
    with pytest.raises(IllegalTransitionError, match="impossible length"):
        changed(CLOSED, length_before=1_000)
    check_transition(noted, LONGER)  # an older zbk loses it with its next change


def test_a_fragment_that_never_held_anything_is_replaced() -> None:
    again = LONGER.with_new_fragment(10, ("a", "d", "e"))

    assert again.fragments == (Fragment(0, ("a", "b", "c")), Fragment(10, ("a", "d", "e")))


@pytest.mark.parametrize("metadata", [LONGER, IN_RECOVERY, CLOSED], ids=lambda m: str(m.state))
def test_a_bookie_may_be_replaced_in_any_state(metadata: LedgerMetadata) -> None:
    repaired = metadata.with_replaced_bookie(0, "b", "z")

    assert repaired.fragments == (Fragment(0, ("a", "z", "c")), metadata.last_fragment)
    assert repaired.state is metadata.state


# ------------------------------------------------------------------ illegal changes


def test_a_closed_ledger_gets_no_fragment() -> None:
    with pytest.raises(IllegalTransitionError, match="are not added"):
        CLOSED.with_new_fragment(20, ("a", "b", "c"))


@pytest.mark.parametrize(
    "fragments",
    [
        (Fragment(0, ("a", "b", "c")),),  # one fewer
        (Fragment(0, ("a", "b", "c")), Fragment(11, ("a", "d", "c"))),  # another start
        (  # two more
            *LONGER.fragments,
            Fragment(20, ("a", "b", "c")),
            Fragment(30, ("a", "b", "c")),
        ),
    ],
)
def test_fragments_are_only_added_one_at_the_end(fragments: tuple[Fragment, ...]) -> None:
    with pytest.raises(IllegalTransitionError, match=r"starts|are not added"):
        check_transition(LONGER, changed(LONGER, fragments=fragments))


@pytest.mark.parametrize(
    "fragments",
    [
        (Fragment(0, ("x", "y", "c")), LONGER.fragments[1]),  # two of an old fragment
        (Fragment(0, ("x", "b", "c")), Fragment(10, ("a", "x", "c"))),  # one of each of two
        (Fragment(0, ("x", "b", "c")), LONGER.fragments[1], Fragment(20, ("a", "b", "c"))),
    ],
    ids=["two bookies", "two fragments", "one, and a new fragment"],
)
def test_one_bookie_is_replaced_at_a_time(fragments: tuple[Fragment, ...]) -> None:
    with pytest.raises(IllegalTransitionError, match="at a time"):
        check_transition(LONGER, changed(LONGER, fragments=fragments))


def test_a_fragment_of_a_closed_ledger_is_cut_and_each_entry_stays_where_it_was() -> None:
    closed = LONGER.with_closed(19, 2_000)

    cut = closed.with_cut_fragment(0, (3, 5))

    assert [one.first_entry_id for one in cut.fragments] == [0, 3, 5, 10]
    assert all(
        cut.fragment_of(entry_id)[0].bookies == closed.fragment_of(entry_id)[0].bookies
        for entry_id in range(20)
    )


def test_a_fragment_before_an_empty_last_one_is_cut() -> None:
    """Seed 9300084: the last fragment lies behind the end."""
    closed = LONGER.with_closed(9, 1_000)

    cut = closed.with_cut_fragment(0, (3,))

    assert [one.first_entry_id for one in cut.fragments] == [0, 3, 10]


@pytest.mark.parametrize(
    ("metadata", "first_entry_id", "starts"),
    [
        (LONGER, 0, (3,)),  # open, behind the end of nothing: its writer knows its fragments
        (LONGER.with_recovery(), 0, (3,)),
        (LONGER.with_closed(19, 1), 0, (10,)),  # the next one starts there
        (LONGER.with_closed(19, 1), 10, (20,)),  # behind the end
        (LONGER.with_closed(19, 1), 10, (10,)),
        (LONGER.with_closed(19, 1), 3, (5,)),  # no fragment starts there
    ],
)
def test_no_other_cut_is_made(
    metadata: LedgerMetadata, first_entry_id: int, starts: tuple[int, ...]
) -> None:
    with pytest.raises(IllegalTransitionError):
        metadata.with_cut_fragment(first_entry_id, starts)


@pytest.mark.parametrize(
    "fragments",
    [
        (Fragment(0, ("a", "b", "c")), Fragment(3, ("x", "b", "c")), LONGER.fragments[1]),
        (Fragment(0, ("a", "b", "c")), Fragment(3, ("a", "b", "c")), Fragment(10, ("x", "y", "z"))),
        (*LONGER.fragments, Fragment(20, LONGER.fragments[1].bookies)),
    ],
    ids=["with another bookie", "and another fragment", "behind the end"],
)
def test_a_cut_is_the_only_change(fragments: tuple[Fragment, ...]) -> None:
    closed = LONGER.with_closed(19, 1)

    with pytest.raises(IllegalTransitionError):
        check_transition(closed, changed(closed, fragments=fragments))


def test_a_recoverer_closes_with_the_fragments_that_it_needed() -> None:
    in_recovery = LONGER.with_recovery()
    more = (*LONGER.fragments, Fragment(20, ("a", "b", "c")), Fragment(30, ("d", "b", "c")))

    check_transition(
        in_recovery,
        changed(in_recovery, state=LedgerState.CLOSED, last_entry_id=40, length=1, fragments=more),
    )
    with pytest.raises(IllegalTransitionError, match="are not added"):
        check_transition(in_recovery, changed(in_recovery, fragments=more))


def test_a_recoverer_closes_with_a_fragment_in_the_place_of_the_last_one() -> None:
    """All that the last fragment holds was written back to other bookies."""
    closed = IN_RECOVERY.with_closed_by_recovery((Fragment(10, ("x", "y", "z")),), 19, 2_000)

    assert closed.fragments == (Fragment(0, ("a", "b", "c")), Fragment(10, ("x", "y", "z")))


def test_a_recoverer_changes_no_older_fragment_with_its_closing() -> None:
    fragments = (Fragment(0, ("x", "y", "c")), IN_RECOVERY.last_fragment)

    with pytest.raises(IllegalTransitionError):
        check_transition(
            IN_RECOVERY,
            changed(
                IN_RECOVERY,
                state=LedgerState.CLOSED,
                fragments=fragments,
                last_entry_id=19,
                length=2_000,
            ),
        )


def test_replacing_a_bookie_that_is_not_there_is_an_error() -> None:
    with pytest.raises(IllegalTransitionError, match="in no fragment"):
        LONGER.with_replaced_bookie(0, "nobody", "z")
    with pytest.raises(IllegalTransitionError, match="in no fragment"):
        LONGER.with_replaced_bookie(5, "a", "z")


# ------------------------------------------------------------------ questions


def test_an_entry_is_found_in_its_fragment() -> None:
    first, last = LONGER.fragments

    assert LONGER.fragment_of(0) == (first, 9)
    assert LONGER.fragment_of(9) == (first, 9)
    assert LONGER.fragment_of(10) == (last, None)
    assert CLOSED.fragment_of(10) == (last, 19)
