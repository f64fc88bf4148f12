"""What a bookie lacks, and what is not known, follows from its answer and the metadata."""

from typing import Any

import msgspec
import pytest

from zbk.client.operations.ledger_copies import missing_at
from zbk.console.ledger_copies import (
    WINDOW_COUNT,
    copies_at,
    marks_of,
    window_at,
)
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.wire.messages import LedgerInfo


def ledger(ensemble_size: int = 3, *, is_vd: bool = True) -> LedgerMetadata:
    names = tuple("abcd"[:ensemble_size])
    return LedgerMetadata(
        ledger_id=1,
        ensemble_size=ensemble_size,
        write_quorum_size=min(2, ensemble_size),
        ack_quorum_size=2,
        ledger_type=LedgerType.VD_JOURNAL if is_vd else LedgerType.PD_JOURNAL,
        digest_type=DigestType.XXH3,
        password_digest=b"",
        fragments=(Fragment(0, names),),
        created_ms=0,
        creation_token="t",
    )


def info(*ranges: tuple[int, int], **fields: object) -> LedgerInfo:
    known = LedgerInfo(is_known=True, request_id=0, ranges=list(ranges))
    return msgspec.structs.replace(known, **fields)


def test_entries_in_no_range_are_missing_up_to_where_the_answer_reaches() -> None:
    closed = ledger(2).with_closed(99, 0)
    assert missing_at(closed, "a", info((0, 9), (20, 99))) == ([(10, 19)], None)
    assert missing_at(closed, "a", info((0, 9), next_entry_id=50)) == ([(10, 49)], 50)
    assert missing_at(closed, "a", info()) == ([(0, 99)], None)


def test_a_striped_ledger_lacks_only_what_is_due() -> None:
    closed = ledger(3).with_closed(5, 0)  # a holds 0 2 3 5
    assert missing_at(closed, "a", info((0, 0), (2, 3), (5, 5))) == ([], None)
    assert missing_at(closed, "a", info((0, 0), (2, 2), (5, 5))) == ([(3, 3)], None)


def test_without_an_answer_or_in_limbo_nothing_is_known() -> None:
    closed = ledger(2).with_closed(99, 0)
    assert missing_at(closed, "a", None) == ([], 0)
    assert missing_at(closed, "a", None, [(3, 4)]) == ([(3, 4)], 0)  # but what was reported
    assert missing_at(closed, "a", info((0, 9), is_in_limbo=True)) == ([], 10)


def test_the_open_fragment_lacks_nothing() -> None:
    assert missing_at(ledger(2), "a", info((0, 9))) == ([], None)


def test_an_answer_that_ends_before_the_first_due_entry_says_nothing() -> None:
    changed = ledger(2).with_new_fragment(500, ("a", "c")).with_closed(999, 0)
    assert missing_at(changed, "c", info(next_entry_id=400)) == ([], 400)


@pytest.mark.parametrize(
    ("at", "end", "expected"),
    [
        (0, 999, (0, WINDOW_COUNT - 1)),
        (500, 999, (500, 500 + WINDOW_COUNT - 1)),
        (10**15, 999, (1_000 - WINDOW_COUNT, 999)),
        (3, 4, (0, 4)),
    ],
)
def test_a_window_lies_within_the_ledger(at: int, end: int, expected: tuple[int, int]) -> None:
    assert window_at(ledger(), at, end) == expected


def test_the_window_of_an_empty_ledger_is_empty() -> None:
    first, last = window_at(ledger().with_closed(-1, 0), 7, 0)
    assert first > last


def test_copies_follow_the_write_sets() -> None:
    found = ledger(3)
    copies = {
        name: copies_at(found, name, info((0, 9), last_add_synced=9), (0, 2), is_registered=True)
        for name in "abc"
    }
    assert copies == {
        "a": ["stored", "", "stored"],
        "b": ["stored", "stored", ""],
        "c": ["", "stored", "stored"],
    }


def test_the_state_of_a_copy_says_what_is_known() -> None:
    found = ledger(2)

    def of(answer: LedgerInfo | None, metadata: LedgerMetadata = found, **more: bool) -> list[str]:
        return copies_at(metadata, "a", answer, (8, 11), is_registered=more.get("is_there", True))

    assert of(info((0, 9), last_add_synced=8)) == [
        "stored", "not synced", "not yet there", "not yet there",
    ]  # fmt: skip
    assert of(None) == ["unknown"] * 4
    assert of(None, is_there=False) == ["on a lost bookie"] * 4
    closed = found.with_closed(11, 0)
    assert of(info((8, 9)), closed) == ["stored", "stored", "missing", "missing"]
    assert of(info((8, 9), next_entry_id=11), closed)[2:] == ["missing", "unknown"]
    assert of(info((8, 9), is_in_limbo=True), closed)[2:] == ["unknown"] * 2
    assert of(info((8, 9)), ledger(2, is_vd=False))[:2] == ["stored", "stored"]


def row(name: str, lac: int | None, last: int | None, synced: int | None) -> dict[str, Any]:
    return {"bookie_id": name, "lac": lac, "last_entry_id": last, "last_add_synced": synced}


def test_the_gap_lies_between_what_an_ack_quorum_synced_and_what_any_bookie_has() -> None:
    found = msgspec.structs.replace(ledger(), write_quorum_size=3)
    rows = [row("a", 5, 9, 7), row("b", 6, 8, 4), row("c", None, None, None)]
    assert marks_of(found, rows) == {"LAC": 6, "LAP": 9, "LAS": 4}
    assert marks_of(found, [row("a", 5, 9, 7)]) == {"LAC": 5, "LAP": 9}  # no ack quorum
    assert marks_of(found.with_closed(9, 0), rows) == {}
    assert marks_of(found, [row("z", 5, 9, 7)]) == {}  # of no fragment that can grow


def test_a_striped_ledger_is_synced_as_far_as_each_write_set() -> None:
    bookies = ("a", "b", "c", "d")
    striped = msgspec.structs.replace(
        ledger(2), ensemble_size=4, write_quorum_size=2, fragments=(Fragment(0, bookies),)
    )
    rows = [row(one, 0, 11, las) for one, las in zip(bookies, (11, 10, -1, -1), strict=True)]
    assert marks_of(striped, rows)["LAS"] == 0
    assert "LAS" not in marks_of(striped, rows[:2])
