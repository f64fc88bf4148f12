"""What writers and recoverers may do to the metadata that they find."""

import msgspec
import pytest

from zbk.errors import IllegalTransitionError, LedgerClosedError, LedgerFencedError
from zbk.protocol.entry.words import DigestType, LedgerState, LedgerType
from zbk.protocol.ledger.changes import (
    begin_recovery,
    begin_recovery_of,
    change_ensemble,
    close_by_recovery,
    close_by_writer,
    cut_fragment,
    replace_bookie,
    report_lac,
)
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata, check_transition

OPEN = LedgerMetadata(
    ledger_id=7,
    ensemble_size=3,
    write_quorum_size=3,
    ack_quorum_size=2,
    ledger_type=LedgerType.PD_JOURNAL,
    digest_type=DigestType.XXH3,
    password_digest=b"p" * 16,
    fragments=(Fragment(0, ("a", "b", "c")), Fragment(10, ("a", "d", "c"))),
    created_ms=1_700_000_000_000,
    creation_token="token",
)
IN_RECOVERY = OPEN.with_recovery()
CLOSED = OPEN.with_closed(19, 2_000)
REPAIRED = IN_RECOVERY.with_replaced_bookie(0, "b", "z")


def legal(before: LedgerMetadata, after: LedgerMetadata | None) -> LedgerMetadata:
    assert after is not None
    check_transition(before, after)
    return after


# ------------------------------------------------------------------ a writer closes


def test_a_writer_closes_its_open_ledger() -> None:
    closed = legal(OPEN, close_by_writer(OPEN, 19, 2_000))

    assert closed == CLOSED


def test_closing_again_at_the_same_end_changes_nothing() -> None:
    assert close_by_writer(CLOSED, 19, 2_000) is None


@pytest.mark.parametrize(("last_entry_id", "length"), [(18, 2_000), (19, 1_999)])
def test_a_ledger_closed_at_another_end_is_an_error_for_its_writer(
    last_entry_id: int, length: int
) -> None:
    with pytest.raises(LedgerClosedError, match="at entry 19"):
        close_by_writer(CLOSED, last_entry_id, length)


def test_a_writer_does_not_close_what_is_being_recovered() -> None:
    with pytest.raises(LedgerFencedError):
        close_by_writer(IN_RECOVERY, 19, 2_000)


# ------------------------------------------------------------------ a writer changes its ensemble


RECORDING = msgspec.structs.replace(
    OPEN, ledger_type=LedgerType.VD_JOURNAL
).recording_reported_lac()


def test_a_new_fragment_begins_after_what_others_reported() -> None:
    reported = RECORDING.with_reported_lac(17)

    changed = legal(reported, change_ensemble(reported, 15, {1: ("d", "e")}, 1_500))
    assert changed.last_fragment == Fragment(18, ("a", "e", "c"))
    assert changed.length_before is msgspec.UNSET, "the length there is not known"

    changed = legal(reported, change_ensemble(reported, 18, {1: ("d", "e")}, 1_800))
    assert changed.last_fragment == Fragment(18, ("a", "e", "c"))
    assert changed.length_before == 1_800


def test_a_fragment_of_which_nothing_is_confirmed_is_replaced_in_its_place() -> None:
    changed = legal(RECORDING, change_ensemble(RECORDING, 10, {1: ("d", "e")}))

    assert changed.fragments == (OPEN.fragments[0], Fragment(10, ("a", "e", "c")))


def test_a_lac_is_recorded_while_its_fragment_is_the_last_one() -> None:
    last = OPEN.last_fragment
    recorded = legal(RECORDING, report_lac(RECORDING, last, 15))
    assert recorded.reported_lac == 15

    assert report_lac(recorded, last, 15) is None
    assert report_lac(recorded, last, 14) is None
    assert report_lac(RECORDING, last, 9) is None, "it lies before the fragment"
    assert report_lac(RECORDING, OPEN.fragments[0], 15) is None
    assert report_lac(RECORDING, Fragment(10, ("a", "e", "c")), 15) is None
    assert report_lac(RECORDING.with_recovery(), last, 15) is None


def test_a_ledger_does_not_end_below_what_was_reported() -> None:
    reported = RECORDING.with_reported_lac(17)

    with pytest.raises(IllegalTransitionError, match="up to 17 were reported"):
        close_by_writer(reported, 16, 1_600)
    with pytest.raises(IllegalTransitionError, match="up to 17 were reported"):
        close_by_recovery(reported.with_recovery(), (), 16, 1_600)
    assert legal(reported, close_by_writer(reported, 17, 1_700)).last_entry_id == 17


