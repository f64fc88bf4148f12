"""What goes into the re-check of one ledger in limbo, and what comes out of it.

    the body        RecheckStarted, TimePassed
    the metadata    LedgerSeen, LedgerGone, LookFailed
    the bookies     PeerAnswered, PeerSilent, EntriesCopied

    to the metadata    ReadMetadata
    to the bookies     AskPeer, CopyEntries
    to the caller      WaitUntil, ClearLedger, ReportLedger

One thing is under way at a time: each effect is answered with one event, and then comes the next.
"""

from typing import TypeAlias

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.fragment_copy_events import CopyResult

# ------------------------------------------------------------------ events


class RecheckStarted(msgspec.Struct, frozen=True):
    """Begin."""


class LedgerSeen(msgspec.Struct, frozen=True):
    """A ledger as it is now, and the bookies that are registered now, read-only ones too."""

    metadata: LedgerMetadata
    registered: frozenset[str]


class LedgerGone(msgspec.Struct, frozen=True):
    """There is no such ledger: it was deleted."""


class LookFailed(msgspec.Struct, frozen=True):
    """The metadata could not be read."""

    error: ZbkError


class PeerAnswered(msgspec.Struct, frozen=True):
    """What a bookie holds: all of it in the span asked for, ascending."""

    ranges: tuple[Span, ...]


class PeerSilent(msgspec.Struct, frozen=True):
    """A bookie does not say what it holds."""

    error: ZbkError


class EntriesCopied(msgspec.Struct, frozen=True):
    """A copy has ended, well or not."""

    result: CopyResult


class TimePassed(msgspec.Struct, frozen=True):
    """It may be time."""


Event: TypeAlias = (
    RecheckStarted
    | LedgerSeen
    | LedgerGone
    | LookFailed
    | PeerAnswered
    | PeerSilent
    | EntriesCopied
    | TimePassed
)


# ------------------------------------------------------------------ effects


class ReadMetadata(msgspec.Struct, frozen=True):
    """Read the metadata, not older than now. Answer: LedgerSeen, LedgerGone, LookFailed."""


class AskPeer(msgspec.Struct, frozen=True):
    """Ask what a bookie, maybe ourselves, holds. Answer: PeerAnswered, PeerSilent."""

    bookie_id: str
    span: Span


class CopyEntries(msgspec.Struct, frozen=True):
    """Copy entries to us, as recovery adds, and confirm them. Answer: EntriesCopied."""

    order: CopyOrder


class WaitUntil(msgspec.Struct, frozen=True):
    """Answer with TimePassed at that time, or later."""

    until_ms: int


class ClearLedger(msgspec.Struct, frozen=True):
    """We may deny what we do not have of it. Nothing follows.

    ``silent`` are the peers that were not waited for any longer.
    """

    copied_count: int = 0
    silent: tuple[str, ...] = ()


class ReportLedger(msgspec.Struct, frozen=True):
    """It stays in limbo. Nothing follows.

    ``is_hopeless``: the same attempt will end so again, unless somebody finds what is lost.
    """

    reason: str
    copied_count: int = 0
    is_hopeless: bool = False


Effect: TypeAlias = ReadMetadata | AskPeer | CopyEntries | WaitUntil | ClearLedger | ReportLedger
