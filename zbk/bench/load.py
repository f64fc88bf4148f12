"""Load against a cluster: writes, reads, syncs, each measured from the application's side.

CPU and memory of the bookies are what they tell of themselves before and after; those of the
client are of this process. Latency is from the call to the answer, queueing included: a larger
window makes throughput and latency larger.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from enum import StrEnum
from typing import Any, Final

import msgspec

from zbk.bench.percentiles import Percentiles, percentiles
from zbk.client.api import Client
from zbk.client.ledger_writer import LedgerWriter
from zbk.protocol.words import LedgerType
from zbk.system.clock import monotonic_s
from zbk.system.process import usage

SAMPLE_EVERY: Final = 64
"""Of single asynchronous appends, every so many is timed: timing each would be the load."""

TIMEOUT_S: Final = 300.0


class Api(StrEnum):
    """Which call of the writer is measured."""

    MANY = "many"
    ASYNC = "async"
    SYNC = "sync"


class WriteLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What to write."""

    entry_size: int = 100  # bytes of payload
    entry_count: int = 1_000_000
    ledger_type: LedgerType = LedgerType.PD_JOURNAL
    api: Api = Api.MANY
    batch_count: int = 1_000  # entries in one ``append_many``
    window: int = 64  # calls that may be unanswered
    ensemble_size: int = 3
    write_quorum_size: int = 3
    ack_quorum_size: int = 2


class Cost(msgspec.Struct, frozen=True):
    """What a load cost. Bookies: all of the cluster together, but for memory: the largest."""

    client_cpu_us_per_entry: float
    bookie_cpu_us_per_entry: float
    client_rss_size: int
    bookie_rss_size_max: int
    disk_write_size: int
    journal_sync_count: int


class WriteResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a write load."""

    load: WriteLoad
    ledger_id: int
    seconds: float
    entries_per_s: float
    payload_mb_per_s: float
    latency: Percentiles
    cost: Cost
    entries_per_wire_batch: float


class ReadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of reading a ledger from end to end."""

    ledger_id: int
    entry_size: int
    entry_count: int
    is_in_batches: bool
    seconds: float
    entries_per_s: float
    payload_mb_per_s: float
    cost: Cost


class SyncResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of syncing a VD ledger again and again."""

    entry_size: int
    sync_count: int
    entries_per_sync: int
    append: Percentiles  # of the ``append_many`` before each sync
    sync: Percentiles


class _Meter:
    """Reads what client and bookies have used."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._before = usage()
        self._infos = self._ask()

    def cost(self, entry_count: int) -> Cost:
        """Return what was used since the meter was made."""
        mine = usage().since(self._before)
        after = self._ask()
        pairs = [(info, self._infos[key]) for key, info in after.items() if key in self._infos]

        def grown(field: Callable[[Any], int]) -> int:
            return sum(field(now) - field(then) for now, then in pairs)

        count = max(1, entry_count)
        return Cost(
            client_cpu_us_per_entry=mine.cpu_ms * 1000 / count,
            bookie_cpu_us_per_entry=grown(lambda info: info.cpu_ms) * 1000 / count,
            client_rss_size=mine.rss_size,
            bookie_rss_size_max=max((now.rss_size for now, _ in pairs), default=0),
            disk_write_size=grown(lambda info: info.disk_write_size),
            journal_sync_count=grown(lambda info: info.journal_sync_count),
        )

    def wire_batches(self) -> int:
        """Return how many batches the bookies have received, all together."""
        return sum(
            now.add_batch_count - self._infos[key].add_batch_count
            for key, now in self._ask().items()
            if key in self._infos
        )

    def _ask(self) -> dict[str, Any]:
        return {
            bookie.bookie_id: self._client.bookie_info(bookie.bookie_id)
            for bookie in self._client.list_bookies()
        }


def run_write(client: Client, load: WriteLoad) -> WriteResult:
    """Write one ledger as ``load`` says, close it, and return the figures."""
    with client.create_ledger(
        ensemble_size=load.ensemble_size,
        write_quorum_size=load.write_quorum_size,
        ack_quorum_size=load.ack_quorum_size,
        ledger_type=load.ledger_type,
        custom_metadata={"purpose": b"bench"},
    ) as writer:
        writer.append(b"warm-up")  # connections are made, files are open
        meter = _Meter(client)
        started_s = monotonic_s()
        latencies = _WRITERS[load.api](writer, load)
        seconds = monotonic_s() - started_s
        cost = meter.cost(load.entry_count)
        wire_batch_count = meter.wire_batches() / load.write_quorum_size
        ledger_id = writer.ledger_id
    return WriteResult(
        load=load,
        ledger_id=ledger_id,
        seconds=seconds,
        entries_per_s=load.entry_count / seconds,
        payload_mb_per_s=load.entry_count * load.entry_size / seconds / 1e6,
        latency=percentiles(latencies),
        cost=cost,
        entries_per_wire_batch=load.entry_count / max(1.0, wire_batch_count),
    )


def run_read(client: Client, ledger_id: int, entry_size: int, *, is_in_batches: bool) -> ReadResult:
    """Read a closed ledger from its first to its last entry and return the figures."""
    with client.open_ledger(ledger_id) as reader:
        last = reader.last_add_confirmed
        meter = _Meter(client)
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


def _write_many(writer: LedgerWriter, load: WriteLoad) -> list[float]:
    payload = os.urandom(load.entry_size)
    latencies: list[float] = []
    window: deque[Future[range]] = deque()
    left = load.entry_count
    while left:
        count = min(left, load.batch_count)
        left -= count
        if len(window) >= load.window:
            window.popleft().result(TIMEOUT_S)
        at_s = monotonic_s()
        future = writer.append_many([payload] * count)
        future.add_done_callback(_timer(latencies, at_s))
        window.append(future)
    for future in window:
        future.result(TIMEOUT_S)
    return latencies


def _timer(latencies: list[float], at_s: float) -> Callable[[Future[Any]], None]:
    return lambda _future: latencies.append(monotonic_s() - at_s)


def _write_async(writer: LedgerWriter, load: WriteLoad) -> list[float]:
    payload = os.urandom(load.entry_size)
    latencies: list[float] = []
    window: deque[Future[int]] = deque()
    window_max = load.window * load.batch_count  # the same bytes on their way as in batches
    for number in range(load.entry_count):
        if len(window) >= window_max:
            window.popleft().result(TIMEOUT_S)
        at_s = monotonic_s() if number % SAMPLE_EVERY == 0 else 0.0
        future = writer.append_async(payload)
        if at_s:
            future.add_done_callback(_timer(latencies, at_s))
        window.append(future)
    for future in window:
        future.result(TIMEOUT_S)
    return latencies


def _write_sync(writer: LedgerWriter, load: WriteLoad) -> list[float]:
    payload = os.urandom(load.entry_size)
    latencies = []
    for _ in range(load.entry_count):
        at_s = monotonic_s()
        writer.append(payload)
        latencies.append(monotonic_s() - at_s)
    return latencies


_WRITERS: Final = {Api.MANY: _write_many, Api.ASYNC: _write_async, Api.SYNC: _write_sync}
