"""The delay of a reader that follows one ledger or many.

One client appends at a steady rate, to its ledgers in turn. A program (``zbk.bench.tail_reader``),
which is another client, follows all of them in one thread. A *delay* runs from the moment at which
the writer knows that its LAC covers an entry until the following application has the entry. Bookies
learn a LAC from the writer's next add, or, if there is none, from an explicit LAC. With few entries
a second in a ledger the delay is therefore that of the explicit LAC (``explicit_lac_ms``).

The reader may have an entry before the writer receives its acknowledgement: bookies know it first.
Such a delay counts as 0, and the result has their number.

On a PD ledger the LAC covers an entry when its append is answered, on a VD ledger when a sync is.
Here a sync follows an append as soon as the sync before it is done.
"""

import threading
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

import msgspec

from zbk.bench.percentiles import Percentiles, percentiles
from zbk.bench.program import Program
from zbk.bench.tail_reader import EntriesSeen, TailStarted
from zbk.client.api import Client
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.durability.level import level_of
from zbk.errors import NoSuchEntryError, RequestTimeoutError
from zbk.protocol.entry.words import LedgerType
from zbk.system.clock import monotonic_s

START_TIMEOUT_S: Final = 30.0
START_TIMEOUT_S_A_LEDGER: Final = 0.1
ANSWER_TIMEOUT_S: Final = 60.0
SEEN_TIMEOUT_S: Final = 90.0  # more than a reader waits for an entry


class TailLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The entries to append, and their rate."""

    entry_size: int = 100  # bytes of payload
    entry_count: int = 10_000
    rate: int = 1_000  # entries a second, in all
    ledger_count: int = 1
    ledger_type: LedgerType = LedgerType.PD_JOURNAL


class TailResult(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of the load."""

    load: TailLoad
    seconds: float  # of appending
    entries_per_s: float
    seen_before_ack_count: int
    latency: Percentiles  # the delays


class Acknowledged:
    """The times at which the writer knew that its LAC covers each entry, by entry id."""

    def __init__(self, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._clock_s = clock_s
        self.at_s: array[float] = array("d")

    def up_to(self, lac: int) -> None:
        """Record that the writer knows this LAC; a lower one than before is ignored."""
        new_count = lac + 1 - len(self.at_s)
        if new_count > 0:
            self.at_s.extend([self._clock_s()] * new_count)

    def by(self, answer: "Future[int]") -> None:
        """Record the answer to an append of a PD ledger, or to a sync."""
        if answer.exception() is None:
            self.up_to(answer.result())


def run_tail(client: Client, load: TailLoad) -> TailResult:
    """Append to new ledgers, have them followed, and return the delays.

    Raises:
        NoSuchEntryError: the reader missed an entry.
        ZbkError: the cluster failed.
    """
    writers = client.create_ledgers(
        load.ledger_count, ledger_type=load.ledger_type, custom_metadata={"purpose": b"bench"}
    )
    lanes = [Lane(writer) for writer in writers]
    _begin(lanes, load)
    arguments = [client.metadata_uri, *(str(writer.ledger_id) for writer in writers)]
    with Program("zbk.bench.tail_reader", arguments) as reader:
        reader.receive(TailStarted, START_TIMEOUT_S + load.ledger_count * START_TIMEOUT_S_A_LEDGER)
        started_s = monotonic_s()
        _append(lanes, load)
        seconds = monotonic_s() - started_s
        client.close_all(writers)
        seen_s = _seen(reader)
    delays_s: list[float] = []
    early_count = 0
    for lane in lanes:
        known_s = lane.acknowledged.at_s
        its_seen_s = seen_s.get(lane.writer.ledger_id, ())
        if len(its_seen_s) != len(known_s):
            raise NoSuchEntryError(lane.writer.ledger_id, len(its_seen_s))
        some_s, count = delays(known_s[1:], its_seen_s[1:])
        delays_s += some_s
        early_count += count
    return TailResult(
        load=load,
        seconds=seconds,
        entries_per_s=load.entry_count / seconds,
        seen_before_ack_count=early_count,
        latency=percentiles(delays_s),
    )


def delays(acknowledged_s: Sequence[float], seen_s: Sequence[float]) -> tuple[list[float], int]:
    """Return the delays in seconds, and the number of entries read before their acknowledgement.

    >>> delays([1.0, 2.0], [1.5, 1.75])
    ([0.5, 0.0], 1)
    """
    pairs = list(zip(acknowledged_s, seen_s, strict=True))
    return [max(0.0, seen - known) for known, seen in pairs], sum(
        seen < known for known, seen in pairs
    )


class Lane:
    """One ledger that is written: its writer, its acknowledgements, and its last calls."""

    def __init__(self, writer: LedgerWriter) -> None:
        self.writer = writer
        self.acknowledged = Acknowledged()
        self.last: Future[int] | None = None
        self.sync: Future[int] | None = None

    def append(self, payload: bytes, *, is_synced: bool) -> None:
        """Append one entry; with ``is_synced`` a sync follows unless one is running."""
        self.last = self.writer.append_async(payload)
        if not is_synced:
            self.last.add_done_callback(self.acknowledged.by)
        elif self.sync is None or self.sync.done():
            self._sync()

    def finish(self, *, is_synced: bool) -> None:
        """Wait until all entries are acknowledged."""
        if self.last is None:
            return
        _wait(self.last, self.writer.ledger_id)
        if is_synced:
            _wait(self._sync(), self.writer.ledger_id)

    def _sync(self) -> "Future[int]":
        self.sync = self.writer.sync_async()
        self.sync.add_done_callback(self.acknowledged.by)
        return self.sync


def _begin(lanes: Sequence[Lane], load: TailLoad) -> None:
    """Append one entry to each ledger, to open connections and files."""
    is_synced = level_of(load.ledger_type).has_sync_cursor
    for lane in lanes:
        lane.append(bytes(load.entry_size), is_synced=is_synced)
    for lane in lanes:
        lane.finish(is_synced=is_synced)


def _append(lanes: Sequence[Lane], load: TailLoad) -> None:
    """Append at the rate: the due time of an entry does not depend on other entries."""
    payload = bytes(load.entry_size)
    is_synced = level_of(load.ledger_type).has_sync_cursor
    pause = threading.Event()
    started_s = monotonic_s()
    for number in range(load.entry_count):
        wait_s = started_s + number / load.rate - monotonic_s()
        if wait_s > 0:
            pause.wait(wait_s)
        lanes[number % len(lanes)].append(payload, is_synced=is_synced)
    for lane in lanes:
        lane.finish(is_synced=is_synced)


def _wait(answer: "Future[int]", ledger_id: int) -> None:
    try:
        answer.result(ANSWER_TIMEOUT_S)
    except TimeoutError:
        raise RequestTimeoutError(f"ledger {ledger_id}", ANSWER_TIMEOUT_S) from None


def _seen(reader: Program) -> "dict[int, array[float]]":
    """Return the times at which the reader had each entry, by ledger."""
    seen_s: dict[int, array[float]] = {}
    while True:
        told = reader.receive(EntriesSeen, SEEN_TIMEOUT_S)
        its_seen_s = seen_s.setdefault(told.ledger_id, array("d"))
        assert told.first_entry_id == len(its_seen_s), "they arrive in order"
        its_seen_s.extend(told.seen_s)
        if told.is_last:
            return seen_s
