"""How much of each entry log is live, where the log's map does not tell.

A map tells the ledgers in a log, and an entry of a ledger that was not deleted is live as a rule.
Not so after a crash: what the journal brings back is stored once more, in another log, and the
copies of before are dead though their ledgers live. Such logs are counted, entry by entry, by
whoever can ask the index; what came of it is kept here. An entry that is dead stays dead, so a
count that is old is never too low.

A log is *trusted* when its map is as good as a count: nothing shows that a crash was in between.

Kept in memory up to ``PAIR_COUNT_MAX`` pairs, and counted again beyond that. One thread, any.
"""

from array import array
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from zbk.protocol.upkeep.compaction import LogShare
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.entry_logs.uses import LogUse

PAIR_COUNT_MAX: Final = 1_000_000
"""Pairs of ledger and size in memory: 16 MiB."""


class LiveCounts:
    """The logs of one directory that were looked at."""

    def __init__(self, *, pair_count_max: int = PAIR_COUNT_MAX) -> None:
        self._pair_count_max = pair_count_max
        self._counted: OrderedDict[int, tuple[array[int], array[int]]] = OrderedDict()
        self._pair_count = 0
        self._trusted: set[int] = set()  # ids of logs that are there: few beside their entries

    def is_known(self, log_id: int) -> bool:
        """Return whether a log was counted, or is trusted."""
        return log_id in self._trusted or log_id in self._counted

    def trust(self, log_id: int) -> None:
        """Use what the map says for what is live, but for deleted ledgers."""
        self._trusted.add(log_id)

    def keep(self, log_id: int, size_by_ledger: Mapping[int, int]) -> None:
        """Note the live bytes of each ledger in a log."""
        self.forget(log_id)
        ids = array("q", sorted(size_by_ledger))
        self._counted[log_id] = ids, array("Q", [size_by_ledger[one] for one in ids])
        self._pair_count += len(ids)
        while self._pair_count > self._pair_count_max and len(self._counted) > 1:
            _, (old_ids, _) = self._counted.popitem(last=False)
            self._pair_count -= len(old_ids)

    def forget(self, log_id: int) -> None:
        """Note that a log was removed, or has changed its use."""
        self._trusted.discard(log_id)
        ids, _ = self._counted.pop(log_id, (array("q"), None))
        self._pair_count -= len(ids)

    def share_of(self, use: LogUse, deleted: LedgerRanges) -> LogShare:
        """Return how much of a log is live; one that was never looked at counts by its map."""
        ids, sizes = self._counted.get(use.log_id, (use.ledger_ids, use.sizes))
        pairs = zip(ids, sizes, strict=True)
        live_size = sum(size for ledger_id, size in pairs if ledger_id not in deleted)
        return LogShare(use.log_id, sum(use.sizes), live_size, use.is_whole)
