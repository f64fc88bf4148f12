"""Events, effects and settings of the auditor (``zbk.protocol.repair.audit``).

    the election         TermBegun, TermEnded
    the metadata store   Switched, DelaySet, Triggered; BookiesSeen when registrations change
    the body             TimePassed; BookiesSeen, ChecksRecalled and JobAnswered answer effects

A *term* is a time in which this process leads, by number; see ``records.election``. A *job* is
one pass over all ledgers, by number: answers carry the number of the job that asked.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.underreplicated import MissingReason


class CheckKind(StrEnum):
    """The periodic checks."""

    BOOKIES = "bookies"
    """Reads every ledger's metadata for lost bookies, in case a watch was missed."""

    LEDGERS = "ledgers"
    """Reads entries of every replica of every fragment."""

    PLACEMENT = "placement"
    """Counts fragments whose replicas share a rack, and reports the number. It moves nothing."""

    REPLICAS = "replicas"
    """Compares what bookies hold with what the metadata say that they should hold."""


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of an auditor."""

    lost_bookie_delay_ms: int = 0  # for one lost bookie; a value in the metadata store replaces it
    brake_share_percent: int = 20  # of the known bookies
    brake_window_ms: int = 60_000
    brake_hold_ms: int = 15_000
    retry_ms: int = 2_000  # before a failed look or step is repeated
    interval_ms: Mapping[CheckKind, int]  # 0, or no value: never


class Report(msgspec.Struct, frozen=True):
    """The replicas that a ledger lacks: those of these bookies, for one reason."""

    ledger_id: int
    bookie_ids: tuple[str, ...]
    reason: MissingReason
    ranges: tuple[tuple[str, tuple[Span, ...]], ...] = ()  # missing entries by bookie, if known


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a job."""

    kind: CheckKind | None  # None: the job only looked for lost bookies
    lost: tuple[str, ...]  # the lost bookies that it was for; of a check: those it left out
    ledger_count: int = 0
    report_count: int = 0
    undecided_count: int = 0  # ledgers with a replica that could not be judged
    flaw_count: int = 0  # badly placed fragments
    unreadable_count: int = 0  # ledgers with damaged metadata


# ------------------------------------------------------------------ events


class TermBegun(msgspec.Struct, frozen=True):
    """This process audits from now on."""

    term: int


class TermEnded(msgspec.Struct, frozen=True):
    """This process no longer audits, or does not know whether it does."""


class Switched(msgspec.Struct, frozen=True):
    """Autorecovery was enabled or disabled."""

    is_enabled: bool


class DelaySet(msgspec.Struct, frozen=True):
    """The delay for one lost bookie in the metadata store; ``None``: there is none."""

    delay_ms: int | None


class SettingsChanged(msgspec.Struct, frozen=True):
    """The configuration has changed."""

    settings: AuditSettings


class Triggered(msgspec.Struct, frozen=True):
    """An operator asks for an audit now."""


class Bookies(msgspec.Struct, frozen=True):
    """The bookies that belong to the cluster, and those that are registered, read-only or not."""

    known: frozenset[str]  # by cookie
    present: frozenset[str]


class BookiesSeen(msgspec.Struct, frozen=True):
    """The bookies of the cluster, or none if they could not be read within the one term.

    ``look`` is the number of the ``LookAtBookies`` that this answers; 0: a registration changed.
    """

    look: int
    bookies: Bookies | None


class TimePassed(msgspec.Struct, frozen=True):
    """The time of ``WakeAt`` may have come."""


class ChecksRecalled(msgspec.Struct, frozen=True):
    """How long ago each check last ended, in whichever process. A check that never did is absent.

    The answer to ``RecallChecks``.
    """

    term: int
    ages_ms: Mapping[CheckKind, int]


