"""The progress of a repair, written to the metadata store for people. Any one thread."""

from contextlib import suppress
from typing import Final

from zbk.auditor.ledger_repairer import RepairWatcher
from zbk.auditor.repair_counts import RepairCounts
from zbk.errors import ZbkError
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.system.clock import monotonic_ms

PROGRESS_INTERVAL_MS: Final = 1_000
"""The shortest interval between two writes."""


class RepairProgress(RepairWatcher):
    """The entries of one ledger that are copied, and those of all copies begun so far."""

    def __init__(self, tasks: UnderreplicationStore, ledger_id: int, counts: RepairCounts) -> None:
        self._tasks = tasks
        self._ledger_id = ledger_id
        self._counts = counts  # of the process
        self._copied_count = 0
        self._to_copy_count = 0
        self._written_ms: int | None = None

    def copy_begun(self, order: CopyOrder) -> None:
        """Count the entries of another copy."""
        self._to_copy_count = self._copied_count + order.entry_count
        self._write_if_due()  # a slow copy is shown from its beginning

    def copied(self, entry_count: int, size: int) -> None:
        """Count entries that the target has fsynced."""
        self._counts.copied(entry_count, size)
        self._copied_count += entry_count
        self._write_if_due()

    def _write_if_due(self) -> None:
        now_ms = monotonic_ms()
        if self._written_ms is not None and now_ms - self._written_ms < PROGRESS_INTERVAL_MS:
            return
        self._written_ms = now_ms
        with suppress(ZbkError):  # a lost note costs nothing: the next write follows
            self._tasks.note_progress(self._ledger_id, self._copied_count, self._to_copy_count)
