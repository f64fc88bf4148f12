"""Operations on autorecovery."""

from itertools import islice
from typing import Any, Final

import msgspec

from zbk.admin.cluster import Cluster
from zbk.admin.operation import Arguments
from zbk.metadata.records.auditor_notes import AuditorNotes
from zbk.metadata.records.autorecovery_switches import AutorecoverySwitches
from zbk.metadata.records.election import read_auditor
from zbk.metadata.records.repair_tasks import repair_tasks
from zbk.metadata.records.underreplication import UnderreplicationStore

TASK_COUNT_MAX: Final = 1_000
"""Tasks in an answer."""


def autorecovery_status(cluster: Cluster, _given: Arguments) -> dict[str, bool]:
    """Return whether autorecovery is enabled."""
    return {"enabled": _tasks(cluster).is_enabled()}


def switch_autorecovery(cluster: Cluster, given: Arguments) -> dict[str, bool]:
    """Enable or disable autorecovery in the whole cluster."""
    switches = AutorecoverySwitches(cluster.store)
    if given["enabled"]:
        switches.enable()
    else:
        switches.disable()
    return {"enabled": switches.is_enabled()}


def who_is_auditor(cluster: Cluster, _given: Arguments) -> dict[str, str | None]:
    """Return the process that audits now."""
    vote = read_auditor(cluster.store)
    return {"Auditor": None if vote is None else vote.candidate_id}


def list_under_replicated_ledgers(
    cluster: Cluster, given: Arguments
) -> list[int] | dict[str, list[str]]:
    """Return the ledgers that lack copies; with the bookies that lack them if wanted."""
    tasks = _tasks(cluster)
    including, excluding = given["missingreplica"], given["excludingmissingreplica"]
    is_detailed = given["printmissingreplica"]
    if not (including or excluding or is_detailed):
        return list(tasks.list())
    found: dict[int, list[str]] = {}
    for ledger_id in tasks.list():
        task = tasks.read(ledger_id)
        if task is None:
            continue
        missing = task[0].missing
        is_included = not including or including in missing
        if is_included and not (excluding and excluding in missing):
            found[ledger_id] = list(missing)
    if is_detailed:
        return {str(ledger_id): bookie_ids for ledger_id, bookie_ids in found.items()}
    return list(found)


def list_tasks(cluster: Cluster, given: Arguments) -> list[dict[str, Any]]:
    """Return the repair tasks of ledgers, or that of one."""
    ledger_id = given["ledger_id"]
    found = (
        one for one in repair_tasks(_tasks(cluster)) if ledger_id in (None, one.task.ledger_id)
    )
    return [
        {
            "ledger_id": one.task.ledger_id,
            "state": one.state,
            "why": one.why,
            "reported_ms": one.task.reported_ms,
            "missing": msgspec.to_builtins(one.task.missing),
            "missing_entries": msgspec.to_builtins(one.task.ranges),
            "owner": one.progress.owner if one.progress else None,
            "copied_count": one.progress.copied_count if one.progress else 0,
            "to_copy_count": one.progress.to_copy_count if one.progress else 0,
        }
        for one in islice(found, TASK_COUNT_MAX)
    ]


def auditor_status(cluster: Cluster, _given: Arguments) -> dict[str, Any]:
    """Return what the last auditor recorded about itself; null: there was none."""
    return {"status": msgspec.to_builtins(AuditorNotes(cluster.store).status())}


def trigger_audit(cluster: Cluster, _given: Arguments) -> dict[str, bool]:
    """Make the auditor look for lost bookies now."""
    _tasks(cluster).trigger()
    return {"triggered": True}


def lost_bookie_delay(cluster: Cluster, _given: Arguments) -> dict[str, float | None]:
    """Return how long one lost bookie has to return; null: as each auditor is configured."""
    delay_ms = _tasks(cluster).lost_bookie_delay_ms()
    return {"delay_seconds": None if delay_ms is None else delay_ms / 1_000}


def set_lost_bookie_delay(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Set how long one lost bookie has to return."""
    AutorecoverySwitches(cluster.store).set_lost_bookie_delay_ms(given["delay_seconds"] * 1_000)
    return lost_bookie_delay(cluster, {})


def reset_lost_bookie_delay(cluster: Cluster, _given: Arguments) -> dict[str, Any]:
    """Remove the delay of the cluster: each auditor has that of its configuration."""
    AutorecoverySwitches(cluster.store).set_lost_bookie_delay_ms(None)
    return lost_bookie_delay(cluster, {})


def _tasks(cluster: Cluster) -> UnderreplicationStore:
    return UnderreplicationStore(cluster.store)
