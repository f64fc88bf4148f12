"""A ledger beside a load: single entries, one append after another, as long as the load lasts.

It measures fairness: what a small append waits for while another ledger is written. The ledger is
written by the client of the load, or by a client of its own in another process.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import msgspec

from zbk.bench.job import OPEN_TIMEOUT_S, Job, LedgersOpen
from zbk.bench.ledger_loop import TIMEOUT_S, LedgerLoop
from zbk.bench.load import Api, WriteLoad
from zbk.bench.pace import Pace
from zbk.bench.percentiles import Percentiles
from zbk.bench.program import Program
from zbk.client.api import Client
from zbk.errors import UnavailableError
from zbk.protocol.entry.words import LedgerType
from zbk.system.clock import monotonic_s

PROGRAM: Final = "zbk.bench.neighbor_process"

End: TypeAlias = Callable[[], Percentiles]
"""Ends the neighbor and returns the latencies of its appends; raises ``ZbkError`` if one failed."""


class Measured(msgspec.Struct, frozen=True):
    """The latencies of a neighbor in its own process; ``error`` says why there are none."""

    latency: Percentiles | None = None
    error: str = ""


@contextmanager
def neighbor_of(client: Client, load: WriteLoad) -> Iterator[End | None]:
    """Write the neighbor that a load asks for; yield what ends it, or ``None`` without one."""
    if load.neighbor_type is None:
        yield None
    elif load.has_own_neighbor_client:
        with _in_process(client, _lone(load, load.neighbor_type)) as end:
            yield end
    else:
        with lone_appends(client, _lone(load, load.neighbor_type)) as end:
            yield end


@contextmanager
def lone_appends(client: Client, load: WriteLoad) -> Iterator[End]:
    """Append single entries until the end of the block; yield what ends them before."""
    stop = threading.Event()
    with LedgerLoop(client, load, 0, stop) as loop:
        loop.start(Pace(started_s=monotonic_s(), stop=stop))

        def end() -> Percentiles:
            loop.end()
            return loop.latencies.percentiles()

        try:
            yield end
        finally:
            stop.set()
            loop.join()


@contextmanager
def _in_process(client: Client, load: WriteLoad) -> Iterator[End]:
    with Program(PROGRAM, [client.metadata_uri]) as program:
        program.send(msgspec.json.encode(Job(load, client.config)).decode())
        program.receive(LedgersOpen, OPEN_TIMEOUT_S)

        def end() -> Percentiles:
            program.send("stop")
            measured = program.receive(Measured, TIMEOUT_S)
            if measured.latency is None:
                raise UnavailableError(f"the neighbor failed: {measured.error}")
            return measured.latency

        yield end


def _lone(load: WriteLoad, ledger_type: LedgerType) -> WriteLoad:
    return msgspec.structs.replace(
        load,
        ledger_type=ledger_type,
        api=Api.SYNC,
        rate=0.0,
        outstanding=0,
        ledger_count=1,
        idle_ledger_count=0,
        neighbor_type=None,
        roll_entry_count=0,
    )
