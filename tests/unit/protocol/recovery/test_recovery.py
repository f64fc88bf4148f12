"""RecoveryCore: what it reads, what it keeps, and what it closes, bookie by bookie."""

import msgspec
import pytest

from tests.support.recovery_world import (
    LEDGER_ID,
    Bookies,
    Recovery,
    damaged,
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
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
)
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.changes import begin_recovery, close_by_recovery
from zbk.protocol.ledger.metadata import Fragment
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import (
    FenceAnswered,
    ReadAnswered,
    RecoveryLimits,
    SendFence,
    SendRead,
    SendWrite,
    TimeIsOver,
)

Q332 = Quorum(3, 3, 2)
IMPATIENT = RecoveryLimits(attempt_count_max=2)


# ------------------------------------------------------------------ the plain ways


@pytest.mark.parametrize(
    "quorum", [Quorum(1, 1, 1), Q332, Quorum(4, 2, 2), Quorum(5, 3, 2), Quorum(3, 3, 3)], ids=str
)
@pytest.mark.parametrize("lac", [-1, 4, 9])
def test_everything_that_is_there_is_in_the_ledger(quorum: Quorum, lac: int) -> None:
    metadata, bookies = ledger(quorum), Bookies()
    bookies.fill(metadata, 9, lac)

    recovery = recovered(metadata, bookies)

    assert recovery.end == (9, length_up_to(9))


@pytest.mark.parametrize("quorum", [Quorum(1, 1, 1), Q332, Quorum(5, 3, 2)], ids=str)
def test_a_ledger_without_entries_is_closed_empty(quorum: Quorum) -> None:
    recovery = recovered(ledger(quorum), Bookies())

    assert recovery.end == (-1, 0)


def test_a_vd_ledger_is_recovered_in_the_same_way() -> None:
    metadata, bookies = ledger(Q332, ledger_type=LedgerType.VD_JOURNAL), Bookies()
    bookies.fill(metadata, 9, lac=2)

    assert recovered(metadata, bookies).end == (9, length_up_to(9))


@pytest.mark.parametrize("last", [5, 9])
def test_a_recovery_never_ends_below_what_was_reported(last: int) -> None:
    """No bookie was told the LAC yet, and what lies before it cannot be asked for any more."""
    metadata, bookies = ledger(Q332, ledger_type=LedgerType.VD_JOURNAL), Bookies()
    metadata = metadata.recording_reported_lac().with_reported_lac(5)
    bookies.fill(metadata, last, lac=-1)
    for bookie_id in metadata.last_fragment.bookies:
        for entry_id in range(5):
            del bookies[bookie_id].entries[entry_id]

    assert recovered(metadata, bookies).end == (last, length_up_to(last))


def test_entries_that_are_found_are_written_to_every_bookie_of_their_write_set() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies["b1"].entries = {0: encoded(0), 1: encoded(1)}

    recovery = recovered(metadata, bookies)
    for request in list(recovery.waiting):  # what the end did not wait for
        recovery.answer(request)

    assert recovery.end == (1, length_up_to(1))
    for bookie in bookies:
        assert bookie.entries == {0: encoded(0), 1: encoded(1)}, "the same bytes"


def test_entries_of_a_striped_ledger_are_written_where_they_belong() -> None:
    metadata, bookies = ledger(Quorum(4, 2, 2)), Bookies()
    bookies.fill(metadata, 9)

    recovery = recovered(metadata, bookies)

    for request in recovery.sent:
        if isinstance(request, SendWrite):
            slot = int(request.bookie_id[1:])
            assert all(metadata.quorum.holds(slot, e) for e in request.batch.entry_ids)


def test_every_read_goes_to_a_bookie_that_is_fenced_by_it() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 9)

    recovered(metadata, bookies).run()

    assert all(bookie.is_fenced for bookie in bookies)


def test_one_bookie_is_read_from_until_somebody_has_to_say_no() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 999)

    recovery = recovered(metadata, bookies)

    assert recovery.end[0] == 999
    read = [r for r in recovery.sent if isinstance(r, SendRead) and r.entry_ids[0] < 1000]
    assert {r.bookie_id for r in read} == {"b0"}


def test_a_short_answer_is_continued() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 9)

    recovery = Recovery(metadata, bookies, read_count_max=3).start().run()

    assert recovery.end == (9, length_up_to(9))


def test_the_lac_that_is_told_with_the_writes_stays_the_one_of_the_start() -> None:
    """I6: somebody else may close the ledger before the entries that are written back here."""
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 9, lac=4)

    recovery = Recovery(metadata, bookies, RecoveryLimits(batch_count_max=1)).start().run()

    assert {r.lac for r in recovery.sent if isinstance(r, SendWrite)} == {4}


# ------------------------------------------------------------------ fencing


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


