"""RecoveryCore: which bookies it fences, and what it takes for an answer to that."""

import pytest

from tests.support.recovery_world import (
    IMPATIENT,
    LEDGER_ID,
    Q332,
    Bookies,
    Recovery,
    encoded,
    failure,
    ledger,
    length_up_to,
    recovered,
)
from zbk.errors import (
    BookieUnavailableError,
    DigestMismatchError,
    LedgerFencedError,
    LedgerRecoveryError,
    NoSuchLedgerError,
    UnauthorizedError,
)
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import FenceAnswered, ReadAnswered, SendFence, SendRead


def test_a_writer_can_complete_nothing_once_enough_bookies_are_fenced() -> None:
    """B15: an add that was delayed fails after the recovery, on every bookie that counts."""
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 4, lac=3)
    bookies["b2"].is_dead = True
    recovery = recovered(metadata, bookies)
    bookies["b2"].is_dead = False

    acks = 0
    for bookie in bookies:
        try:
            bookie.add(5, encoded(5))
            acks += 1
        except LedgerFencedError:
            pass

    assert recovery.end[0] == 4
    assert acks < metadata.ack_quorum_size


def test_nothing_is_read_before_the_fenced_bookies_cover_the_ensemble() -> None:
    recovery = Recovery(ledger(Q332), Bookies()).start()

    recovery.deliver(recovery.waiting[0])
    assert all(isinstance(request, SendFence) for request in recovery.sent)

    recovery.deliver(recovery.waiting[0])
    assert any(isinstance(request, SendRead) for request in recovery.sent)


def test_a_bookie_that_fails_is_fenced_again_after_a_rest() -> None:
    recovery = Recovery(ledger(Q332), Bookies()).start()
    for request in list(recovery.waiting):
        recovery.lose(request)
    assert not recovery.waiting

    recovery.tick(99)
    assert not recovery.waiting
    recovery.tick(1)
    assert [r.bookie_id for r in recovery.waiting] == ["b0", "b1", "b2"]
    assert recovery.run().end == (-1, 0)


def test_bookies_that_never_answer_end_the_recovery_at_last() -> None:
    bookies = Bookies("b0", "b1", "b2")
    bookies["b0"].is_dead = bookies["b1"].is_dead = True

    recovery = recovered(ledger(Q332), bookies)

    assert isinstance(recovery.error, LedgerRecoveryError)
    assert recovery.error.is_retriable
    assert "1 of 3 bookies are fenced" in str(recovery.error)
    assert len([r for r in recovery.sent if r.bookie_id == "b0"]) == 8


def test_a_wrong_key_ends_the_recovery_at_once() -> None:
    recovery = Recovery(ledger(Q332), Bookies()).start()

    recovery.handle(FenceAnswered(1, UnauthorizedError(LEDGER_ID)))

    assert isinstance(recovery.error, UnauthorizedError)


def test_a_wrong_key_that_shows_at_a_read_ends_the_recovery_too() -> None:
    recovery = Recovery(ledger(Quorum(1, 1, 1)), Bookies()).start()
    recovery.deliver(recovery.waiting[0])

    recovery.handle(ReadAnswered(0, UnauthorizedError(LEDGER_ID)))

    assert isinstance(recovery.error, UnauthorizedError)


def test_who_says_that_it_has_no_such_ledger_has_fenced_nothing() -> None:
    """B6: a bookie that lost its disk is no knowledge."""
    recovery = Recovery(ledger(Q332), Bookies()).start()
    recovery.handle(FenceAnswered(0, NoSuchLedgerError(LEDGER_ID)))
    recovery.handle(FenceAnswered(1, NoSuchLedgerError(LEDGER_ID)))

    assert isinstance(recovery.error, LedgerRecoveryError)


def test_who_says_no_such_ledger_to_a_read_says_no_to_no_entry() -> None:
    """B6: the negatives come from bookies that are fenced."""
    recovery = Recovery(ledger(Q332), Bookies(), IMPATIENT).start()
    while not recovery.is_over:
        request = recovery.waiting[0]
        if isinstance(request, SendRead) and request.bookie_id != "b2":
            recovery.waiting.remove(request)
            recovery.handle(failure(request, NoSuchLedgerError(LEDGER_ID)))
        else:
            recovery.deliver(request)

    assert isinstance(recovery.error, LedgerRecoveryError)


def test_a_lac_answer_that_fails_its_check_is_no_answer() -> None:
    """B11: the only bookie that knows entry 0 sends garbage; it does not count as heard."""
    bookies = Bookies()
    bookies["b0"].add(0, encoded(0))
    recovery = Recovery(ledger(Quorum(3, 3, 1)), bookies).start()
    recovery.waiting.clear()

    recovery.handle(FenceAnswered(0, DigestMismatchError(LEDGER_ID, -1)))
    for slot in (1, 2):
        recovery.handle(FenceAnswered(slot, BookieUnavailableError(f"b{slot}", "not there")))
    assert not any(isinstance(request, SendRead) for request in recovery.sent)

    recovery.tick()
    assert recovery.run().end[0] == 0


def test_one_bookie_of_two_is_enough_when_both_had_to_acknowledge() -> None:
    """B7: 2/2/2 with a dead bookie is not stuck in the LAC read."""
    metadata, bookies = ledger(Quorum(2, 2, 2)), Bookies("b0", "b1", "b2")
    bookies.fill(metadata, 3, lac=2)
    bookies["b1"].is_dead = True

    recovery = recovered(metadata, bookies)

    assert recovery.end == (3, length_up_to(3))


def test_a_straggler_is_still_sent_the_fence() -> None:
    recovery = Recovery(ledger(Q332), Bookies()).start()
    recovery.deliver(recovery.waiting[0])
    recovery.deliver(recovery.waiting[0])
    straggler = recovery.waiting_for("b2", SendFence)[0]

    recovery.bookies["b2"].lac = 7
    recovery.deliver(straggler)

    assert recovery.bookies["b2"].is_fenced
    assert recovery.core.lac == -1, "its LAC comes too late: the reading has begun"


def test_a_recovery_read_fences_the_bookie_that_the_fence_missed() -> None:
    """B1: the writer's add comes after that bookie said that it has no such entry."""
    bookies = Bookies("b0", "b1", "b2")
    recovery = Recovery(ledger(Q332), bookies).start()
    entry = encoded(0)

    recovery.deliver(recovery.waiting_for("b0")[0])  # the add to b0 was lost
    bookies["b1"].add(0, entry)
    ack_count = 1
    recovery.deliver(recovery.waiting_for("b1")[0])
    recovery.lose(recovery.waiting_for("b2", SendFence)[0])
    assert not bookies["b2"].is_fenced
    while not recovery.is_over:
        # b1 is slow: b0 and b2 decide
        waiting = recovery.waiting_for("b0") or recovery.waiting_for("b2")
        recovery.deliver(waiting[0])
    assert recovery.end == (-1, 0)

    with pytest.raises(LedgerFencedError):
        bookies["b2"].add(0, entry)
    assert ack_count < 2, "never acknowledged and not readable"
