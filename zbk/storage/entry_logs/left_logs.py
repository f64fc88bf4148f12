"""The entry logs that a last mark covers, and those that it does not.

A log is *left* when nothing is written to it and all pointers to it are on disk: a last mark covers
it, and it was not open when the checkpoint of that mark began. A log that compaction made is left
with the checkpoint after which its sources go: no mark covers it before adds begin another log,
which a full disk may keep from happening.
"""

from collections.abc import Collection, Mapping

import msgspec


class LogsAtMark(msgspec.Struct, frozen=True):
    """The logs when a checkpoint begins. Sizes in bytes, on stable storage after its sync."""

    last_log_id: int  # the highest that adds went to
    last_log_size: int  # of that log, if it is the shared one and open; else 0
    least_sizes: Mapping[int, int]  # of the logs since the start; 0: ``last_log_size`` has it
    open_ids: frozenset[int]


class LeftLogs(msgspec.Struct, frozen=True):
    """The logs that nothing is written to, and all pointers to which are on disk."""

    last_id: int = 0  # adds went to it
    open_ids: Collection[int] = frozenset()
    made_ids: frozenset[int] = frozenset()  # by compaction, after it

    def __contains__(self, log_id: int) -> bool:
        is_covered = log_id < self.last_id and log_id not in self.open_ids
        return is_covered or log_id in self.made_ids

    def with_made(self, log_id: int) -> "LeftLogs":
        """Return the logs with one that compaction made."""
        return msgspec.structs.replace(self, made_ids=self.made_ids | {log_id})

    def marked(self, at: LogsAtMark) -> "LeftLogs":
        """Return the logs after a last mark."""
        later = frozenset(one for one in self.made_ids if one > at.last_log_id)
        return LeftLogs(at.last_log_id, at.open_ids, later)
