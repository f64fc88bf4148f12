"""What one bookie says that it holds of a ledger, compared with what is due there. Pure.

A bookie tells the ranges of its index in *pages*: at most so many ranges, or entries, and where to
go on. Each page is compared and forgotten, so a fragment with very many holes takes no more memory
than one with a few: of what is missing at most ``RANGES_COUNT_MAX`` spans are kept, the others are
merged into covering ones; ``missing_count`` is exact. Pages that have nothing due are skipped.

Only fragments whose end is known are compared. What a bookie tells is on its stable storage, of VD
ledgers as well, wherever its sync cursor is: that one stops at the first hole, and what lies behind
a hole is not missing.
"""

from collections.abc import Sequence

import msgspec

from zbk.protocol.entry.spans import Span, covering
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.copy_order import due_count, missing_spans
from zbk.protocol.repair.fragment_check import settled
from zbk.protocol.repair.underreplicated import RANGES_COUNT_MAX


class AskHoldings(msgspec.Struct, frozen=True):
    """The effect that asks a bookie what it holds of ``span``. Answer: Holdings, or an error."""

    bookie_id: str
    span: Span


class Holdings(msgspec.Struct, frozen=True):
    """What a bookie holds of a span on stable storage: ranges of entry ids, ascending.

    They are complete up to ``last_entry_id``; ``None``: to the end of the span.
    """

    ranges: tuple[Span, ...]
    last_entry_id: int | None = None
    is_in_limbo: bool = False  # entries that it does not name may have been there and be lost


class HeldPages:
    """Collects the pages of one bookie for one span. Ask from ``next_entry_id`` until it is None.

    ``range_count_max``: with so many ranges it is full; one page more may be in memory.
    """

    def __init__(self, span: Span, range_count_max: int | None = None) -> None:
        self._last_id = span[1]
        self._range_count_max = range_count_max
        self._ranges: list[Span] = []
        self._is_in_limbo = False
        self.next_entry_id: int | None = span[0] if span[0] <= span[1] else None

    @property
    def is_full(self) -> bool:
        """True when no more ranges are kept."""
        return self._range_count_max is not None and len(self._ranges) >= self._range_count_max

    @property
    def holdings(self) -> Holdings:
        """What the pages say so far."""
        last_id = None if self.next_entry_id is None else self.next_entry_id - 1
        return Holdings(tuple(self._ranges), last_id, self._is_in_limbo)

    def add(
        self, ranges: Sequence[Span], next_entry_id: int | None, *, is_in_limbo: bool = False
    ) -> None:
        """Add the page that begins at ``next_entry_id``; the argument is where the next begins."""
        self._ranges += ranges
        self._is_in_limbo |= is_in_limbo
        is_last = next_entry_id is None or next_entry_id > self._last_id
        self.next_entry_id = None if is_last else next_entry_id


class HoldingsComparison:
    """One bookie and one ledger. Ask for pages from ``next_entry_id`` on, until it is None."""

    next_entry_id: int | None

    def __init__(self, metadata: LedgerMetadata, bookie_id: str) -> None:
        self._quorum = metadata.quorum
        self._parts: list[tuple[Fragment, int, int]] = [  # that name it: slot and last entry id
            (fragment, fragment.bookies.index(bookie_id), last)
            for fragment, last in settled(metadata)
            if bookie_id in fragment.bookies
        ]
        self._missing: list[Span] = []
        self.missing_count = 0
        self.next_entry_id = None
        self._go_on_at(0)

    @property
    def missing(self) -> tuple[Span, ...]:
        """What is due and not held, as far as was told; covering, if that are many spans."""
        return covering(self._missing, RANGES_COUNT_MAX)

    def told(self, ranges: Sequence[Span], next_entry_id: int | None) -> None:
        """Record the page that begins at ``next_entry_id`` as it was: the ascending ranges held.

        The new one is where the bookie goes on; ``None``: this was all.
        """
        first = self.next_entry_id
        assert first is not None, "a page was asked for"
        assert next_entry_id is None or next_entry_id > first, "each page goes on"
        for fragment, slot, last in self._parts:
            begin = max(first, fragment.first_entry_id)
            end = last if next_entry_id is None else min(last, next_entry_id - 1)
            if begin > end:
                continue
            spans = missing_spans(self._quorum, slot, (begin, end), ranges)
            self.missing_count += sum(due_count(self._quorum, slot, *span) for span in spans)
            self._missing += spans
        if len(self._missing) > 2 * RANGES_COUNT_MAX:
            self._missing = list(covering(self._missing, RANGES_COUNT_MAX))
        self.next_entry_id = None
        if next_entry_id is not None:
            self._go_on_at(next_entry_id)

    def _go_on_at(self, entry_id: int) -> None:
        """Go on behind all fragments that have nothing more to tell."""
        self._parts = [one for one in self._parts if one[2] >= entry_id]
        if self._parts:
            self.next_entry_id = max(entry_id, self._parts[0][0].first_entry_id)
