"""What goes into the repair of one ledger, and what comes out of it.

    the body        RepairStarted, RepairStopped, TimePassed
    the metadata    LedgerSeen, LedgerGone, LookFailed, BookieReplaced, FragmentCut, ReplaceFailed
    the bookies     HoldingsTold, HoldingsFailed, FragmentCopied, LedgerRecovered, RecoveryFailed
    the placement   TargetChosen

    to the metadata    LookAtLedger, ReplaceBookie, CutFragment
    to the bookies     AskHoldings, CopyFragment, RecoverLedger
    to the placement   ChooseTarget
    to the caller      WaitUntil, EndRepair

One thing is under way at a time: each effect is answered with one event, and then comes the next.
"""

from collections.abc import Collection
from typing import TypeAlias

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.entry.spans import SHOWN_COUNT, Span
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.copy_order import CopyOrder, LostEntries
from zbk.protocol.repair.fragment_copy_events import CopyResult


class RepairAim(msgspec.Struct, frozen=True, kw_only=True):
    """Whose replicas of which ledger are to be made good.

    ``suspects`` are the bookies that may lack something: lost ones, and those that are there, whose
    holdings are looked at. ``None``: every bookie of the ledger. ``to_leave``, a part of them if
    they are given: bookies that are to hold nothing of it any more, whether they are there or not.

    ``to_compare`` are bookies that may lack something, and are not lost for being away: who is away
    is waited for. ``None``: every bookie of the ledger.
    """

    ledger_id: int
    suspects: frozenset[str] | None = None
    to_leave: frozenset[str] = frozenset()
    to_compare: frozenset[str] | None = frozenset()
    has_password: bool = False


class RepairLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How patient a repair is."""

    grace_ms: int = 30_000  # a ledger that is being written is not fenced before
    look_count_max: int = 32  # looks at the metadata; a ledger that changes more is left for now
    target_count_max: int = 3  # bookies tried for one slot


class RepairResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a repair.

    The ledger *is whole* when nothing was found that is still to be done. Else ``lost``,
    ``uncovered`` and ``blocked`` say what nobody can ever repair as things are; ``error`` what may
    work another time;
    ``skipped_count`` how many slots were left: by the placement to another bookie, or
    to a writer that still uses the bookie that is to leave. With the first two come ``away`` and
    ``in_limbo``: when one of the former is there again, or one of the latter has got something back
    from its peers, the ledger may be repaired after all.
    """

    is_gone: bool = False  # deleted: nothing to repair
    lost: tuple[LostEntries, ...] = ()
    away: frozenset[str] = frozenset()  # bookies of the ledger that were not registered then
    in_limbo: frozenset[str] = frozenset()  # those that were, and may have lost the lost entries
    awaited: frozenset[str] = frozenset()  # bookies to be compared that were not registered
    uncovered: str = ""  # why too few bookies are left to close the ledger
    blocked: str = ""
    error: ZbkError | None = None
    skipped_count: int = 0
    replaced_count: int = 0  # bookies, each in one fragment
    copied_count: int = 0
    copied_size: int = 0
    is_recovered: bool = False  # fenced and closed on the way
    is_stopped: bool = False

    @property
    def is_whole(self) -> bool:
        """True when nothing is left to do."""
        return not (self.unrepairable or self.error or self.skipped_count or self.is_stopped)

    @property
    def unrepairable(self) -> str:
        """Why the ledger cannot be made whole as things are; empty: that is not known."""
        texts = [text for text in (self.blocked, self.uncovered) if text]
        texts += [str(one) for one in self.lost[:SHOWN_COUNT]]
        more = len(self.lost) - SHOWN_COUNT
        return "; ".join(texts + ([f"and {more} more ranges"] if more > 0 else []))

    def is_outdated(self, registered: Collection[str]) -> bool:
        """Return whether a bookie is there again that was away when the ledger was given up."""
        return not self.away.isdisjoint(registered)


# ------------------------------------------------------------------ events


class RepairStarted(msgspec.Struct, frozen=True):
    """Begin."""


class RepairStopped(msgspec.Struct, frozen=True):
    """End now. May come at any time, instead of an answer."""


class TimePassed(msgspec.Struct, frozen=True):
    """It may be time."""


class LedgerSeen(msgspec.Struct, frozen=True):
    """A ledger as it is now, and the bookies that are registered now, read-only ones too."""

    metadata: LedgerMetadata
    registered: frozenset[str]


class LedgerGone(msgspec.Struct, frozen=True):
    """There is no such ledger: it was deleted."""