class LedgersRead(msgspec.Struct, frozen=True):
    """Ledgers that a job has read. Ledgers deleted meanwhile are left out."""

    ledgers: tuple[LedgerMetadata, ...]
    last_ledger_id: int  # the next step begins after it
    is_last: bool
    unreadable_count: int = 0


class LedgersChecked(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has found in some ledgers."""

    reports: tuple[Report, ...]
    last_ledger_id: int  # the next step begins after it
    is_last: bool
    ledger_count: int
    undecided_count: int = 0
    flaw_count: int = 0
    unreadable_count: int = 0


class RetryFailed(msgspec.Struct, frozen=True):
    """Unrepairable ledgers could not all be handed out."""

    term: int


class JobAnswered(msgspec.Struct, frozen=True):
    """The answer to an effect of a job.

    LedgersRead answers ReadLedgers, LedgersChecked answers CheckLedgers, and ``None`` answers
    Publish: the reports are in the metadata store. After an error part of the step may be done.
    """

    job: int
    value: LedgersRead | LedgersChecked | ZbkError | None


Event: TypeAlias = (
    TermBegun
    | TermEnded
    | Switched
    | DelaySet
    | SettingsChanged
    | Triggered
    | BookiesSeen
    | TimePassed
    | ChecksRecalled
    | RetryFailed
    | JobAnswered
)


# ------------------------------------------------------------------ effects


class LookAtBookies(msgspec.Struct, frozen=True):
    """Read cookies and registrations, all in this term. Answer: BookiesSeen."""

    look: int
    term: int


class WakeAt(msgspec.Struct, frozen=True):
    """Send TimePassed at that time, or later. Only the latest one counts."""

    at_ms: int


class RecallChecks(msgspec.Struct, frozen=True):
    """Read when checks ended. Answer: ChecksRecalled, once the times can be read."""

    term: int


class RememberCheck(msgspec.Struct, frozen=True):
    """Record that a check ends now, or that its interval begins now. No answer."""

    kind: CheckKind
    term: int


class ReadLedgers(msgspec.Struct, frozen=True):
    """Read the metadata of the next ledgers. Answer: JobAnswered."""

    job: int
    after: int  # a ledger id


class CheckLedgers(msgspec.Struct, frozen=True):
    """Check the next ledgers. Answer: JobAnswered."""

    job: int
    kind: CheckKind
    after: int
    lost: frozenset[str]  # left out: their replicas are reported already


class Publish(msgspec.Struct, frozen=True):
    """Report, each ledger only while this very term lasts. Answer: JobAnswered."""

    job: int
    term: int
    reports: tuple[Report, ...]


class RetryUnrepairable(msgspec.Struct, frozen=True):
    """Hand out the tasks that were unrepairable without these bookies, which returned.

    With no bookies: some may have returned between two terms, or before a retry that failed.
    Answer: RetryFailed, or none.
    """

    returned: tuple[str, ...]
    term: int


class BrakeApplied(msgspec.Struct, frozen=True):
    """For people: so many bookies vanished at once that the fault is probably not theirs."""

    lost: tuple[str, ...]
    known_count: int
    why: str
    until_ms: int


class BrakeReleased(msgspec.Struct, frozen=True):
    """For people: the auditor looked again, and these bookies are lost."""

    lost: tuple[str, ...]


class JobBegun(msgspec.Struct, frozen=True):
    """For people."""

    kind: CheckKind | None
    lost: tuple[str, ...]


class JobStalled(msgspec.Struct, frozen=True):
    """For people: a step failed and is repeated."""

    kind: CheckKind | None
    reason: str


class JobEnded(msgspec.Struct, frozen=True):
    """For people."""

    result: JobResult


Effect: TypeAlias = (
    LookAtBookies
    | WakeAt
    | RecallChecks
    | RememberCheck
    | ReadLedgers
    | CheckLedgers
    | Publish
    | RetryUnrepairable
    | BrakeApplied
    | BrakeReleased
    | JobBegun
    | JobStalled
    | JobEnded
)