# ------------------------------------------------------------------ where it starts


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


# ------------------------------------------------------------------ yes, no, neither


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


# ------------------------------------------------------------------ time and memory


def test_time_that_is_over_ends_a_recovery_in_any_step() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 4, lac=1)
    step_count = len(recovered(metadata, bookies).sent)

    for steps in range(step_count):
        recovery = Recovery(metadata, bookies).start()
        for _ in range(steps):
            if not recovery.is_over:
                recovery.deliver(recovery.waiting[0])
        if not recovery.is_over:
            recovery.handle(TimeIsOver())
            assert isinstance(recovery.error, LedgerRecoveryError)
            assert "time is over" in str(recovery.error)


def test_no_more_is_read_ahead_than_the_window_has_room_for() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 99)
    limits = RecoveryLimits(window_size=10 * len(encoded(10)), window_count=5)
    recovery = Recovery(metadata, bookies, limits).start()
    while reads := [r for r in recovery.waiting if not isinstance(r, SendWrite)]:
        recovery.deliver(reads[0])

    unwritten = {e for r in recovery.waiting if isinstance(r, SendWrite) for e in r.batch.entry_ids}
    assert 10 <= len(unwritten) <= 15, "then it waits for the writes"
    assert recovery.run().end == (99, length_up_to(99))


def test_an_entry_larger_than_the_window_is_recovered_by_itself() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 5)
    limits = RecoveryLimits(window_size=1, batch_size_max=1)

    recovery = recovered(metadata, bookies, limits)

    assert recovery.end == (5, length_up_to(5))


def test_batches_keep_their_limits() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 99)
    limits = RecoveryLimits(batch_size_max=500, batch_count_max=7)

    recovery = recovered(metadata, bookies, limits)

    batches = [r.batch for r in recovery.sent if isinstance(r, SendWrite)]
    assert max(batch.count for batch in batches) == 7
    assert all(batch.size <= 500 for batch in batches)
    for batch in batches:
        batch.validate()
        batch.verify()


# ------------------------------------------------------------------ known bugs, as they happened


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


def test_a_second_recoverer_finds_what_the_first_wrote_to_a_new_bookie() -> None:
    """B12: the new ensemble stays in memory; the second one reads where the entry was."""
    metadata = ledger(Quorum(3, 3, 2))
    bookies = Bookies("b0", "b1", "b2", "b3")
    bookies["b0"].add(0, encoded(0))
    first = Recovery(metadata, bookies).start()
    while not first.choices:
        writes = [r for r in first.waiting if isinstance(r, SendWrite) and r.bookie_id == "b1"]
        first.lose(writes[0]) if writes else first.deliver(first.waiting[0])
    first.choose({1: "b3"})  # and there the first one crashes; b3 is slow
    assert not first.is_over

    second = recovered(metadata, bookies)

    assert second.end == (0, length_up_to(0))
    assert {r.bookie_id for r in second.sent if isinstance(r, SendRead)} <= {"b0", "b1", "b2"}


def test_reads_go_to_the_ensemble_of_the_start_whoever_is_written_to() -> None:
    """B13: a bookie fails at the first write; the further reads still go to the old bookies."""
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2", "b3", "b4")
    bookies.fill(metadata, 29)
    limits = RecoveryLimits(window_count=10)
    recovery = Recovery(metadata, bookies, limits).start()

    recovery.run(is_lost=lambda r: isinstance(r, SendWrite) and r.bookie_id in ("b1", "b2"))

    assert recovery.end == (29, length_up_to(29))
    readers = {r.bookie_id for r in recovery.sent if isinstance(r, SendRead)}
    assert readers <= {"b0", "b1", "b2"}
    assert {"b3", "b4"} <= {r.bookie_id for r in recovery.sent if isinstance(r, SendWrite)}


def test_two_recoverers_that_find_different_ends_agree_on_the_first_one_closed() -> None:
    """I15: entry 0 was never acknowledged; one recoverer sees it, the other one does not."""
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2")
    bookies["b2"].add(0, encoded(0))
    blind = Recovery(metadata, bookies).start()
    while not blind.is_over:
        blind.deliver((blind.waiting_for("b0") or blind.waiting_for("b1"))[0])
    seeing = Recovery(metadata, bookies).start()
    while not seeing.is_over:
        seeing.deliver((seeing.waiting_for("b2") or seeing.waiting)[0])

    assert blind.end == (-1, 0)
    assert seeing.end == (0, length_up_to(0))
    assert blind.closed is not None
    assert seeing.closed is not None
    closed = close_by_recovery(metadata.with_recovery(), blind.closed.fragments, *blind.end)
    assert closed is not None
    assert close_by_recovery(closed, seeing.closed.fragments, *seeing.end) is None
