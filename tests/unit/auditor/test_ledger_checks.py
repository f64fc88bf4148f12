"""The checker, against bookies made of dictionaries."""

from collections.abc import Callable

import msgspec
import pytest

from tests.support.audit_ledgers import ledger
from tests.support.fake_holders import FakeHolders
from zbk.auditor.ledger_checks import LedgerChecker
from zbk.errors import EntryUnreadableError, RequestTimeoutError, UnknownLedgerStateError
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.underreplicated import MissingReason

LEDGER = msgspec.structs.replace(ledger(7, ("a", "b", "c"), last=99), ledger_key=b"k" * 16)


def check(
    metadata: LedgerMetadata, spoil: Callable[[FakeHolders], None], *, is_full: bool = False
) -> tuple[dict[str, MissingReason], set[str]]:
    holders = FakeHolders(metadata)
    spoil(holders)
    checker = LedgerChecker(holders)
    checked = checker.read_replicas(metadata, is_full=is_full)
    return checked.missing, checked.undecided


def drop(bookie_id: str, *entry_ids: int) -> Callable[[FakeHolders], None]:
    def spoil(holders: FakeHolders) -> None:
        for entry_id in entry_ids:
            del holders.entries[bookie_id][entry_id]

    return spoil


def test_whole_replicas_are_whole() -> None:
    assert check(LEDGER, lambda _: None) == ({}, set())
    assert check(LEDGER, lambda _: None, is_full=True) == ({}, set())


def test_a_lost_end_is_found_by_the_sample() -> None:
    assert check(LEDGER, drop("b", 99)) == ({"b": MissingReason.CHECKED}, set())


def test_a_hole_in_the_middle_is_found_by_the_full_check_only() -> None:
    """B43: the sample of first and last entries overlooks it; holdings are compared beside it."""
    assert check(LEDGER, drop("b", 50)) == ({}, set())
    assert check(LEDGER, drop("b", 50), is_full=True) == ({"b": MissingReason.CHECKED}, set())


def test_a_hole_in_the_middle_is_found_by_comparing_holdings() -> None:
    """B43: without reading a single entry."""
    holders = FakeHolders(LEDGER)
    drop("b", 50)(holders)

    checked = LedgerChecker(holders).compare_holdings(LEDGER)

    assert checked.missing == {"b": MissingReason.CHECKED}


def test_an_entry_with_a_wrong_digest_is_damage() -> None:
    def spoil(holders: FakeHolders) -> None:
        damaged = bytearray(holders.entries["c"][50])
        damaged[-1] ^= 1
        holders.entries["c"][50] = bytes(damaged)

    assert check(LEDGER, spoil, is_full=True) == ({"c": MissingReason.DAMAGED}, set())


@pytest.mark.parametrize("digest_type", [DigestType.MAC, DigestType.NONE])
def test_damage_of_an_entry_that_nobody_can_verify_is_found_by_its_bookie(
    digest_type: DigestType,
) -> None:
    def spoil(holders: FakeHolders) -> None:
        holders.rotten.add(("c", 50))

    metadata = msgspec.structs.replace(LEDGER, digest_type=digest_type)
    assert check(metadata, spoil, is_full=True) == ({"c": MissingReason.DAMAGED}, set())
    assert check(LEDGER, spoil, is_full=True) == ({}, set()), "its own digest is what counts"


def test_an_unreadable_entry_is_damage() -> None:
    def spoil(holders: FakeHolders) -> None:
        holders.errors["c"] = EntryUnreadableError(7, 0, "bad sector")

    assert check(LEDGER, spoil) == ({"c": MissingReason.DAMAGED}, set())


def test_silence_and_limbo_prove_nothing() -> None:
    def spoil(holders: FakeHolders) -> None:
        holders.errors["a"] = RequestTimeoutError("read", 5)
        holders.errors["b"] = UnknownLedgerStateError(7, "b1")

    assert check(LEDGER, spoil) == ({}, {"a", "b"})


def test_who_is_silent_is_asked_once_a_step() -> None:
    holders = FakeHolders(LEDGER)
    holders.errors["a"] = RequestTimeoutError("read", 5)
    checker = LedgerChecker(holders)

    for _ in range(3):
        checker.read_replicas(LEDGER, is_full=False)
    asked_count = holders.asked.count("a")
    checker.begin_step()
    checker.read_replicas(LEDGER, is_full=False)

    assert (asked_count, holders.asked.count("a")) == (1, 2)


def test_a_striped_ledger_is_read_slot_by_slot() -> None:
    striped = msgspec.structs.replace(
        ledger(7, ("a", "b", "c"), write_quorum_size=2, last=99), ledger_key=b"k" * 16
    )

    assert check(striped, lambda _: None, is_full=True) == ({}, set())
    assert check(striped, drop("a", 50), is_full=True) == ({"a": MissingReason.CHECKED}, set())


def test_a_bookie_of_a_later_fragment_of_a_vd_ledger_needs_no_entry_before_it() -> None:
    """Its sync cursor stays before the first one, if a repair has brought it what it holds."""
    two = ledger(7, ("a", "b", "c"), ("a", "b", "d"), starts=(0, 60), last=99)
    vd = msgspec.structs.replace(two, ledger_type=LedgerType.VD_JOURNAL, ledger_key=b"k" * 16)
    holders = FakeHolders(vd)

    assert min(holders.entries["d"]) == 60
    assert LedgerChecker(holders).compare_holdings(vd).missing == {}
    drop("d", 70)(holders)
    checked = LedgerChecker(holders).compare_holdings(vd)
    assert checked.missing == {"d": MissingReason.CHECKED}


def test_a_hole_of_a_vd_ledger_is_named_and_what_lies_behind_it_is_not() -> None:
    vd = msgspec.structs.replace(LEDGER, ledger_type=LedgerType.VD_JOURNAL)
    holders = FakeHolders(vd)
    drop("b", *range(43, 51), 60)(holders)

    checked = LedgerChecker(holders).compare_holdings(vd)

    assert checked.missing == {"b": MissingReason.CHECKED}
    assert checked.ranges == {"b": ((43, 50), (60, 60))}
    assert len(holders.asked) == 3, "one request of each bookie"


def test_what_a_bookie_in_limbo_lacks_is_undecided_and_what_it_has_is_there() -> None:
    holders = FakeHolders(LEDGER)
    holders.in_limbo.update("bc")
    drop("b", 50)(holders)

    checked = LedgerChecker(holders).compare_holdings(LEDGER)

    assert (checked.missing, checked.undecided) == ({}, {"b"})


def test_a_comparison_goes_on_where_the_page_ended() -> None:
    holders = FakeHolders(LEDGER)
    holders.range_count_max = 2
    drop("b", *range(1, 99, 3))(holders)

    checked = LedgerChecker(holders).compare_holdings(LEDGER)

    assert checked.ranges["b"] == tuple((one, one) for one in range(1, 99, 3))


def test_a_check_that_is_over_reads_no_more() -> None:
    holders = FakeHolders(LEDGER)

    checked = LedgerChecker(holders, lambda: len(holders.asked) >= 5).read_replicas(
        LEDGER, is_full=True
    )

    assert len(holders.asked) == 5
    assert checked.undecided == {"a", "b", "c"}
