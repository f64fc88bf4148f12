"""Two acts of ``zbk demo``: a bookie dies while it is written to, and a ledger is taken over.

Both acts write entries that contain their own number, so that a missing entry is seen. Like
``zbk.cluster.demo`` they are generators of steps, without a terminal. Run in one thread.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from typing import Final

import msgspec

from zbk.client.api import Client
from zbk.client.read.ledger_reader import LedgerReader
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.cluster.local import LocalBookie, LocalCluster
from zbk.errors import LedgerFencedError, UnavailableError, ZbkError
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.clock import monotonic_s

BATCH_COUNT: Final = 200  # entries
PART_COUNT: Final = 10_000
"""Entries written before the failure, and as many after it."""

WINDOW_COUNT: Final = 8  # batches in flight
REPLACEMENT_TIMEOUT_S: Final = 15.0
FENCE_TIMEOUT_S: Final = 15.0


class KilledWhileWriting(msgspec.Struct, frozen=True, tag=True):
    """A bookie of two ensembles got SIGKILL while a PD and a VD ledger were written."""

    ledger_id: int  # of the PD ledger
    index: int
    bookie_id: str
    entry_count: int  # acknowledged by then
    volatile_ledger_id: int
    volatile_entry_count: int  # acknowledged by then, and not synced by the writer


class FragmentShown(msgspec.Struct, frozen=True):
    """A fragment: a run of entries and the bookies that hold it."""

    first_entry_id: int
    last_entry_id: int
    indexes: list[int]  # of the bookies, by slot


class BookieReplaced(msgspec.Struct, frozen=True, tag=True):
    """The ledger was written to its end with a replacement for the dead bookie."""

    ledger_id: int
    ledger_type: LedgerType
    seconds: float  # from the kill to the new ensemble
    fragments: list[FragmentShown]


class TakenOver(msgspec.Struct, frozen=True, tag=True):
    """A second client recovered a ledger while the first one wrote it."""

    ledger_id: int
    acknowledged_count: int  # to the first client, ever
    entry_count: int  # in the ledger, for good
    refusal: str  # the error that the first client got
    seconds: float  # of the recovery


class Compared(msgspec.Struct, frozen=True, tag=True):
    """A ledger was read from its first entry to its last, from any bookies."""

    ledger_id: int
    entry_count: int
    difference: str  # empty: all entries as written, none that was acknowledged is missing


def lose_a_bookie(
    cluster: LocalCluster, client: Client, on_progress: Callable[[str, int], None]
) -> Iterator[KilledWhileWriting | BookieReplaced | Compared]:
    """Kill a bookie while a PD and a VD ledger are written; yield the effect on each.

    The VD ledger has entries then that are acknowledged and not durable.

    Raises:
        UnavailableError: no other bookie replaced it.
    """
    with (
        client.create_ledger() as persistent,
        client.create_ledger(ledger_type=LedgerType.VD_JOURNAL) as volatile,
    ):
        writers = (persistent, volatile)
        loads = [
            _Numbers(
                writer, lambda count: on_progress("entries written while a bookie dies", count)
            )
            for writer in writers
        ]
        for load in loads:
            load.append(PART_COUNT)
        # two ensembles of three out of four share two bookies
        shared = set(volatile.metadata.last_fragment.bookies)
        first = next(b for b in persistent.metadata.last_fragment.bookies if b in shared)
        victim = _bookie(cluster, first)
        cluster.kill(victim.index)
        killed_s = monotonic_s()
        yield KilledWhileWriting(
            persistent.ledger_id,
            victim.index,
            victim.bookie_id,
            loads[0].acknowledged_count,
            volatile.ledger_id,
            loads[1].acknowledged_count,
        )
        seconds = [_until_replaced(client, load, victim, killed_s) for load in loads]
        for load in loads:
            load.append(PART_COUNT)
            load.wait()
    for writer, load, after_s in zip(writers, loads, seconds, strict=True):
        reader = client.open_ledger(writer.ledger_id)
        fragments = _fragments(cluster, reader.metadata)
        yield BookieReplaced(writer.ledger_id, reader.metadata.ledger_type, after_s, fragments)
        yield compared(reader, load.acknowledged_count)


def _until_replaced(
    client: Client, load: "_Numbers", victim: LocalBookie, killed_s: float
) -> float:
    """Append until another bookie has the place of the dead one; return the seconds since then.

    Raises:
        UnavailableError: none took it.
    """
    while True:
        fragment = client.get_ledger_metadata(load.ledger_id).last_fragment
        seconds = monotonic_s() - killed_s
        if victim.bookie_id not in fragment.bookies:
            return seconds
        if seconds > REPLACEMENT_TIMEOUT_S:
            raise UnavailableError(
                f"bookie {victim.index} was not replaced within {REPLACEMENT_TIMEOUT_S:g} s"
            )
        load.append(BATCH_COUNT)


def take_over(
    client: Client, other: Client, on_progress: Callable[[str, int], None]
) -> Iterator[TakenOver | Compared]:
    """Recover with ``other`` a ledger that ``client`` is writing; yield the result for each.

    Raises:
        UnavailableError: the first client was not refused.
    """
    writer = client.create_ledger()
    numbers = _Numbers(writer, lambda count: on_progress("entries written until fenced", count))
    numbers.append(PART_COUNT)  # and some of them are in flight
    started_s = monotonic_s()
    with closing(other.recover_ledger(writer.ledger_id)) as reader:
        seconds = monotonic_s() - started_s
        refusal = numbers.append_until_refused()
        yield TakenOver(
            writer.ledger_id,
            numbers.acknowledged_count,
            reader.last_add_confirmed + 1,
            str(refusal),
            seconds,
        )
        yield compared(reader, numbers.acknowledged_count)


def compared(reader: LedgerReader, acknowledged_count: int) -> Compared:
    """Read a ledger of numbered entries to its end and compare them."""
    last, count, difference = reader.last_add_confirmed, 0, ""
    if last + 1 < acknowledged_count:
        difference = f"{acknowledged_count:,} entries were acknowledged, it ends after {last + 1:,}"
    try:
        for batch in reader.read_batches(0, last) if last > NO_ENTRY else ():
            for payload in batch:
                if payload != _number(count) and not difference:
                    difference = f"entry {count} is {bytes(payload[:40])!r}"
                count += 1
    except ZbkError as error:
        difference = difference or f"after {count:,} entries: {error}"
    return Compared(reader.metadata.ledger_id, count, difference)


def _number(entry_id: int) -> bytes:
    return b"this is entry %d" % entry_id


class _Numbers:
    """Appends entries that contain their own number, a few batches at a time."""

    def __init__(self, writer: LedgerWriter, on_acknowledged: Callable[[int], None]) -> None:
        self._writer = writer
        self.ledger_id = writer.ledger_id
        self._on_acknowledged = on_acknowledged
        self._futures: deque[Future[range]] = deque()
        self._appended_count = 0
        self.acknowledged_count = 0

    def append(self, count: int) -> None:
        """Append ``count`` more entries; the last few batches stay in flight."""
        end = self._appended_count + count
        while self._appended_count < end:
            first = self._appended_count
            self._appended_count = min(first + BATCH_COUNT, end)
            payloads = [_number(n) for n in range(first, self._appended_count)]
            self._futures.append(self._writer.append_many(payloads))
            while len(self._futures) > WINDOW_COUNT:
                self._settle()

    def wait(self) -> None:
        """Wait until all entries are acknowledged."""
        while self._futures:
            self._settle()

    def append_until_refused(self) -> LedgerFencedError:
        """Append until the ledger is fenced; return the error.

        Raises:
            UnavailableError: the ledger still takes entries.
        """
        deadline_s = monotonic_s() + FENCE_TIMEOUT_S
        while monotonic_s() < deadline_s:
            try:
                self.append(BATCH_COUNT)
                self.wait()
            except LedgerFencedError as error:
                return error
        raise UnavailableError(f"the writer was not fenced within {FENCE_TIMEOUT_S:g} s")

    def _settle(self) -> None:
        self.acknowledged_count = self._futures.popleft().result().stop
        self._on_acknowledged(self.acknowledged_count)


def _bookie(cluster: LocalCluster, bookie_id: str) -> LocalBookie:
    return next(bookie for bookie in cluster.bookies if bookie.bookie_id == bookie_id)


def _fragments(cluster: LocalCluster, metadata: LedgerMetadata) -> list[FragmentShown]:
    assert metadata.last_entry_id is not None, "its writer closed it"
    ends = [f.first_entry_id - 1 for f in metadata.fragments[1:]]
    return [
        FragmentShown(f.first_entry_id, end, [_bookie(cluster, b).index for b in f.bookies])
        for f, end in zip(metadata.fragments, [*ends, metadata.last_entry_id], strict=True)
    ]
