"""What the auditor is told, and what it wants done (``zbk.protocol.repair.audit``).

A *term* is a time in which this process leads, by number; see ``records.election``. A *job* is
one pass over all ledgers, by number: answers carry the number of the job that asked.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.underreplicated import MissingReason


class CheckKind(StrEnum):
    """What is looked at periodically."""

    BOOKIES = "bookies"
    """Every ledger's metadata, for bookies that are lost: what news alone may have missed."""

    LEDGERS = "ledgers"
    """Every fragment's replicas, by reading entries."""

    PLACEMENT = "placement"
    """Whether replicas are on different racks. Counted, and said; nothing is moved."""

    REPLICAS = "replicas"
    """What bookies say they hold, against what the metadata say they should hold."""


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What may be configured."""

    lost_bookie_delay_ms: int = 0  # for one lost bookie; the metadata store may say another one
    brake_share_percent: int = 20  # of the known bookies
    brake_window_ms: int = 60_000
    brake_hold_ms: int = 15_000
    retry_ms: int = 2_000  # before a look or a step that failed is done again
    interval_ms: Mapping[CheckKind, int]  # 0, or not there: never


class Report(msgspec.Struct, frozen=True):
    """What a ledger lacks: the replicas of these bookies, for one reason."""

    ledger_id: int
    bookie_ids: tuple[str, ...]
    reason: MissingReason
    ranges: tuple[tuple[str, tuple[Span, ...]], ...] = ()  # missing entries by bookie, where known


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a job."""

    kind: CheckKind | None  # None: only the lost bookies were looked for
    lost: tuple[str, ...]  # the bookies it was about, at its end; of a check: those left out
    ledger_count: int = 0
    report_count: int = 0
    undecided_count: int = 0  # ledgers of which not every replica could be judged
    flaw_count: int = 0  # fragments placed badly
    unreadable_count: int = 0  # ledgers whose metadata are damaged


# ------------------------------------------------------------------ events


class TermBegun(msgspec.Struct, frozen=True):
    """This process audits now."""

    term: int


class TermEnded(msgspec.Struct, frozen=True):
    """It does so no more, or nobody knows."""


class Switched(msgspec.Struct, frozen=True):
    """Autorecovery may work, or rests."""

    is_enabled: bool


class DelaySet(msgspec.Struct, frozen=True):
    """What the metadata store says about one lost bookie; ``None``: nothing."""

    delay_ms: int | None


class Triggered(msgspec.Struct, frozen=True):
    """An operator wants an audit now."""


class BookiesSeen(msgspec.Struct, frozen=True):
    """Who belongs to the cluster, and who is there; read-only ones are."""

    known: frozenset[str]  # by cookie
    present: frozenset[str]
    look: int = 0  # the ``LookAtBookies`` that it answers; 0: there was a change


class LookFailed(msgspec.Struct, frozen=True):
    """The bookies could not be seen, or not within the one term."""

    look: int  # 0: there was a change, and nobody asked


class TimePassed(msgspec.Struct, frozen=True):
    """It may be time."""


class ChecksRemembered(msgspec.Struct, frozen=True):
    """How long ago each check ended, whoever did it. Those that never did are left out."""

    term: int
    ages_ms: Mapping[CheckKind, int]


class LedgersRead(msgspec.Struct, frozen=True):
    """The answer to one ``ReadLedgers``. Ledgers deleted meanwhile are left out."""

    job: int
    ledgers: tuple[LedgerMetadata, ...]
    last_ledger_id: int  # go on from here
    is_last: bool
    unreadable_count: int = 0


class LedgersChecked(msgspec.Struct, frozen=True):
    """The answer to one ``CheckLedgers``."""

    job: int
    reports: tuple[Report, ...]
    last_ledger_id: int
    is_last: bool
    ledger_count: int
    undecided_count: int = 0
    flaw_count: int = 0
    unreadable_count: int = 0


class Published(msgspec.Struct, frozen=True):
    """The reports of one ``Publish`` are in the metadata store."""

    job: int


class StepFailed(msgspec.Struct, frozen=True):
    """The metadata store did not do what a job asked for; part of it may be done."""

    job: int
    reason: str


Event: TypeAlias = (
    TermBegun
    | TermEnded
    | Switched
    | DelaySet
    | Triggered
    | BookiesSeen
    | LookFailed
    | TimePassed
    | ChecksRemembered
    | LedgersRead
    | LedgersChecked
    | Published
    | StepFailed
)


# ------------------------------------------------------------------ effects


class LookAtBookies(msgspec.Struct, frozen=True):
    """Read cookies and registrations, all in this term. Answer: BookiesSeen, LookFailed."""

    look: int
    term: int


class WakeAt(msgspec.Struct, frozen=True):
    """Answer with TimePassed at that time, or later. Only the last one counts."""

    at_ms: int


class RecallChecks(msgspec.Struct, frozen=True):
    """Read when checks ended. Answer: ChecksRemembered, when it can be read."""

    term: int


class RememberCheck(msgspec.Struct, frozen=True):
    """Note that a check ends now, or begins to count from now. No answer."""

    kind: CheckKind
    term: int


class ReadLedgers(msgspec.Struct, frozen=True):
    """Read the metadata of the next ledgers. Answer: LedgersRead, StepFailed."""

    job: int
    after: int  # a ledger id


class CheckLedgers(msgspec.Struct, frozen=True):
    """Check the next ledgers. Answer: LedgersChecked, StepFailed."""

    job: int
    kind: CheckKind
    after: int
    lost: frozenset[str]  # not to be asked: what they held is reported already


class Publish(msgspec.Struct, frozen=True):
    """Report, each one only while this very term lasts. Answer: Published, StepFailed."""

    job: int
    term: int
    reports: tuple[Report, ...]


class RetryUnrepairable(msgspec.Struct, frozen=True):
    """Bookies came back: hand out again what nobody could repair without them. No answer."""

    returned: tuple[str, ...]
    term: int


class BrakeApplied(msgspec.Struct, frozen=True):
    """For people: so many bookies are gone at once that it is rather we who see nothing."""

    lost: tuple[str, ...]
    known_count: int
    why: str
    until_ms: int


class BrakeReleased(msgspec.Struct, frozen=True):
    """For people: looked again; these are lost."""

    lost: tuple[str, ...]


class JobBegun(msgspec.Struct, frozen=True):
    """For people."""

    kind: CheckKind | None
    lost: tuple[str, ...]


class JobStalled(msgspec.Struct, frozen=True):
    """For people: a step failed and is tried again."""

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
