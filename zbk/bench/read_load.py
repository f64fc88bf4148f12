"""A load that reads a ledger from end to end, measured in the application."""

import msgspec

from zbk.bench.cost import Cost, Meter
from zbk.client.api import Client
from zbk.system.clock import monotonic_s


class ReadResult(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of reading a ledger from end to end."""

    ledger_id: int
    entry_size: int
    entry_count: int
    is_in_batches: bool
    seconds: float
    entries_per_s: float
    payload_mb_per_s: float
    cost: Cost


def run_read(client: Client, ledger_id: int, entry_size: int, *, is_in_batches: bool) -> ReadResult:
    """Read a closed ledger from its first to its last entry and return the figures."""
    with client.open_ledger(ledger_id) as reader:
        last = reader.last_add_confirmed
        meter = Meter(client)
        started_s = monotonic_s()
        count = size = 0
        if is_in_batches:
            for batch in reader.read_batches(0, last):
                count += len(batch)
                size += sum(map(len, batch))
        else:
            for entry in reader.read(0, last):
                count += 1
                size += len(entry.payload)
        seconds = monotonic_s() - started_s
        cost = meter.cost(count)
    return ReadResult(
        ledger_id=ledger_id,
        entry_size=entry_size,
        entry_count=count,
        is_in_batches=is_in_batches,
        seconds=seconds,
        entries_per_s=count / seconds,
        payload_mb_per_s=size / seconds / 1e6,
        cost=cost,
    )
