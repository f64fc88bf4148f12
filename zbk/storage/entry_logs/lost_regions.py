"""Bytes of entry logs that are not what was written, and that no index points into.

A loss of power takes pieces of unsynced bytes: pages in the middle of a log or at its end, also
before its map. This log promised nothing in them. A *lost region* is a damaged region into which no
index points, as a pass of the scrubber has shown. No index ever will: adds go to other logs, and
compaction moves whole entries only.

A log that compaction has made since the start has no lost regions: the index in memory may point
there already, while the index on disk does not. All of it was synced before it got its name, so a
loss of power takes nothing from it, and damage in it is damage.

Readers skip the lost regions of a log, which is then collected and compacted like others. Damage
that no pass has checked since the start is damage, and its log stays.

Threads: any; values are replaced as a whole.
"""

from collections.abc import Iterable
from typing import TypeAlias

RegionsOfLog: TypeAlias = tuple[tuple[int, int], ...]
"""Begins and ends, in bytes from the start of a log."""


class LostRegions:
    """The lost regions of the logs of one ledger directory."""

    def __init__(self) -> None:
        self._by_log: dict[int, RegionsOfLog] = {}
        self._made_ids: set[int] = set()

    def __len__(self) -> int:
        """Return the number of logs with lost regions."""
        return len(self._by_log)

    def of(self, log_id: int) -> RegionsOfLog:
        """Return the lost regions of a log."""
        return self._by_log.get(log_id, ())

    def made(self, log_id: int) -> None:
        """Record that compaction makes a log, or continues with it after a restart."""
        self._made_ids.add(log_id)

    def may_have(self, log_id: int) -> bool:
        """Return whether damage in a log may be a lost region."""
        return log_id not in self._made_ids

    def note(self, log_id: int, regions: Iterable[tuple[int, int]]) -> bool:
        """Record the lost regions of a log; return false if they were known."""
        assert self.may_have(log_id), "the index may come to point there"
        now = tuple(regions)
        before = self._by_log.get(log_id, ())
        self._by_log[log_id] = now
        return now != before

    def revoke(self, log_id: int) -> None:
        """Record that an index may point into the damage in a log."""
        self._by_log.pop(log_id, None)

    def forget(self, log_id: int) -> None:
        """Forget a log that was removed."""
        self._by_log.pop(log_id, None)
        self._made_ids.discard(log_id)


def is_lost(regions: RegionsOfLog, offset: int, size: int) -> bool:
    """Return whether ``size`` bytes at an offset lie in one of these regions.

    >>> is_lost(((100, 200),), 120, 80), is_lost(((100, 200),), 120, 81)
    (True, False)
    """
    return any(start <= offset and offset + size <= end for start, end in regions)
