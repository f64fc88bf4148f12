"""A load from several client processes at once, each with its own client and ledgers."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

import msgspec

from zbk.bench.cost import Meter
from zbk.bench.histogram import Histogram, merged
from zbk.bench.job import OPEN_TIMEOUT_S, Job, LedgersOpen
from zbk.bench.load import WriteLoad
from zbk.bench.program import Program
from zbk.bench.write_load import WriteResult
from zbk.bench.writer_process import Written
from zbk.client.api import Client
from zbk.errors import UnavailableError

WRITE_TIMEOUT_S: Final = 300.0
"""Added to the time of the load."""


def run_processes(client: Client, load: WriteLoad, process_count: int) -> WriteResult:
    """Write a share of ``load`` in each process; return the figures of all together.

    Counts and rate of the load are totals of all processes; each process has ``load.ledger_count``
    ledgers. ``client`` only reads the resources that the bookies have used.

    Raises:
        UnavailableError: a process failed.
        RequestTimeoutError: a process took too long.
    """
    with ExitStack() as exits:
        programs = [
            exits.enter_context(Program("zbk.bench.writer_process", [client.metadata_uri]))
            for _ in range(process_count)
        ]
        for number, program in enumerate(programs):
            job = Job(_share(load, number, process_count), client.config)
            program.send(msgspec.json.encode(job).decode())
        for program in programs:
            program.receive(LedgersOpen, OPEN_TIMEOUT_S)
        meter = Meter(client)
        for program in programs:
            program.send("go")
        timeout_s = WRITE_TIMEOUT_S + load.seconds
        written = [program.receive(Written, timeout_s) for program in programs]
    for one in written:
        if one.result is None:
            raise UnavailableError(f"a client process failed: {one.error}")
    return _together(load, meter, written)


def _share(load: WriteLoad, number: int, process_count: int) -> WriteLoad:
    count = load.entry_count // process_count + (number < load.entry_count % process_count)
    return msgspec.structs.replace(load, entry_count=count, rate=load.rate / process_count)


def _together(load: WriteLoad, meter: Meter, written: Sequence[Written]) -> WriteResult:
    results = [one.result for one in written if one.result is not None]
    entry_count = sum(result.entry_count for result in results)
    ended_s = max(one.started_s + one.result.seconds for one in written if one.result is not None)
    seconds = ended_s - min(one.started_s for one in written)
    latencies = merged(Histogram.of(result.histogram, result.latency.max_ms) for result in results)
    client_cpu_us = sum(one.cost.client_cpu_us_per_entry * one.entry_count for one in results)
    cost = msgspec.structs.replace(
        meter.cost(entry_count),
        client_cpu_us_per_entry=client_cpu_us / max(1, entry_count),
        client_rss_size=max(result.cost.client_rss_size for result in results),
    )
    wire_batch_count = meter.wire_batches() / load.write_quorum_size
    slowest = min(result.ledger_entries_per_s_min for result in results)
    fastest = max(result.ledger_entries_per_s_max for result in results)
    return WriteResult.of(
        load,
        entry_count,
        seconds,
        latencies=latencies,
        wire_batch_count=wire_batch_count,
        cost=cost,
        ledger_id=results[0].ledger_id,
        rates=[slowest, fastest],
    )
