"""A load that appends to a VD ledger and syncs it, in turn, measured in the application."""

import os
from typing import Final

import msgspec

from zbk.bench.percentiles import Percentiles, percentiles
from zbk.client.api import Client
from zbk.protocol.entry.words import LedgerType
from zbk.system.clock import monotonic_s

TIMEOUT_S: Final = 300.0


class SyncResult(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of syncing a VD ledger repeatedly."""

    entry_size: int
    sync_count: int
    entries_per_sync: int
    append: Percentiles  # of the ``append_many`` before each sync
    sync: Percentiles


def run_sync(
    client: Client, *, entry_size: int, sync_count: int, entries_per_sync: int
) -> SyncResult:
    """Append and sync a VD ledger in turn and return the latencies."""
    payloads = [os.urandom(entry_size)] * entries_per_sync
    append_s, sync_s = [], []
    with client.create_ledger(ledger_type=LedgerType.VD_JOURNAL) as writer:
        writer.append(b"warm-up")
        for _ in range(sync_count):
            at_s = monotonic_s()
            writer.append_many(payloads).result(TIMEOUT_S)
            appended_s = monotonic_s()
            writer.sync()
            append_s.append(appended_s - at_s)
            sync_s.append(monotonic_s() - appended_s)
    return SyncResult(
        entry_size=entry_size,
        sync_count=sync_count,
        entries_per_sync=entries_per_sync,
        append=percentiles(append_s),
        sync=percentiles(sync_s),
    )
