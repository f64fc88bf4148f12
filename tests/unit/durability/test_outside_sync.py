"""OutsideSync: which bookies count as heard, and when all are asked once more."""

import pytest

from tests.support.recovery_world import ledger
from zbk.durability.outside_sync import (
    ROUND_COUNT_MAX,
    AskSync,
    Effect,
    LacTold,
    MetadataNotRead,
    MetadataRead,
    OutsideSync,
    OutsideSyncDone,
    OutsideSyncFailed,
    ReadMetadata,
    SlotNotSynced,
    SlotSynced,
    SyncStarted,
    TellLac,
)
from zbk.errors import (
    BookieUnavailableError,
    CannotAdvanceError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    ZbkError,
)
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum

Q332 = Quorum(3, 3, 2)
GONE = BookieUnavailableError("b", "not there")


def open_ledger(quorum: Quorum = Q332, *fragments: Fragment) -> LedgerMetadata:
    return ledger(quorum, *fragments, ledger_type=LedgerType.VD_JOURNAL)


def started(metadata: LedgerMetadata | None = None) -> OutsideSync:
    sync = OutsideSync(metadata or open_ledger(), version=4)
    assert sync.handle(SyncStarted(), 0) == [AskSync(-1)]
    return sync


def answer(
    sync: OutsideSync,
    *cursors: int | ZbkError,
    incarnation: int = 1,
    now: tuple[LedgerMetadata, int] = (open_ledger(), 4),
) -> list[Effect]:
    """Answer a round; ``now`` is what the metadata store says if it is asked."""
    effects: list[Effect] = []
    for slot, cursor in enumerate(cursors):
        event = (
            SlotSynced(slot, incarnation, cursor)
            if isinstance(cursor, int)
            else SlotNotSynced(slot, cursor)
        )
        effects += sync.handle(event, 0)
    if effects == [ReadMetadata()]:
        return sync.handle(MetadataRead(*now), 0)
    return effects


def tell(sync: OutsideSync, count: int = 3) -> list[Effect]:
    return [effect for slot in range(count) for effect in sync.handle(LacTold(slot), 0)]


def test_the_lac_that_rests_is_the_answer() -> None:
    sync = started()

    assert answer(sync, 4, 5, 6) == [TellLac(5)]
    assert tell(sync) == [AskSync(5)]
    assert answer(sync, 5, 5, 6) == [OutsideSyncDone(5)]


def test_what_lies_before_the_last_fragment_is_durable_whatever_its_bookies_know() -> None:
    fragments = (Fragment(0, ("b0", "b1", "b2")), Fragment(42, ("b0", "b1", "b3")))
    sync = OutsideSync(open_ledger(Quorum(3, 3, 3), *fragments), version=4)
    assert sync.handle(SyncStarted(), 0) == [AskSync(41)]

    assert answer(sync, 41, 41, NoSuchLedgerError(7)) == [OutsideSyncDone(41)]


def test_a_cursor_that_was_lifted_over_a_hole_lifts_the_lac_again() -> None:
    sync = started()
    answer(sync, 2, 4, 9)
    tell(sync)

    assert answer(sync, 9, 4, 9) == [TellLac(9)]
    assert tell(sync) == [AskSync(9)]
    assert answer(sync, 9, 9, 9) == [OutsideSyncDone(9)]


def test_a_ledger_that_nobody_has_synced_is_durable_up_to_nothing() -> None:
    assert answer(started(), -1, -1, -1) == [OutsideSyncDone(-1)]


def test_who_has_no_such_ledger_is_heard() -> None:
    missing = NoSuchLedgerError(7)

    assert answer(started(), missing, missing, missing) == [OutsideSyncDone(-1)]


@pytest.mark.parametrize(
    ("quorum", "failure_count_max"), [(Q332, 1), (Quorum(3, 3, 1), 2), (Quorum(3, 3, 3), 0)]
)
def test_an_ack_quorum_has_to_be_heard(quorum: Quorum, failure_count_max: int) -> None:
    for count in range(4):
        effects = answer(started(open_ledger(quorum)), *[GONE] * count, *[-1] * (3 - count))

        is_done = effects == [OutsideSyncDone(-1)]
        assert is_done == (count <= failure_count_max)


def test_a_failure_says_who_did_not_answer() -> None:
    [failed] = answer(started(), 4, GONE, GONE)

    assert isinstance(failed, OutsideSyncFailed)
    assert isinstance(failed.error, CannotAdvanceError)
    assert failed.error.last_durable_id == -1
    assert "slot 1: bookie b: not there; slot 2" in str(failed.error)
    assert "too few bookies answer to know how far it is durable: slot 1" in str(failed.error)


