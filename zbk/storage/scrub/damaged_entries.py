"""The entries in the index whose copies are known to be damaged.

A bookie does not report them as held. So a repair of the ledger copies them back, they are stored
again, and the bookie holds them again. Reads of damaged entries are still tried.

The set is in memory and has the findings of the last pass of the scrubber: after a restart it is
empty until the next pass. It keeps at most ``RANGE_COUNT_MAX`` ranges. The bookie reports further
damaged entries as held until a later pass, when the first ones are repaired.

Owned by the thread that owns storage.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from zbk.protocol.entry.spans import spans_of
from zbk.protocol.upkeep.scrub import DamagedEntries

RANGE_COUNT_MAX: Final = 10_000


class DamagedEntryIds:
    """Ranges of entry ids by ledger: first and last, ascending, disjoint."""

    def __init__(self, range_count_max: int = RANGE_COUNT_MAX) -> None:
        self._range_count_max = range_count_max
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        self._passes: dict[int, int] = {}  # the last pass that found damage, by ledger
        self._range_count = 0

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __contains__(self, ledger_id: int) -> bool:
        return ledger_id in self._ranges

    def add(self, ledger_id: int, first: int, last: int, pass_no: int) -> None:
        """Record entries that a pass found damaged.

        The findings of earlier passes in the ledger are dropped.
        """
        if self._passes.get(ledger_id) != pass_no:
            self._put(ledger_id, ())
        self._passes[ledger_id] = pass_no
        ranges = self._ranges.setdefault(ledger_id, [])
        if ranges and ranges[-1][1] >= first:  # seldom: an entry that moved is checked later
            self._put(ledger_id, sorted([*without(ranges, first, last), (first, last)]))
            self._passes[ledger_id] = pass_no
        elif ranges and ranges[-1][1] == first - 1:
            ranges[-1] = (ranges[-1][0], last)
        elif self._range_count < self._range_count_max:
            ranges.append((first, last))
            self._range_count += 1
        else:
            self._put(ledger_id, ranges)  # drops the ledger if this is its first range

    def remove(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Record that these entries, ascending, have sound copies now."""
        ranges: Sequence[tuple[int, int]] = self._ranges.get(ledger_id, ())
        for first, last in spans_of(entry_ids) if ranges else ():
            ranges = without(ranges, first, last)
        self._put(ledger_id, ranges)

    def end_pass(self, pass_no: int) -> None:
        """Drop the ledgers in which this pass, which read everything, found no damage."""
        for ledger_id in [one for one, found in self._passes.items() if found != pass_no]:
            self._put(ledger_id, ())

    def held(self, ledger_id: int, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return ranges of entries without the damaged ones."""
        held = list(ranges)
        for first, last in self._ranges.get(ledger_id, ()):
            held = without(held, first, last)
        return held

    def _put(self, ledger_id: int, ranges: Sequence[tuple[int, int]]) -> None:
        self._range_count += len(ranges) - len(self._ranges.pop(ledger_id, ()))
        if ranges:
            self._ranges[ledger_id] = list(ranges)
        else:
            self._passes.pop(ledger_id, None)


class RecordDamage(msgspec.Struct, frozen=True):
    """Record, as the owner, entries that a pass found damaged."""

    damaged: DamagedEntryIds
    found: Sequence[DamagedEntries]
    pass_no: int

    def answer(self) -> None:
        """Record them."""
        for one in self.found:
            self.damaged.add(one.ledger_id, one.first_entry_id, one.last_entry_id, self.pass_no)


class EndDamagePass(msgspec.Struct, frozen=True):
    """End, as the owner, a pass that read everything."""

    damaged: DamagedEntryIds
    pass_no: int

    def answer(self) -> None:
        """End it."""
        self.damaged.end_pass(self.pass_no)


def without(ranges: Sequence[tuple[int, int]], first: int, last: int) -> list[tuple[int, int]]:
    """Return ranges without the ids ``first .. last``.

    >>> without([(0, 9), (20, 29)], 5, 24)
    [(0, 4), (25, 29)]
    """
    left = []
    for low, high in ranges:
        if high < first or last < low:
            left.append((low, high))
            continue
        if low < first:
            left.append((low, first - 1))
        if last < high:
            left.append((last + 1, high))
    return left
