"""A ledger's metadata: what is a value, and which changes are legal."""

from itertools import product
from typing import Any

import msgspec
import pytest

from zbk.errors import IllegalTransitionError
from zbk.protocol.entry.words import DigestType, LedgerState, LedgerType
from zbk.protocol.ledger.formats import REPORTED_LAC_FORMAT_VERSION
from zbk.protocol.ledger.metadata import (
    Fragment,
    LedgerMetadata,
    check_transition,
)
from zbk.protocol.ledger.quorum import Quorum

OPEN = LedgerMetadata(
    ledger_id=7,
    ensemble_size=3,
    write_quorum_size=2,
    ack_quorum_size=2,
    ledger_type=LedgerType.PD_JOURNAL,
    digest_type=DigestType.XXH3,
    password_digest=b"p" * 16,
    fragments=(Fragment(0, ("a", "b", "c")),),
    created_ms=1_700_000_000_000,
    creation_token="token",
    custom_metadata={"job": b"nightly"},
)
LONGER = OPEN.with_new_fragment(10, ("a", "d", "c"))
IN_RECOVERY = LONGER.with_recovery()
CLOSED = LONGER.with_closed(19, 2_000)


def changed(metadata: LedgerMetadata, **fields: object) -> LedgerMetadata:
    return msgspec.structs.replace(metadata, **fields)


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


@pytest.mark.parametrize("metadata", [OPEN, IN_RECOVERY], ids=lambda m: str(m.state))
def test_writer_and_recoverer_may_close(metadata: LedgerMetadata) -> None:
    closed = metadata.with_closed(19, 2_000)

    assert closed.is_closed
    assert (closed.last_entry_id, closed.length) == (19, 2_000)


def test_an_empty_ledger_is_closed_at_minus_one() -> None:
    assert OPEN.with_closed(-1, 0).last_entry_id == -1


def test_a_reserved_ledger_gets_its_writer_once() -> None:
    reserved = changed(OPEN, has_writer=False)

    claimed = reserved.with_writer()

    assert claimed.has_writer
    with pytest.raises(IllegalTransitionError):
        claimed.with_writer()


RECORDING = changed(OPEN, ledger_type=LedgerType.VD_JOURNAL).recording_reported_lac()
REPORTED = RECORDING.with_reported_lac(7)


def test_a_reported_lac_grows_and_goes_with_the_close() -> None:
    assert (OPEN.format_version, RECORDING.format_version) == (2, REPORTED_LAC_FORMAT_VERSION)
    assert [m.confirmed_floor for m in (OPEN, RECORDING, REPORTED)] == [-1, -1, 7]
    assert REPORTED.with_new_fragment(10, ("a", "d", "c")).confirmed_floor == 9
    assert REPORTED.with_recovery().reported_lac == 7

    closed = REPORTED.with_closed(7, 90)
    assert (closed.reported_lac, closed.format_version) == (msgspec.UNSET, 2)
    assert REPORTED.with_recovery().with_closed_by_recovery((), 7, 90) == closed


def test_nothing_begins_or_ends_below_what_was_reported() -> None:
    with pytest.raises(IllegalTransitionError, match="up to 7 were reported"):
        REPORTED.with_new_fragment(7, ("a", "d", "c"))
    with pytest.raises(IllegalTransitionError, match="up to 7 were reported"):
        REPORTED.with_closed(6, 80)
    with pytest.raises(IllegalTransitionError, match="up to 7 were reported"):
        REPORTED.with_recovery().with_closed_by_recovery((), 6, 80)
    with pytest.raises(IllegalTransitionError, match="never falls"):
        REPORTED.with_reported_lac(6)
    with pytest.raises(IllegalTransitionError, match="from its first entry on"):
        check_transition(LONGER, LONGER.recording_reported_lac())


@pytest.mark.parametrize(
    "fields",
    [{"reported_lac": 7}, {"format_version": 3}, {"format_version": 3, "reported_lac": -2}],
)
def test_a_reported_lac_and_its_format_belong_together(fields: dict[str, object]) -> None:
    with pytest.raises(IllegalTransitionError, match="reported LAC"):
        changed(OPEN, **fields)


def test_a_ledger_without_a_writer_records_the_lac_from_its_claim_on() -> None:
    reserved = changed(OPEN, has_writer=False)

    assert reserved.with_writer(records_reported_lac=True).reported_lac == -1
    assert reserved.with_writer() == OPEN


