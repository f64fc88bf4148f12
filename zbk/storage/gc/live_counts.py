"""The live share of each entry log, where the log's map does not give it.

A map has the ledgers in a log, and an entry of a ledger that was not deleted is usually live. Not
so after a crash: entries that the journal brings back are stored again, in another log, and their
earlier copies are dead although their ledgers live. Compaction counts the entries of such logs with
the help of the index, and keeps the counts here. A dead entry stays dead, so an old count is never
too low.

A log is *trusted* when its map is as good as a count: nothing shows a crash in between.

Up to ``PAIR_COUNT_MAX`` pairs are kept in memory; logs beyond that are counted again. Any one
thread.
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
    """The counted logs of one directory."""

    def __init__(self, *, pair_count_max: int = PAIR_COUNT_MAX) -> None:
        self._pair_count_max = pair_count_max
        self._counted: OrderedDict[int, tuple[array[int], array[int]]] = OrderedDict()
        self._pair_count = 0
        self._trusted: set[int] = set()  # ids of logs: few compared with their entries

    def is_known(self, log_id: int) -> bool:
        """Return whether a log was counted, or is trusted."""
        return log_id in self._trusted or log_id in self._counted

    def trust(self, log_id: int) -> None:
        """Use the map of a log, without deleted ledgers, as its count."""
        self._trusted.add(log_id)

    def keep(self, log_id: int, size_by_ledger: Mapping[int, int]) -> None:
        """Keep the live bytes of each ledger in a log."""
        self.forget(log_id)
        ids = array("q", sorted(size_by_ledger))
        self._counted[log_id] = ids, array("Q", [size_by_ledger[one] for one in ids])
        self._pair_count += len(ids)
        while self._pair_count > self._pair_count_max and len(self._counted) > 1:
            _, (old_ids, _) = self._counted.popitem(last=False)
            self._pair_count -= len(old_ids)

    def forget(self, log_id: int) -> None:
        """Forget a log that was removed or has changed."""
        self._trusted.discard(log_id)
        ids, _ = self._counted.pop(log_id, (array("q"), None))
        self._pair_count -= len(ids)

    def share_of(self, use: LogUse, deleted: LedgerRanges) -> LogShare:
        """Return the live share of a log, by its map if it was not counted."""
        ids, sizes = self._counted.get(use.log_id, (use.ledger_ids, use.sizes))
        pairs = zip(ids, sizes, strict=True)
        live_size = sum(size for ledger_id, size in pairs if ledger_id not in deleted)
        return LogShare(use.log_id, sum(use.sizes), live_size, use.is_whole)
