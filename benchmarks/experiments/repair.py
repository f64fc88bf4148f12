"""Experiment: the rate at which autorecovery repairs a lost bookie's ledgers, and its cost.

A temporary cluster has ledgers of two copies each, spread over all bookies. One bookie is killed
for good; an autorecovery process copies its ledgers to the remaining bookies. The time runs from
the first task that the auditor publishes to the end of the last one. Then every entry is read from
the bookie that received it, and its digest verified. The cost is the rate of a writer, before and
during the repair.

Words: the *victim* is the bookie that is killed; *held* are the payloads of its entries.

Source: BookKeeper's ``LedgerFragmentReplicator``; repair speed is copied payload a second.
"""

import os
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Final, Self

import msgspec

from zbk.client.api import Client, connect
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.cluster.local import LocalBookie, LocalCluster
from zbk.errors import NotEnoughBookiesError, RequestTimeoutError
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.system.clock import monotonic_s

COPY_COUNT: Final = 2
BATCH_SIZE: Final = 512 * 1024  # bytes of payload in one ``append_many``
LOOK_INTERVAL_S: Final = 0.05
TIMEOUT_S: Final = 1_800.0
CREATE_COUNT_MAX: Final = 64  # tries for an ensemble without the victim


class RepairLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Ledgers that are lost and repaired."""

    held_size: int = 2 * 1024**3  # approximate bytes of payload that the victim holds
    ledger_count: int = 200
    entry_size: int = 1024  # bytes of payload
    bookie_count: int = 3
    writer_seconds: float = 0.0  # time that a writer is measured before; 0: no writer


class RepairResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the experiment. Rates in payload."""

    load: RepairLoad
    repaired_ledger_count: int
    repaired_size: int  # bytes of payload copied
    notice_seconds: float  # from the kill to the first task
    seconds: float  # from the first task to the end of the last
    repaired_mb_per_s: float
    writer_mb_per_s_before: float
    writer_mb_per_s_during: float
    writer_ratio: float  # during / before; 0 without a writer
    verified_entry_count: int


def run_repair(
    folder: Path,
    load: RepairLoad,
    *,
    options: Mapping[str, int | str],
    on_progress: Callable[[str, int], None] = lambda _what, _count: None,
) -> RepairResult:
    """Load a temporary cluster, kill a bookie, and return the figures of the repair.

    ``options`` are fields of ``AutorecoveryConfig``. ``on_progress`` gets the current step and the
    number of ledgers done.

    Raises:
        ZbkError: the cluster failed.
    """
    with (
        LocalCluster(folder / "cluster", bookie_count=load.bookie_count) as cluster,
        closing(connect(cluster.metadata_uri)) as client,
        closing(open_store(cluster.metadata_uri)) as store,
    ):
        _fill(client, load, on_progress)
        victim = cluster.bookies[0]
        held = _held(client, victim.bookie_id)
        cluster.start_autorecovery({"lost_bookie_delay_ms": 0, **options})
        tasks = UnderreplicationStore(store)
        with _Writer(client, victim, load) as writer:
            before = writer.rate(load.writer_seconds)
            news: queue.SimpleQueue[None] = queue.SimpleQueue()
            watch = tasks.watch_tasks(
                lambda: news.put(None)
            )  # a few tasks may be gone before a look
            _next(news)  # the first call comes at once
            cluster.kill(victim.index)
            killed_s = monotonic_s()
            _next(news)
            first_task_s = monotonic_s()
            watch.cancel()
            writer.begin()
            _wait_whole(client, held, victim, on_progress)
            seconds = monotonic_s() - first_task_s
            during = writer.end()
        verified_count = _verify(client, held, victim, on_progress)
    size = sum(held.values())
    return RepairResult(
        load=load,
        repaired_ledger_count=len(held),
        repaired_size=size,
        notice_seconds=first_task_s - killed_s,
        seconds=seconds,
        repaired_mb_per_s=size / seconds / 1e6,
        writer_mb_per_s_before=before,
        writer_mb_per_s_during=during,
        writer_ratio=during / before if before else 0.0,
        verified_entry_count=verified_count,
    )


