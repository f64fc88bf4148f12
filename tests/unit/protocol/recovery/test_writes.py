"""The write-back of a recovery: bookies that fail, new ones, and the fragments that follow."""

from tests.support.recovery_world import (
    Bookies,
    Recovery,
    Request,
    encoded,
    ledger,
    length_up_to,
)
from zbk.errors import NotEnoughBookiesError
from zbk.protocol.ledger.changes import close_by_recovery
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import RecoveryLimits, SendWrite

Q332 = Quorum(3, 3, 2)
ONE_BY_ONE = RecoveryLimits(batch_count_max=1)


def reading_done(
    metadata: LedgerMetadata, bookies: Bookies, limits: RecoveryLimits | None = None
) -> Recovery:
    """Return a recovery that has read everything; all its writes are on their way."""
    recovery = Recovery(metadata, bookies, limits).start()
    while others := [r for r in recovery.waiting if not isinstance(r, SendWrite)]:
        recovery.deliver(others[0])
    return recovery


def write(recovery: Recovery, bookie_id: str, first: int) -> Request:
    return next(
        r
        for r in recovery.waiting
        if isinstance(r, SendWrite) and r.bookie_id == bookie_id and r.batch.first_entry_id == first
    )


def close_of(recovery: Recovery, metadata: LedgerMetadata) -> LedgerMetadata:
    assert recovery.closed is not None
    closed = close_by_recovery(metadata.with_recovery(), recovery.closed.fragments, *recovery.end)
    assert closed is not None
    return closed


def test_a_ledger_is_closed_when_an_ack_quorum_has_every_entry() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 1)
    recovery = reading_done(metadata, bookies)

    recovery.deliver(write(recovery, "b0", 0))
    assert not recovery.is_over

    recovery.deliver(write(recovery, "b1", 0))
    assert recovery.end == (1, length_up_to(1))


def test_a_failed_bookie_is_replaced_from_the_first_entry_that_is_not_done() -> None:
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2", "b3")
    bookies.fill(metadata, 4)
    recovery = reading_done(metadata, bookies, ONE_BY_ONE)
    for entry_id in (0, 1):
        for name in ("b0", "b1"):
            recovery.deliver(write(recovery, name, entry_id))

    recovery.lose(write(recovery, "b1", 2))
    assert [c.failed_slots for c in recovery.choices] == [(1,)]
    recovery.choose()

    assert [
        r.batch.first_entry_id for r in recovery.waiting_for("b3") if isinstance(r, SendWrite)
    ] == [2, 3, 4], "what is not done is sent to the new bookie"
    recovery.run()
    assert close_of(recovery, metadata).fragments == (
        Fragment(0, ("b0", "b1", "b2")),
        Fragment(2, ("b0", "b3", "b2")),
    )


def test_a_bookie_that_fails_at_the_first_entry_is_replaced_in_the_last_fragment() -> None:
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2", "b3")
    bookies.fill(metadata, 4)
    recovery = reading_done(metadata, bookies)

    recovery.lose(write(recovery, "b1", 0))
    recovery.run()

    assert close_of(recovery, metadata).fragments == (Fragment(0, ("b0", "b3", "b2")),)


def test_an_ack_of_a_bookie_that_was_replaced_counts_no_more() -> None:
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2", "b3", "b4")
    bookies.fill(metadata, 1)
    recovery = reading_done(metadata, bookies, ONE_BY_ONE)
    recovery.deliver(write(recovery, "b1", 1))
    late = write(recovery, "b1", 0)

    recovery.lose(write(recovery, "b0", 0))
    recovery.choose()
    recovery.lose(late)
    recovery.choose()
    recovery.deliver(write(recovery, "b2", 0))
    recovery.deliver(write(recovery, "b2", 1))

    assert not recovery.is_over, "only b2 has entry 1 of those that the metadata will name"
    recovery.run()
    assert close_of(recovery, metadata).fragments == (Fragment(0, ("b3", "b4", "b2")),)


def test_several_bookies_that_fail_at_once_are_replaced_together() -> None:
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2", "b3", "b4")
    bookies.fill(metadata, 0)
    recovery = reading_done(metadata, bookies)

    recovery.lose(write(recovery, "b1", 0))
    recovery.lose(write(recovery, "b2", 0))
    assert len(recovery.choices) == 1, "one choice at a time"
    recovery.choose()
    assert [c.failed_slots for c in recovery.choices] == [(2,)]
    recovery.choose()
    recovery.run()

    assert close_of(recovery, metadata).fragments == (Fragment(0, ("b0", "b3", "b4")),)


