"""The holdings of a bookie: the entries of a ledger in its index, compared with those due. Pure.

A bookie returns the ranges of its index in *pages*, which are limited in ranges and in entries, and
the id at which the next page begins. Each page is compared and dropped, so a fragment with very
many holes takes no more memory than one with a few: at most ``RANGES_COUNT_MAX`` missing spans are
kept, others are merged into covering ones; ``missing_count`` is exact. Pages without due entries
are skipped.

Only fragments whose end is known are compared. Holdings are on stable storage, in VD ledgers, too,
whatever the sync cursor is: the cursor stops at the first hole, but entries after a hole are not
missing.
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
    """The entries of a span that a bookie holds on stable storage, as ascending ranges.

    They are complete up to ``last_entry_id``; ``None``: to the end of the span.
    """

    ranges: tuple[Span, ...]
    last_entry_id: int | None = None
    is_in_limbo: bool = False  # it may have had, and lost, entries outside of the ranges


class HeldPages:
    """The pages of one bookie for one span. Ask from ``next_entry_id`` until it is ``None``.

    ``range_count_max``: with so many ranges it is full; the last page may exceed it.
    """

    def __init__(self, span: Span, range_count_max: int | None = None) -> None:
        self._last_id = span[1]
        self._range_count_max = range_count_max
        self._ranges: list[Span] = []
        self._is_in_limbo = False
        self.next_entry_id: int | None = span[0] if span[0] <= span[1] else None

    @property
    def is_full(self) -> bool:
        """True when the limit on ranges is reached."""
        return self._range_count_max is not None and len(self._ranges) >= self._range_count_max

    @property
    def holdings(self) -> Holdings:
        """The holdings so far."""
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
    """The comparison for one bookie and one ledger. Ask from ``next_entry_id`` until it is None."""

    next_entry_id: int | None

    def __init__(self, metadata: LedgerMetadata, bookie_id: str) -> None:
        self._quorum = metadata.quorum
        self._parts: list[tuple[Fragment, int, int]] = [  # with its slot and last entry
            (fragment, fragment.bookies.index(bookie_id), last)
            for fragment, last in settled(metadata)
            if bookie_id in fragment.bookies
        ]
        self._missing: list[Span] = []
        self.missing_count = 0
        self.is_in_limbo = False
        self.next_entry_id = None
        self._continue_at(0)

    @property
    def missing(self) -> tuple[Span, ...]:
        """The due entries that the bookie does not hold, so far; many are covered by few spans."""
        return covering(self._missing, RANGES_COUNT_MAX)

    def add(
        self, ranges: Sequence[Span], next_entry_id: int | None, *, is_in_limbo: bool = False
    ) -> None:
        """Compare the page that begins at ``next_entry_id``: the ascending ranges held.

        The argument is where the next page begins; ``None``: this was the last one.
        """
        first = self.next_entry_id
        self.is_in_limbo |= is_in_limbo
        assert first is not None, "a page was asked for"
        assert next_entry_id is None or next_entry_id > first, "pages ascend"
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
            self._continue_at(next_entry_id)

    def _continue_at(self, entry_id: int) -> None:
        """Continue with the first fragment that ends at or after ``entry_id``."""
        self._parts = [one for one in self._parts if one[2] >= entry_id]
        if self._parts:
            self.next_entry_id = max(entry_id, self._parts[0][0].first_entry_id)
