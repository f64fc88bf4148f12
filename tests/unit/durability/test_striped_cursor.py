"""The sync cursor of a stripe against a twin that keeps every entry."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from zbk.durability.bookie_ledger import BookieLedger
from zbk.durability.striped_cursor import StripedCursor
from zbk.durability.synced_run import SyncedRun, runs_of
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.ledger.stripe import Stripe

KEY = b"k" * 16
FIRST, SECOND = Stripe(4, 2, 0), Stripe(4, 2, 2)

steps = st.one_of(
    st.tuples(st.just("synced"), st.integers(0, 30), st.integers(0, 8)),
    st.tuples(st.just("lac"), st.integers(0, 30), st.just(0)),
)


@given(st.integers(0, 4), st.lists(steps, max_size=12))
def test_the_cursor_counts_what_is_due_and_nothing_else(
    slot: int, events: list[tuple[str, int, int]]
) -> None:
    quorum, stripe = Quorum(5, 3, 2), Stripe(5, 3, slot)
    cursor, synced, lac = StripedCursor(stripe), set[int](), -1

    for kind, first, more in events:
        if kind == "synced":
            cursor.add(first, first + more)
            synced.update(range(first, first + more + 1))
        else:
            cursor.raise_floor(first)
            lac = max(lac, first)
        due = [one for one in range(60) if quorum.holds(slot, one)]
        missing = min(one for one in due if one > lac and one not in synced)
        last = max((one for one in due if one < missing), default=-1)
        assert cursor.last_add_synced == max(last, lac)


def ledger_with(stripe: Stripe | None) -> BookieLedger:
    """Return a VD ledger whose bookie was told a stripe."""
    ledger = BookieLedger(7, ledger_key=KEY, ledger_type=LedgerType.VD_JOURNAL)
    if stripe is not None:
        ledger.follow(stripe, -1)
    return ledger


def test_a_hole_in_a_stripe_keeps_the_cursor_low() -> None:
    ledger = ledger_with(FIRST)  # 0 3 4 7 8

    ledger.synced(SyncedRun(0, 0, FIRST))
    ledger.synced(SyncedRun(4, 8, FIRST))

    assert ledger.last_add_synced_of(FIRST) == 0


def test_what_was_counted_in_another_slot_is_void() -> None:
    ledger = ledger_with(FIRST)
    ledger.synced(SyncedRun(0, 8, FIRST))
    ledger.added(2)

    ledger.follow(SECOND, 2)  # 1 2 5 6: none of them came

    assert ledger.last_add_synced_of(SECOND) == 2
    ledger.synced(SyncedRun(3, 8, FIRST))  # an fsync that began before
    assert ledger.last_add_synced_of(SECOND) == 2


def test_a_request_of_another_slot_is_answered_with_the_lac() -> None:
    ledger = ledger_with(FIRST)
    ledger.synced(SyncedRun(0, 8, FIRST))
    ledger.added(4)

    assert ledger.last_add_synced_of(FIRST) == 8
    assert ledger.last_add_synced_of(SECOND) == ledger.last_add_synced_of(None) == 4


def test_a_restart_begins_with_the_lac_whatever_the_slot_was() -> None:
    ledger = ledger_with(FIRST)
    ledger.synced(SyncedRun(0, 8, FIRST))
    ledger.added(3)

    assert ledger.cursor_floor == 3


def test_entries_in_a_row_count_in_every_slot() -> None:
    ledger = ledger_with(SECOND)

    ledger.synced(SyncedRun(0, 2))

    assert ledger.last_add_synced_of(SECOND) == 2


def test_the_runs_of_a_copy_without_a_stripe_leave_its_gaps_out() -> None:
    ids = [0, 3, 4, 7]
    batch = EntryBatch(7, ids, array("I", [1] * len(ids)), b"abcd", 0)

    assert [*runs_of(batch, None)] == [SyncedRun(0, 0), SyncedRun(3, 4), SyncedRun(7, 7)]
    assert [*runs_of(batch, FIRST)] == [SyncedRun(0, 7, FIRST)]
    assert SyncedRun(0, 7, FIRST).count == len(ids)


def test_runs_of_a_stripe_join_over_what_is_due_elsewhere() -> None:
    assert SyncedRun(0, 4, FIRST).joined(SyncedRun(7, 8, FIRST)) == SyncedRun(0, 8, FIRST)
    assert SyncedRun(0, 4, FIRST).joined(SyncedRun(8, 8, FIRST)) is None
    assert SyncedRun(0, 4, FIRST).joined(SyncedRun(5, 6, SECOND)) is None
