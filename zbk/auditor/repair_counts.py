"""The counts of the repairs of one process. Any thread."""

import threading

from zbk.protocol.repair.repair_task import OutcomeKind


class RepairCounts:
    """The counters. Copies and ends of repairs are rare, so a lock costs nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.by_result = {kind.value: 0 for kind in OutcomeKind}
        self.copied_entry_count = 0
        self.copied_size = 0

    def ended(self, kind: OutcomeKind) -> None:
        """Count the end of one attempt."""
        with self._lock:
            self.by_result[kind.value] += 1

    def copied(self, entry_count: int, size: int) -> None:
        """Count entries that a target has fsynced."""
        with self._lock:
            self.copied_entry_count += entry_count
            self.copied_size += size
