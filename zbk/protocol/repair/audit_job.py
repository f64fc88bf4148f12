"""One pass of the auditor over all ledgers, and what it has found (``repair.audit``)."""

from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec

from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.audit_events import CheckKind, JobResult, Report
from zbk.protocol.repair.underreplicated import MissingReason

STRANGER_COUNT_MAX: Final = 1_024


class Step(Enum):
    """What a job is at."""

    LOOKING = "looking at ledgers"
    PUBLISHING = "publishing"
    WAITING = "waiting to try again"


class Job(msgspec.Struct):
    """A job under way. ``lost``: the bookies that a scan is about, and that have not come back."""

    number: int
    kind: CheckKind | None
    lost: frozenset[str]
    step: Step = Step.LOOKING
    cursor: int = -1  # all ledgers up to here are done
    next_cursor: int = -1  # once what was found is published
    is_last: bool = False
    retry_ms: int = 0
    is_stalled: bool = False  # and said so
    ledger_count: int = 0
    report_count: int = 0
    publishing_count: int = 0
    undecided_count: int = 0
    flaw_count: int = 0
    unreadable_count: int = 0
    strangers: set[str] = msgspec.field(default_factory=set)

    def note_strangers(self, ledgers: Iterable[LedgerMetadata], familiar: frozenset[str]) -> None:
        """Note whom ledgers name that is not familiar, the first ones."""
        for ledger in ledgers:
            for fragment in ledger.fragments:
                for one in fragment.bookies:
                    if one not in familiar and len(self.strangers) < STRANGER_COUNT_MAX:
                        self.strangers.add(one)

    def result(self) -> JobResult:
        """Return what came of it."""
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
    """Return what a ledger lacks if these bookies are lost, or ``None`` if nothing."""
    named = {one for fragment in ledger.fragments for one in fragment.bookies if one in lost}
    return Report(ledger.ledger_id, tuple(sorted(named)), MissingReason.LOST) if named else None
