"""Operations on ledgers."""

import base64
import threading
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from zbk.admin.cluster import Cluster
from zbk.admin.jobs import JobProgress, shown_job
from zbk.admin.operation import Arguments
from zbk.errors import (
    DamageError,
    InvalidOptionError,
    NoSuchLedgerError,
    UnsupportedVersionError,
)
from zbk.protocol.ledger.filter import LedgerFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zbk.protocol.entry.read_batch import ReadBatch
    from zbk.protocol.ledger.metadata import LedgerMetadata

PAGE_SIZE: Final = 100
"""Ledgers in a page, as in BookKeeper."""

LOOK_COUNT_MAX: Final = 1_000
"""Ledgers whose metadata one search reads."""

LEDGER_COUNT_MAX: Final = 100_000
"""Ledgers in a list without pages."""

READ_COUNT_MAX: Final = 1_000
READ_SIZE_MAX: Final = 16 * 1024 * 1024
RECOVERY_TIMEOUT_S: Final = 60.0


def list_ledgers(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return a page of ledgers, or all, with their metadata if wanted; null: it is unreadable."""
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
    shown: dict[str, Any] = {}
    for ledger_id in found:
        try:
            shown[str(ledger_id)] = _shown(cluster.client.get_ledger_metadata(ledger_id))
        except NoSuchLedgerError:  # deleted since it was listed
            continue
        except (DamageError, UnsupportedVersionError):
            shown[str(ledger_id)] = None
    return shown


def find_ledgers(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return the ledgers that pass all filters, of the next ``LOOK_COUNT_MAX`` from an id on.

    ``next_ledger_id`` is where the next request continues; null: there are no more ledgers.
    """
    wanted = LedgerFilter(
        state=given["state"] or None,
        ledger_type=given["ledger_type"] or None,
        created_before_ms=given["created_before_ms"],
        created_after_ms=given["created_after_ms"],
        length_above=given["length_above"],
        length_below=given["length_below"],
        custom=_custom(given["custom_metadata"]),
        bookie_id=given["bookie_id"] or None,
    )
    ledgers = cluster.connection.ledgers
    shown: dict[str, Any] = {}
    damaged: dict[str, str] = {}
    next_id = None
    for number, ledger_id in enumerate(ledgers.list(given["from_ledger_id"])):
        if number == LOOK_COUNT_MAX or len(shown) == PAGE_SIZE:
            next_id = ledger_id
            break
        try:
            found, _version = ledgers.read(ledger_id)
        except NoSuchLedgerError:  # deleted since it was listed
            continue
        except (DamageError, UnsupportedVersionError) as error:
            damaged[str(ledger_id)] = str(error)
            continue
        if wanted.accepts(found):
            shown[str(ledger_id)] = _shown(found)
    return {"ledgers": shown, "damaged": damaged, "next_ledger_id": next_id}


def ledger_metadata(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return the metadata of a ledger."""
    found = cluster.client.get_ledger_metadata(given["ledger_id"])
    return {str(found.ledger_id): _shown(found)}


def ledger_copies(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return what each bookie of a ledger's last fragment holds now; syncs nothing."""
    copies = cluster.client.get_ledger_copies(given["ledger_id"])
    return {"ledger_id": given["ledger_id"], "copies": msgspec.to_builtins(copies)}


def read_ledger(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Return entries of a ledger as texts in UTF-8, with other bytes replaced, or in base64."""
    first, last = given["start_entry_id"], given["end_entry_id"]
    with cluster.client.open_ledger(given["ledger_id"], given["password"]) as reader:
        last = reader.last_add_confirmed if last is None else last
        if first > last:
            return {}
        last = min(last, first + READ_COUNT_MAX - 1)
        batches = reader.read_batches(first, last, bookie_id=given["bookie_id"] or None)
        return {
            str(entry_id): entry_text(payload, given["encoding"])
            for _ledger_id, entry_id, payload in bounded_entries(batches)
        }


def bounded_entries(batches: "Iterator[ReadBatch]") -> "Iterator[tuple[int, int, bytes]]":
    """Yield ledger id, entry id and payload of entries, up to the limits of an answer."""
    count = size = 0
    for batch in batches:
        for entry_id, payload in zip(batch.entry_ids, batch, strict=True):
            count += 1
            size += len(payload)
            if count > READ_COUNT_MAX or size > READ_SIZE_MAX:
                return
            yield batch.ledger_id, entry_id, bytes(payload)


def entry_text(payload: bytes, encoding: str) -> str:
    """Return a payload as JSON can hold it."""
    if encoding == "base64":
        return base64.b64encode(payload).decode("ascii")
    return payload.decode("utf-8", "replace")


def create_ledger(cluster: Cluster, given: Arguments) -> dict[str, int]:
    """Reserve a ledger; return its id. A client makes itself the writer later."""
    ledger_id = cluster.client.reserve_ledger(
        ensemble_size=given["ensemble_size"],
        write_quorum_size=given["write_quorum_size"],
        ack_quorum_size=given["ack_quorum_size"],
        ledger_type=given["ledger_type"],
        digest_type=given["digest_type"],
        password=given["password"],
        custom_metadata=_custom(given["custom_metadata"]),
    )
    return {"ledger_id": ledger_id}


def close_ledger(cluster: Cluster, given: Arguments) -> dict[str, int]:
    """Close a reserved ledger, empty."""
    cluster.client.close_reserved_ledger(given["ledger_id"], given["password"])
    return {"ledger_id": given["ledger_id"], "last_entry_id": -1}


def sync_ledger(cluster: Cluster, given: Arguments) -> dict[str, int]:
    """Make an open ledger's entries durable; return the last id that is."""
    last_durable_id = cluster.client.sync_ledger(given["ledger_id"], given["password"])
    return {"ledger_id": given["ledger_id"], "last_durable_id": last_durable_id}


def check_ledger(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return which entries of a ledger its bookies lack, without reading all entries."""
    return _checked(cluster, given["ledger_id"])


def begin_check(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Begin a check of a ledger that may read all entries, or report; return the job."""
    ledger_id, is_full, is_reporting = given["ledger_id"], given["full"], given["report"]
    cluster.client.get_ledger_metadata(ledger_id)  # so that a wrong id is an error at once

    def work(progress: JobProgress, is_stopped: threading.Event) -> bool:
        found = _checked(
            cluster, ledger_id, is_full=is_full, is_reporting=is_reporting,
            is_over=is_stopped.is_set,
        )  # fmt: skip
        if is_stopped.is_set():
            return False
        progress.ledger_count = 1
        if not found["is_whole"]:
            progress.note_left(found)
            raise DamageError(f"ledger {ledger_id} lacks replicas, or bookies are silent; see left")
        return True

    options = {"full": is_full, "report": is_reporting}
    return shown_job(cluster.jobs.begin(f"check ledger {ledger_id}", options, work))


def delete_ledger(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Delete a ledger for good."""
    cluster.client.delete_ledger(given["ledger_id"])
    return {"deleted": given["ledger_id"]}


def recover_ledger(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Close a ledger in place of its writer."""
    ledger_id, password = given["ledger_id"], given["password"]
    with cluster.client.recover_ledger(ledger_id, password, timeout=RECOVERY_TIMEOUT_S) as reader:
        return {"ledger_id": ledger_id, "last_entry_id": reader.last_add_confirmed}


def _custom(texts: "Sequence[str]") -> dict[str, bytes]:
    found = {}
    for one in texts:
        key, separator, value = one.partition("=")
        if not separator:
            raise InvalidOptionError("custom_metadata", one, "must be KEY=VALUE")
        found[key] = value.encode("utf-8", "replace")
    return found


def _checked(
    cluster: Cluster,
    ledger_id: int,
    *,
    is_full: bool = False,
    is_reporting: bool = False,
    is_over: "Callable[[], bool]" = lambda: False,
) -> dict[str, Any]:
    from zbk.auditor.check_by_hand import check_by_hand  # noqa: PLC0415 - seldom used

    found = check_by_hand(
        cluster.connection, ledger_id, is_full=is_full, is_reporting=is_reporting, is_over=is_over
    )
    shown: dict[str, Any] = msgspec.to_builtins(found)
    return shown | {"is_whole": found.is_whole}


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
