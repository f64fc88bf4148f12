"""Operations on logs."""

from typing import Any

import msgspec

from zbk.admin.cluster import Cluster
from zbk.admin.ledgers import bounded_entries, entry_text
from zbk.admin.operation import Arguments
from zbk.protocol.log.position import LogPosition


def list_logs(cluster: Cluster, _given: Arguments) -> list[str]:
    """Return the names of the logs."""
    return cluster.client.list_logs()


def show_log(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return the ledgers of a log."""
    found = cluster.client.get_log_metadata(given["log"])
    shown: dict[str, Any] = msgspec.to_builtins(found)
    return shown | {"begin": None if found.begin is None else str(found.begin)}


def read_log(cluster: Cluster, given: Arguments) -> list[dict[str, Any]]:
    """Return entries of a log, up to the LAC."""
    start = LogPosition.parse(given["position"]) if given["position"] else None
    batches = cluster.client.read_log_batches(given["log"], start, password=given["password"])
    return [
        {
            "position": str(LogPosition(ledger_id, entry_id)),
            "payload": entry_text(payload, given["encoding"]),
        }
        for ledger_id, entry_id, payload in bounded_entries(batches)
    ]


def truncate_log(cluster: Cluster, given: Arguments) -> dict[str, int]:
    """Delete the ledgers of a log that lie before a position; return their number."""
    position = LogPosition.parse(given["position"])
    return {"deleted_ledger_count": cluster.client.truncate_log(given["log"], position)}


def delete_log(cluster: Cluster, given: Arguments) -> dict[str, int]:
    """Delete a log and its ledgers for good; return their number."""
    return {"deleted_ledger_count": cluster.client.delete_log(given["log"])}
