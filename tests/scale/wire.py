"""A client of one bookie that speaks the wire protocol and nothing else.

A ledger costs it one number in a small array, so that 20,000 of them are written from one thread,
and cost no more than one does: the client's own writers, an actor and a thread each, would be what
is measured. The bookie sees what those would send: batches of encoded entries with their digests,
one request each.

One thread may call; answers come in the pool's thread.
"""

import random
import threading
from array import array
from collections.abc import Iterable, Sequence
from itertools import chain, cycle
from typing import Final, Self

import msgspec

from tests.support.checkpoints import is_marked
from tests.support.made_ledgers import make_ledgers
from zbk.bench.percentiles import Percentiles, percentiles
from zbk.client.cluster.requests import Requests
from zbk.cluster.local import LocalCluster
from zbk.metadata.records.instance import instance_id
from zbk.metadata.stores.connect import open_store
from zbk.protocol.entry.digest import digest_function, ledger_key
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.entry_batch import EntryBatch, sizes_to_wire
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.system.clock import monotonic_s
from zbk.transport.dealer import BookiePool
from zbk.transport.events import DealerOptions, News, Outgoing, Reply
from zbk.wire.messages import Add, BookieInfo, GetBookieInfo, Message, Read, ReadAnswer

TIMEOUT_MS: Final = 120_000
READ_SIZE_MAX: Final = 1024 * 1024
QUIET_TIMEOUT_S: Final = 120.0
ORDER_COUNT: Final = 16
LEDGER_ID_MAX: Final = 1 << 16
BLOCK_COUNT: Final = 250
"""Ledgers whose metadata are made together."""

