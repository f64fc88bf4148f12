"""The synced entries of one VD ledger at a bookie: ``LastAddSynced`` and the ranges beyond it.

Words: the *LAS* (last add synced) is the id up to which every entry is synced here, or is known to
be confirmed in the ensemble. *Ranges* are runs of entries that are synced here, after the first
hole beyond the LAS.

The LAS is NOT evidence that this bookie holds an entry: a LAC that came with an add raises it over
entries that may never have arrived (``raise_floor``). So no method here reports which entries the
bookie holds; ask the index. After a restart the cursor is rebuilt from durable data only, and holes
stay holes.

Decision: the ranges are bounded. At ``RANGE_COUNT_MAX`` the range farthest from the LAS is dropped.
The cursor then reports less than is true, never more, and the LAC of the ensemble or a rebuild from
the index advances it again.

Source: the relaxed-durability proposal, section Update Sync Cursor.
"""

from bisect import bisect_left, bisect_right
from typing import Final

from zbk.protocol.entry.words import NO_ENTRY

RANGE_COUNT_MAX: Final = 1024


class SyncCursor:
    """``LastAddSynced`` plus sorted, disjoint, non-adjacent ranges beyond it.

    Invariants, checked in ``_check``:
      * firsts and lasts pair up, at most ``range_count_max`` of them, each first <= its last;
      * the lowest range starts after ``last_add_synced + 1``, or it would be in the prefix;
      * between two ranges there is a hole.

    >>> cursor = SyncCursor()
    >>> cursor.add(0, 4); cursor.add(7, 9); cursor.last_add_synced
    4
    >>> cursor.add(5, 6); cursor.last_add_synced
    9
    """

    def __init__(
        self, last_add_synced: int = NO_ENTRY, *, range_count_max: int = RANGE_COUNT_MAX
    ) -> None:
        assert last_add_synced >= NO_ENTRY, "ids start at 0"
        assert range_count_max >= 1, "without ranges entries out of order would be lost"
        self._last_add_synced = last_add_synced
        self._range_count_max = range_count_max
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    @property
    def last_add_synced(self) -> int:
        """The LAS; -1 is none. It only grows while the bookie runs."""
        return self._last_add_synced

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The ranges beyond the first hole, ``(first, last)``, ascending."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def add(self, first: int, last: int) -> None:
        """Record that the entries ``first .. last`` are on stable storage here, for any reason."""
        assert 0 <= first <= last, "a range has at least one entry"
        if first <= self._last_add_synced + 1:
            self._raise_to(last)
        else:
            self._insert(first, last)
        self._check()

    def raise_floor(self, lac: int) -> None:
        """Record a LAC that came with an add: every entry up to it is confirmed in the ensemble.

        The message of the LAC must have passed its checksum: one damaged header would raise the
        LAC of the whole ledger.
        """
        self._raise_to(lac)
        self._check()

    def _raise_to(self, last: int) -> None:
        if last <= self._last_add_synced:
            return
        # ranges that start at or before last + 1 are absorbed; the last one may reach further
        count = bisect_right(self._firsts, last + 1)
        if count:
            last = max(last, self._lasts[count - 1])
            del self._firsts[:count]
            del self._lasts[:count]
        self._last_add_synced = last

    def _insert(self, first: int, last: int) -> None:
        # ranges that overlap or touch first .. last are merged with it
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first = min(first, self._firsts[low])
            last = max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]
        if len(self._firsts) > self._range_count_max:
            self._firsts.pop()
            self._lasts.pop()

    def _check(self) -> None:
        assert len(self._firsts) == len(self._lasts) <= self._range_count_max
        if self._firsts:
            assert self._firsts[0] > self._last_add_synced + 1, "a range touches the prefix"
            assert self._firsts[0] <= self._lasts[0], "a range has at least one entry"
