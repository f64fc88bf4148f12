"""Work that outlasts its request: one job at a time, the others wait.

    waiting -> running -> done
                       -> failed     with the text of its error
            ---------> -> stopped    by a request, or because the process ended

A job is known by its name. A second request for a job that waits or runs gets the same job, if its
options are the same and it was not stopped. A job keeps what it has done when it stops, and a
new one continues there.

The last ``ENDED_COUNT_MAX`` jobs that ended stay known until the process ends; up to
``WAITING_COUNT_MAX`` wait.

Threads: any; jobs run in ``zbk-admin-jobs``, which ends when none is left.
"""

import builtins
import threading
from collections.abc import Callable
from itertools import count
from typing import Any, Final, Literal

import msgspec

from zbk.errors import BusyError, InvalidOptionError, UnavailableError, ZbkError
from zbk.system.clock import wall_ms
from zbk.system.event_log import EventLog

WAITING_COUNT_MAX: Final = 16
ENDED_COUNT_MAX: Final = 64
LEFT_COUNT_MAX: Final = 100
"""Parts that a job could not do and that stay known, with their reasons."""

CLOSE_TIMEOUT_S: Final = 5.0

LOG = EventLog("zbk.admin")

JobState = Literal["waiting", "running", "done", "failed", "stopped"]


class JobProgress(msgspec.Struct):
    """The results of a job so far. Its thread writes, others read."""

    ledger_count: int = 0  # done
    entry_count: int = 0  # copied
    size: int = 0  # their bytes
    left_count: int = 0  # parts that could not be done, or are not in order
    left: list[dict[str, Any]] = []  # the first of them, with reasons

    def note_left(self, part: dict[str, Any]) -> None:
        """Count a part that could not be done."""
        self.left_count += 1
        if len(self.left) < LEFT_COUNT_MAX:
            self.left.append(part)


class Job(msgspec.Struct, kw_only=True):
    """One job. Only ``Jobs`` changes it."""

    job_id: int
    name: str
    options: dict[str, Any]
    state: JobState = "waiting"
    created_ms: int = 0
    ended_ms: int | None = None
    error: str = ""
    progress: JobProgress = msgspec.field(default_factory=JobProgress)


def shown_job(job: Job) -> dict[str, Any]:
    """Return a job as JSON."""
    shown: dict[str, Any] = msgspec.to_builtins(job)
    return shown


Work = Callable[[JobProgress, threading.Event], bool]
"""Does a job; returns false if it has ended early because the event was set."""


class Jobs:
    """The jobs of a process. ``close`` at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, Job] = {}
        self._works: dict[int, tuple[Work, threading.Event]] = {}  # of those that have not ended
        self._ids = count(1)
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def begin(self, name: str, options: dict[str, Any], work: Work) -> Job:
        """Return the job of this name: the one that waits or runs, or a new one.

        Raises:
            InvalidOptionError: it waits or runs with other options.
            BusyError: too many jobs wait.
            UnavailableError: the process ends.
        """
        with self._lock:
            if self._is_closed:
                raise UnavailableError("the process ends")
            for job_id, (_work, is_stopped) in self._works.items():
                job = self._known[job_id]
                if job.name == name and not is_stopped.is_set():
                    if job.options != options:
                        why = f"is job {job_id} already, with other options: wait, or stop it"
                        raise InvalidOptionError("job", name, why)
                    return job
            if len(self._works) > WAITING_COUNT_MAX:
                raise BusyError(f"{WAITING_COUNT_MAX} jobs wait")
            job = Job(job_id=next(self._ids), name=name, options=options, created_ms=wall_ms())
            self._known[job.job_id] = job
            self._works[job.job_id] = (work, threading.Event())
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="zbk-admin-jobs", daemon=True
                )
                self._thread.start()
            return job

    def list(self) -> builtins.list[Job]:
        """Return the known jobs, the oldest first."""
        with self._lock:
            return list(self._known.values())

    def stop(self, job_id: int) -> Job:
        """Stop a job, if it has not ended; return it. It may run on for a moment.

        Raises:
            InvalidOptionError: no such job is known.
        """
        with self._lock:
            job = self._known.get(job_id)
            if job is None:
                raise InvalidOptionError("job_id", job_id, "no such job is known")
            self._stop(job)
            return job

    def close(self) -> None:
        """Stop all jobs. A second call does nothing."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            for job_id in list(self._works):
                self._stop(self._known[job_id])
        if thread is not None:
            thread.join(CLOSE_TIMEOUT_S)

    # ------------------------------------------------------------------ own thread

    def _run(self) -> None:
        while (taken := self._next()) is not None:
            job, work, is_stopped = taken
            error, is_complete = "", False
            LOG.info("admin.job.begin", "job %(job)s begins", job=job.name)
            try:
                is_complete = work(job.progress, is_stopped)
            except ZbkError as failure:
                error = str(failure)
            except Exception:
                LOG.exception("admin.job.failed", "job %(job)s failed", job=job.name)
                error = "an error of zbk: see its log"
            state: JobState = "done" if is_complete else "failed" if error else "stopped"
            with self._lock:
                self._end(job, state, error)
            outcome = f"{state}: {error}" if error else state
            LOG.info(
                "admin.job.end",
                "job %(job)s is %(outcome)s",
                job=job.name,
                outcome=outcome,
                state=state,
            )

    def _next(self) -> tuple[Job, Work, threading.Event] | None:
        with self._lock:
            for job_id, (work, is_stopped) in self._works.items():
                job = self._known[job_id]
                job.state = "running"
                return job, work, is_stopped
            self._thread = None
            return None

    def _stop(self, job: Job) -> None:
        if job.state == "running":
            self._works[job.job_id][1].set()
        elif job.state == "waiting":
            self._end(job, "stopped")

    def _end(self, job: Job, state: JobState, error: str = "") -> None:
        job.state, job.error, job.ended_ms = state, error, wall_ms()
        del self._works[job.job_id]
        ended = [one for one in self._known if one not in self._works]
        for job_id in ended[:-ENDED_COUNT_MAX]:
            del self._known[job_id]
