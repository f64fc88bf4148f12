"""Experiment: the time to recover the ledger of a writer that was killed with adds in flight.

A process of its own (``benchmarks.experiments.dying_writer``) fills a ledger. The bookies are
stopped (SIGSTOP) while it sends more adds, so that none is answered, and it gets SIGKILL. The
bookies continue, read these adds from their sockets, and store them. Then a second client recovers
the ledger: it fences, finds the last entry, writes back the entries after the LAC, and closes it.

Words: *outstanding* adds were sent and not answered when the writer died. Each may be in the ledger
afterwards; each *acknowledged* entry must be, and is verified.

The time runs from the call of ``recover_ledger`` to its return. The second client is connected to
the metadata store by then, and to no bookie, like any client that takes over.

Source: BookKeeper's ``LedgerRecoveryOp``.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Final, Protocol

import msgspec

from benchmarks.experiments.dying_writer import AddsSent, LedgerWritten
from benchmarks.experiments.numbered import entry_id_of
from zbk.bench.program import Program
from zbk.client.api import connect
from zbk.cluster.local import LocalCluster
from zbk.config import ClientConfig
from zbk.errors import DigestMismatchError, InvalidOptionError, NoSuchEntryError
from zbk.protocol.entry.entry import entry_size
from zbk.protocol.entry.words import DigestType
from zbk.system.clock import monotonic_s

SETTLE_S: Final = 0.5
"""Time for the writer to send its last adds before it is killed, and then for the bookies to store
them: a client that takes over after a failure does not do so at once."""

WRITE_TIMEOUT_S: Final = 1_800.0
SEND_TIMEOUT_S: Final = 30.0


class RecoveryLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of the writer when it is killed."""

    entry_size: int = 100  # bytes of payload, at least ``numbered.ID_SIZE``
    acknowledged_count: int = 1_000_000
    outstanding_count: int = 1_000

    def __post_init__(self) -> None:
        """Refuse more adds than can be in flight at once: others would wait in the writer."""
        size = self.outstanding_count * entry_size(self.entry_size, DigestType.XXH3)
        window_size = ClientConfig().window_size
        if size > window_size:
            raise InvalidOptionError(
                "outstanding",
                self.outstanding_count,
                f"{size} bytes cannot be in flight: a writer's window is {window_size} bytes",
            )


class RecoveredLedger(Protocol):
    """The part of ``LedgerReader`` that verifying needs."""

    @property
    def ledger_id(self) -> int:
        """The ledger's id."""

    @property
    def last_add_confirmed(self) -> int:
        """The last entry; -1 is none."""

    def read_batches(self, first: int, last: int) -> Iterable[Iterable[bytes]]:
        """Yield the payloads of a range of entries, in batches."""


class RecoveryResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the experiment."""

    entry_size: int
    entry_count: int  # in the ledger, finally
    acknowledged_count: int
    outstanding_count: int
    recovered_last_entry_id: int
    seconds: float
    seconds_with_connect: float  # and with the second client's ``connect``


def run_recovery(
    folder: Path,
    load: RecoveryLoad,
    *,
    use_zookeeper: bool,
    on_progress: Callable[[str], None] = lambda _what: None,
) -> RecoveryResult:
    """Kill a writer in a temporary cluster, recover its ledger, and verify what is in it.

    Raises:
        NoSuchEntryError, DigestMismatchError: an entry is missing, or is another one.
        ZbkError: the cluster failed.
    """
    with LocalCluster(folder / "cluster", use_zookeeper=use_zookeeper) as cluster:
        on_progress("writing the ledger")
        connect_s = monotonic_s()
        with closing(connect(cluster.metadata_uri)) as client:
            connect_s = monotonic_s() - connect_s
            ledger_id, acknowledged_count = _die(cluster, load, on_progress)
            on_progress("recovering")
            started_s = monotonic_s()
            reader = client.recover_ledger(ledger_id)
            seconds = monotonic_s() - started_s
            on_progress("verifying")
            with reader:
                verify(reader, acknowledged_count)
                last_entry_id = reader.last_add_confirmed
    return RecoveryResult(
        entry_size=load.entry_size,
        entry_count=last_entry_id + 1,
        acknowledged_count=acknowledged_count,
        outstanding_count=load.outstanding_count,
        recovered_last_entry_id=last_entry_id,
        seconds=seconds,
        seconds_with_connect=connect_s + seconds,
    )


def verify(ledger: RecoveredLedger, acknowledged_count: int) -> None:
    """Read a ledger of numbered payloads from end to end.

    Raises:
        NoSuchEntryError: an acknowledged entry is not in it.
        DigestMismatchError: an entry is not what was written.
    """
    last, next_id = ledger.last_add_confirmed, 0
    if last + 1 < acknowledged_count:
        raise NoSuchEntryError(ledger.ledger_id, last + 1)
    for batch in ledger.read_batches(0, last):
        for payload in batch:
            if entry_id_of(payload) != next_id:
                raise DigestMismatchError(ledger.ledger_id, next_id)
            next_id += 1
    if next_id != last + 1:
        raise NoSuchEntryError(ledger.ledger_id, next_id)


def _die(
    cluster: LocalCluster, load: RecoveryLoad, on_progress: Callable[[str], None]
) -> tuple[int, int]:
    """Kill a writer; return its ledger, and how many entries it knew to be acknowledged."""
    counts = (load.entry_size, load.acknowledged_count, load.outstanding_count)
    arguments = [cluster.metadata_uri, *map(str, counts)]
    with Program("benchmarks.experiments.dying_writer", arguments) as writer:
        written = writer.receive(LedgerWritten, WRITE_TIMEOUT_S)
        on_progress("killing the writer")
        for bookie in cluster.bookies:
            cluster.pause(bookie.index)
        try:
            writer.send("send")
            sent = writer.receive(AddsSent, SEND_TIMEOUT_S)
            threading.Event().wait(SETTLE_S)
            writer.kill()
        finally:
            for bookie in cluster.bookies:
                cluster.resume(bookie.index)
    threading.Event().wait(SETTLE_S)
    return written.ledger_id, sent.acknowledged_count
