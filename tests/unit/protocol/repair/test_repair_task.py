"""What a worker's task aims at, and what becomes of it after an attempt."""

import pytest

from zbk.errors import BusyError
from zbk.protocol.repair.copy_order import LostEntries
from zbk.protocol.repair.repair_effects import RepairResult
from zbk.protocol.repair.repair_task import (
    ATTEMPT_COUNT_MAX,
    Outcome,
    OutcomeKind,
    aim_of,
    outcome_of,
)
from zbk.protocol.repair.underreplicated import MissingReason, UnderreplicatedLedger

LOST = (LostEntries(3, 4, 2, "nobody has them"),)
TASK = UnderreplicatedLedger.reported(7, ["a"], MissingReason.LOST, 1)


def test_what_a_report_says_decides_who_may_be_given_up() -> None:
    task = UnderreplicatedLedger.reported(7, ["lost"], MissingReason.LOST, 1)
    task = task.merged(["bad", "late"], MissingReason.NOT_WRITTEN, 2)
    task = task.merged(["bad"], MissingReason.DAMAGED, 3)

    aim = aim_of(task)

    assert aim.suspects == frozenset({"lost", "bad"})
    assert aim.to_leave == frozenset({"bad"})
    assert aim.to_compare == frozenset({"bad", "late"})
    unchecked = aim_of(task.merged(["late"], MissingReason.UNCHECKED, 4))
    assert unchecked.to_compare is None, "all bookies of the ledger"
    assert unchecked.suspects == frozenset({"lost", "bad"})


def test_bookies_with_damage_and_no_bad_place_may_be_mended_where_they_are() -> None:
    task = UnderreplicatedLedger.reported(7, ["bad", "near"], MissingReason.DAMAGED, 1)
    task = task.merged(["bad"], MissingReason.CHECKED, 2)
    task = task.merged(["near", "far"], MissingReason.PLACEMENT, 3)

    aim = aim_of(task)

    assert aim.to_leave == frozenset({"bad", "near", "far"})
    assert aim.to_mend == frozenset({"bad"})


def test_a_bookie_that_was_mended_is_only_compared_from_then_on() -> None:
    task = UnderreplicatedLedger.reported(7, ["a", "b"], MissingReason.DAMAGED, 1)
    task = task.merged(["a"], MissingReason.NOT_WRITTEN, 2).with_failure("c is away", ["a"])

    aim = aim_of(task)

    assert aim.to_leave == aim.to_mend == frozenset({"b"})
    assert aim.suspects == frozenset({"b"})
    assert aim.to_compare == frozenset({"a"})
    assert task.failure_count == 1


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (RepairResult(), Outcome(OutcomeKind.FINISHED)),
        (RepairResult(is_gone=True), Outcome(OutcomeKind.FINISHED)),
        (RepairResult(skipped_count=1), Outcome(OutcomeKind.LEFT)),
        (RepairResult(is_stopped=True), Outcome(OutcomeKind.DROPPED)),
        (
            RepairResult(lost=LOST, error=BusyError("full"), skipped_count=1),
            Outcome(OutcomeKind.POSTPONED, "full"),
        ),
        (
            RepairResult(lost=LOST),
            Outcome(OutcomeKind.POSTPONED, "2 entries, 3 .. 4: nobody has them"),
        ),
        (
            RepairResult(blocked="it needs its password"),
            Outcome(OutcomeKind.UNREPAIRABLE, "it needs its password"),
        ),
    ],
    ids=str,
)
def test_the_outcome_of_a_first_attempt(result: RepairResult, outcome: Outcome) -> None:
    assert outcome_of(TASK, result) == outcome


def test_lost_entries_put_a_task_aside_at_the_last_attempt_with_a_way_out() -> None:
    result = RepairResult(lost=LOST, away=frozenset({"c", "b"}))
    task = TASK
    for _ in range(ATTEMPT_COUNT_MAX - 1):
        assert outcome_of(task, result).kind is OutcomeKind.POSTPONED
        task = task.with_failure("lost")

    outcome = outcome_of(task, result)

    assert outcome.kind is OutcomeKind.UNREPAIRABLE
    assert "start b, c again" in outcome.why
    assert "zbk ledger delete 7" in outcome.why
