"""Which entries of a ledger its writer could not write to which bookies.

Ranges are inclusive, ascending and apart. On a striped ledger a range means the entries in it that
are due on the bookie. There are at most ``RANGES_COUNT_MAX`` of one bookie: more are joined over
the smallest gaps, so the ranges may name entries that the bookie has, and never leave one out that
it lacks.

What autorecovery was told of is *reported*: it stays missing, and is not reported again.

A value is replaced, never changed: any thread may read ``by_bookie``.
"""

from collections.abc import Collection, Mapping, Sequence

from zbk.protocol.entry.spans import Span, covering, merged
from zbk.protocol.repair.underreplicated import RANGES_COUNT_MAX


def without(ranges: tuple[Span, ...], first: int, last: int) -> tuple[Span, ...]:
    """Return ranges without the ids ``first .. last``.

    >>> without(((0, 3), (7, 9)), 2, 7)
    ((0, 1), (8, 9))
    """
    pieces = (
        piece
        for low, high in ranges
        for piece in ((low, min(high, first - 1)), (max(low, last + 1), high))
    )
    return tuple(merged((low, high) for low, high in pieces if low <= high))


class MissingEntries:
    """The missing entries of one ledger, by bookie id.

    Invariant: no bookie is named without a range.

    >>> missing = MissingEntries()
    >>> missing.add("a", 3, 5), missing.reported({"a": [(3, 5)]}), missing.add("a", 6, 9)
    (None, None, None)
    >>> missing.up_to(7), missing.unreported(7)
    ({'a': ((3, 7),)}, {'a': ((6, 7),)})
    """

    __slots__ = (
        "_reported",
        "by_bookie",
    )

    def __init__(self) -> None:
        self.by_bookie: Mapping[str, tuple[Span, ...]] = {}
        self._reported: dict[str, tuple[Span, ...]] = {}

    def add(self, bookie_id: str, first: int, last: int) -> None:
        """Record that a bookie lacks its entries of ``first .. last``, if there are any."""
        if last < first:
            return
        ranges = self.by_bookie.get(bookie_id, ())
        if ranges and ranges[-1][0] <= first <= ranges[-1][1] + 1:  # the usual case: what follows
            ranges = (*ranges[:-1], (ranges[-1][0], max(last, ranges[-1][1])))
        else:
            ranges = covering([*ranges, (first, last)], RANGES_COUNT_MAX)
        self.by_bookie = {**self.by_bookie, bookie_id: ranges}

    def up_to(self, last_entry_id: int) -> dict[str, tuple[Span, ...]]:
        """Return what is missing of the entries up to one, by bookie id in order."""
        cut = {
            bookie_id: tuple(
                (first, min(last, last_entry_id))
                for first, last in ranges
                if first <= last_entry_id
            )
            for bookie_id, ranges in sorted(self.by_bookie.items())
        }
        return {bookie_id: ranges for bookie_id, ranges in cut.items() if ranges}

    def unreported(
        self, last_entry_id: int, *, leave_out: Collection[str] = ()
    ) -> dict[str, tuple[Span, ...]]:
        """Return what is missing of the entries up to one and is not reported, but of some."""
        left = self.up_to(last_entry_id)
        for bookie_id, ranges in self._reported.items():
            for first, last in ranges:
                left[bookie_id] = without(left.get(bookie_id, ()), first, last)
        return {one: ranges for one, ranges in left.items() if ranges and one not in leave_out}

    def reported(self, missing: Mapping[str, Sequence[Span]]) -> None:
        """Record what autorecovery was told of."""
        for bookie_id, ranges in missing.items():
            known = self._reported.get(bookie_id, ())
            self._reported[bookie_id] = tuple(merged([*known, *ranges]))