def test_a_writer_puts_other_bookies_into_a_new_fragment() -> None:
    changed = legal(OPEN, change_ensemble(OPEN, 15, {1: ("d", "e"), 2: ("c", "f")}))

    assert changed.fragments == (*OPEN.fragments, Fragment(15, ("a", "e", "f")))


def test_a_last_fragment_that_held_nothing_is_replaced() -> None:
    changed = legal(OPEN, change_ensemble(OPEN, 10, {0: ("a", "e")}))

    assert changed.fragments == (OPEN.fragments[0], Fragment(10, ("e", "d", "c")))


def test_what_others_changed_in_older_fragments_stays() -> None:
    """B14: a repair of an old fragment and an ensemble change do not undo each other."""
    repaired = OPEN.with_replaced_bookie(0, "b", "z")

    changed = legal(repaired, change_ensemble(repaired, 15, {1: ("d", "e")}))

    assert changed.fragments == (*repaired.fragments, Fragment(15, ("a", "e", "c")))


def test_only_slots_where_the_failed_bookie_sits_are_changed() -> None:
    """B14: somebody replaced one of two failed bookies first."""
    changed = legal(OPEN, change_ensemble(OPEN, 15, {1: ("b", "e"), 2: ("c", "f")}))

    assert changed.last_fragment == Fragment(15, ("a", "d", "f"))


def test_nothing_left_to_replace_is_no_change() -> None:
    assert change_ensemble(OPEN, 15, {1: ("b", "e")}) is None
    assert change_ensemble(OPEN, 15, {}) is None


def test_the_same_change_twice_is_one_change() -> None:
    changed = legal(OPEN, change_ensemble(OPEN, 15, {1: ("d", "e")}))

    assert change_ensemble(changed, 15, {1: ("d", "e")}) is None


def test_a_writer_stops_when_somebody_recovers_its_ledger() -> None:
    with pytest.raises(LedgerFencedError):
        change_ensemble(IN_RECOVERY, 15, {1: ("d", "e")})


def test_a_writer_stops_when_somebody_closed_its_ledger() -> None:
    with pytest.raises(LedgerClosedError, match="at entry 19"):
        change_ensemble(CLOSED, 15, {1: ("d", "e")})


def test_no_fragment_starts_before_the_last_one() -> None:
    """B2: a new fragment below the last one cannot be made."""
    with pytest.raises(IllegalTransitionError):
        change_ensemble(OPEN, 9, {1: ("d", "e")})


def test_no_bookie_comes_twice_into_an_ensemble() -> None:
    with pytest.raises(IllegalTransitionError, match="different bookies"):
        change_ensemble(OPEN, 15, {1: ("d", "a")})


# ------------------------------------------------------------------ a recovery begins


def test_a_recovery_of_an_open_ledger_begins() -> None:
    assert legal(OPEN, begin_recovery(OPEN)) == IN_RECOVERY


@pytest.mark.parametrize("metadata", [IN_RECOVERY, CLOSED], ids=lambda m: str(m.state))
def test_a_recovery_that_somebody_began_or_ended_needs_no_change(metadata: LedgerMetadata) -> None:
    assert begin_recovery(metadata) is None


# ------------------------------------------------------------------ a recoverer closes


def test_a_recoverer_closes_without_a_fragment_of_its_own() -> None:
    closed = legal(IN_RECOVERY, close_by_recovery(IN_RECOVERY, (), 19, 2_000))

    assert closed == CLOSED


def test_a_recoverer_closes_with_the_fragments_that_it_wrote_back_to() -> None:
    """B12: they come into the metadata with the end, not before."""
    own = (Fragment(15, ("a", "e", "c")), Fragment(17, ("a", "e", "f")))

    closed = legal(IN_RECOVERY, close_by_recovery(IN_RECOVERY, own, 19, 2_000))

    assert closed.fragments == (*OPEN.fragments, *own)
    assert (closed.state, closed.last_entry_id) == (LedgerState.CLOSED, 19)


def test_a_recoverer_that_wrote_back_all_of_the_last_fragment_replaces_it() -> None:
    own = (Fragment(10, ("e", "f", "c")), Fragment(12, ("e", "f", "g")))

    closed = legal(IN_RECOVERY, close_by_recovery(IN_RECOVERY, own, 19, 2_000))

    assert closed.fragments == (OPEN.fragments[0], *own)


@pytest.mark.parametrize("start", [10, 15])
def test_a_repair_of_an_old_fragment_during_a_recovery_stays(start: int) -> None:
    """B14: somebody replaced a bookie of the first fragment while the ledger was recovered."""
    own = (Fragment(start, ("a", "e", "f")),)

    closed = legal(REPAIRED, close_by_recovery(REPAIRED, own, 19, 2_000))

    assert closed.fragments[0] == Fragment(0, ("a", "z", "c"))
    assert closed.last_fragment == own[0]


