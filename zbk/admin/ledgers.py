"""Operations on ledgers and logs."""

import base64
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from zbk.admin.cluster import Cluster
from zbk.admin.operation import Arguments
from zbk.errors import InvalidOptionError, NoSuchLedgerError

if TYPE_CHECKING:
    from zbk.protocol.ledger.metadata import LedgerMetadata

PAGE_SIZE: Final = 100
"""Ledgers in a page, as in BookKeeper."""

LEDGER_COUNT_MAX: Final = 100_000
"""Ledgers in a list without pages."""

READ_COUNT_MAX: Final = 1_000
READ_SIZE_MAX: Final = 16 * 1024 * 1024
RECOVERY_TIMEOUT_S: Final = 60.0


def list_ledgers(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return a page of ledgers, or all, with their metadata if wanted."""
    ids = cluster.client.list_ledgers()
    page = given["page"]
    if page is None and not given["print_metadata"]:
        found = list(islice(ids, LEDGER_COUNT_MAX + 1))
        if len(found) > LEDGER_COUNT_MAX:
            raise InvalidOptionError("page", "", f"there are over {LEDGER_COUNT_MAX} ledgers")
    else:
        first = ((page or 1) - 1) * PAGE_SIZE
        found = list(islice(ids, first, first + PAGE_SIZE))
    if not given["print_metadata"]:
        return dict.fromkeys(map(str, found))
    shown = {}
    for ledger_id in found:
        try:
            shown[str(ledger_id)] = _shown(cluster.client.get_ledger_metadata(ledger_id))
        except NoSuchLedgerError:  # deleted since it was listed
            continue
    return shown


def ledger_metadata(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return the metadata of a ledger."""
    found = cluster.client.get_ledger_metadata(given["ledger_id"])
    return {str(found.ledger_id): _shown(found)}


def read_ledger(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Return entries of a ledger as texts; bytes that are no UTF-8 are replaced."""
    first, last = given["start_entry_id"], given["end_entry_id"]
    entries: dict[str, str] = {}
    size = 0
    with cluster.client.open_ledger(given["ledger_id"]) as reader:
        lac = reader.last_add_confirmed
        last = lac if last is None else last
        if first > last:
            return {}
        for batch in reader.read_batches(first, min(last, first + READ_COUNT_MAX - 1)):
            for entry_id, payload in zip(batch.entry_ids, batch, strict=True):
                size += len(payload)
                if size > READ_SIZE_MAX:
                    return entries
                entries[str(entry_id)] = bytes(payload).decode("utf-8", "replace")
    return entries


def delete_ledger(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Delete a ledger for good."""
    cluster.client.delete_ledger(given["ledger_id"])
    return {"deleted": given["ledger_id"]}


def recover_ledger(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Close a ledger in place of its writer."""
    with cluster.client.recover_ledger(given["ledger_id"], timeout=RECOVERY_TIMEOUT_S) as reader:
        return {"ledger_id": given["ledger_id"], "last_entry_id": reader.last_add_confirmed}


def list_logs(cluster: Cluster, _given: Arguments) -> list[str]:
    """Return the names of the logs."""
    return cluster.client.list_logs()


def _shown(found: "LedgerMetadata") -> dict[str, Any]:
    """Return the fields that BookKeeper shows; never the password's digest or the ledger's key."""
    custom = found.custom_metadata.items()
    return {
        "metadataFormatVersion": found.format_version,
        "ensembleSize": found.ensemble_size,
        "writeQuorumSize": found.write_quorum_size,
        "ackQuorumSize": found.ack_quorum_size,
        "state": str(found.state),
        "length": found.length or 0,
        "lastEntryId": -1 if found.last_entry_id is None else found.last_entry_id,
        "ctime": found.created_ms,
        "digestType": str(found.digest_type),
        "ledgerType": str(found.ledger_type),
        "customMetadata": {key: base64.b64encode(value).decode("ascii") for key, value in custom},
        "allEnsembles": {str(one.first_entry_id): list(one.bookies) for one in found.fragments},
        "closed": found.is_closed,
    }
