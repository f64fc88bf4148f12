"""OutsideSync: which bookies count as heard, and when all are asked once more."""

import pytest

from tests.support.recovery_world import ledger
from zbk.durability.outside_sync import (
    ROUND_COUNT_MAX,
    AskSync,
    Cursor,
    Effect,
    OutsideSync,
    ReadMetadata,
    RecordLac,
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
from zbk.protocol.ledger.changes import report_lac
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.procedure import Procedure

Q332 = Quorum(3, 3, 2)
GONE = BookieUnavailableError("b", "not there")
BOOKIES = ("b0", "b1", "b2")


def open_ledger(quorum: Quorum = Q332, *fragments: Fragment) -> LedgerMetadata:
    return ledger(quorum, *fragments, ledger_type=LedgerType.VD_JOURNAL)


class Sync:
    """A sync; each call returns its next effect, or its result at the end."""

    def __init__(self, metadata: LedgerMetadata | None = None) -> None:
        self._procedure = Procedure(OutsideSync(metadata or open_ledger(), version=4).run())
        self.begun = self._procedure.begin()

    def give(self, value: object) -> Effect | int:
        effect = self._procedure.answer(value)
        return self._procedure.result if effect is None else effect

    def answer(
        self,
        *cursors: int | ZbkError,
        incarnation: int = 1,
        now: tuple[LedgerMetadata, int] = (open_ledger(), 4),
    ) -> Effect | int:
        """Answer a round; ``now`` is what the metadata store says if it is asked."""
        effect = self.give(
            {
                slot: Cursor(incarnation, cursor) if isinstance(cursor, int) else cursor
                for slot, cursor in enumerate(cursors)
            }
        )
        return self.give(now) if effect == ReadMetadata() else effect

    def tell(self) -> Effect | int:
        return self.give(None)


def started(metadata: LedgerMetadata | None = None) -> Sync:
    sync = Sync(metadata)
    assert sync.begun == AskSync(BOOKIES, -1)
    return sync


def test_the_lac_that_rests_is_the_answer() -> None:
    sync = started()

    assert sync.answer(4, 5, 6) == TellLac(BOOKIES, 5)
    assert sync.tell() == AskSync(BOOKIES, 5)
    assert sync.answer(5, 5, 6) == 5


def test_what_lies_before_the_last_fragment_is_durable_whatever_its_bookies_know() -> None:
    fragments = (Fragment(0, ("b0", "b1", "b2")), Fragment(42, ("b0", "b1", "b3")))
    sync = Sync(open_ledger(Quorum(3, 3, 3), *fragments))
    assert sync.begun == AskSync(("b0", "b1", "b3"), 41)

    assert sync.answer(41, 41, NoSuchLedgerError(7)) == 41


def test_a_striped_ledger_is_durable_beyond_what_a_bookie_that_joined_knows() -> None:
    old, new = ("b0", "b1", "b2", "b3"), ("b0", "b1", "b2", "b4")
    sync = Sync(open_ledger(Quorum(4, 2, 2), Fragment(0, old), Fragment(100, new)))
    assert sync.begun == AskSync(new, 99)

    assert sync.answer(100, 100, 99, NoSuchLedgerError(7)) == TellLac(new, 100)


def test_a_cursor_that_was_lifted_over_a_hole_lifts_the_lac_again() -> None:
    sync = started()
    sync.answer(2, 4, 9)
    sync.tell()

    assert sync.answer(9, 4, 9) == TellLac(BOOKIES, 9)
    assert sync.tell() == AskSync(BOOKIES, 9)
    assert sync.answer(9, 9, 9) == 9


def test_a_ledger_that_nobody_has_synced_is_durable_up_to_nothing() -> None:
    assert started().answer(-1, -1, -1) == -1


def test_who_has_no_such_ledger_is_heard() -> None:
    missing = NoSuchLedgerError(7)

    assert started().answer(missing, missing, missing) == -1


@pytest.mark.parametrize(
    ("quorum", "failure_count_max"), [(Q332, 1), (Quorum(3, 3, 1), 2), (Quorum(3, 3, 3), 0)]
)
def test_an_ack_quorum_has_to_be_heard(quorum: Quorum, failure_count_max: int) -> None:
    for count in range(4):
        sync = started(open_ledger(quorum))
        answers: list[int | ZbkError] = [*[GONE] * count, *[-1] * (3 - count)]

        if count <= failure_count_max:
            assert sync.answer(*answers) == -1
        else:
            with pytest.raises(CannotAdvanceError):
                sync.answer(*answers)


def test_a_failure_says_who_did_not_answer() -> None:
    with pytest.raises(CannotAdvanceError) as failed:
        started().answer(4, GONE, GONE)

    assert failed.value.last_durable_id == -1
    assert "slot 1: bookie b: not there; slot 2" in str(failed.value)
    assert "too few bookies answer to know how far it is durable: slot 1" in str(failed.value)


def test_a_failure_in_a_later_round_names_what_is_durable() -> None:
    sync = started()
    sync.answer(4, 5, 6)
    sync.tell()

    with pytest.raises(CannotAdvanceError) as failed:
        sync.answer(5, GONE, GONE)

    assert failed.value.last_durable_id == 5
    assert "how far it is durable beyond entry 5: slot 1" in str(failed.value)


def test_who_failed_in_one_round_may_be_heard_in_the_next() -> None:
    sync = started()
    sync.answer(4, 5, GONE)
    sync.tell()

    assert sync.answer(4, 5, 6) == TellLac(BOOKIES, 5)


def test_a_restarted_bookie_counts_with_its_new_cursor() -> None:
    """T6: the value of an earlier life is void."""
    sync = started()
    sync.answer(9, 5, 5)
    sync.tell()

    assert sync.answer(1, 5, 5, incarnation=2) == 5


def test_a_writer_that_goes_on_does_not_keep_the_sync_for_ever() -> None:
    sync = started()
    found: Effect | int = -1
    asked_count = 0
    while found != ROUND_COUNT_MAX:
        asked_count += 1
        assert sync.answer(*[asked_count] * 3) == TellLac(BOOKIES, asked_count)
        found = sync.tell()
        assert found in (AskSync(BOOKIES, asked_count), ROUND_COUNT_MAX)

    assert asked_count == ROUND_COUNT_MAX


MOVED = open_ledger(Q332, Fragment(0, ("b0", "b1", "b2")), Fragment(4, ("b0", "b3", "b4")))


def test_cursors_of_bookies_that_were_replaced_meanwhile_do_not_count() -> None:
    """B1 left after entry 3, and copied 4 .. 7 for itself: no recovery asks it for them."""
    sync = started()

    assert sync.answer(7, 7, 3, now=(MOVED, 5)) == AskSync(("b0", "b3", "b4"), 3)
    assert sync.answer(7, 3, 3) == 3


def test_the_bookies_of_the_new_ensemble_make_it_durable() -> None:
    sync = started()
    sync.answer(7, 7, 3, now=(MOVED, 5))

    assert sync.answer(7, 7, 3, now=(MOVED, 5)) == TellLac(("b0", "b3", "b4"), 7)
    sync.tell()
    assert sync.answer(7, 7, 7) == 7


def test_a_sync_that_hears_too_few_asks_the_bookies_that_took_their_places() -> None:
    sync = started()

    assert sync.answer(3, GONE, GONE, now=(MOVED, 5)) == AskSync(("b0", "b3", "b4"), 3)
    assert sync.answer(3, 3, 3) == 3


def test_a_bookie_that_left_and_came_back_is_asked_again() -> None:
    sync = started()

    assert sync.answer(7, 7, 3, now=(open_ledger(), 6)) == AskSync(BOOKIES, -1)


def test_a_ledger_that_was_closed_meanwhile_is_durable_to_its_end() -> None:
    closed = open_ledger().with_recovery().with_closed(5, 60)

    assert started().answer(7, 7, 3, now=(closed, 6)) == 5


def test_metadata_that_cannot_be_read_end_the_sync() -> None:
    sync = started()
    error = MetadataUnavailableError("zk://b", "did not answer")
    assert sync.give(dict.fromkeys(range(3), Cursor(1, 7))) == ReadMetadata()

    with pytest.raises(MetadataUnavailableError) as failed:
        sync.give(error)

    assert failed.value is error


def test_a_ledger_whose_metadata_change_all_the_time_does_not_keep_the_sync_for_ever() -> None:
    sync = started()
    version = 4
    with pytest.raises(CannotAdvanceError) as failed:  # noqa: PT012 - one of many rounds
        while True:
            version += 1
            found = sync.answer(7, 7, 7, now=(open_ledger(), version))
            assert found == AskSync(BOOKIES, -1)

    assert version == 4 + ROUND_COUNT_MAX
    assert failed.value.last_durable_id == -1
    assert "the metadata changed in 16 rounds" in str(failed.value)


# ------------------------------------------------------------------ ledgers that record the LAC

FIRST = Fragment(0, BOOKIES)
RECORDING = open_ledger().recording_reported_lac()


def cursors(*values: int) -> dict[int, Cursor]:
    return {slot: Cursor(1, value) for slot, value in enumerate(values)}


def test_a_lac_is_recorded_before_any_bookie_is_told_it() -> None:
    sync = started(RECORDING)

    assert sync.give(cursors(4, 5, 6)) == RecordLac(FIRST, 5)
    assert sync.give((RECORDING.with_reported_lac(5), 5)) == TellLac(BOOKIES, 5)
    assert sync.tell() == AskSync(BOOKIES, 5)
    assert sync.give(cursors(5, 5, 6)) == 5


def test_a_higher_record_of_another_sync_is_as_good() -> None:
    sync = started(RECORDING)
    sync.give(cursors(4, 5, 6))

    assert sync.give((RECORDING.with_reported_lac(9), 7)) == TellLac(BOOKIES, 5)


def test_a_sync_begins_with_the_record_of_the_one_before() -> None:
    sync = Sync(RECORDING.with_reported_lac(5))
    assert sync.begun == AskSync(BOOKIES, 5)

    assert sync.give(cursors(-1, -1, -1)) == 5


@pytest.mark.parametrize(
    "now",
    [
        RECORDING.with_new_fragment(4, ("b0", "b3", "b4")),
        RECORDING.with_new_fragment(0, ("b0", "b3", "b4")),
    ],
    ids=["later", "in place"],
)
def test_a_lac_of_a_fragment_that_ended_is_neither_recorded_nor_told(now: LedgerMetadata) -> None:
    sync = started(RECORDING)
    sync.give(cursors(7, 7, 3))

    start = now.last_fragment.first_entry_id
    assert report_lac(now, FIRST, 7) is None
    assert sync.give((now, 5)) == AskSync(("b0", "b3", "b4"), start - 1)
    assert sync.give(cursors(start - 1, start - 1, start - 1)) == start - 1


def test_a_lac_of_a_ledger_that_is_being_recovered_is_not_told() -> None:
    sync = started(RECORDING)
    sync.give(cursors(7, 7, 3))
    now = RECORDING.with_recovery()

    assert report_lac(now, FIRST, 7) is None
    assert sync.give((now, 5)) == AskSync(BOOKIES, -1)


def test_what_comes_after_the_end_is_late() -> None:
    sync = started()
    assert sync.answer(-1, -1, -1) == -1

    assert sync.answer(4, 5, 6) == -1
    assert sync.tell() == -1