def test_a_ledger_that_somebody_closed_keeps_that_end() -> None:
    assert close_by_recovery(CLOSED, (Fragment(15, ("a", "e", "f")),), 17, 1_700) is None


def test_an_open_ledger_is_not_closed_by_a_recoverer() -> None:
    with pytest.raises(IllegalTransitionError, match="OPEN"):
        close_by_recovery(OPEN, (), 19, 2_000)


@pytest.mark.parametrize("start", [9, 20], ids=["before the last fragment", "after the end"])
def test_a_fragment_that_does_not_fit_is_an_error(start: int) -> None:
    """B2: a recoverer never adds a fragment below the last one."""
    with pytest.raises(IllegalTransitionError, match="do not fit"):
        close_by_recovery(IN_RECOVERY, (Fragment(start, ("a", "e", "f")),), 19, 2_000)


def test_a_ledger_never_ends_before_its_last_fragment_begins() -> None:
    """B2: not below the entry before the last fragment; just there is an empty last fragment."""
    with pytest.raises(IllegalTransitionError, match="before its last fragment"):
        close_by_recovery(IN_RECOVERY, (), 8, 800)

    legal(IN_RECOVERY, close_by_recovery(IN_RECOVERY, (), 9, 900))


def test_a_reserved_ledger_is_recovered_as_empty() -> None:
    reserved = LedgerMetadata(
        ledger_id=8,
        ensemble_size=1,
        write_quorum_size=1,
        ack_quorum_size=1,
        ledger_type=LedgerType.VD_JOURNAL,
        digest_type=DigestType.NONE,
        password_digest=b"",
        fragments=(Fragment(0, ("a",)),),
        created_ms=0,
        creation_token="t",
        has_writer=False,
    )
    recovering = legal(reserved, begin_recovery(reserved))

    closed = legal(recovering, close_by_recovery(recovering, (), -1, 0))

    assert (closed.last_entry_id, closed.length, closed.has_writer) == (-1, 0, False)


def test_a_bookie_is_replaced_only_in_the_slot_that_was_copied() -> None:
    """I26: on a striped ledger other entries are due on another slot.

    One worker copies for b1 and is slow; another one has b1 replaced, b1 comes back, and gets
    another slot of the same fragment.
    """
    fragment = OPEN.fragments[0]
    first, *others = fragment.bookies
    moved = msgspec.structs.replace(
        OPEN, fragments=(Fragment(0, ("x", first, *others[1:])), *OPEN.fragments[1:])
    )

    changed = replace_bookie(OPEN, 0, 0, first, "y")
    assert changed is not None
    assert changed.fragments[0].bookies == ("y", *others)
    assert replace_bookie(moved, 0, 0, first, "y") is None
    assert replace_bookie(OPEN, 5_000, 0, first, "y") is None


def test_a_recovery_for_a_fragment_begins_only_while_that_one_is_the_last() -> None:
    moved_on = OPEN.with_new_fragment(20, ("e", "d", "c"))

    begun = begin_recovery_of(OPEN, OPEN.last_fragment)
    assert begun is not None
    assert begun.state is LedgerState.IN_RECOVERY
    assert begin_recovery_of(moved_on, OPEN.last_fragment) is None
    assert begin_recovery_of(IN_RECOVERY, OPEN.last_fragment) is None
    assert begin_recovery_of(CLOSED, OPEN.last_fragment) is None


# ------------------------------------------------------------------ a repair cuts


def test_a_fragment_is_cut_where_its_losses_begin_and_end() -> None:
    cut = legal(CLOSED, cut_fragment(CLOSED, 10, (12, 14)))

    assert [one.first_entry_id for one in cut.fragments] == [0, 10, 12, 14]


def test_a_fragment_that_somebody_else_has_cut_is_looked_at_again() -> None:
    cut = legal(CLOSED, cut_fragment(CLOSED, 10, (12,)))

    assert cut_fragment(cut, 10, (12, 14)) is None
    assert cut_fragment(cut, 10, (12,)) is None
    assert cut_fragment(cut, 11, (12,)) is None
    assert cut_fragment(cut, 12, (14,)) is not None


def test_a_cut_ledger_goes_on_being_repaired() -> None:
    cut = legal(CLOSED, cut_fragment(CLOSED, 10, (14,)))

    repaired = legal(cut, replace_bookie(cut, 14, 0, "a", "x"))

    assert [one.bookies[0] for one in repaired.fragments] == ["a", "a", "x"]


@pytest.mark.parametrize("metadata", [OPEN, IN_RECOVERY])
def test_a_ledger_that_is_not_closed_is_not_cut(metadata: LedgerMetadata) -> None:
    with pytest.raises(IllegalTransitionError):
        cut_fragment(metadata, 0, (5,))
