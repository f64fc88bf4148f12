"""Experiment: the time from SIGKILL of a bookie to its next answer, with much journal to replay.

One bookie holds a ledger alone. Its checkpoints are delayed (``LATE_CHECKPOINTS``), so that all its
writes are after the last one; a bookie with default options replays at most
``checkpoint_journal_size``. It gets SIGKILL and is started again. A client that stays connected
then requests the ledger's last entry repeatedly: *read* is the time when it has the entry.
*Registered* is the time when the metadata store has the new process.

The earlier writes are in the page cache: a crash of the process, not of the machine.

Source: BookKeeper's ``Journal.replay``, ``Bookie.readJournal``.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.experiments.numbered import NumberedPayloads, entry_id_of
from zbk.client.api import Client, connect
from zbk.cluster.load import load as append_all
from zbk.cluster.local import LocalBookie, LocalCluster
from zbk.config.units import GIB, MIB
from zbk.errors import BookieError, DigestMismatchError, RequestTimeoutError, ZbkError
from zbk.system.clock import monotonic_s
from zbk.wire.messages import BookieInfo

BATCH_SIZE: Final = 256 * 1024  # bytes of payload in one ``append_many``
SEGMENT_SIZE: Final = 16 * MIB  # bytes of payload between looks at the journal
READ_TIMEOUT_S: Final = 60.0
TRY_TIMEOUT_S: Final = 1.0
LOOK_INTERVAL_S: Final = 0.02

LATE_CHECKPOINTS: Final[dict[str, int | str]] = {
    "checkpoint_interval_ms": 3_600_000,
    "checkpoint_journal_size": 64 * GIB,
    "ledger_cache_size": 4 * GIB,  # a nearly full one would begin a checkpoint
    "gc_interval_ms": 0,
}


class RestartLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Entries that the bookie has to replay."""

    entry_size: int = 100  # bytes of payload, at least ``numbered.ID_SIZE``
    journal_size_min: int = 500 * MIB  # bytes


class RestartResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the experiment. Seconds since the start of the new process."""

    entry_size: int
    journal_size: int  # bytes written since the last checkpoint
    replayed_entry_count: int
    seconds_until_registered: float
    seconds_until_read: float
    rss_size: int  # of the bookie, then


def run_restart(
    folder: Path,
    load: RestartLoad,
    *,
    use_zookeeper: bool,
    on_progress: Callable[[str], None] = lambda _what: None,
) -> RestartResult:
    """Fill the journal of a bookie in a temporary cluster, kill it, start it, read from it.

    Raises:
        BookieError: it made a checkpoint before it was killed, or does not start.
        RequestTimeoutError: it does not serve the entry.
    """
    cluster = LocalCluster(
        folder / "cluster",
        bookie_count=1,
        use_zookeeper=use_zookeeper,
        bookie_options=LATE_CHECKPOINTS,
    )
    with cluster, closing(connect(cluster.metadata_uri)) as client:
        bookie = cluster.bookies[0]
        checkpoint_count = client.bookie_info(bookie.bookie_id).checkpoint_count
        on_progress("filling the journal")
        ledger_id, entry_count = _fill(client, bookie, load)
        written = client.bookie_info(bookie.bookie_id)
        if written.checkpoint_count != checkpoint_count:
            raise BookieError("a checkpoint came before the kill: less journal is left to replay")
        on_progress("restarting")
        cluster.kill(bookie.index)
        until_registered_s, until_read_s = _restart(cluster, client, ledger_id, entry_count - 1)
        return RestartResult(
            entry_size=load.entry_size,
            journal_size=written.journal_write_size,
            replayed_entry_count=entry_count,
            seconds_until_registered=until_registered_s,
            seconds_until_read=until_read_s,
            rss_size=client.bookie_info(bookie.bookie_id).rss_size,
        )


def _fill(client: Client, bookie: LocalBookie, load: RestartLoad) -> tuple[int, int]:
    """Write until the journal is long enough; return the ledger and the number of its entries."""
    payloads = NumberedPayloads(load.entry_size)
    batch_count = max(1, BATCH_SIZE // load.entry_size)
    segment_count = max(1, SEGMENT_SIZE // load.entry_size)
    entry_count = 0

    def info() -> BookieInfo:
        return client.bookie_info(bookie.bookie_id)

    with client.create_ledger(
        ensemble_size=1,
        write_quorum_size=1,
        ack_quorum_size=1,
        custom_metadata={"purpose": b"bench"},
    ) as writer:
        while info().journal_write_size < load.journal_size_min:
            end = entry_count + segment_count
            append_all(
                writer,
                (
                    payloads.batch(first, min(end, first + batch_count))
                    for first in range(entry_count, end, batch_count)
                ),
            )
            entry_count = end
    return writer.ledger_id, entry_count


def _restart(
    cluster: LocalCluster, client: Client, ledger_id: int, last_entry_id: int
) -> tuple[float, float]:
    """Start the bookie; return the seconds until it was registered, and until the entry came."""
    started_s = monotonic_s()

    def registered_after_s() -> float:
        cluster.restart(0)
        return monotonic_s() - started_s

    with ThreadPoolExecutor(1, "zbk-bench-restart") as pool:
        registered = pool.submit(registered_after_s)
        _wait_read(client, ledger_id, last_entry_id, registered)
        read_after_s = monotonic_s() - started_s
        return registered.result(), read_after_s


def _wait_read(client: Client, ledger_id: int, entry_id: int, registered: "Future[float]") -> None:
    deadline_s = monotonic_s() + READ_TIMEOUT_S
    while True:
        try:
            with client.open_ledger(ledger_id) as reader:
                (entry,) = reader.read(entry_id, entry_id, timeout=TRY_TIMEOUT_S)
        except ZbkError as error:
            if not error.is_retriable:
                raise
            if registered.done():
                registered.result()  # raises why there is none to ask
            if monotonic_s() > deadline_s:
                raise RequestTimeoutError(f"entry {entry_id}", READ_TIMEOUT_S) from error
            threading.Event().wait(LOOK_INTERVAL_S)
            continue
        if entry_id_of(entry.payload) != entry_id:
            raise DigestMismatchError(ledger_id, entry_id)
        return
