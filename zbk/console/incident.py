"""What an operator asks first while bookies are away: which, what is at risk, and until when. Pure.

It puts together the survey, the auditor's status and the estimate of the repair. "No ledger lacks
copies" means nothing before the auditor has counted the ledgers of a lost bookie, so that is said.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Final

import msgspec

from zbk.console.history import Event
from zbk.console.texts import seconds_shown
from zbk.health.cluster_health import ClusterFacts
from zbk.health.finding import counted
from zbk.metadata.values import AuditorStatus

BOOKIE_COUNT_MAX: Final = 8
COUNTED: Final = "its ledgers are counted"


class AwayBookie(msgspec.Struct, frozen=True):
    """A bookie that is missing or silent."""

    bookie_id: str
    state: str
    since_ms: int | None  # wall clock; None: since before the console started
    text: str  # what happens about it


class Incident(msgspec.Struct, frozen=True):
    """What is wrong now."""

    bookies: Sequence[AwayBookie]
    bookie_count: int
    at_risk: str
    repair: str
    is_counted: bool  # the auditor has counted the ledgers of all bookies that are away


def incident_of(
    facts: ClusterFacts,
    status: AuditorStatus | None,
    events: Sequence[Event],
    completion_s: float,
    now_ms: int,
) -> Incident | None:
    """Return what is wrong; ``None``: no bookie is away, and no ledger lacks copies.

    ``status`` is that of the present auditor, ``completion_s`` the estimate of the repair: nan is
    not known, and inf that the backlog does not shrink.
    """
    silent = [one.bookie_id for one in facts.bookies if one.silence]
    lacking_count = facts.underreplicated_count + facts.unrepairable_count
    if facts.store_error or not (facts.missing or silent or lacking_count):
        return None
    texts = {one: _text_of(one, facts, status, now_ms) for one in facts.missing}
    is_counted = not silent and all(text == COUNTED for text in texts.values())
    texts |= dict.fromkeys(silent, "it is registered and does not answer")
    since = {one.lane: one.at_ms for one in events if one.kind in ("lost", "silent")}
    away = [
        AwayBookie(one, "silent" if one in silent else "missing", since.get(one), text)
        for one, text in texts.items()
    ]
    return Incident(
        bookies=away[:BOOKIE_COUNT_MAX],
        bookie_count=len(away),
        at_risk=_at_risk(facts, is_counted=is_counted),
        repair=_repair(facts, completion_s, is_counted=is_counted),
        is_counted=is_counted,
    )


# ------------------------------------------------------------------ private


def _text_of(bookie_id: str, facts: ClusterFacts, status: AuditorStatus | None, now_ms: int) -> str:
    if not facts.is_autorecovery_enabled or facts.auditor is None:
        return "autorecovery is off" if facts.auditor else "no auditor counts its ledgers"
    brake = status.brake if status is not None else facts.brake
    if status is not None and bookie_id in status.lost:
        if bookie_id not in status.pending:
            return COUNTED
        ends_ms = status.delay_ends_ms
        if isinstance(ends_ms, int) and ends_ms > now_ms and not brake:
            left = seconds_shown((ends_ms - now_ms) / 1_000)
            return f"it has {left} to return before its ledgers are counted"
    return f"the auditor waits: {brake}" if brake else "the auditor counts its ledgers"


def _at_risk(facts: ClusterFacts, *, is_counted: bool) -> str:
    parts = []
    if facts.underreplicated_count:
        lacking = counted(facts.underreplicated_count, "ledger")
        parts.append(f"{lacking} with missing copies, {facts.in_repair_count:,} in repair")
    if facts.unrepairable_count:
        parts.append(f"{counted(facts.unrepairable_count, 'ledger')} beyond repair")
    if not is_counted:
        parts.append("those on bookies that are away are not counted yet")
    return "; ".join(parts) or "none: each ledger that was counted has all its copies"


def _repair(facts: ClusterFacts, completion_s: float, *, is_counted: bool) -> str:
    if not facts.is_autorecovery_enabled:
        return "off: autorecovery is disabled"
    if not facts.underreplicated_count:
        if not is_counted:
            return "starts when the ledgers are counted"
        if facts.unrepairable_count:
            return "waits until a bookie that holds the entries returns"
        return "done"
    if isfinite(completion_s):
        return f"done in about {seconds_shown(completion_s)}"
    return "under way; the time left is not known yet"
