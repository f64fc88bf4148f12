"""RecoveryCore: which answers say that an entry is there, that it is not, or neither."""

import pytest

from tests.support.recovery_world import (
    LEDGER_ID,
    Q332,
    Bookies,
    Recovery,
    damaged,
    encoded,
    ledger,
    length_up_to,
    recovered,
)
from zbk.errors import LedgerRecoveryError, NoSuchEntryError
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import ReadAnswered, RecoveryLimits, SendFence, SendRead


def test_an_entry_that_one_bookie_has_is_kept() -> None:
    """T3: one positive is enough."""
    metadata, bookies = ledger(Q332), Bookies()
    bookies["b2"].entries[0] = encoded(0)

    recovery = Recovery(metadata, bookies).start()
    while not recovery.is_over:
        waiting = recovery.waiting_for("b2") or recovery.waiting
        recovery.deliver(waiting[0])

    assert recovery.end[0] == 0


@pytest.mark.parametrize("quorum", [Quorum(3, 3, 1), Q332, Quorum(3, 3, 3), Quorum(5, 4, 2)])
def test_an_entry_is_left_out_at_enough_negatives_and_not_before(quorum: Quorum) -> None:
    """T3: Qw - Qa + 1 explicit negatives."""
    recovery = Recovery(ledger(quorum), Bookies()).start()
    negative_count = 0
    while not recovery.is_over:
        request = recovery.waiting[0]
        negative_count += isinstance(request, SendRead) and request.entry_ids[0] == 0
        recovery.deliver(request)

    assert recovery.end == (-1, 0)
    assert negative_count == quorum.write_size - quorum.ack_size + 1


def recovered_after_denials(denied_id: int, *, last_entry_id: int) -> Recovery:
    """Recover a whole ledger, ten entries at a time; two bookies first deny the same entry."""
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, last_entry_id)
    recovery = Recovery(metadata, bookies, RecoveryLimits(window_count=10)).start()
    deniers = {"b0", "b1"}
    while not recovery.is_over:
        if not recovery.waiting:
            recovery.tick()
            continue
        request = recovery.waiting[0]
        if isinstance(request, SendRead) and request.bookie_id in deniers:
            deniers.discard(request.bookie_id)
            recovery.waiting.remove(request)
            error = NoSuchEntryError(LEDGER_ID, denied_id)
            recovery.handle(ReadAnswered(request.read_id, error))
        else:
            recovery.deliver(request)
    assert not deniers
    return recovery


def test_a_denial_counts_for_the_entry_that_it_names_and_not_for_the_first_one_asked_for() -> None:
    assert recovered_after_denials(5, last_entry_id=4).end == (4, length_up_to(4))


def test_a_denial_of_an_entry_that_was_not_asked_for_is_no_denial() -> None:
    """Two negatives of entry 12 would end the ledger there, though every bookie has it.

    Who answers so is asked no more, and too few are left to tell where the ledger ends.
    """
    recovery = recovered_after_denials(12, last_entry_id=25)

    assert isinstance(recovery.error, LedgerRecoveryError)
    assert "entry 26 cannot be read" in str(recovery.error)


def test_damage_at_one_bookie_is_made_good_by_another() -> None:
    """B3: a record header is damaged in one log; the other copy keeps the ledger whole."""
    metadata, bookies = ledger(Quorum(2, 2, 2)), Bookies()
    bookies.fill(metadata, 4, lac=1)
    bookies["b0"].entries[3] = None

    assert recovered(metadata, bookies).end == (4, length_up_to(4))


def test_an_entry_that_nobody_can_read_is_never_left_out() -> None:
    """B3: with both copies damaged the recovery fails; it never closes short."""
    metadata, bookies = ledger(Quorum(2, 2, 2)), Bookies()
    bookies.fill(metadata, 4, lac=1)
    bookies["b0"].entries[3] = bookies["b1"].entries[3] = None

    recovery = recovered(metadata, bookies)

    assert isinstance(recovery.error, LedgerRecoveryError)
    assert "entry 3 cannot be read" in str(recovery.error)


def test_bytes_behind_all_the_entries_that_were_asked_for_are_ignored() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 9, lac=3)
    recovery = Recovery(metadata, bookies, RecoveryLimits(window_count=4)).start()
    odd_count = 0
    while not recovery.is_over:
        request = recovery.waiting.pop(0)
        event = recovery.answer(request)
        if isinstance(event, ReadAnswered) and isinstance(event.body, bytes):
            odd_count += 1
            event = ReadAnswered(event.read_id, event.body + b"what nobody asked for")
        recovery.handle(event)

    assert odd_count > 1
    assert recovery.end == (9, length_up_to(9))


def test_an_entry_with_a_wrong_digest_is_neither_yes_nor_no() -> None:
    """B3: damage that only the digest shows."""
    metadata, bookies = ledger(Quorum(2, 2, 2)), Bookies()
    bookies.fill(metadata, 4, lac=1)
    bookies["b0"].entries[3] = damaged(encoded(3))
    bookies["b1"].entries[3] = damaged(encoded(3))

    recovery = recovered(metadata, bookies)

    assert isinstance(recovery.error, LedgerRecoveryError)


def test_limbo_is_neither_yes_nor_no() -> None:
    """B10: a bookie that may have lost entries does not say that it never had them."""
    metadata, bookies = ledger(Quorum(2, 2, 2)), Bookies("b0", "b1")
    bookies["b0"].is_in_limbo = True
    bookies["b1"].is_in_limbo = True

    recovery = recovered(metadata, bookies)

    assert isinstance(recovery.error, LedgerRecoveryError)
    assert "may have lost parts" in str(recovery.error)


def test_a_bookie_that_is_there_again_is_asked_again() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 4, lac=1)
    bookies["b0"].entries.clear()
    recovery = Recovery(metadata, bookies).start()
    losses = 5

    while not recovery.is_over:
        if not recovery.waiting:
            recovery.tick()
            continue
        request = recovery.waiting[0]
        if isinstance(request, SendRead) and request.bookie_id != "b0" and losses:
            losses -= 1
            recovery.lose(request)
        else:
            recovery.deliver(request)

    assert recovery.end == (4, length_up_to(4))


def test_the_others_are_asked_when_the_one_that_was_asked_is_silent() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 4, lac=1)
    recovery = Recovery(metadata, bookies).start()
    for name in ("b0", "b1", "b2"):
        recovery.deliver(recovery.waiting_for(name, SendFence)[0])
    silent = recovery.waiting_for("b0", SendRead)[0]

    recovery.tick(499)
    assert recovery.waiting == [silent]
    recovery.tick(1)

    while not recovery.is_over:
        recovery.deliver(next(r for r in recovery.waiting if r is not silent))
    assert recovery.end == (4, length_up_to(4))


def test_what_was_read_ahead_beyond_the_end_is_dropped() -> None:
    """Entry 4 is there although 2 is not: the ledger ends at 1."""
    metadata, bookies = ledger(Quorum(3, 2, 2)), Bookies()
    bookies.fill(metadata, 4, lac=0)
    for bookie in bookies:
        bookie.entries.pop(2, None)

    assert recovered(metadata, bookies).end == (1, length_up_to(1))


def test_an_answer_of_garbage_is_damage() -> None:
    metadata, bookies = ledger(Quorum(2, 2, 2)), Bookies()
    bookies.fill(metadata, 0, lac=-1)
    bookies["b0"].entries[0] = b"garbage" * 20

    assert recovered(metadata, bookies).end == (0, length_up_to(0))
