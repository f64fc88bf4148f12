"""Operations on data sets."""

import threading
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from zbk.admin.cluster import Cluster
from zbk.admin.jobs import JobProgress, shown_job
from zbk.admin.operation import Arguments
from zbk.errors import DataSetConflictError

if TYPE_CHECKING:
    from zbk.client.dataset.datasets import DataSets
    from zbk.protocol.dataset.dataset import Load, Version
    from zbk.protocol.dataset.manifest import DataLedger

LEDGER_COUNT_MAX: Final = 10_000
"""Ledgers of a version in an answer."""


def list_data_sets(cluster: Cluster, _given: Arguments) -> list[str]:
    """Return the names of the data sets."""
    return _data_sets(cluster, b"").list()


def show_data_set(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return the versions and the loads of a data set."""
    data_sets = _data_sets(cluster, b"")
    found = data_sets.history(given["dataset"])
    loads = data_sets.loads(given["dataset"]).values()
    return {
        "dataset": found.name,
        "created_ms": found.created_ms,
        "versions": [_version(one) for one in found.versions],
        "loads": [_load(one) for one in loads],
    }


def show_version(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return a version of a data set: its schema and its ledgers."""
    found = _data_sets(cluster, given["password"]).read(given["dataset"], given["version"])
    return {
        "dataset": found.name,
        **_version(found.version),
        "schema": found.schema.decode("utf-8", "replace"),
        "ledgers": [_ledger(one) for one in found.ledgers[:LEDGER_COUNT_MAX]],
    }


def abort_load(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Abort a load whose driver is gone, and delete its ledgers."""
    data_sets = _data_sets(cluster, given["password"])
    done = data_sets.abort(data_sets.ticket(given["dataset"], given["load_id"]))
    state = None if done.state is None else str(done.state)
    return {"state": state, "deleted_ledger_count": done.deleted_count}


def drop_data_set(cluster: Cluster, given: Arguments) -> dict[str, int]:
    """Drop a data set with all ledgers, or one of its versions."""
    data_sets = _data_sets(cluster, b"")
    if given["version"] is None:
        return {"deleted_ledger_count": data_sets.drop(given["dataset"])}
    data_sets.drop_version(given["dataset"], given["version"])
    return {"deleted_ledger_count": 0}


def collect_data_sets(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Begin to delete the ledgers that no version needs; return the job."""
    name, is_dry_run = given["dataset"], given["dry_run"]
    data_sets = _data_sets(cluster, given["password"])
    if name:
        data_sets.history(name)  # so that a wrong name is an error at once

    def work(progress: JobProgress, is_stopped: threading.Event) -> bool:
        found = (
            iter([data_sets.collect(name, is_dry_run=is_dry_run)])
            if name
            else data_sets.collect_all(is_dry_run=is_dry_run)
        )
        for one in found:
            progress.ledger_count += len(one.leftover) if is_dry_run else one.deleted_count
            if one.refused:
                progress.note_left({"dataset": one.name, "why": one.refused})
            if is_stopped.is_set():
                return False
        if progress.left_count:
            raise DataSetConflictError(name or "all", "some were left as they are; see left")
        return True

    options = {"dry_run": is_dry_run, "has_password": bool(given["password"])}
    what = f"collect data set {name}" if name else "collect all data sets"
    return shown_job(cluster.jobs.begin(what, options, work))


# ------------------------------------------------------------------ private


def _data_sets(cluster: Cluster, password: bytes) -> "DataSets":
    from zbk.client.dataset.datasets import DataSets  # noqa: PLC0415 - seldom used

    return DataSets(cluster.client, password)


def _version(found: "Version") -> dict[str, Any]:
    """Return a version; never what checks the password."""
    shown: dict[str, Any] = msgspec.to_builtins(found)
    del shown["password_check"]
    return shown


def _ledger(found: "DataLedger") -> dict[str, Any]:
    """Return a ledger of a version; bounds that JSON has no number for are texts, such as "inf"."""
    shown: dict[str, Any] = msgspec.to_builtins(found)
    for column in shown["columns"].values():
        for end in ("low", "high"):
            if isinstance(column[end], float) and not isfinite(column[end]):
                column[end] = str(column[end])
    return shown


def _load(found: "Load") -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(found)
    return shown
