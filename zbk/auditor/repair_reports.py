"""The log lines about ledgers that are whole again.

A repair that copied something has a line of its own. Of those that found nothing to copy, which
come in thousands after a bookie has returned, the first has one, then all of a minute together.
Any thread.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from zbk.protocol.repair.repair_effects import RepairResult
from zbk.system.event_log import EventLog
from zbk.system.report_pace import ReportPace

LOG = EventLog("zbk.auditor")

WHOLE_REPORT_MS: Final = 60_000
"""The shortest time between two lines about ledgers that needed no copy."""


class RepairReports:
    """Logs the ledgers that a worker has made, or found, whole."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._unchanged = ReportPace[tuple[int, RepairResult]](WHOLE_REPORT_MS)

    def whole(self, ledger_id: int, result: RepairResult) -> None:
        """Report a ledger whose repair has ended."""
        if result.copied_count:
            _log_whole(logging.INFO, ledger_id, result)
            return
        _log_whole(logging.DEBUG, ledger_id, result)
        with self._lock:
            self._unchanged.note((ledger_id, result))
        self.report_due()

    def report_due(self) -> None:
        """Log the ledgers that needed no copy, if a line about them is due."""
        with self._lock:
            due = self._unchanged.take_due(self._now_ms())
        if due is None:
            return
        count, (ledger_id, result) = due
        if count == 1:
            _log_whole(logging.INFO, ledger_id, result)
        else:
            LOG.info(
                "repair.ledgers_whole",
                "%(ledger_count)d ledgers are whole, 0 entries copied; the last was ledger "
                "%(ledger_id)d",
                ledger_count=count,
                ledger_id=ledger_id,
            )


def _log_whole(level: int, ledger_id: int, result: RepairResult) -> None:
    LOG.log(
        level,
        "repair.ledger_whole",
        "ledger %(ledger_id)d is whole: %(summary)s",
        ledger_id=ledger_id,
        summary=_summary(result),
    )


def _summary(result: RepairResult) -> str:
    if result.is_gone:
        return "it was deleted"
    return (
        f"{result.copied_count} entries copied, {result.replaced_count} bookies of fragments "
        "replaced"
    )
