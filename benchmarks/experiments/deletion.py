"""Experiment: the space that one round of garbage collection returns after many deletions.

Ledgers past the journal, written one after another, have entry logs of their own. All are deleted,
and each bookie makes one round. *Left* is what the entry logs have after it.

Source: BookKeeper's ``entryLogPerLedgerEnabled``.
"""

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from zbk.client.api import Client, connect
from zbk.cluster.local import LocalCluster
from zbk.config.units import MIB
from zbk.protocol.entry.words import LedgerType
from zbk.system.clock import monotonic_s

ROUND_TIMEOUT_S = 300.0


class DeletionLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Ledgers to write and to delete."""

    ledger_count: int = 1_000
    ledger_size: int = MIB  # bytes of payload
    entry_size: int = 16 * 1024  # bytes of payload
    ledger_type: LedgerType = LedgerType.VD_BYPASS_JOURNAL


class DeletionResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the experiment. Sizes in bytes, of the entry logs of all bookies."""

    ledger_count: int
    ledger_size: int
    log_size_before: int  # the round
    log_size_left: int  # after it
    copied_size: int  # by compaction in the round
    removed_log_count: int
    seconds: float  # of the longest round


def run_deletion(
    folder: Path,
    load: DeletionLoad,
    *,
    on_progress: Callable[[str], None] = lambda _what: None,
) -> DeletionResult:
    """Write ledgers to a temporary cluster, delete them, and collect garbage once.

    Raises:
        RequestTimeoutError: a round takes more than ``ROUND_TIMEOUT_S`` seconds.
    """
    options = {"gc_interval_ms": 0, "gc_confirm_delay_ms": 10}
    cluster = LocalCluster(folder / "cluster", bookie_options=options)
    with cluster, closing(connect(cluster.metadata_uri)) as client:
        on_progress("writing ledgers")
        ledger_ids = [_write(client, load) for _ in range(load.ledger_count)]
        on_progress("deleting them")
        for ledger_id in ledger_ids:
            client.delete_ledger(ledger_id)
        before = _log_size(cluster)
        on_progress("collecting garbage")
        copied_size = removed_count = 0
        longest_s = 0.0
        for bookie in cluster.bookies:
            begun_s = monotonic_s()
            status = client.collect_garbage(bookie.bookie_id, timeout=ROUND_TIMEOUT_S)
            longest_s = max(longest_s, monotonic_s() - begun_s)
            removed_count += status.log_count
            copied_size += client.bookie_info(bookie.bookie_id).compaction_copied_size
        return DeletionResult(
            ledger_count=load.ledger_count,
            ledger_size=load.ledger_size,
            log_size_before=before,
            log_size_left=_log_size(cluster),
            copied_size=copied_size,
            removed_log_count=removed_count,
            seconds=longest_s,
        )


def _write(client: Client, load: DeletionLoad) -> int:
    payload = bytes(load.entry_size)
    with client.create_ledger(ledger_type=load.ledger_type) as ledger:
        ledger.append_many([payload] * (load.ledger_size // load.entry_size)).result(60)
        return ledger.ledger_id


def _log_size(cluster: LocalCluster) -> int:
    size = 0
    for file in cluster.folder.glob("**/logs/*.log"):
        with suppress(FileNotFoundError):
            size += file.stat().st_size
    return size
