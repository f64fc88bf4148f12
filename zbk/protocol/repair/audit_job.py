"""A job of the auditor: one pass over all ledgers, and its findings so far (``repair.audit``)."""

from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec

from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.audit_events import CheckKind, JobResult, Report
from zbk.protocol.repair.fragment_check import CheckedLedger
from zbk.protocol.repair.underreplicated import MissingReason

STRANGER_COUNT_MAX: Final = 1_024


class Stage(Enum):
    """The stages of a step of a job."""

    LOOKING = "looking at ledgers"
    PUBLISHING = "publishing"
    WAITING = "waiting to retry"


class Job(msgspec.Struct):
    """A job under way. ``lost``: the bookies that a scan is for, without those that returned."""

    number: int
    kind: CheckKind | None
    lost: frozenset[str]
    stage: Stage = Stage.LOOKING
    cursor: int = -1  # all ledgers up to here are done
    next_cursor: int = -1  # after the findings are published
    is_last: bool = False
    retry_ms: int = 0
    is_stalled: bool = False  # and has reported it
    ledger_count: int = 0
    report_count: int = 0
    publishing_count: int = 0
    undecided_count: int = 0
    flaw_count: int = 0
    unreadable_count: int = 0
    strangers: set[str] = msgspec.field(default_factory=set)

    def note_strangers(self, ledgers: Iterable[LedgerMetadata], familiar: frozenset[str]) -> None:
        """Record the bookies that ledgers name and that are not familiar, the first ones."""
        for ledger in ledgers:
            for fragment in ledger.fragments:
                for one in fragment.bookies:
                    if one not in familiar and len(self.strangers) < STRANGER_COUNT_MAX:
                        self.strangers.add(one)

    def result(self) -> JobResult:
        """Return the result so far."""
        return JobResult(
            kind=self.kind,
            lost=tuple(sorted(self.lost)),
            ledger_count=self.ledger_count,
            report_count=self.report_count,
            undecided_count=self.undecided_count,
            flaw_count=self.flaw_count,
            unreadable_count=self.unreadable_count,
        )


def lost_replicas(ledger: LedgerMetadata, lost: frozenset[str]) -> Report | None:
    """Return a report if the ledger's metadata name one of the lost bookies."""
    named = {one for fragment in ledger.fragments for one in fragment.bookies if one in lost}
    return Report(ledger.ledger_id, tuple(sorted(named)), MissingReason.LOST) if named else None


def reports_of(ledger_id: int, checked: CheckedLedger) -> list[Report]:
    """Return the reports of a checked ledger, one for each reason."""
    by_reason: dict[MissingReason, list[str]] = {}
    for bookie_id, reason in sorted(checked.missing.items()):
        by_reason.setdefault(reason, []).append(bookie_id)
    return [
        Report(
            ledger_id,
            tuple(names),
            reason,
            tuple((one, checked.ranges[one]) for one in names if one in checked.ranges),
        )
        for reason, names in by_reason.items()
    ]
