"""The notes of one repair: the slots that are done, and its result so far."""

from typing import Any, Final

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.entry.spans import Span
from zbk.protocol.repair.copy_order import LostEntries
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.ledger_view import FragmentSlot, LedgerView
from zbk.protocol.repair.repair_effects import RepairResult

NO_KEY: Final = (
    "its metadata are of format 1 and have no key for the bookies: repair it with its password, "
    "zbk bookie recover --password-file"
)
WITHOUT_DIGEST: Final = (
    "it is not closed, and its end cannot be verified without its password: close it with "
    "zbk ledger recover --password-file"
)


class RepairNotes:
    """The notes of one ``LedgerRepair``."""

    def __init__(self) -> None:
        self.result = RepairResult()  # so far
        self.good: set[FragmentSlot] = set()  # held all due entries when they were asked
        self.given_up: set[FragmentSlot] = set()
        self.mended: set[str] = set()  # bookies with damaged slots that were mended in place
        self.away: frozenset[str] = frozenset()  # bookies of the ledger, at the last look

    def give_up(
        self,
        one: FragmentSlot,
        *,
        lost: tuple[LostEntries, ...] = (),
        uncovered: str = "",
        blocked: str = "",
        error: ZbkError | None = None,
    ) -> None:
        """Record why a slot is not repaired; the first reason of each kind counts."""
        before = self.result
        self.given_up.add(one)
        self.add_lost(lost)
        self.update(
            away=before.away | self.away if uncovered else self.result.away,
            uncovered=before.uncovered or uncovered,
            blocked=before.blocked or blocked,
            error=before.error or error,
        )

    def skip(self, one: FragmentSlot) -> None:
        """Leave a slot to other workers, or to a later repair."""
        self.given_up.add(one)
        self.update(skipped_count=self.result.skipped_count + 1)

    def await_bookie(self, bookie_id: str) -> None:
        """Record a bookie whose comparison waits because it is away."""
        self.update(awaited=self.result.awaited | {bookie_id})

    def add_lost(self, lost: tuple[LostEntries, ...]) -> None:
        """Record lost entries, and the bookies that are away and may have them."""
        before = self.result
        new = tuple(one for one in lost if one not in before.lost)
        if new:
            self.update(lost=(*before.lost, *new), away=before.away | self.away)

    def add_in_limbo(self, bookie_ids: set[str]) -> None:
        """Record bookies in limbo that may have had lost entries."""
        self.update(in_limbo=self.result.in_limbo | bookie_ids)

    def add_copy(self, copied: CopyResult) -> None:
        """Count a copy, whole or not."""
        self.update(
            copied_count=self.result.copied_count + copied.copied_count,
            copied_size=self.result.copied_size + copied.copied_size,
            is_stopped=self.result.is_stopped or copied.is_stopped,
        )

    def add_replaced(self, one: FragmentSlot, *, is_ours: bool) -> None:
        """Count a bookie that was replaced; its slot is good."""
        self.good.add(one)
        self.update(replaced_count=self.result.replaced_count + is_ours)

    def add_mended(self, one: FragmentSlot, span: Span) -> None:
        """Record that a slot with a span was mended in place, unless it was given up.

        It is good then, though its bookie was to leave. With lost entries it stays damaged.
        """
        first, last = span
        lost = self.result.lost
        if any(gone.first_entry_id <= last and first <= gone.last_entry_id for gone in lost):
            self.given_up.add(one)
        if one not in self.given_up:
            self.good.add(one)
            self.mended.add(one.bookie_id)

    def note_mended(self) -> None:
        """Record which bookies have no damaged slots any more."""
        left = {one.bookie_id for one in self.given_up}
        self.update(mended=frozenset(self.mended - left))

    def is_bad(self, one: FragmentSlot, view: LedgerView) -> bool:
        """Return whether a slot needs another bookie, after what was mended.

        The last fragment of a bookie that was mended stays, too: only closed ones are checked.
        """
        return view.is_lost(one) or (view.is_bad(one) and one.bookie_id not in self.mended)

    def update(self, **fields: Any) -> None:  # noqa: ANN401 - as the fields of a result
        """Change fields of the result."""
        self.result = msgspec.structs.replace(self.result, **fields)