class LookFailed(msgspec.Struct, frozen=True):
    """The metadata could not be read."""

    error: ZbkError


class HoldingsTold(msgspec.Struct, frozen=True):
    """What a bookie holds, on its stable storage: all of it from the first id asked for.

    Up to the last one, or to ``last_entry_id`` if that is less: a holding of very many ranges is
    told in parts.
    """

    ranges: tuple[Span, ...]
    last_entry_id: int | None = None
    is_in_limbo: bool = False  # of what it does not hold it does not know whether it had it


class HoldingsFailed(msgspec.Struct, frozen=True):
    """A bookie does not say what it holds."""

    error: ZbkError


class TargetChosen(msgspec.Struct, frozen=True):
    """A bookie for the slot; ``None``: there is none.

    ``is_skipped``: others may have one, this worker leaves it to them.
    """

    bookie_id: str | None
    is_skipped: bool = False


class FragmentCopied(msgspec.Struct, frozen=True):
    """A copy has ended, well or not."""

    result: CopyResult


class BookieReplaced(msgspec.Struct, frozen=True):
    """The ledger as it is after the change; or as it is, if the old bookie was not there."""

    metadata: LedgerMetadata
    is_ours: bool = True


class FragmentCut(msgspec.Struct, frozen=True):
    """The ledger as it is now; somebody else may have cut the fragment before."""

    metadata: LedgerMetadata


class ReplaceFailed(msgspec.Struct, frozen=True):
    """The metadata were not changed, or it is not known."""

    error: ZbkError


class LedgerRecovered(msgspec.Struct, frozen=True):
    """The ledger is fenced and closed; or, not ``is_ours``, its writer has moved on by itself."""

    is_ours: bool = True


class RecoveryFailed(msgspec.Struct, frozen=True):
    """The ledger is not closed."""

    error: ZbkError


Event: TypeAlias = (
    RepairStarted
    | RepairStopped
    | TimePassed
    | LedgerSeen
    | LedgerGone
    | LookFailed
    | HoldingsTold
    | HoldingsFailed
    | TargetChosen
    | FragmentCopied
    | BookieReplaced
    | FragmentCut
    | ReplaceFailed
    | LedgerRecovered
    | RecoveryFailed
)


# ------------------------------------------------------------------ effects


class LookAtLedger(msgspec.Struct, frozen=True):
    """Read the metadata, not older than now, and the registrations.

    Answer: LedgerSeen, LedgerGone, LookFailed.
    """


class WaitUntil(msgspec.Struct, frozen=True):
    """Answer with TimePassed at that time, or later."""

    until_ms: int


class AskHoldings(msgspec.Struct, frozen=True):
    """Ask what a bookie holds of ``span``. Answer: HoldingsTold, HoldingsFailed."""

    bookie_id: str
    span: Span


class ChooseTarget(msgspec.Struct, frozen=True):
    """Find a bookie for a slot: none of the ensemble, none of ``exclude``. Answer: TargetChosen."""

    ensemble: tuple[str, ...]
    slot: int
    exclude: frozenset[str]


class CopyFragment(msgspec.Struct, frozen=True):
    """Copy, and confirm. Answer: FragmentCopied."""

    order: CopyOrder


class ReplaceBookie(msgspec.Struct, frozen=True):
    """Put ``new`` in the place of ``old`` in a slot of a fragment, if ``old`` is still there.

    Answer: BookieReplaced, ReplaceFailed, LedgerGone.
    """

    first_entry_id: int
    slot: int
    old: str
    new: str


class CutFragment(msgspec.Struct, frozen=True):
    """Cut a fragment of a closed ledger before each of ``starts``, ascending.

    Answer: FragmentCut, ReplaceFailed, LedgerGone.
    """

    first_entry_id: int
    starts: tuple[int, ...]


class RecoverLedger(msgspec.Struct, frozen=True):
    """Fence and close the ledger, as a client does in its writer's place.

    Only if ``fragment`` is the last one of its metadata at the moment when they say IN_RECOVERY:
    from then on the writer cannot begin another. Answer: LedgerRecovered, RecoveryFailed.
    """

    fragment: Fragment


class EndRepair(msgspec.Struct, frozen=True):
    """Nothing follows."""

    result: RepairResult


Effect: TypeAlias = (
    LookAtLedger
    | WaitUntil
    | AskHoldings
    | ChooseTarget
    | CopyFragment
    | ReplaceBookie
    | CutFragment
    | RecoverLedger
    | EndRepair
)
