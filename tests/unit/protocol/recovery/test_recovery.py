"""RecoveryCore: what it keeps and closes, how much it reads ahead, and bugs as they happened.

Fences, the start and the length, and the evidence for each entry are in ``test_recovery_fencing``,
``test_recovery_start_and_length`` and ``test_recovery_evidence``.
"""

import pytest

from tests.support.recovery_world import (
    Q332,
    Bookies,
    Recovery,
    encoded,
    ledger,
    length_up_to,
    recovered,
)
from zbk.errors import LedgerRecoveryError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.changes import close_by_recovery
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import RecoveryLimits, SendRead, SendWrite, TimeIsOver

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
