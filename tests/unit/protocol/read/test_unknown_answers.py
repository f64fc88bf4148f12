"""Neither yes nor no: what readers and recoveries make of a bookie that may have lost something."""

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.quorums import quorums
from tests.support.recovery_world import (
    DIGEST,
    LEDGER_ID,
    Bookies,
    Recovery,
    encoded,
    ledger,
    length_up_to,
    recovered,
)
from zbk.durability.outside_sync import Cursor, OutsideSync, ReadMetadata
from zbk.errors import (
    CannotAdvanceError,
    LedgerRecoveryError,
    NoSuchEntryError,
    UnknownLedgerStateError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.procedure import Procedure
from zbk.protocol.read.lac_read import LacRead
from zbk.protocol.read.range_read import (
    Delivered,
    RangeRead,
    ReadAnswered,
    ReadFailed,
    ReadStarted,
    SendRead,
)

Q332 = Quorum(3, 3, 2)


def unknown(slot: int) -> UnknownLedgerStateError:
    return UnknownLedgerStateError(LEDGER_ID, f"b{slot}")


def read_from(holdings: dict[int, set[int]], in_limbo: set[int], last: int) -> list[object]:
    """Read entries 0 .. ``last`` from what each of three slots holds; return what came of it."""
    read = RangeRead(ledger(Q332), 0, last, digest=DIGEST)
    effects = list(read.handle(ReadStarted(), 0))
    results: list[object] = []
    while effects:
        effect = effects.pop(0)
        if not isinstance(effect, SendRead):
            results.append(effect)
            continue
        slot, body = effect.slot, b""
        for entry_id in effect.entry_ids:
            if entry_id not in holdings[slot]:
                break
            body += encoded(entry_id)
        absent = NoSuchEntryError(LEDGER_ID, effect.entry_ids[0])
        error = unknown(slot) if slot in in_limbo else absent
        effects += read.handle(ReadAnswered(slot, effect.read_id, body or error), 0)
    return results


def read_ids(results: list[object]) -> list[int]:
    return [i for one in results if isinstance(one, Delivered) for i in one.batch.entry_ids]


# ------------------------------------------------------------------ readers


def test_a_reader_asks_the_next_replica() -> None:
    everything = set(range(10))

    results = read_from({0: set(), 1: everything, 2: everything}, {0}, 9)

    assert read_ids(results) == list(range(10))


def test_what_a_bookie_does_not_know_of_one_entry_says_nothing_of_the_others() -> None:
    """Entry 4 is at slot 1 only, all others are at slot 0 only, which has lost entry 4."""
    results = read_from({0: set(range(10)) - {4}, 1: {4}, 2: set()}, {0}, 9)

    assert read_ids(results) == list(range(10))


def test_an_entry_that_one_replica_may_have_lost_is_not_said_to_be_nowhere() -> None:
    results = read_from({0: set(), 1: set(), 2: set()}, {1}, 0)

    failed = results[-1]
    assert isinstance(failed, ReadFailed)
    assert isinstance(failed.error, UnknownLedgerStateError)
    assert failed.error.is_retriable


def test_a_lac_stands_only_on_bookies_that_know() -> None:
    read = LacRead(Q332)
    read.answered(0, unknown(0))
    read.answered(1, 5)
    assert not read.is_over

    read.answered(2, 3)

    assert read.is_found
    assert read.lac == 5


def test_too_few_bookies_that_know_the_lac_are_an_error_that_names_the_others() -> None:
    read = LacRead(Q332)
    read.answered(0, unknown(0))
    read.answered(1, unknown(1))

    read.answered(2, 3)

    assert read.error is not None
    assert read.error.is_retriable
    assert "bookie b0 may have lost" in str(read.error)
    assert "bookie b1 may have lost" in str(read.error)


def test_a_bookie_that_does_not_know_a_ledger_has_synced_nothing_of_it() -> None:
    metadata = ledger(Q332, ledger_type=LedgerType.VD_JOURNAL)
    sync = Procedure(OutsideSync(metadata, version=0).run())
    sync.begin()
    assert sync.answer({0: unknown(0), 1: unknown(1), 2: Cursor(1, 7)}) == ReadMetadata()

    with pytest.raises(CannotAdvanceError) as failed:
        sync.answer((metadata, 0))

    assert failed.value.is_retriable


# ------------------------------------------------------------------ recoveries


def wiped(bookies: Bookies, bookie_id: str) -> None:
    """Lose everything of a bookie, which knows that it did."""
    bookie = bookies[bookie_id]
    bookie.entries.clear()
    bookie.lac = -1
    bookie.is_in_limbo = True


def test_a_recovery_keeps_what_the_one_other_replica_holds() -> None:
    """B10: entry 3 was acknowledged by b0 and b1; b0 was wiped, and b2 never had it."""
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2")
    bookies.fill(metadata, 2, lac=1)
    bookies["b1"].entries[3] = encoded(3)
    wiped(bookies, "b0")

    recovery = recovered(metadata, bookies)

    assert recovery.end == (3, length_up_to(3))


def test_a_recovery_without_that_replica_fails_names_the_bookie_and_succeeds_later() -> None:
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2")
    bookies.fill(metadata, 2, lac=1)
    bookies["b1"].entries[3] = encoded(3)
    wiped(bookies, "b0")
    bookies["b1"].is_dead = True

    failed = recovered(metadata, bookies)

    assert isinstance(failed.error, LedgerRecoveryError)
    assert failed.error.is_retriable
    assert "bookie b0 may have lost" in str(failed.error)
    assert "zbk bookie show b0" in str(failed.error)
    bookies["b1"].is_dead = False
    assert recovered(metadata, bookies).end == (3, length_up_to(3))


def test_a_recovery_succeeds_once_the_ledger_is_cleared() -> None:
    """Everybody else has what there is; with one bookie dead it takes the "no" of the third."""
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2")
    bookies.fill(metadata, 2, lac=1)
    wiped(bookies, "b0")
    bookies["b2"].is_dead = True
    assert recovered(metadata, bookies).error is not None

    bookies["b0"].is_in_limbo = False

    assert recovered(metadata, bookies).end == (2, length_up_to(2))


def test_a_recovery_that_is_under_way_goes_on_when_the_re_checks_end() -> None:
    """All three lost power, and what one holds is copied to the others meanwhile."""
    metadata, bookies = ledger(Q332, ledger_type=LedgerType.VD_JOURNAL), Bookies("b0", "b1", "b2")
    bookies.fill(metadata, 2, lac=1)
    for bookie in bookies:
        bookie.is_in_limbo = True
    bookies["b1"].entries[3] = encoded(3)
    recovery = Recovery(metadata, bookies).start()
    while recovery.now_ms < 3_000:
        if recovery.waiting:
            recovery.deliver(recovery.waiting[0])
        else:
            recovery.tick()
    assert not recovery.is_over

    for bookie in bookies:
        bookie.entries[3] = encoded(3)
        bookie.is_in_limbo = False

    assert recovery.run().end == (3, length_up_to(3))


class History(msgspec.Struct, frozen=True):
    """What became of a ledger before its recovery."""

    quorum: Quorum
    holders: list[set[int]]  # slots, by entry
    lost_slots: set[int]
    dead_slots: set[int]
    seed: int

    @property
    def acked(self) -> int:
        """The last entry that was acknowledged, with all before it."""
        for entry_id, slots in enumerate(self.holders):
            if len(slots) < self.quorum.ack_size:
                return entry_id - 1
        return len(self.holders) - 1

    def bookies(self) -> Bookies:
        """Return the bookies as they are when the recovery comes."""
        bookies = Bookies(*(f"b{slot}" for slot in range(self.quorum.ensemble_size)))
        for entry_id, slots in enumerate(self.holders):
            lac = min(entry_id - 1, self.acked)
            for slot in slots:
                bookies[f"b{slot}"].add(entry_id, encoded(entry_id, lac), lac)
        for slot in self.lost_slots:
            wiped(bookies, f"b{slot}")
        for slot in self.dead_slots:
            bookies[f"b{slot}"].is_dead = True
        return bookies


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw who got each entry, who lost what it had, who is dead, and the order of events."""
    quorum = draw(quorums)
    slots = st.integers(0, quorum.ensemble_size - 1)
    members = [sorted(quorum.write_set(entry_id)) for entry_id in range(draw(st.integers(0, 6)))]
    return History(
        quorum,
        [draw(st.sets(st.sampled_from(write_set))) for write_set in members],
        draw(st.sets(slots, max_size=2)),
        draw(st.sets(slots, max_size=1)),
        draw(st.integers(0, 1_000)),
    )


@settings(max_examples=300)
@given(histories())
def test_no_recovery_leaves_out_what_an_ack_quorum_had_whoever_was_wiped(history: History) -> None:
    """B10, I24: what was acknowledged may be unreadable, but the ledger never ends before it."""
    rng = Random(history.seed)
    recovery = Recovery(ledger(history.quorum), history.bookies()).start()
    for _ in range(10_000):
        if recovery.is_over:
            break
        if recovery.choices:
            recovery.choose()
        elif recovery.waiting and rng.random() < 0.9:
            recovery.deliver(rng.choice(recovery.waiting))
        else:
            recovery.tick()

    assert recovery.is_over
    if recovery.closed is not None:
        assert recovery.closed.last_entry_id >= history.acked
    else:
        assert history.lost_slots or history.dead_slots, "nobody else can make it fail"
        assert recovery.error is not None
        assert recovery.error.is_retriable
