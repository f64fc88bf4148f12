"""A set of ledger ids as ranges, in memory and on disk; ids are assigned and deleted in runs. Pure.

On disk, in the bodies of several files: per range first and last ledger id (i64, i64,
little-endian), ascending, not adjacent.

A value never changes, so any thread may read one while another makes the next.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from zbk.errors import CorruptRecordError

_RANGE: Final = struct.Struct("<qq")

RANGE_SIZE: Final = _RANGE.size
"""Bytes of a range on disk."""


class LedgerRanges(msgspec.Struct, frozen=True):
    """Ranges ``firsts[i] .. lasts[i]``, ascending, with at least one id between two."""

    firsts: tuple[int, ...] = ()
    lasts: tuple[int, ...] = ()

    def __contains__(self, ledger_id: int) -> bool:
        at = bisect_right(self.firsts, ledger_id) - 1
        return at >= 0 and ledger_id <= self.lasts[at]

    @property
    def range_count(self) -> int:
        """The number of ranges."""
        return len(self.firsts)

    @property
    def ledger_count(self) -> int:
        """The number of ids."""
        return sum(self.lasts) - sum(self.firsts) + len(self.firsts)

    def with_ids(self, ledger_ids: Iterable[int]) -> "LedgerRanges":
        """Return the set with more ids.

        >>> LedgerRanges((1, 7), (3, 9)).with_ids([4, 12, 6])
        LedgerRanges(firsts=(1, 6, 12), lasts=(4, 9, 12))
        """
        return self.with_ranges((one, one) for one in ledger_ids)

    def with_ranges(self, ranges: Iterable[tuple[int, int]]) -> "LedgerRanges":
        """Return the set with more ranges, each a first and a last id.

        >>> LedgerRanges((1,), (3,)).with_ranges([(7, 9), (4, 5), (6, 4)])
        LedgerRanges(firsts=(1, 7), lasts=(5, 9))
        """
        own = zip(self.firsts, self.lasts, strict=True)
        firsts: list[int] = []
        lasts: list[int] = []
        for first, last in sorted([*own, *(one for one in ranges if one[0] <= one[1])]):
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(lasts[-1], last)
            else:
                firsts.append(first)
                lasts.append(last)
        return LedgerRanges(tuple(firsts), tuple(lasts))

    def union(self, other: "LedgerRanges") -> "LedgerRanges":
        """Return the ids that are in either set.

        >>> LedgerRanges((1,), (3,)).union(LedgerRanges((4, 9), (5, 9)))
        LedgerRanges(firsts=(1, 9), lasts=(5, 9))
        """
        return self.with_ranges(zip(other.firsts, other.lasts, strict=True))

    def without(self, other: "LedgerRanges") -> "LedgerRanges":
        """Return the ids that are in this set and not in the other.

        >>> LedgerRanges((1, 7), (5, 9)).without(LedgerRanges((3,), (7,)))
        LedgerRanges(firsts=(1, 8), lasts=(2, 9))
        """
        stop = self.lasts[-1] + 1 if self.lasts else 0
        neither = LedgerRanges().with_ranges(self.gaps(stop))
        gone = neither.with_ranges(zip(other.firsts, other.lasts, strict=True))
        return LedgerRanges().with_ranges(gone.gaps(stop))

    def gaps(self, stop: int) -> list[tuple[int, int]]:
        """Return the first and last ids of the runs from 0 to ``stop - 1`` that are not in the set.

        >>> LedgerRanges((1, 7), (5, 9)).gaps(20), LedgerRanges((1, 7), (5, 9)).gaps(7)
        ([(0, 0), (6, 6), (10, 19)], [(0, 0), (6, 6)])
        """
        edges = zip((-1, *self.lasts), (*self.firsts, stop), strict=True)
        between = ((last + 1, min(first, stop) - 1) for last, first in edges)
        return [(first, last) for first, last in between if first <= last]

    def gap_ids(self, count_max: int) -> list[int]:
        """Return the ids of the narrowest gaps, ascending: added, they merge ranges.

        >>> LedgerRanges((1, 7, 90), (5, 9, 91)).gap_ids(10)
        [6]
        """
        gaps = [(b - a - 1, a + 1) for a, b in zip(self.lasts, self.firsts[1:], strict=False)]
        found: list[int] = []
        for width, first in sorted(gaps):
            if len(found) + width > count_max:
                break
            found += range(first, first + width)
        return sorted(found)


def encode_ranges(ranges: LedgerRanges) -> bytes:
    """Return the bytes of ranges on disk."""
    return b"".join(map(_RANGE.pack, ranges.firsts, ranges.lasts))


def decode_ranges(data: bytes, count: int, where: str, offset: int) -> LedgerRanges:
    """Return the ranges in ``data``, which is at ``offset`` in the file ``where``.

    Raises:
        CorruptRecordError: there are not as many as ``count``, or they are not in order.
    """
    if len(data) != count * _RANGE.size:
        raise CorruptRecordError(where, offset, "the ranges are not as many as it says")
    bounds = list(_RANGE.iter_unpack(data))
    firsts, lasts = tuple(first for first, _ in bounds), tuple(last for _, last in bounds)
    if not is_in_order(firsts, lasts):
        raise CorruptRecordError(where, offset, "the ranges are not in order")
    return LedgerRanges(firsts, lasts)


def is_in_order(firsts: Sequence[int], lasts: Sequence[int]) -> bool:
    """Return whether these are valid bounds of a ``LedgerRanges``."""
    bounds = [bound for pair in zip(firsts, lasts, strict=True) for bound in pair]
    is_apart = all(last + 1 < first for last, first in zip(lasts, firsts[1:], strict=False))
    return is_apart and all(a <= b for a, b in pairwise(bounds)) and min(bounds, default=0) >= 0
