"""The story of ``zbk demo``: a generator of steps.

It loads an input into a PD ledger and into a VD ledger, syncs, kills a bookie, restarts it, and
reads both ledgers back from the replicas of each of their bookies. It compares the entries with the
input by a hash over their lengths and bytes, in order; if the hashes differ it finds the first
entry that does. Then come the two acts of ``zbk.cluster.demo_failures``, and
``zbk.cluster.demo_repair``, after which both ledgers are read once more.

The story uses no terminal: its caller shows the steps. Runs in one thread.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from zbk.client.api import Client
from zbk.client.read.ledger_reader import LedgerReader
from zbk.cluster.demo_failures import (
    BookieReplaced,
    Compared,
    KilledWhileWriting,
    TakenOver,
    lose_a_bookie,
    take_over,
)
from zbk.cluster.demo_input import DemoInput
from zbk.cluster.demo_repair import LostForGood, MadeWhole, QueueLength, SecondLost, repair
from zbk.cluster.load import Loaded, batches, load
from zbk.cluster.local import LocalBookie, LocalCluster
from zbk.errors import InvalidOptionError, UnavailableError, ZbkError
from zbk.protocol.entry.words import LedgerType
from zbk.system.clock import monotonic_s
from zbk.system.files import OsFiles

BOOKIE_COUNT: Final = 4
"""A ledger needs three; the fourth replaces one that dies."""

HASH_SIZE: Final = 16  # bytes
REPLICA_TIMEOUT_S: Final = 30.0
"""Time for the slowest bookie to store the entries that the other two acknowledged."""

ENTRY_OVERHEAD_SIZE: Final = 96  # bytes of an entry beside its payload: header, record, index
COPY_COUNT: Final = 15  # three ledgers, three replicas, journal and entry log but for one
RESERVE_SIZE: Final = 512 * 1024 * 1024  # preallocated journals, metadata, logs


# ------------------------------------------------------------------ steps


class ClusterStarted(msgspec.Struct, frozen=True, tag=True):
    """The metadata store and the bookies run."""

    metadata: str
    bookies: list[LocalBookie]
    seconds: float


class InputRead(msgspec.Struct, frozen=True, tag=True):
    """The input was read once, for the comparison."""

    description: str
    entry_count: int
    payload_size: int
    hash: str


class LedgerLoaded(msgspec.Struct, frozen=True, tag=True):
    """The input is in a ledger, and every append was acknowledged."""

    ledger_id: int
    ledger_type: LedgerType
    loaded: Loaded
    lap: int
    lac: int


class LedgerSynced(msgspec.Struct, frozen=True, tag=True):
    """``sync()`` made everything durable."""

    ledger_id: int
    lap: int
    lac_before: int
    lac_after: int
    seconds: float


class BookieKilled(msgspec.Struct, frozen=True, tag=True):
    """A bookie got SIGKILL."""

    index: int
    bookie_id: str


class BookieRestarted(msgspec.Struct, frozen=True, tag=True):
    """The bookie runs again, from its own disk, and is registered."""

    index: int
    bookie_id: str
    incarnation: int
    seconds: float


class ReadBack(msgspec.Struct, frozen=True, tag=True):
    """One ledger was read from the replicas of one bookie, or from any bookies."""

    ledger_id: int
    ledger_type: LedgerType
    index: int | None  # of the bookie
    entry_count: int
    seconds: float
    hash: str
    difference: str  # empty: none


Step: TypeAlias = (
    ClusterStarted
    | InputRead
    | LedgerLoaded
    | LedgerSynced
    | BookieKilled
    | BookieRestarted
    | ReadBack
    | KilledWhileWriting
    | BookieReplaced
    | TakenOver
    | Compared
    | LostForGood
    | QueueLength
    | MadeWhole
    | SecondLost
)


# ------------------------------------------------------------------ the story


def tell(
    source: DemoInput,
    cluster: LocalCluster,
    connect: Callable[[str], Client],
    *,
    on_progress: Callable[[str, int], None] = lambda _what, _count: None,
) -> Iterator[Step]:
    """Run the demo on a cluster that is not started yet; yield each step when it is done.

    ``on_progress`` is called often, with the current activity and the number of entries done.

    Raises:
        InvalidOptionError: the disk has too little space, or the input cannot be used.
        ZbkError: the cluster failed.
    """
    started_s = monotonic_s()
    with cluster:
        yield ClusterStarted(cluster.metadata_uri, cluster.bookies, monotonic_s() - started_s)
        wanted = _read_input(source, on_progress)
        _check_room(cluster.folder, wanted)
        yield wanted
        with closing(connect(cluster.metadata_uri)) as client:
            ledger_ids = {}
            for ledger_type in LedgerType:
                loading = _load(client, source, ledger_type, on_progress)
                for step in loading:
                    ledger_ids[ledger_type] = step.ledger_id
                    yield step
            holders = {n: _holders(client, n, cluster.bookies) for n in ledger_ids.values()}
            _wait_for_replicas(client, holders)
        yield from _crash(cluster, _in_all(holders.values()))
        with closing(connect(cluster.metadata_uri)) as client:
            for ledger_type, ledger_id in ledger_ids.items():
                reader = client.open_ledger(ledger_id)
                for bookie in holders[ledger_id]:
                    yield _read_back(reader, bookie, ledger_type, wanted, source, on_progress)
            dead: LocalBookie | None = None
            for act in lose_a_bookie(cluster, client, on_progress):
                yield act
                if isinstance(act, KilledWhileWriting):
                    dead = cluster.bookies[act.index]
            assert dead is not None, "it was killed"
            with closing(connect(cluster.metadata_uri)) as other:
                yield from take_over(client, other, on_progress)
            yield from repair(cluster, client, dead, on_progress)
            for ledger_type, ledger_id in ledger_ids.items():
                reader = client.open_ledger(ledger_id)
                yield _read_back(reader, None, ledger_type, wanted, source, on_progress)


def _read_input(source: DemoInput, on_progress: Callable[[str, int], None]) -> InputRead:
    hasher = _Hasher()
    for batch in batches(source.payloads()):
        hasher.update(batch)
        on_progress("entries of the input", hasher.entry_count)
    return InputRead(
        source.description, hasher.entry_count, hasher.payload_size, hasher.hexdigest()
    )


def _check_room(folder: Path, wanted: InputRead) -> None:
    stored_size = wanted.payload_size + wanted.entry_count * ENTRY_OVERHEAD_SIZE
    needed_size = stored_size * COPY_COUNT + RESERVE_SIZE
    free_size = OsFiles().free_size(str(folder))
    if free_size < needed_size:
        raise InvalidOptionError(
            "TMPDIR",
            str(folder.parent),
            f"the demo needs about {needed_size >> 20} MiB there and {free_size >> 20} MiB are "
            "free: set TMPDIR to a folder with more room, or give a smaller file",
        )


def _load(
    client: Client,
    source: DemoInput,
    ledger_type: LedgerType,
    on_progress: Callable[[str, int], None],
) -> Iterator[LedgerLoaded | LedgerSynced]:
    what = f"entries written to the {ledger_type} ledger"
    with client.create_ledger(ledger_type=ledger_type) as writer:
        loaded = load(
            writer,
            batches(source.payloads()),
            on_progress=lambda count: on_progress(what, count),
        )
        lac_before = writer.last_add_confirmed
        yield LedgerLoaded(
            writer.ledger_id, ledger_type, loaded, writer.last_add_pushed, lac_before
        )
        if ledger_type.is_volatile:
            lac_before = writer.last_add_confirmed
            started_s = monotonic_s()
            lac_after = writer.sync()
            yield LedgerSynced(
                writer.ledger_id,
                writer.last_add_pushed,
                lac_before,
                lac_after,
                monotonic_s() - started_s,
            )


def _holders(client: Client, ledger_id: int, bookies: list[LocalBookie]) -> list[LocalBookie]:
    """Return the bookies of a ledger with one fragment."""
    ensemble = client.get_ledger_metadata(ledger_id).last_fragment.bookies
    return [bookie for bookie in bookies if bookie.bookie_id in ensemble]


def _in_all(groups: Iterable[list[LocalBookie]]) -> LocalBookie:
    """Return a bookie that is in all groups: two ensembles of three out of four share two."""
    first, *others = groups
    return next(bookie for bookie in first if all(bookie in group for group in others))


def _wait_for_replicas(client: Client, holders: Mapping[int, list[LocalBookie]]) -> None:
    """Wait until the bookies hold all entries: the ack quorum is two, the third may lag."""
    deadline_s = monotonic_s() + REPLICA_TIMEOUT_S
    for ledger_id, bookies in holders.items():
        reader = client.open_ledger(ledger_id)
        last = reader.last_add_confirmed
        for bookie in bookies:
            while last >= 0 and not _holds(reader, last, bookie.bookie_id):
                if monotonic_s() > deadline_s:
                    raise UnavailableError(
                        f"bookie {bookie.index} has no entry {last} of ledger {ledger_id} "
                        f"after {REPLICA_TIMEOUT_S:g} s"
                    )


def _holds(reader: LedgerReader, entry_id: int, bookie_id: str) -> bool:
    try:
        for _ in reader.read_batches(entry_id, entry_id, bookie_id=bookie_id):
            return True
    except ZbkError:
        return False
    return False


def _crash(cluster: LocalCluster, victim: LocalBookie) -> Iterator[BookieKilled | BookieRestarted]:
    cluster.kill(victim.index)
    yield BookieKilled(victim.index, victim.bookie_id)
    started_s = monotonic_s()
    back = cluster.restart(victim.index)
    yield BookieRestarted(victim.index, back.bookie_id, back.incarnation, monotonic_s() - started_s)


def _read_back(
    reader: LedgerReader,
    bookie: LocalBookie | None,
    ledger_type: LedgerType,
    wanted: InputRead,
    source: DemoInput,
    on_progress: Callable[[str, int], None],
) -> ReadBack:
    where = f" from bookie {bookie.index}" if bookie else ""
    what = f"entries of the {ledger_type} ledger read{where}"
    hasher = _Hasher()
    started_s = monotonic_s()
    difference = ""
    try:
        for batch in _read_all(reader, bookie):
            hasher.update(batch)
            on_progress(what, hasher.entry_count)
    except ZbkError as error:
        difference = f"after {hasher.entry_count:,} entries: {error}"
    seconds = monotonic_s() - started_s
    if not difference and hasher.hexdigest() != wanted.hash:
        difference = _first_difference(source, _read_all(reader, bookie))
    return ReadBack(
        reader.metadata.ledger_id,
        ledger_type,
        bookie.index if bookie else None,
        hasher.entry_count,
        seconds,
        hasher.hexdigest(),
        difference,
    )


def _read_all(
    reader: LedgerReader, bookie: LocalBookie | None
) -> Iterator[Iterable[bytes | memoryview]]:
    last = reader.last_add_confirmed
    bookie_id = bookie.bookie_id if bookie else None
    return reader.read_batches(0, last, bookie_id=bookie_id) if last >= 0 else iter(())


def _first_difference(
    source: DemoInput, found_batches: Iterator[Iterable[bytes | memoryview]]
) -> str:
    payloads = source.payloads()
    entry_id = 0
    for batch in found_batches:
        for found in batch:
            expected = next(payloads, None)
            if expected is None:
                return f"entry {entry_id} is in the ledger and not in the input"
            if expected != found:
                return f"entry {entry_id} is {bytes(found[:40])!r}, the input has {expected[:40]!r}"
            entry_id += 1
    if next(payloads, None) is not None:
        return f"the ledger ends before entry {entry_id}, the input does not"
    return "the input has changed since it was hashed"


class _Hasher:
    """A hash over entries: the length of each, little-endian, followed by its bytes."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=HASH_SIZE)
        self.entry_count = 0
        self.payload_size = 0

    def update(self, batch: Iterable[bytes | memoryview]) -> None:
        """Add the next entries."""
        parts: list[bytes | memoryview] = []
        for payload in batch:
            parts += (len(payload).to_bytes(4, "little"), payload)
        joined = b"".join(parts)
        self._hash.update(joined)
        count = len(parts) // 2
        self.entry_count += count
        self.payload_size += len(joined) - 4 * count

    def hexdigest(self) -> str:
        """Return the hash of all entries so far."""
        return self._hash.hexdigest()