def test_a_replacement_that_fails_is_replaced_and_not_taken_again() -> None:
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2", "b3", "b4")
    bookies.fill(metadata, 0)
    recovery = reading_done(metadata, bookies)

    recovery.lose(write(recovery, "b1", 0))
    recovery.choose()
    recovery.lose(write(recovery, "b3", 0))
    assert recovery.choices[0].exclude == {"b1", "b3"}
    recovery.run()

    assert close_of(recovery, metadata).fragments == (Fragment(0, ("b0", "b4", "b2")),)


def test_without_a_replacement_the_recovery_goes_on_with_an_ack_quorum() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 4)
    recovery = reading_done(metadata, bookies, ONE_BY_ONE)

    recovery.lose(write(recovery, "b1", 0))
    recovery.choose({})
    recovery.run()

    assert close_of(recovery, metadata).fragments == metadata.fragments
    assert recovery.end == (4, length_up_to(4))


def test_without_an_ack_quorum_the_recovery_fails_and_may_be_tried_again() -> None:
    metadata, bookies = ledger(Q332), Bookies()
    bookies.fill(metadata, 4)
    recovery = reading_done(metadata, bookies)

    recovery.lose(write(recovery, "b1", 0))
    recovery.choose({})
    recovery.lose(write(recovery, "b2", 0))
    assert not recovery.is_over, "there may be a bookie now"
    recovery.choose({})

    assert isinstance(recovery.error, NotEnoughBookiesError)
    assert recovery.error.is_retriable
    assert Recovery(metadata, bookies).start().run().end == (4, length_up_to(4))


def test_the_number_of_replacements_is_bounded() -> None:
    metadata = ledger(Quorum(1, 1, 1))
    bookies = Bookies(*(f"b{i}" for i in range(20)))
    bookies.fill(metadata, 0)
    recovery = reading_done(metadata, bookies, RecoveryLimits(change_count_max=3))

    recovery.run(is_lost=lambda r: isinstance(r, SendWrite))

    assert isinstance(recovery.error, NotEnoughBookiesError)
    assert len({r.bookie_id for r in recovery.sent if isinstance(r, SendWrite)}) == 4


def test_a_failure_after_an_ack_quorum_has_everything_changes_nothing() -> None:
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2", "b3")
    bookies.fill(metadata, 0)
    recovery = reading_done(metadata, bookies)
    recovery.deliver(write(recovery, "b0", 0))
    recovery.deliver(write(recovery, "b1", 0))

    recovery.lose(write(recovery, "b2", 0))

    assert recovery.choices == []
    assert close_of(recovery, metadata).fragments == metadata.fragments


def test_a_fragment_that_would_begin_behind_the_end_is_dropped() -> None:
    """B21: the failed bookie's choice comes when everything is written already."""
    metadata, bookies = ledger(Q332), Bookies("b0", "b1", "b2", "b3")
    bookies.fill(metadata, 9)
    limits = RecoveryLimits(window_count=5)
    recovery = Recovery(metadata, bookies, limits).start()
    while not recovery.choices:
        writes = recovery.waiting_for("b2", SendWrite)
        if writes:
            recovery.lose(writes[0])
        else:
            recovery.deliver(recovery.waiting[0])
    while not recovery.is_over:
        recovery.deliver(recovery.waiting[0])

    assert close_of(recovery, metadata).fragments == metadata.fragments


def test_a_striped_ledger_resends_only_what_a_slot_holds() -> None:
    metadata = ledger(Quorum(4, 2, 2))
    bookies = Bookies("b0", "b1", "b2", "b3", "b4")
    bookies.fill(metadata, 7)
    recovery = reading_done(metadata, bookies)

    recovery.run(is_lost=lambda r: isinstance(r, SendWrite) and r.bookie_id == "b1")

    assert close_of(recovery, metadata).fragments == (Fragment(0, ("b0", "b4", "b2", "b3")),)
    assert set(bookies["b4"].entries) == {0, 1, 4, 5}
    assert bookies["b4"].entries[5] == encoded(5)
