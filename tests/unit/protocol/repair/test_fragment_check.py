"""What to ask of bookies about a ledger's replicas, and what answers mean."""

import pytest

from tests.support.audit_ledgers import ledger
from zbk.errors import (
    BookieUnavailableError,
    DigestMismatchError,
    EntryUnreadableError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RequestTimeoutError,
    UnauthorizedError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.fragment_check import (
    CheckedLedger,
    Finding,
    badly_placed,
    finding_of,
    holders,
    probes,
)
from zbk.protocol.repair.holdings import HoldingsComparison
from zbk.protocol.repair.underreplicated import MissingReason


def asked(metadata: LedgerMetadata, *, is_full: bool = False) -> dict[tuple[str, int], list[int]]:
    return {
        (one.bookie_id, one.first_entry_id): list(one.entry_ids)
        for one in probes(metadata, is_full=is_full)
    }


def test_a_sample_is_the_first_and_the_last_entry_of_each_fragment_on_each_bookie() -> None:
    two = ledger(7, ("a", "b", "c"), ("a", "b", "d"), starts=(0, 6), last=9)

    assert asked(two) == {
        ("a", 0): [0, 5],
        ("b", 0): [0, 5],
        ("c", 0): [0, 5],
        ("a", 6): [6, 9],
        ("b", 6): [6, 9],
        ("d", 6): [6, 9],
    }


def test_a_sample_of_a_striped_ledger_is_the_first_and_last_that_the_slot_holds() -> None:
    striped = ledger(7, ("a", "b", "c"), write_quorum_size=2, last=9)

    assert asked(striped) == {("a", 0): [0, 9], ("b", 0): [0, 9], ("c", 0): [1, 8]}


def test_a_full_check_asks_for_every_entry() -> None:
    striped = ledger(7, ("a", "b", "c"), write_quorum_size=2, last=4)

    assert asked(striped, is_full=True) == {
        ("a", 0): [0, 2, 3],
        ("b", 0): [0, 1, 3, 4],
        ("c", 0): [1, 2, 4],
    }


def test_the_last_fragment_of_an_open_ledger_is_its_writers() -> None:
    open_ledger = ledger(7, ("a", "b"), ("a", "c"), starts=(0, 6), last=None)

    assert {first for _, first in asked(open_ledger)} == {0}
    assert holders(open_ledger) == ["a", "b"]


def test_a_fragment_that_holds_nothing_is_not_asked_for() -> None:
    """B21: an ensemble may begin behind the last entry; an empty ledger holds nothing at all."""
    empty_tail = ledger(7, ("a", "b"), ("a", "c"), starts=(0, 10), last=9)

    assert {first for _, first in asked(empty_tail)} == {0}
    assert asked(ledger(8, ("a", "b"), last=-1), is_full=True) == {}
    assert HoldingsComparison(empty_tail, "c").next_entry_id is None


def test_a_fragment_of_one_entry_is_asked_for() -> None:
    three = ledger(7, ("a", "b"), ("a", "c"), ("a", "d"), starts=(0, 4, 5), last=5)

    assert asked(three) == {
        ("a", 0): [0, 3],
        ("b", 0): [0, 3],
        ("a", 4): [4],
        ("c", 4): [4],
        ("a", 5): [5],
        ("d", 5): [5],
    }


def test_who_is_left_out_is_not_asked() -> None:
    found = list(probes(ledger(7, ("a", "b", "c")), is_full=False, left_out={"b"}))

    assert [one.bookie_id for one in found] == ["a", "c"]


@pytest.mark.parametrize(
    ("error", "finding"),
    [
        (None, Finding.HELD),
        (NoSuchEntryError(7, 3), Finding.ABSENT),
        (NoSuchLedgerError(7), Finding.ABSENT),
        (EntryUnreadableError(7, 3, "bad sector"), Finding.DAMAGED),
        (DigestMismatchError(7, 3), Finding.DAMAGED),
        (UnknownLedgerStateError(7, "b1"), Finding.UNDECIDED),
        (RequestTimeoutError("read", 5), Finding.UNDECIDED),
        (BookieUnavailableError("a", "is gone"), Finding.UNDECIDED),
        (UnauthorizedError(7), Finding.UNDECIDED),
    ],
)
def test_only_what_a_bookie_says_of_its_entry_proves_anything(
    error: ZbkError | None, finding: Finding
) -> None:
    assert finding_of(error) is finding


def test_damage_outweighs_absence_and_silence_is_no_loss() -> None:
    checked = CheckedLedger()
    for bookie_id, finding in [
        ("a", Finding.ABSENT),
        ("a", Finding.DAMAGED),
        ("a", Finding.ABSENT),
        ("b", Finding.ABSENT),
        ("c", Finding.UNDECIDED),
        ("d", Finding.HELD),
    ]:
        checked.note(bookie_id, finding)

    assert checked.missing == {"a": MissingReason.DAMAGED, "b": MissingReason.CHECKED}
    assert checked.undecided == {"c"}


def test_replicas_of_an_entry_on_one_rack_are_counted_where_it_could_be_better() -> None:
    racks = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
    two = ledger(7, ("a", "b"), ("a", "c"), starts=(0, 6))

    assert badly_placed(two, racks) == [0]
    assert badly_placed(ledger(8, ("a", "c", "b", "d"), write_quorum_size=2), racks) == []
    assert badly_placed(two, {"a": "r1", "b": "r1"}) == [], "with one rack nobody does better"
    assert badly_placed(ledger(9, ("x", "y")), racks) == [], "nothing is known of these"


def test_with_fewer_racks_than_replicas_each_rack_has_one() -> None:
    racks = {"a": "r1", "b": "r1", "c": "r1", "d": "r2"}

    assert badly_placed(ledger(7, ("a", "b", "c")), racks) == [0], "r1 has all of them"
    assert badly_placed(ledger(7, ("a", "b", "d")), racks) == [], "no choice would be better"
    assert badly_placed(ledger(7, ("a", "b", "away")), racks) == [], "it may be on the other one"
