"""The audit log of a process: a bounded queue, and the thread that writes it.

``note`` never waits for the disk. A record is *suppressed* when there are too many
(``zbk.audit.pace``), and *lost* when the queue is full or the file cannot be written. Both are
counted: a line with the action ``audit`` says how many were suppressed, the event
``audit.write_failed`` and the metric ``zbk_audit_records_total`` that some were lost. Lines are not
synced one by one: a loss of power may take the last ones.

Any thread may call ``note``. The thread exists only while there is an audit log.
"""

import os
import pwd
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from zbk.audit.pace import AuditPace
from zbk.audit.record import AuditRecord, line_of
from zbk.config import SecurityConfig
from zbk.errors import InvalidOptionError
from zbk.system.clock import monotonic_ms, wall_ms
from zbk.system.event_log import EventLog
from zbk.system.report_pace import ReportPace
from zbk.system.rotated_file import RotatedFile

LOG = EventLog("zbk.audit")

QUEUE_COUNT_MAX: Final = 10_000
BATCH_COUNT_MAX: Final = 256
REPORT_MS: Final = 10_000
"""Time between two lines about what was suppressed, and between two reports of a failure."""

AuditSink: TypeAlias = Callable[[AuditRecord], None]


class AuditCounts:
    """What became of the records of this process, in all of its trails. Any thread."""

    def __init__(self) -> None:
        self.written = 0
        self.suppressed = 0
        self.lost = 0
        self._lock = threading.Lock()

    def add(self, *, written: int = 0, suppressed: int = 0, lost: int = 0) -> None:
        """Count records."""
        with self._lock:
            self.written += written
            self.suppressed += suppressed
            self.lost += lost


class AuditTrail:
    """Writes audit records. ``close`` it at the end."""

    def __init__(self, file: RotatedFile, process: str, counts: AuditCounts | None = None) -> None:
        self.counts = AuditCounts() if counts is None else counts
        self._file = file
        self._process = process
        self._pace = AuditPace(monotonic_ms())
        self._failures = ReportPace[OSError](REPORT_MS)
        self._waiting: deque[tuple[int, AuditRecord]] = deque()
        self._condition = threading.Condition()
        self._suppressed_count = 0  # since the last line about it
        self._told_ms = monotonic_ms() - REPORT_MS
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="zbk-audit", daemon=True)
        self._thread.start()

    def note(self, record: AuditRecord) -> None:
        """Write a record soon."""
        with self._condition:
            if not self._pace.admits(record, monotonic_ms()):
                self.counts.add(suppressed=1)
                self._suppressed_count += 1
            elif self._is_closing or len(self._waiting) >= QUEUE_COUNT_MAX:
                self.counts.add(lost=1)
            else:
                self._waiting.append((wall_ms(), record))
                self._condition.notify()

    def close(self) -> None:
        """Write what waits, and end the thread. A second call does nothing."""
        with self._condition:
            self._is_closing = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        is_over = False
        while not is_over:
            with self._condition:
                if not (self._waiting or self._is_closing):
                    self._condition.wait(REPORT_MS / 1000 if self._suppressed_count else None)
                count = min(len(self._waiting), BATCH_COUNT_MAX)
                batch = [self._waiting.popleft() for _ in range(count)]
                batch += self._about_suppressed()
                is_over = self._is_closing and not self._waiting
            if batch:
                self._write(batch)

    def _about_suppressed(self) -> list[tuple[int, AuditRecord]]:
        now_ms, count = monotonic_ms(), self._suppressed_count
        if not count or not (self._is_closing or now_ms >= self._told_ms + REPORT_MS):
            return []
        self._suppressed_count, self._told_ms = 0, now_ms
        what = "records were suppressed: there were too many"
        return [(wall_ms(), AuditRecord(action="audit", outcome="refused", what=what, count=count))]

    def _write(self, batch: list[tuple[int, AuditRecord]]) -> None:
        lines = b"".join(line_of(record, self._process, time_ms) for time_ms, record in batch)
        try:
            self._file.append(lines)
            self.counts.add(written=len(batch))
        except OSError as error:
            self.counts.add(lost=len(batch))
            self._failures.note(error)
        due = self._failures.take_due(monotonic_ms())
        if due is not None:
            LOG.error(
                "audit.write_failed",
                "the audit log cannot be written, and %(lost_count)d records are lost: %(error)s",
                lost_count=self.counts.lost,
                error=due[1],
            )


def open_trail(
    config: SecurityConfig, process: str, counts: AuditCounts | None = None
) -> AuditTrail | None:
    """Return the audit log that options name, of a process; ``None`` if they name none.

    ``counts`` are those of the process, if it has other trails, at the same time or before.

    Raises:
        InvalidOptionError: its file cannot be written, or others may read it.
    """
    if not config.audit_log:
        return None
    file = rotated_file(config)
    try:
        file.append(b"")
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
        raise InvalidOptionError("audit_log", config.audit_log, reason) from error
    return AuditTrail(file, process, counts)


def own_user() -> str:
    """Return the name of the user of the operating system, or its number."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def rotated_file(config: SecurityConfig) -> RotatedFile:
    """Return the file of the audit log."""
    return RotatedFile(Path(config.audit_log), config.audit_file_size_max, config.audit_file_count)
