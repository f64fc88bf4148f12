"""The auditor: which ledgers lack replicas, and when that is certain enough to be published.

    scan    one pass over the metadata of all ledgers: a ledger that names a lost bookie is
            reported, even if nothing needs to be copied: an empty ledger must stay openable
            (#4551, B21)
    check   one pass over all ledgers that asks bookies, or compares racks (``CheckKind``)

Both proceed in steps, one at a time: read or check some ledgers, publish the findings, continue
with the ledgers after them. A failed step is repeated after ``retry_ms``. A scan and a check may
run at the same time, so that a long check does not delay the repair after a lost bookie.

A scan begins when a bookie is ready to be reported (``lost_bookies``), or on request. It begins
with a direct look at all bookies, because the last picture may be old. A bookie that returns
meanwhile is no longer reported. A bookie that is lost meanwhile gets a scan of its own afterwards.
*Strangers* are bookies that ledgers name and that have no cookie, for example because an operator
removed it too early: they count as known from the end of the scan on.

Nothing is published outside of a term, or while autorecovery is disabled; the body checks the term
again before each report. The jobs of a term end with it: the next term begins with new ones, and
with the brake applied. A check starts over.

A trigger waives the delay and forgets what was reported, but waits for the brake.

Invariants, checked in ``_check``: a job exists only in a term and while autorecovery is enabled; a
scan reports only lost bookies.

Source: BookKeeper's ``Auditor``, ``AuditorBookieCheckTask``, ``AuditorTask``.
"""

from collections.abc import Iterable
from typing import assert_never

from zbk.errors import ZbkError
from zbk.protocol.repair.audit_events import (
    AuditSettings,
    Bookies,
    BookiesSeen,
    CheckKind,
    CheckLedgers,
    ChecksRecalled,
    DelaySet,
    Effect,
    Event,
    JobAnswered,
    JobBegun,
    JobEnded,
    JobStalled,
    LedgersChecked,
    LedgersRead,
    LookAtBookies,
    Publish,
    ReadLedgers,
    RecallChecks,
    RememberCheck,
    Report,
    RetryFailed,
    RetryUnrepairable,
    SettingsChanged,
    Switched,
    TermBegun,
    TermEnded,
    TimePassed,
    Triggered,
    WakeAt,
)
from zbk.protocol.repair.audit_job import Job, Stage, lost_replicas
from zbk.protocol.repair.lost_bookies import LostBookies