LEDGER_KEY: Final = ledger_key(b"", 0)
"""Of all ledgers: a bookie knows of no passwords, but keeps what each was first written with."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a load: who calls says how much of it."""

    entry_size: int = 100  # bytes of payload
    batch_count: int = 10  # entries in one request
    window: int = 256  # requests that may be unanswered
    ledger_type: LedgerType = LedgerType.PD_JOURNAL


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a load."""

    request_count: int
    entry_count: int
    seconds: float
    entries_per_s: float
    bookie_cpu_us_per_entry: float = 0.0
    latency: Percentiles


class _Sent(msgspec.Struct, frozen=True):
    at_s: float
    entry_count: int


class _Window:
    """Requests that are not answered yet, at most so many; and how long each took."""

    def __init__(self, size: int) -> None:
        self._free = threading.Semaphore(size)
        self._size = size
        self.latencies_s: list[float] = []
        self.answered_count = 0  # entries
        self.failures: list[object] = []

    def deliver(self, news: list[News]) -> None:
        now_s = monotonic_s()
        for one in news:
            assert isinstance(one, Reply), "nothing was subscribed to"
            assert isinstance(one.key, _Sent)
            if isinstance(one.outcome, Exception):
                self.failures.append(one.outcome)
            self.latencies_s.append(now_s - one.key.at_s)
            answer = one.outcome
            if isinstance(answer, ReadAnswer):
                self.answered_count += answer.count
            else:
                self.answered_count += one.key.entry_count
        self._free.release(len(news))

    def take(self) -> None:
        self._free.acquire()

    def wait_all(self) -> None:
        for _ in range(self._size):
            self._free.acquire()
        if self.failures:
            raise AssertionError(f"{len(self.failures)} requests failed: {self.failures[0]}")


class WireClient:
    """Adds to and reads from ledgers of one bookie. Their metadata are made in blocks."""

    def __init__(self, cluster: LocalCluster, load: Load) -> None:
        self._cluster = cluster
        self.load = load
        self._payloads = [random.randbytes(load.entry_size)] * load.batch_count
        self._next_ids = array("q", bytes(8 * LEDGER_ID_MAX + 8))
        self._digest = digest_function(DigestType.XXH3, b"", 0)
        self._blocks: set[int] = set()  # of ledgers whose metadata are made

    def __enter__(self) -> Self:
        self._store = open_store(self._cluster.metadata_uri)
        self._pool = BookiePool(DealerOptions(instance_id(self._store), "scale", TIMEOUT_MS))
        self.reconnect()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        self._store.close()

    def reconnect(self) -> None:
        """Look where the bookie listens."""
        bookie = self._cluster.bookies[0]
        self._bookie_id = bookie.bookie_id
        self._pool.set_addresses({bookie.bookie_id: bookie.address})

    def info(self) -> BookieInfo:
        """Ask the bookie about itself."""
        reply = Requests(self._pool, TIMEOUT_MS).ask(self._bookie_id, GetBookieInfo(request_id=0))
        assert isinstance(reply.outcome, BookieInfo), reply.outcome
        return reply.outcome

    def wait_quiet(self) -> None:
        """Return when a checkpoint has covered all of the journal but what idling adds to it."""
        deadline_s = monotonic_s() + QUIET_TIMEOUT_S
        before = self.info()
        while monotonic_s() < deadline_s:
            threading.Event().wait(0.5)
            now = self.info()
            same = now.last_log_mark == before.last_log_mark
            if same and now.cpu_ms - before.cpu_ms < 50 and is_marked(now):
                return
            before = now
        raise AssertionError(f"no quiet: {before.journal_position}, mark {before.last_log_mark}")

    # ------------------------------------------------------------------ loads

    def add(self, ledger_ids: Iterable[int], *, seconds: float = 0.0) -> Rate:
        """Send a batch to each ledger in turn, until they, or the seconds, are used up."""
        return self._run(map(self._batch, ledger_ids), seconds)

    def read(self, places: Iterable[tuple[int, int]], *, seconds: float = 0.0) -> Rate:
        """Read a batch at each (ledger id, first entry id)."""
        return self._run(map(self._read_of, places), seconds)

    def read_until_end(self, ledger_id: int, first: int, last: int) -> Rate:
        """Read entries in a row, each request as large as an answer may be."""
        step = READ_SIZE_MAX // (self.load.entry_size + 48)
        starts = range(first, last + 1, step)
        wanted = ((ledger_id, start, min(last, start + step - 1)) for start in starts)
        return self._run((self._read(*one) for one in wanted), 0.0)

    def last_entry_id(self, ledger_id: int) -> int:
        """Return what was added last; -1 is none."""
        return self._next_ids[ledger_id] - 1

    def _run(
        self, requests: Iterable[tuple[Message, tuple[bytes, ...], int]], seconds: float
    ) -> Rate:
        window = _Window(self.load.window)
        before_ms = self.info().cpu_ms
        started_s = monotonic_s()
        count = 0
        for request, frames, entry_count in requests:
            window.take()
            now_s = monotonic_s()
            self._pool.request(
                Outgoing(
                    bookie_id=self._bookie_id,
                    request=request,
                    frames=frames,
                    sink=window,
                    key=_Sent(now_s, entry_count),
                    timeout_ms=TIMEOUT_MS,
                    size=512 + sum(map(len, frames)),
                )
            )
            count += 1
            if seconds and now_s - started_s >= seconds:
                break
        window.wait_all()
        took_s = monotonic_s() - started_s
        entry_count = max(1, window.answered_count)
        return Rate(
            request_count=count,
            entry_count=entry_count,
            seconds=took_s,
            entries_per_s=entry_count / took_s,
            bookie_cpu_us_per_entry=(self.info().cpu_ms - before_ms) * 1000 / entry_count,
            latency=percentiles(window.latencies_s),
        )

    def _make(self, block: int) -> None:
        if block not in self._blocks:
            self._blocks.add(block)
            ledger_ids = range(block * BLOCK_COUNT, (block + 1) * BLOCK_COUNT)
            make_ledgers(self._store, ledger_ids, self.load.ledger_type)

    def _batch(self, ledger_id: int) -> tuple[Message, tuple[bytes, ...], int]:
        self._make(ledger_id // BLOCK_COUNT)
        first = self._next_ids[ledger_id]
        ids = range(first, first + self.load.batch_count)
        length = first * self.load.entry_size
        body, sizes = encode_entries(
            ledger_id, ids, first - 1, length, self._payloads, DigestType.XXH3, self._digest
        )
        batch = EntryBatch.of(ledger_id, ids, sizes, body)
        self._next_ids[ledger_id] = ids[-1] + 1
        request = Add(
            request_id=0,
            ledger_id=ledger_id,
            ledger_key=LEDGER_KEY,
            ledger_type=self.load.ledger_type,
            first_entry_id=first,
            count=batch.count,
            lac=first - 1,
            checksum=batch.checksum,
        )
        return request, (sizes_to_wire(batch.sizes), body), batch.count

    def _read_of(self, place: tuple[int, int]) -> tuple[Message, tuple[bytes, ...], int]:
        ledger_id, first = place
        return self._read(ledger_id, first, first + self.load.batch_count - 1)

    def _read(
        self, ledger_id: int, first: int, last: int
    ) -> tuple[Message, tuple[bytes, ...], int]:
        request = Read(
            request_id=0,
            ledger_id=ledger_id,
            ledger_key=LEDGER_KEY,
            ledger_type=self.load.ledger_type,
            first_entry_id=first,
            last_entry_id=last,
            size_max=READ_SIZE_MAX,
        )
        return request, (), last - first + 1


def in_turn(ledger_ids: Sequence[int]) -> Iterable[int]:
    """Return the ledgers again and again, in orders that were drawn before anything is measured."""
    orders = [array("q", random.sample(ledger_ids, len(ledger_ids))) for _ in range(ORDER_COUNT)]
    return chain.from_iterable(cycle(orders))
