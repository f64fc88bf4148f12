"""A ledger's metadata: which values are possible, and which changes of state and facts are legal.

Changes of its fragments are in ``test_metadata_fragments``.
"""

from itertools import product
from typing import Any

import msgspec
import pytest

from tests.support.ledger_states import CLOSED, IN_RECOVERY, LONGER, OPEN, changed
from zbk.errors import IllegalTransitionError
from zbk.protocol.entry.words import DigestType, LedgerState, LedgerType
from zbk.protocol.ledger.formats import REPORTED_LAC_FORMAT_VERSION
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata, check_transition
from zbk.protocol.ledger.quorum import Quorum

# ------------------------------------------------------------------ legal changes


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