def _fill(client: Client, load: RepairLoad, on_progress: Callable[[str, int], None]) -> None:
    total_size = load.held_size * load.bookie_count // COPY_COUNT
    total_count = max(1, round(load.ledger_count * load.bookie_count / COPY_COUNT))
    entry_count = max(1, total_size // total_count // load.entry_size)
    payload = os.urandom(load.entry_size)
    batch = [payload] * max(1, BATCH_SIZE // max(1, load.entry_size))
    for number in range(total_count):
        on_progress("writing ledgers", number)
        with _create(client) as writer:
            left = entry_count
            while left:
                count = min(left, len(batch))
                writer.append_many(batch[:count], timeout=TIMEOUT_S)
                left -= count


def _create(client: Client) -> LedgerWriter:
    return client.create_ledger(
        ensemble_size=COPY_COUNT, write_quorum_size=COPY_COUNT, ack_quorum_size=COPY_COUNT
    )


def _held(client: Client, bookie_id: str) -> dict[int, int]:
    """Return the closed ledgers of one fragment that a bookie holds completely, and their bytes."""
    held = {}
    for ledger_id in client.list_ledgers():
        metadata = client.get_ledger_metadata(ledger_id)
        if bookie_id in metadata.last_fragment.bookies and metadata.length:
            held[ledger_id] = metadata.length
    return held


def _next(news: "queue.SimpleQueue[None]") -> None:
    try:
        news.get(timeout=TIMEOUT_S)
    except queue.Empty:
        raise RequestTimeoutError("the report of a lost bookie", TIMEOUT_S) from None


def _wait(is_so: Callable[[], bool]) -> None:
    deadline_s = monotonic_s() + TIMEOUT_S
    while not is_so():
        if monotonic_s() > deadline_s:
            raise RequestTimeoutError("the repair of a lost bookie", TIMEOUT_S)
        threading.Event().wait(LOOK_INTERVAL_S)


def _wait_whole(
    client: Client,
    held: Mapping[int, int],
    victim: LocalBookie,
    on_progress: Callable[[str, int], None],
) -> None:
    """Wait until no ledger's metadata names the victim any more."""
    left = set(held)

    def is_whole() -> bool:
        for ledger_id in sorted(left):
            if victim.bookie_id in client.get_ledger_metadata(ledger_id).last_fragment.bookies:
                break  # repaired in about this order: one that is left is enough for now
            left.remove(ledger_id)
        else:
            return True
        on_progress("repairing ledgers", len(held) - len(left))
        return False

    _wait(is_whole)


def _verify(
    client: Client,
    held: Mapping[int, int],
    victim: LocalBookie,
    on_progress: Callable[[str, int], None],
) -> int:
    """Read each repaired ledger from each of its bookies; return the number of entries.

    Raises:
        DigestMismatchError, NoSuchEntryError: a copy is not what it should be.
    """
    count = 0
    for number, ledger_id in enumerate(held):
        on_progress("verifying ledgers", number)
        with client.open_ledger(ledger_id) as reader:
            bookies = reader.metadata.last_fragment.bookies
            assert victim.bookie_id not in bookies, "it is whole"
            for bookie_id in bookies:
                for batch in reader.read_batches(0, reader.last_add_confirmed, bookie_id=bookie_id):
                    count += len(batch)
    return count


class _Writer:
    """A writer on a ledger that is not on the victim, as fast as possible."""

    def __init__(self, client: Client, victim: LocalBookie, load: RepairLoad) -> None:
        self._client = client
        self._victim = victim
        self._payloads = [os.urandom(load.entry_size)] * max(
            1, BATCH_SIZE // max(1, load.entry_size)
        )
        self._is_wanted = load.writer_seconds > 0
        self._writer: LedgerWriter | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._size = 0
        self._started_s = 0.0
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        if self._is_wanted:
            self._writer = self._create_elsewhere()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._writer is not None:
            self._writer.close()

    def rate(self, seconds: float) -> float:
        """Write for this time; return MB of payload a second."""
        self.begin()
        threading.Event().wait(seconds)
        return self.end()

    def begin(self) -> None:
        """Start to write."""
        if self._is_wanted:
            self._stop.clear()
            self._size, self._started_s = 0, monotonic_s()
            self._thread = threading.Thread(target=self._run, name="zbk-bench-writer")
            self._thread.start()

    def end(self) -> float:
        """Stop; return MB of payload a second since ``begin``; 0 without a writer."""
        if self._thread is None:
            return 0.0
        self._stop.set()
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            raise self._failure
        return self._size / (monotonic_s() - self._started_s) / 1e6

    def _run(self) -> None:
        assert self._writer is not None, "it was made"
        batch_size = sum(map(len, self._payloads))
        last: Future[range] | None = None
        try:
            while not self._stop.is_set():
                last = self._writer.append_many(self._payloads, timeout=TIMEOUT_S)
                self._size += batch_size
            if last is not None:
                last.result(TIMEOUT_S)
        except BaseException as error:  # noqa: BLE001 - told to the thread that waits
            self._failure = error

    def _create_elsewhere(self) -> LedgerWriter:
        for _ in range(CREATE_COUNT_MAX):
            writer = _create(self._client)
            if self._victim.bookie_id not in writer.metadata.last_fragment.bookies:
                return writer
            writer.close()
            self._client.delete_ledger(writer.ledger_id)
        raise NotEnoughBookiesError(COPY_COUNT, COPY_COUNT - 1, "all ensembles had the victim")
