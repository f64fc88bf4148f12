"""The rules of a worker's task: what its repair aims at, and the outcome of an attempt.

    finished       the ledger is whole, or was deleted
    postponed      an error, or lost entries that a returning bookie may have: tried again after a
                   pause, with the reason in the task
    unrepairable   put aside: without its password nothing can be done, or entries were lost in
                   ``ATTEMPT_COUNT_MAX`` attempts. Handed out again when a bookie returns (the
                   auditor), or when one in limbo gets entries back from its peers (the re-check)
    left           other workers, or a later time, may do better: only the lock is released
    dropped        the attempt was stopped

Every function depends only on its arguments.

Source: BookKeeper's ``ReplicationWorker``; the autorecovery page.
"""

from enum import Enum
from typing import Final

import msgspec

from zbk.protocol.repair.repair_effects import RepairAim, RepairResult
from zbk.protocol.repair.underreplicated import MissingReason, UnderreplicatedLedger

ATTEMPT_COUNT_MAX: Final = 3
"""Attempts that find entries lost, after which the task is put aside."""

_COMPARED: Final = (MissingReason.CHECKED, MissingReason.NOT_WRITTEN, MissingReason.UNCHECKED)
_TO_LEAVE: Final = (MissingReason.DAMAGED, MissingReason.PLACEMENT)


class OutcomeKind(Enum):
    """The outcomes of an attempt, as in the module's table."""

    FINISHED = "finished"
    POSTPONED = "postponed"
    UNREPAIRABLE = "unrepairable"
    LEFT = "left"
    DROPPED = "dropped"


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of an attempt; ``why`` is the reason of a postponed or unrepairable task."""

    kind: OutcomeKind
    why: str = ""


def aim_of(task: UnderreplicatedLedger) -> RepairAim:
    """Return the aim of the repair of a task.

    Bookies with damaged or badly placed replicas leave; if no other bookie can take the place,
    those with damage only are mended. Bookies that are only reported to lack entries are compared,
    and do not count as lost while they are away. If a writer died, any bookie of the ledger may
    lack entries.
    """
    named = task.missing.items()
    compared = frozenset(one for one, reasons in named if not set(_COMPARED).isdisjoint(reasons))
    to_leave = frozenset(one for one, reasons in named if not set(_TO_LEAVE).isdisjoint(reasons))
    is_unchecked = any(MissingReason.UNCHECKED in reasons for _one, reasons in named)
    return RepairAim(
        ledger_id=task.ledger_id,
        suspects=frozenset(one for one, reasons in named if not set(_COMPARED).issuperset(reasons)),
        to_leave=to_leave,
        to_mend=frozenset(
            one for one in to_leave if MissingReason.PLACEMENT not in task.missing[one]
        ),
        to_compare=None if is_unchecked else compared,
    )


def outcome_of(task: UnderreplicatedLedger, result: RepairResult) -> Outcome:
    """Return the outcome of an attempt at a task."""
    if result.is_whole:
        return Outcome(OutcomeKind.FINISHED)
    if result.error is not None:
        return Outcome(OutcomeKind.POSTPONED, str(result.error))
    if result.unrepairable:
        if result.blocked or task.failure_count + 1 >= ATTEMPT_COUNT_MAX:
            why = result.unrepairable + _way_out(task.ledger_id, result)
            return Outcome(OutcomeKind.UNREPAIRABLE, why)
        return Outcome(OutcomeKind.POSTPONED, result.unrepairable)
    return Outcome(OutcomeKind.LEFT if result.skipped_count else OutcomeKind.DROPPED)


def _way_out(ledger_id: int, result: RepairResult) -> str:
    """Return what an operator can do about lost entries, as the rest of a sentence."""
    if not result.lost and not result.uncovered:
        return ""
    wait = "it is tried again when one of its bookies has them again"
    if result.away:
        names = ", ".join(sorted(result.away))
        wait = f"start {names} again, and it is tried again by itself"
    return (
        f". {wait}; if they are gone for good, `zbk ledger cat {ledger_id} --first N --last M` "
        f"saves the other entries, and `zbk ledger delete {ledger_id}` ends it"
    )
