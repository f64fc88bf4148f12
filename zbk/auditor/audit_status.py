"""The status of the auditor: its log lines, and the record in the metadata store.

A healthy run logs no warning: a term begins with the brake applied. Runs in the auditor's thread.
"""

import logging
from collections.abc import Collection
from typing import TypeAlias, assert_never

import msgspec

from zbk.metadata.values import AuditorStatus
from zbk.protocol.repair.audit_events import (
    BrakeApplied,
    BrakeReleased,
    CheckKind,
    JobBegun,
    JobEnded,
    JobResult,
    JobStalled,
)
from zbk.system.clock import wall_ms
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.auditor")

StatusEvent: TypeAlias = BrakeApplied | BrakeReleased | JobBegun | JobStalled | JobEnded

NAMED_COUNT_MAX = 10


class AuditStatus:
    """The status of one auditor."""

    def __init__(self, candidate_id: str) -> None:
        self._candidate_id = candidate_id
        self._brake = ""
        self._doing: dict[CheckKind | None, str] = {}
        self._done = ""
        self._done_ms = 0

    @property
    def is_braked(self) -> bool:
        """True while nothing is reported because too many bookies are lost at once."""
        return bool(self._brake)

    def record(
        self,
        lost: Collection[str],
        pending: Collection[str],
        delay_left_ms: int | None,
        told_ms: int,
    ) -> AuditorStatus:
        """Return the record that ``zbk autorecovery status`` shows."""
        return AuditorStatus(
            candidate_id=self._candidate_id,
            told_ms=told_ms,
            lost=tuple(sorted(lost)),
            pending=tuple(sorted(pending)),
            delay_ends_ms=msgspec.UNSET if delay_left_ms is None else told_ms + delay_left_ms,
            brake=self._brake,
            doing=", ".join(self._doing.values()),
            done=self._done,
            done_ms=self._done_ms,
        )

    def log_delay(self, lost: Collection[str], left_ms: int) -> None:
        """Log how long the lost bookie has to return."""
        LOG.info(
            "audit.bookie_lost",
            "bookie %(bookies)s is lost: its ledgers are reported after %(delay_s)g s unless it "
            "returns, or at once by `zbk autorecovery trigger`",
            bookies=_names(lost),
            delay_s=left_ms / 1000,
        )

    def begin_term(self) -> None:
        """Forget the jobs of an earlier term."""
        self._doing.clear()
        self._brake = ""

    def note(self, event: StatusEvent, now_ms: int) -> None:
        """Log an event, and keep it for the record."""
        match event:
            case BrakeApplied(lost, known_count, why, until_ms):
                wait_s = (until_ms - now_ms) / 1000
                self._brake = f"{why}: looking again after {wait_s:g} s"
                level = logging.WARNING if lost else logging.INFO
                LOG.log(
                    level,
                    "audit.held_back",
                    "%(reason)s, and %(lost_count)d of %(known_count)d bookies are lost "
                    "(%(bookies)s): nothing is reported for %(wait_s)g s, then the auditor looks "
                    "again",
                    reason=why,
                    lost_count=len(lost),
                    known_count=known_count,
                    bookies=_names(lost),
                    wait_s=wait_s,
                )
            case BrakeReleased(lost):
                self._brake = ""
                LOG.info(
                    "audit.looked_again",
                    "the auditor looked again; lost: %(bookies)s",
                    bookies=_names(lost),
                )
            case JobBegun(kind, lost):
                self._doing[kind] = _title(kind)
                LOG.info(
                    "audit.begun",
                    "%(job)s begins; lost bookies: %(bookies)s",
                    job=_title(kind),
                    bookies=_names(lost),
                )
            case JobStalled(kind, reason):
                LOG.warning(
                    "audit.stalled",
                    "%(job)s waits, and retries: %(reason)s",
                    job=_title(kind),
                    reason=reason,
                )
            case JobEnded(result):
                self._doing.pop(result.kind, None)
                self._done = f"{_title(result.kind)}: {_counts(result)}"
                self._done_ms = wall_ms()
                level = (
                    logging.WARNING if result.report_count or result.flaw_count else logging.INFO
                )
                LOG.log(level, "audit.done", "%(summary)s", summary=self._done)
            case _:
                assert_never(event)


def _title(kind: CheckKind | None) -> str:
    return "scan for lost bookies" if kind is None else f"check of {kind}"


def _counts(result: JobResult) -> str:
    parts = [f"{result.ledger_count} ledgers looked at, {result.report_count} reported"]
    if result.lost:
        parts.append(f"lost: {_names(result.lost)}")
    for count, what in (
        (result.undecided_count, "could not be judged as a whole"),
        (result.flaw_count, "fragments have replicas on one rack"),
        (result.unreadable_count, "have damaged metadata"),
    ):
        if count:
            parts.append(f"{count} {what}")
    return "; ".join(parts)


def _names(bookie_ids: Collection[str]) -> str:
    names = sorted(bookie_ids)
    more = f" and {len(names) - NAMED_COUNT_MAX} more" if len(names) > NAMED_COUNT_MAX else ""
    return (", ".join(names[:NAMED_COUNT_MAX]) or "none") + more
