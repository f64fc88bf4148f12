"""Bytes of entry logs that are not what was written, and that no index points into.

A loss of power takes pieces of what was not synced: pages that were never written, in the middle of
a log or at its end, before its map, too. Nothing in them was promised by this log. A *lost region*
is a damaged one of which a pass of the scrubber has shown that no index points into it. Nothing
ever will: adds go to other logs, and compaction moves what is whole.

Not so in a log that compaction has made in this life: the index in memory may point there already,
and that on the disk not yet. No loss of power takes anything from it, as all of it was synced
before it got its name: damage in it is damage.

So a log with lost regions is read as if they were not there, and goes the way of all others. What
has not been looked at since the start is damage, and its log stays.

Threads: any; a value is replaced as a whole.
"""

from collections.abc import Iterable
from typing import TypeAlias

RegionsOfLog: TypeAlias = tuple[tuple[int, int], ...]
"""Begins and ends, in bytes of a log."""


class LostRegions:
    """The lost regions of the logs of one ledger directory."""

    def __init__(self) -> None:
        self._by_log: dict[int, RegionsOfLog] = {}
        self._made_ids: set[int] = set()

    def __len__(self) -> int:
        """Return how many logs have any."""
        return len(self._by_log)

    def of(self, log_id: int) -> RegionsOfLog:
        """Return the lost regions of a log."""
        return self._by_log.get(log_id, ())

    def made(self, log_id: int) -> None:
        """Note that compaction makes a log, or has the index point at it again."""
        self._made_ids.add(log_id)

    def may_have(self, log_id: int) -> bool:
        """Return whether damage in a log may be a lost region."""
        return log_id not in self._made_ids

    def note(self, log_id: int, regions: Iterable[tuple[int, int]]) -> bool:
        """Note what is lost of a log; return false if that was known."""
        assert self.may_have(log_id), "the index may come to point there"
        now = tuple(regions)
        before = self._by_log.get(log_id, ())
        self._by_log[log_id] = now
        return now != before

    def revoke(self, log_id: int) -> None:
        """Record that an index may point into the damage in a log."""
        self._by_log.pop(log_id, None)

    def forget(self, log_id: int) -> None:
        """Note that a log was removed."""
        self._by_log.pop(log_id, None)
        self._made_ids.discard(log_id)


def is_lost(regions: RegionsOfLog, offset: int, size: int) -> bool:
    """Return whether so many bytes from an offset on lie in one of these regions.

    >>> is_lost(((100, 200),), 120, 80), is_lost(((100, 200),), 120, 81)
    (True, False)
    """
    return any(start <= offset and offset + size <= end for start, end in regions)