class Auditor:
    """The auditor of one candidate. It acts only in its terms."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._bookies = LostBookies(settings)
        self._term: int | None = None
        self._is_enabled = True
        self._delay_ms: int | None = None
        self._is_scan_wanted = False
        self._is_delay_waived = False
        self._is_look_wanted = False  # a registration changed, but could not be read
        self._look: int | None = None
        self._look_at_ms = 0  # not before
        self._look_count = 0
        self._job_count = 0
        self._scan: Job | None = None
        self._check_job: Job | None = None
        self._due_ms: dict[CheckKind, int] = {}
        self._retry_at_ms: int | None = None  # unrepairable ledgers, after a retry that failed
        self._wake_ms: int | None = None

    @property
    def lost(self) -> frozenset[str]:
        """The lost bookies, as of the last look."""
        return self._bookies.lost

    @property
    def pending(self) -> frozenset[str]:
        """The lost bookies whose ledgers are not all reported yet."""
        return self._bookies.pending

    @property
    def delay_ends_ms(self) -> int | None:
        """Return when the only lost bookie is reported unless it returns; ``None``: no delay."""
        return self._bookies.delay_ends_ms(self._delay())

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return the effects."""
        effects = self._on_event(event, now_ms)
        effects += self._proceed(now_ms)
        self._check()
        return effects + self._wake(now_ms)

    def _on_event(self, event: Event, now_ms: int) -> list[Effect]:  # noqa: C901, PLR0912 - a case an event
        effects: list[Effect] = []
        match event:
            case TermBegun(term):
                effects += self._begin_term(term, now_ms)
            case TermEnded():
                self._term = None
                self._drop_jobs(now_ms)
            case Switched(is_enabled):
                self._is_enabled = is_enabled
                if not is_enabled:
                    self._drop_jobs(now_ms)
            case DelaySet(delay_ms):
                self._delay_ms = delay_ms
            case SettingsChanged(settings):
                effects += self._change(settings)
            case Triggered():
                if self._term is not None:  # every candidate receives it; only the leader acts
                    self._want_scan()
                    self._is_delay_waived = True
            case BookiesSeen(look, bookies):
                effects += self._see(look, bookies, now_ms)
            case ChecksRecalled(term, ages_ms):
                effects += self._plan_checks(term, dict(ages_ms), now_ms)
            case RetryFailed(term):
                if term == self._term:
                    self._retry_at_ms = now_ms + self._settings.retry_ms
            case JobAnswered():
                effects += self._on_answer(event, now_ms)
            case TimePassed():
                pass
            case _:
                assert_never(event)
        return effects

    def _change(self, settings: AuditSettings) -> list[Effect]:
        """Use other settings. Checks are planned anew, from when each was last done."""
        before, self._settings = self._settings, settings
        self._bookies.change(settings)
        if self._term is None or settings.interval_ms == before.interval_ms:
            return []
        self._due_ms = {}
        return [RecallChecks(self._term)]

    # ------------------------------------------------------------------ terms and bookies

    def _begin_term(self, term: int, now_ms: int) -> list[Effect]:
        self._term = term
        self._drop_jobs(now_ms)
        self._due_ms = {}
        self._retry_at_ms = None
        return [
            self._bookies.begin_term(now_ms),
            RecallChecks(term),
            RetryUnrepairable((), term),  # for bookies that returned between two terms
        ]

    def _see(self, look: int, bookies: Bookies | None, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if bookies is None:
            self._is_look_wanted |= not look
            if look == self._look:
                self._look = None
            self._look_at_ms = now_ms + self._settings.retry_ms
            return effects
        returned, brake = self._bookies.see(bookies.known, bookies.present, now_ms)
        self._is_look_wanted = False
        if self._scan is not None:
            self._scan.lost &= self._bookies.lost
        if self._term is None:
            return effects
        if brake is not None:
            effects.append(brake)
        if returned:
            effects.append(RetryUnrepairable(tuple(sorted(returned)), self._term))
        if look and look == self._look:
            self._look = None
            if self._bookies.is_hold_over(now_ms):
                effects.append(self._bookies.release())
            effects += self._begin_scan(now_ms)
        return effects

    # ------------------------------------------------------------------ what is due

    def _proceed(self, now_ms: int) -> list[Effect]:
        if self._term is None or not self._is_enabled:
            return []
        effects: list[Effect] = []
        if self._retry_at_ms is not None and now_ms >= self._retry_at_ms:
            self._retry_at_ms = None
            effects.append(RetryUnrepairable((), self._term))
        for job in (self._scan, self._check_job):
            if job is not None and job.stage is Stage.WAITING and now_ms >= job.retry_ms:
                effects += self._look_at_ledgers(job)
        for kind, due_ms in self._due_ms.items():
            if now_ms >= due_ms and kind is CheckKind.BOOKIES:
                self._due_ms[kind] = now_ms + self._interval_ms(kind)
                self._want_scan()
            elif now_ms >= due_ms and self._check_job is None:
                self._due_ms[kind] = now_ms + self._interval_ms(kind)
                self._check_job = self._new_job(kind, self._bookies.lost)
                effects.append(JobBegun(kind, ()))
                effects += self._look_at_ledgers(self._check_job)
        if self._is_look_due(now_ms):
            self._look_count += 1
            self._look = self._look_count
            effects.append(LookAtBookies(self._look, self._term))
        return effects

    def _is_look_due(self, now_ms: int) -> bool:
        if self._scan is not None or self._look is not None or now_ms < self._look_at_ms:
            return False
        is_wanted = self._is_look_wanted or self._bookies.is_hold_over(now_ms)
        return is_wanted or self._is_scan_due(now_ms)

    def _is_scan_due(self, now_ms: int) -> bool:
        is_wanted = self._is_scan_wanted and not self._bookies.is_held
        return is_wanted or bool(self._bookies.ready(now_ms, self._delay()))

    def _begin_scan(self, now_ms: int) -> list[Effect]:
        if self._scan is not None or not self._is_enabled or not self._is_scan_due(now_ms):
            return []
        kind = None
        if self._is_scan_wanted:
            kind = CheckKind.BOOKIES
            self._bookies.forget_reported()  # of a scan that ended since it was requested
        self._scan = self._new_job(kind, self._bookies.ready(now_ms, self._delay()))
        self._is_scan_wanted = self._is_delay_waived = False
        return [JobBegun(kind, _sorted(self._scan.lost)), *self._look_at_ledgers(self._scan)]

    def _want_scan(self) -> None:
        self._is_scan_wanted = True
        self._bookies.forget_reported()

    def _delay(self) -> int:
        if self._is_delay_waived:
            return 0
        return self._settings.lost_bookie_delay_ms if self._delay_ms is None else self._delay_ms

    def _interval_ms(self, kind: CheckKind) -> int:
        return self._settings.interval_ms.get(kind, 0)

    def _plan_checks(self, term: int, ages_ms: dict[CheckKind, int], now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for kind in CheckKind:
            interval_ms = self._interval_ms(kind)
            if not interval_ms:
                continue
            if kind not in ages_ms:  # no auditor ever ended one: its interval begins now
                effects.append(RememberCheck(kind, term))
            self._due_ms[kind] = now_ms + max(0, interval_ms - ages_ms.get(kind, 0))
        return effects

    # ------------------------------------------------------------------ jobs

    def _new_job(self, kind: CheckKind | None, lost: frozenset[str]) -> Job:
        self._job_count += 1
        return Job(self._job_count, kind, lost)

    def _job(self, number: int) -> Job | None:
        jobs = (self._scan, self._check_job)
        return next((job for job in jobs if job is not None and job.number == number), None)

    def _drop_jobs(self, now_ms: int) -> None:
        """End the jobs under way, but keep what was requested as wanted."""
        if self._scan is not None and self._scan.kind is not None:
            self._is_scan_wanted = True
        if self._check_job is not None and self._check_job.kind is not None:
            self._due_ms[self._check_job.kind] = now_ms
        self._scan = self._check_job = self._look = None

    def _look_at_ledgers(self, job: Job) -> list[Effect]:
        job.stage = Stage.LOOKING
        if job is self._scan:
            return [ReadLedgers(job.number, job.cursor)]
        assert job.kind is not None, "only a scan has none"
        return [CheckLedgers(job.number, job.kind, job.cursor, self._bookies.lost)]

    def _on_answer(self, answer: JobAnswered, now_ms: int) -> list[Effect]:
        job = self._job(answer.job)
        if job is None:
            return []
        match answer.value:
            case LedgersRead(ledgers=ledgers) as read:
                job.ledger_count += len(ledgers)
                job.unreadable_count += read.unreadable_count
                job.note_strangers(ledgers, self._bookies.familiar)
                found = (lost_replicas(ledger, job.lost) for ledger in ledgers)
                reports = tuple(report for report in found if report is not None)
                return self._publish(job, read, reports, now_ms)
            case LedgersChecked(reports=reports) as checked:
                job.ledger_count += checked.ledger_count
                job.undecided_count += checked.undecided_count
                job.flaw_count += checked.flaw_count
                job.unreadable_count += checked.unreadable_count
                return self._publish(job, checked, reports, now_ms)
            case None:
                job.report_count += job.publishing_count
                return self._advance(job, now_ms)
            case ZbkError() as error:
                job.stage = Stage.WAITING
                job.retry_ms = now_ms + self._settings.retry_ms
                was_stalled, job.is_stalled = job.is_stalled, True
                return [] if was_stalled else [JobStalled(job.kind, str(error))]
            case _:
                assert_never(answer.value)

    def _publish(
        self,
        job: Job,
        seen: LedgersRead | LedgersChecked,
        reports: tuple[Report, ...],
        now_ms: int,
    ) -> list[Effect]:
        assert self._term is not None, "a job ends with its term"
        job.next_cursor = max(job.cursor, seen.last_ledger_id)
        job.is_last = seen.is_last
        job.publishing_count = len(reports)
        if not reports:
            return self._advance(job, now_ms)
        job.stage = Stage.PUBLISHING
        return [Publish(job.number, self._term, reports)]

    def _advance(self, job: Job, now_ms: int) -> list[Effect]:
        job.cursor = job.next_cursor
        job.is_stalled = False
        is_pointless = job.kind is None and not job.lost
        if not job.is_last and not is_pointless:
            return self._look_at_ledgers(job)
        return self._end(job, now_ms)

    def _end(self, job: Job, now_ms: int) -> list[Effect]:
        assert self._term is not None, "a job ends with its term"
        if job is self._scan:
            self._scan = None
            self._bookies.note_reported(job.lost)
            if job.is_last:
                self._bookies.note_strangers(job.strangers, now_ms)
        else:
            self._check_job = None
        effects: list[Effect] = [JobEnded(job.result())]
        if job.kind is not None:
            effects.append(RememberCheck(job.kind, self._term))
        return effects

    # ------------------------------------------------------------------ time

    def _wake(self, now_ms: int) -> list[Effect]:
        wake_ms = self._next_ms(now_ms)
        if wake_ms is None or wake_ms == self._wake_ms:
            return []
        self._wake_ms = wake_ms
        return [WakeAt(wake_ms)]

    def _next_ms(self, now_ms: int) -> int | None:
        if self._term is None or not self._is_enabled:
            return None
        jobs = (self._scan, self._check_job)
        times = [*self._due_ms.values()]
        times += [job.retry_ms for job in jobs if job is not None and job.stage is Stage.WAITING]
        if self._look is None:
            times.append(self._look_at_ms)
        at_ms = self._bookies.next_ms(now_ms, self._delay())
        times += [one for one in (at_ms, self._retry_at_ms) if one is not None]
        return min((time for time in times if time > now_ms), default=None)

    def _check(self) -> None:
        is_active = self._term is not None and self._is_enabled
        jobs = [job for job in (self._scan, self._check_job) if job is not None]
        assert is_active or not jobs, "a job needs a term, and autorecovery enabled"
        assert is_active or self._look is None
        assert all(job.cursor <= job.next_cursor or not job.next_cursor for job in jobs)


def _sorted(bookie_ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(bookie_ids))