def test_a_failure_in_a_later_round_names_what_is_durable() -> None:
    sync = started()
    answer(sync, 4, 5, 6)
    tell(sync)

    [failed] = answer(sync, 5, GONE, GONE)

    assert isinstance(failed, OutsideSyncFailed)
    assert isinstance(failed.error, CannotAdvanceError)
    assert failed.error.last_durable_id == 5
    assert "how far it is durable beyond entry 5: slot 1" in str(failed.error)


def test_who_failed_in_one_round_may_be_heard_in_the_next() -> None:
    sync = started()
    answer(sync, 4, 5, GONE)
    tell(sync)

    assert answer(sync, 4, 5, 6) == [TellLac(5)]


def test_a_restarted_bookie_counts_with_its_new_cursor() -> None:
    """T6: the value of an earlier life is void."""
    sync = started()
    answer(sync, 9, 5, 5)
    tell(sync)

    assert answer(sync, 1, 5, 5, incarnation=2) == [OutsideSyncDone(5)]


def test_a_writer_that_goes_on_does_not_keep_the_sync_for_ever() -> None:
    sync = started()
    effects: list[Effect] = []
    asked_count = 1
    while not any(isinstance(effect, OutsideSyncDone) for effect in effects):
        assert answer(sync, *[asked_count] * 3) == [TellLac(asked_count)]
        effects = tell(sync)
        asked_count += AskSync(asked_count) in effects

    assert asked_count == ROUND_COUNT_MAX
    assert effects == [OutsideSyncDone(ROUND_COUNT_MAX)]


MOVED = open_ledger(Q332, Fragment(0, ("b0", "b1", "b2")), Fragment(4, ("b0", "b3", "b4")))


def test_cursors_of_bookies_that_were_replaced_meanwhile_do_not_count() -> None:
    """B1 left after entry 3, and copied 4 .. 7 for itself: no recovery asks it for them."""
    sync = started()

    assert answer(sync, 7, 7, 3, now=(MOVED, 5)) == [AskSync(3)]
    assert sync.bookies == ("b0", "b3", "b4")
    assert answer(sync, 7, 3, 3) == [OutsideSyncDone(3)]


def test_the_bookies_of_the_new_ensemble_make_it_durable() -> None:
    sync = started()
    answer(sync, 7, 7, 3, now=(MOVED, 5))

    assert answer(sync, 7, 7, 3, now=(MOVED, 5)) == [TellLac(7)]
    tell(sync)
    assert answer(sync, 7, 7, 7) == [OutsideSyncDone(7)]


def test_a_sync_that_hears_too_few_asks_the_bookies_that_took_their_places() -> None:
    sync = started()

    assert answer(sync, 3, GONE, GONE, now=(MOVED, 5)) == [AskSync(3)]
    assert answer(sync, 3, 3, 3) == [OutsideSyncDone(3)]


def test_a_bookie_that_left_and_came_back_is_asked_again() -> None:
    sync = started()

    assert answer(sync, 7, 7, 3, now=(open_ledger(), 6)) == [AskSync(-1)]


def test_a_ledger_that_was_closed_meanwhile_is_durable_to_its_end() -> None:
    closed = open_ledger().with_recovery().with_closed(5, 60)

    assert answer(started(), 7, 7, 3, now=(closed, 6)) == [OutsideSyncDone(5)]


def test_metadata_that_cannot_be_read_end_the_sync() -> None:
    sync = started()
    effects = [effect for slot in range(3) for effect in sync.handle(SlotSynced(slot, 1, 7), 0)]
    assert effects == [ReadMetadata()]

    error = MetadataUnavailableError("zk://b", "did not answer")
    assert sync.handle(MetadataNotRead(error), 0) == [OutsideSyncFailed(error)]


def test_a_ledger_whose_metadata_change_all_the_time_does_not_keep_the_sync_for_ever() -> None:
    sync = started()
    version = 4
    effects: list[Effect] = [AskSync(-1)]
    while effects == [AskSync(-1)]:
        version += 1
        effects = answer(sync, 7, 7, 7, now=(open_ledger(), version))

    [failed] = effects
    assert version == 4 + ROUND_COUNT_MAX
    assert isinstance(failed, OutsideSyncFailed)
    assert isinstance(failed.error, CannotAdvanceError)
    assert failed.error.last_durable_id == -1
    assert "the metadata changed in 16 rounds" in str(failed.error)


def test_what_comes_after_the_end_is_late() -> None:
    sync = started()
    answer(sync, -1, -1, -1)

    assert answer(sync, 4, 5, 6) == []
    assert tell(sync) == []