# ------------------------------------------------------------------ illegal changes


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ledger_id", 8),
        ("ensemble_size", 2),
        ("write_quorum_size", 3),
        ("ack_quorum_size", 1),
        ("ledger_type", LedgerType.VD_JOURNAL),
        ("digest_type", DigestType.MAC),
        ("password_digest", b"q" * 16),
        ("created_ms", 0),
        ("creation_token", "other"),
        ("custom_metadata", {}),
        ("ledger_key", b"k" * 16),
        ("format_version", 1),
    ],
)
def test_what_was_said_at_create_never_changes(field: str, value: object) -> None:
    fields: dict[str, object] = {field: value}
    if field == "ensemble_size":
        fields["fragments"] = (Fragment(0, ("a", "b")),)

    with pytest.raises(IllegalTransitionError, match=f"{field} never changes"):
        check_transition(OPEN, changed(OPEN, **fields))


STATES = {
    LedgerState.OPEN: LONGER,
    LedgerState.IN_RECOVERY: IN_RECOVERY,
    LedgerState.CLOSED: CLOSED,
}
LEGAL = {
    (LedgerState.OPEN, LedgerState.OPEN),
    (LedgerState.OPEN, LedgerState.IN_RECOVERY),
    (LedgerState.OPEN, LedgerState.CLOSED),
    (LedgerState.IN_RECOVERY, LedgerState.IN_RECOVERY),
    (LedgerState.IN_RECOVERY, LedgerState.CLOSED),
    (LedgerState.CLOSED, LedgerState.CLOSED),
}


@pytest.mark.parametrize(("old", "new"), list(product(LedgerState, LedgerState)))
def test_states_only_go_forward(old: LedgerState, new: LedgerState) -> None:
    if (old, new) in LEGAL:
        check_transition(STATES[old], STATES[new])
    else:
        with pytest.raises(IllegalTransitionError, match="does not become"):
            check_transition(STATES[old], STATES[new])


@pytest.mark.parametrize(("last_entry_id", "length"), [(18, 2_000), (20, 2_000), (19, 1_999)])
def test_the_end_of_a_closed_ledger_never_changes(last_entry_id: int, length: int) -> None:
    with pytest.raises(IllegalTransitionError, match="end never changes"):
        CLOSED.with_closed(last_entry_id, length)


@pytest.mark.parametrize("metadata", [IN_RECOVERY, CLOSED], ids=lambda m: str(m.state))
def test_a_ledger_that_is_not_open_gets_no_writer(metadata: LedgerMetadata) -> None:
    reserved = changed(metadata, has_writer=False)

    with pytest.raises(IllegalTransitionError, match="gets one, once"):
        reserved.with_writer()


def test_a_writer_is_never_taken_away() -> None:
    with pytest.raises(IllegalTransitionError, match="gets one, once"):
        check_transition(OPEN, changed(OPEN, has_writer=False))


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


# ------------------------------------------------------------------ impossible values


@pytest.mark.parametrize(
    "fields",
    [
        {"fragments": ()},
        {"fragments": (Fragment(1, ("a", "b", "c")),)},
        {"fragments": (Fragment(0, ("a", "b", "c")), Fragment(0, ("a", "b", "d")))},
        {"fragments": (Fragment(0, ("a", "b")),)},
        {"fragments": (Fragment(0, ("a", "b", "a")),)},
        {"last_entry_id": 5},
        {"length": 5},
        {"state": LedgerState.CLOSED},
        {"state": LedgerState.CLOSED, "last_entry_id": 5},
        {"state": LedgerState.CLOSED, "last_entry_id": -2, "length": 0},
        {"state": LedgerState.CLOSED, "last_entry_id": 2, "length": -1},
    ],
)
def test_impossible_metadata_cannot_be_made(fields: dict[str, Any]) -> None:
    with pytest.raises(IllegalTransitionError):
        changed(OPEN, **fields)


# ------------------------------------------------------------------ questions


def test_an_entry_is_found_in_its_fragment() -> None:
    first, last = LONGER.fragments

    assert LONGER.fragment_of(0) == (first, 9)
    assert LONGER.fragment_of(9) == (first, 9)
    assert LONGER.fragment_of(10) == (last, None)
    assert CLOSED.fragment_of(10) == (last, 19)


def test_the_quorum_is_that_of_the_sizes() -> None:
    assert OPEN.quorum == Quorum(3, 2, 2)


def test_a_ledger_key_is_whole_or_none() -> None:
    with pytest.raises(IllegalTransitionError, match="16 bytes, not 3"):
        msgspec.structs.replace(OPEN, ledger_key=b"key")


def test_a_ledger_key_is_not_shown() -> None:
    keyed = msgspec.structs.replace(OPEN, ledger_key=b"0123456789abcdef")

    for text in (repr(keyed), str(keyed), f"{[keyed]}"):
        assert "0123456789abcdef" not in text
        assert "creation_token=" in text
