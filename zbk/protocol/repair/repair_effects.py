"""Effects of the procedures that repair or re-check one ledger, their answers, and their result.

A repair (``zbk.protocol.repair.ledger_repair``) and a re-check of a ledger in limbo
(``zbk.durability.limbo_recheck``) yield them:

    both          LookAtLedger, WaitUntil, AskHoldings, CopyFragment
    repairs only  ChooseTarget, ReplaceBookie, CutFragment, RecoverLedger

Each effect names its answer. A ``ZbkError`` is an answer, too, if the effect says so.
"""

from collections.abc import Collection
from typing import TypeAlias

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.entry.spans import SHOWN_COUNT
from zbk.protocol.ledger.features import NO_NEEDS
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.copy_order import CopyOrder, LostEntries
from zbk.protocol.repair.holdings import AskHoldings


class RepairAim(msgspec.Struct, frozen=True, kw_only=True):
    """The aim of a repair: the ledger, and the bookies whose replicas it checks.

    ``suspects`` are bookies that may lack entries: lost ones, and running ones, which are asked
    what they hold. ``None``: every bookie of the ledger. ``to_leave`` are bookies that must hold
    nothing of the ledger afterwards, running or not; a part of ``suspects`` if those are given.

    ``to_compare`` are bookies that may lack entries, but do not count as lost while they are away:
    the repair waits for them. ``None``: every bookie of the ledger.

    ``to_mend``, a part of ``to_leave``, are bookies that leave only because replicas are damaged:
    if no other bookie can take a slot, the replicas are replaced in place, and the bookie stays.
    """

    ledger_id: int
    suspects: frozenset[str] | None = None
    to_leave: frozenset[str] = frozenset()
    to_mend: frozenset[str] = frozenset()
    to_compare: frozenset[str] | None = frozenset()
    has_password: bool = False


class RepairLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a repair on waiting and retries."""

    grace_ms: int = 30_000  # before a ledger that is being written is fenced
    look_count_max: int = 32  # reads of the metadata; a ledger that changes more often is postponed
    target_count_max: int = 3  # bookies tried for one slot


class RepairResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a repair.

    The ledger *is whole* when nothing is left to do. Otherwise ``lost``, ``uncovered`` and
    ``blocked`` are reasons why it cannot be repaired now; after ``error`` another repair may
    succeed; ``skipped_count`` counts the slots that the placement left to another bookie, or to a
    writer that still uses the bookie that is to leave. ``away`` and ``in_limbo`` belong to ``lost``
    and ``uncovered``: the ledger may become repairable when one of the former returns, or one of
    the latter has recovered entries from its peers.
    """

    is_gone: bool = False  # the ledger was deleted
    ledger_version: int | msgspec.UnsetType = msgspec.UNSET  # of its metadata, at the last look
    lost: tuple[LostEntries, ...] = ()
    away: frozenset[str] = frozenset()  # bookies of the ledger that were not registered
    in_limbo: frozenset[str] = frozenset()  # those that were, and may have lost the lost entries
    awaited: frozenset[str] = frozenset()  # bookies to be compared that were not registered
    mended: frozenset[str] = frozenset()  # bookies whose damaged replicas were replaced in place
    uncovered: str = ""  # why the remaining bookies cannot close the ledger
    blocked: str = ""
    error: ZbkError | None = None
    skipped_count: int = 0
    replaced_count: int = 0  # bookies, each in one fragment
    copied_count: int = 0
    copied_size: int = 0
    is_recovered: bool = False  # fenced and closed by this repair
    is_stopped: bool = False

    @property
    def is_whole(self) -> bool:
        """True when nothing is left to do."""
        return not (self.unrepairable or self.error or self.skipped_count or self.is_stopped)

    @property
    def unrepairable(self) -> str:
        """Why the ledger cannot be repaired now; empty if there is no such reason."""
        texts = [text for text in (self.blocked, self.uncovered) if text]
        texts += [str(one) for one in self.lost[:SHOWN_COUNT]]
        more = len(self.lost) - SHOWN_COUNT
        return "; ".join(texts + ([f"and {more} more ranges"] if more > 0 else []))

    def is_outdated(self, registered: Collection[str]) -> bool:
        """Return whether a bookie returned that was away when the ledger was given up."""
        return not self.away.isdisjoint(registered)


# ------------------------------------------------------------------ effects and their answers


class LookAtLedger(msgspec.Struct, frozen=True):
    """Read the current metadata and the registrations.

    Answer: LedgerSeen, or an error; ``NoSuchLedgerError`` if the ledger was deleted.
    """


class LedgerSeen(msgspec.Struct, frozen=True):
    """The metadata, and the registered bookies, read-only ones included.

    Both are as of ``asked_ms`` or later. The answer arrived at ``seen_ms``.
    """

    metadata: LedgerMetadata
    registered: frozenset[str]
    asked_ms: int
    seen_ms: int
    version: int | msgspec.UnsetType = msgspec.UNSET  # of the metadata


class WaitUntil(msgspec.Struct, frozen=True):
    """Wait. Answer: the time, in ms; if it is too early, the procedure waits again."""

    until_ms: int


class CopyFragment(msgspec.Struct, frozen=True):
    """Copy the entries of an order, and confirm them at the target. Answer: CopyResult."""

    order: CopyOrder


class ChooseTarget(msgspec.Struct, frozen=True):
    """Choose a bookie for a slot, not in the ensemble or ``exclude``. Answer: TargetChosen."""

    ensemble: tuple[str, ...]
    slot: int
    exclude: frozenset[str]
    needs: frozenset[str] = NO_NEEDS  # features that it must have


class TargetChosen(msgspec.Struct, frozen=True):
    """A bookie for the slot; ``None`` if there is none.

    ``is_skipped``: this worker leaves the slot to other workers, which may find a bookie.
    """

    bookie_id: str | None
    is_skipped: bool = False


class ReplaceBookie(msgspec.Struct, frozen=True):
    """Replace ``old`` by ``new`` in a slot of a fragment, if ``old`` is still there.

    Answer: BookieReplaced; ``NoSuchLedgerError`` if the ledger was deleted; after any other error
    the change may be made or not.
    """

    first_entry_id: int
    slot: int
    old: str
    new: str


class BookieReplaced(msgspec.Struct, frozen=True):
    """The ledger after the change; not ``is_ours``: ``old`` had already been replaced."""

    metadata: LedgerMetadata
    is_ours: bool = True


class CutFragment(msgspec.Struct, frozen=True):
    """Cut a fragment of a closed ledger before each of ``starts``, ascending.

    Answer: the metadata after the change, even if another worker made it; or an error, as for
    ``ReplaceBookie``.
    """

    first_entry_id: int
    starts: tuple[int, ...]


class RecoverLedger(msgspec.Struct, frozen=True):
    """Fence, recover and close the ledger.

    Only if ``fragment`` is its last one at the moment when its state becomes IN_RECOVERY: from then
    on the writer cannot begin another. Answer: LedgerRecovered, or an error; ``NoSuchLedgerError``
    if the ledger was deleted.
    """

    fragment: Fragment


class LedgerRecovered(msgspec.Struct, frozen=True):
    """The ledger is fenced and closed; not ``is_ours``: its writer has begun another fragment."""

    is_ours: bool = True


SharedEffect: TypeAlias = LookAtLedger | WaitUntil | AskHoldings | CopyFragment
"""The effects of repairs and of re-checks."""

RepairEffect: TypeAlias = SharedEffect | ChooseTarget | ReplaceBookie | CutFragment | RecoverLedger
