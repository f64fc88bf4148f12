"""A load that writes ledgers, measured in the application.

Latency runs from the call, or from its due time (``zbk.bench.pace``), to the answer, and includes
the time in queues: a larger window raises both throughput and latency. It is measured once per
call: for ``append_many`` once per batch, for ``append_async`` once for several entries.

The calling thread starts a thread for each ledger (``zbk.bench.ledger_loop``) and waits for them;
meanwhile a sampler reads their progress (``zbk.bench.samples``).
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import inf
from typing import Self

import msgspec

from zbk.bench.cost import Cost, Meter
from zbk.bench.histogram import Bucket, Histogram, merged
from zbk.bench.ledger_loop import LedgerLoop
from zbk.bench.load import WriteLoad, create_ledger
from zbk.bench.neighbor import neighbor_of
from zbk.bench.pace import Pace
from zbk.bench.percentiles import Percentiles
from zbk.bench.samples import Sample, Sampler
from zbk.client.api import Client
from zbk.system.clock import monotonic_s


class WriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a write load."""

    load: WriteLoad
    entry_count: int  # written; a load with a time has no count
    ledger_id: int  # the last ledger of the first writer
    seconds: float
    entries_per_s: float
    payload_mb_per_s: float
    latency: Percentiles
    cost: Cost
    entries_per_wire_batch: float
    ledger_entries_per_s_min: float  # of the slowest ledger
    ledger_entries_per_s_max: float
    neighbor_latency: Percentiles | None  # of the appends beside the load, if any
    histogram: list[Bucket]

    @classmethod
    def of(
        cls,
        load: WriteLoad,
        entry_count: int,
        seconds: float,
        *,
        latencies: Histogram,
        wire_batch_count: float,
        cost: Cost,
        ledger_id: int,
        rates: Sequence[float],
        neighbor_latency: Percentiles | None = None,
    ) -> Self:
        """Return the figures of a load; ``rates`` are the entries a second of its ledgers."""
        return cls(
            load=load,
            entry_count=entry_count,
            ledger_id=ledger_id,
            seconds=seconds,
            entries_per_s=entry_count / seconds,
            payload_mb_per_s=entry_count * load.entry_size / seconds / 1e6,
            latency=latencies.percentiles(),
            cost=cost,
            entries_per_wire_batch=entry_count / max(1.0, wire_batch_count),
            ledger_entries_per_s_min=min(rates),
            ledger_entries_per_s_max=max(rates),
            neighbor_latency=neighbor_latency,
            histogram=latencies.buckets(),
        )


def run_write(
    client: Client,
    load: WriteLoad,
    *,
    on_sample: Callable[[Sample], None] | None = None,
    before_start: Callable[[Sequence[LedgerLoop]], None] = lambda _loops: None,
) -> WriteResult:
    """Write a load, close the ledgers, and return the figures.

    ``on_sample`` is called once a second, in its own thread; ``before_start`` with the loops of the
    open ledgers, before the first entry that counts.

    Raises:
        ZbkError: a writer failed; the rest of the load is not written.
    """
    stop = threading.Event()
    with _idle_ledgers(client, load), ExitStack() as exits:
        loops = [
            exits.enter_context(LedgerLoop(client, load, index, stop))
            for index in range(load.ledger_count)
        ]
        end_neighbor = exits.enter_context(neighbor_of(client, load))
        before_start(loops)
        meter = Meter(client)
        started_s = monotonic_s()
        with Sampler(client, loops, load.entry_size, on_sample):
            _write(loops, load, started_s, stop)
        neighbor_latency = None if end_neighbor is None else end_neighbor()
        seconds = max(loop.ended_s for loop in loops) - started_s
        entry_count = sum(loop.sent_count for loop in loops)
        cost = meter.cost(entry_count)
        wire_batch_count = meter.wire_batches() / load.write_quorum_size
    return WriteResult.of(
        load,
        entry_count,
        seconds,
        latencies=merged(loop.latencies for loop in loops),
        wire_batch_count=wire_batch_count,
        cost=cost,
        ledger_id=loops[0].ledger_id,
        rates=[loop.sent_count / (loop.ended_s - started_s) for loop in loops],
        neighbor_latency=neighbor_latency,
    )


def _write(
    loops: list[LedgerLoop], load: WriteLoad, started_s: float, stop: threading.Event
) -> None:
    """Run the loops to their end; raise the failure of one of them."""
    rate = load.rate / len(loops)
    try:
        for index, loop in enumerate(loops):
            # their batches are due in turn, not all at once
            offset_s = index * load.call_entry_count / load.rate if load.rate else 0.0
            pace = Pace(
                started_s=started_s + offset_s,
                stop=stop,
                rate=rate,
                seconds=(load.seconds or inf) - offset_s,
            )
            loop.start(pace)
        for loop in loops:
            loop.join()
    finally:
        stop.set()
        for loop in loops:
            loop.join()
    for loop in loops:
        if loop.failure is not None:
            raise loop.failure


@contextmanager
def _idle_ledgers(client: Client, load: WriteLoad) -> Iterator[None]:
    """Open other ledgers, with one entry each."""
    with ExitStack() as exits:
        for _ in range(load.idle_ledger_count):
            writer = exits.enter_context(create_ledger(client, load))
            writer.append(b"idle")
        yield
