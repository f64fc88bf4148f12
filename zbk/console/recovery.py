"""The page about recovery: what is left to repair, when it will be done, and the tasks.

A part of the page has up to ``TASK_COUNT_MAX`` tasks of each kind, so that its cost does not depend
on their number.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from zbk.console.collector import TIMEOUT_S, Collector
from zbk.console.ledger_pages import ledger_id_in
from zbk.metadata.records.repair_tasks import RepairTask, tasks_at_work, unrepairable_tasks
from zbk.system.deadline import within

TASK_COUNT_MAX: Final = 100
MISSING_COUNT_MAX: Final = 100


def recovery_page(collector: Collector, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what is left to repair, and when it will be done.

    Both lists of tasks have parts of ``TASK_COUNT_MAX``: those past the ledger ids ``after`` and
    ``unrepairable_after``.

    Raises:
        InvalidOptionError: one is no ledger id.
    """
    facts, done_s = collector.facts, collector.backlog.completion_s
    after, unrepairable_after = (
        ledger_id_in(query.get(name, ""), -1, name) for name in ("after", "unrepairable_after")
    )
    with within(TIMEOUT_S):
        store = collector.connection().tasks
        tasks, next_after = _part(tasks_at_work(store, after))
        unrepairable, next_unrepairable = _part(unrepairable_tasks(store, unrepairable_after))
    return {
        "title": "Recovery",
        "cli": "zbk ledger underreplicated",
        "is_enabled": facts.is_autorecovery_enabled if facts else None,
        "auditor": facts.auditor if facts else None,
        "brake": facts.brake if facts else "",
        "missing": list(facts.missing)[:MISSING_COUNT_MAX] if facts else [],
        "underreplicated_count": facts.underreplicated_count if facts else None,
        "in_repair_count": facts.in_repair_count if facts else None,
        "unrepairable_count": facts.unrepairable_count if facts else None,
        # JSON has neither NaN nor Infinity
        "completion_s": done_s if 0 <= done_s < float("inf") else None,
        "tasks": tasks,
        "next_after": next_after,
        "is_first": after < 0 and unrepairable_after < 0,
        "unrepairable": unrepairable,
        "next_unrepairable": next_unrepairable,
        "burn_down": [one.underreplicated_count for one in list(collector.history.points)],
    }


# ------------------------------------------------------------------ private


def _part(tasks: Iterable[RepairTask]) -> tuple[list[dict[str, Any]], int | None]:
    """Return rows of the first tasks, and the last id of them if there are more."""
    found = list(islice(tasks, TASK_COUNT_MAX + 1))
    shown = found[:TASK_COUNT_MAX]
    is_cut = len(found) > len(shown)
    return list(map(_task_row, shown)), shown[-1].task.ledger_id if is_cut else None


def _task_row(one: RepairTask) -> dict[str, Any]:
    task, progress = one.task, one.progress
    return {
        "ledger_id": task.ledger_id,
        "state": one.state,
        "owner": progress.owner if progress else "",
        "copied_count": progress.copied_count if progress else 0,
        "to_copy_count": progress.to_copy_count if progress else 0,
        "bookies": sorted(task.missing),
        "reported_ms": task.reported_ms,
        "why": one.why,
    }
