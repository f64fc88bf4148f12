"""RecoveryCore: where it starts to read, and how it learns the length of what lies before."""

import msgspec
import pytest

from tests.support.recovery_world import (
    IMPATIENT,
    Q332,
    Bookies,
    Recovery,
    failure,
    ledger,
    length_up_to,
    recovered,
)
from zbk.errors import BookieUnavailableError, LedgerRecoveryError
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.changes import begin_recovery, close_by_recovery
from zbk.protocol.ledger.metadata import Fragment
from zbk.protocol.recovery.events import SendRead


def test_a_recovery_starts_at_the_last_fragment_at_least() -> None:
    """B2: the last ensemble knows nothing yet; no fragment below its start is ever made."""
    metadata = ledger(Q332, Fragment(0, ("b0", "b1", "b2")), Fragment(3, ("b0", "b1", "b3")))
    bookies = Bookies("b4")
    bookies.fill(metadata, 2, lac=-1)
    bookies["b3"].is_dead = True

    recovery = recovered(metadata, bookies)

    assert recovery.end == (2, length_up_to(2))
    assert recovery.closed is not None
    assert recovery.closed.fragments == ()
    reads = [r for r in recovery.sent if isinstance(r, SendRead) and r.entry_ids[0] < 2]
    assert reads == [], "entries before the last fragment are not looked for"


def test_the_length_is_read_from_the_last_entry_not_told_with_a_lac() -> None:
    """B45: nothing was found in the last fragment; entry 2 lies in the one before."""
    metadata = ledger(Q332, Fragment(0, ("a0", "a1", "a2")), Fragment(3, ("b0", "b1", "b2")))
    bookies = Bookies()
    bookies.fill(metadata, 2)
    bookies["a0"].is_dead = True
    bookies["a1"].entries[2] = None

    recovery = recovered(metadata, bookies)

    assert recovery.end == (2, length_up_to(2))


def test_a_ledger_whose_length_cannot_be_known_is_not_closed() -> None:
    """B45: never a wrong length."""
    metadata = ledger(Q332, Fragment(0, ("a0", "a1", "a2")), Fragment(3, ("b0", "b1", "b2")))
    bookies = Bookies()
    bookies.fill(metadata, 2)
    for name in ("a0", "a1", "a2"):
        bookies[name].is_dead = True

    recovery = recovered(metadata, bookies)

    assert isinstance(recovery.error, LedgerRecoveryError)
    assert "has its length" in str(recovery.error)


@pytest.mark.parametrize("ledger_type", LedgerType)
def test_an_empty_last_fragment_needs_no_bookie_of_the_one_before(ledger_type: LedgerType) -> None:
    """B45: its writer has noted the length with the fragment."""
    fragment = Fragment(0, ("a0", "a1", "a2"))
    metadata = ledger(Q332, fragment, ledger_type=ledger_type).with_new_fragment(
        3, ("b0", "b1", "b2"), length_up_to(2)
    )
    bookies = Bookies()
    bookies.fill(metadata, 2)
    for name in fragment.bookies:
        bookies[name].is_dead = True

    recovery = recovered(metadata, bookies)

    assert recovery.end == (2, length_up_to(2))
    assert recovery.closed is not None
    current = begin_recovery(metadata)
    assert current is not None
    closed = close_by_recovery(current, recovery.closed.fragments, *recovery.end)
    assert closed is not None
    assert closed.length_before is msgspec.UNSET


def test_the_length_before_a_fragment_is_not_that_of_its_entries() -> None:
    """The LAC lies in the last fragment: its last entry is read, as ever."""
    first = ledger(Q332, Fragment(0, ("a0", "a1", "a2")))
    metadata = first.with_new_fragment(3, ("b0", "b1", "b2"), length_up_to(2))
    bookies = Bookies()
    bookies.fill(metadata, 5, lac=5)

    assert recovered(metadata, bookies).end == (5, length_up_to(5))


def test_the_last_entry_is_read_again_when_its_bookies_come_back() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 2, lac=2)
    recovery = Recovery(metadata, bookies).start()
    while not any(isinstance(r, SendRead) and r.entry_ids[0] == 2 for r in recovery.waiting):
        recovery.deliver(recovery.waiting[0])
    for _ in range(3):
        recovery.lose(
            next(
                r
                for r in recovery.waiting
                if isinstance(r, SendRead) and r.entry_ids == range(2, 3)
            )
        )

    assert recovery.run().end == (2, length_up_to(2))


def test_the_last_entry_is_read_again_after_a_rest_and_late_news_count_for_nothing() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 2, lac=2)
    recovery = Recovery(metadata, bookies).start()

    def reads() -> list[SendRead]:
        return [r for r in recovery.waiting if isinstance(r, SendRead) and 2 in r.entry_ids]

    while not reads():
        recovery.deliver(recovery.waiting[0])
    lost = []
    while reads():
        lost += reads()
        recovery.lose(lost[-1])
    assert [r.bookie_id for r in lost] == ["b0", "b1", "b2"]

    recovery.tick(99)
    assert reads() == []
    recovery.tick(1)
    assert [r.bookie_id for r in reads()] == ["b0"]

    for request in lost:
        assert recovery.handle(recovery.answer(request)) == []
        late = BookieUnavailableError(request.bookie_id, "connection lost")
        assert recovery.handle(failure(request, late)) == []
    assert recovery.run().end == (2, length_up_to(2))


@pytest.mark.parametrize("digest_type", [DigestType.XXH3, DigestType.NONE])
def test_bookies_check_the_last_entry_where_its_reader_cannot(digest_type: DigestType) -> None:
    metadata = msgspec.structs.replace(ledger(Q332), digest_type=digest_type)
    bookies = Bookies()
    bookies.fill(metadata, 2, lac=2)
    recovery = Recovery(metadata, bookies, IMPATIENT).start().run()

    reads = [r for r in recovery.sent if isinstance(r, SendRead) and r.entry_ids == range(2, 3)]

    assert reads
    assert all(read.is_checked is (digest_type is DigestType.NONE) for read in reads)


def test_a_lac_without_its_entry_never_closes_a_ledger() -> None:
    """A bookie tells a LAC that is too high: the entry there is missing, so nothing is closed."""
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 2, lac=1)
    bookies["b0"].lac = 1_000

    recovery = recovered(metadata, bookies)

    assert isinstance(recovery.error, LedgerRecoveryError)
