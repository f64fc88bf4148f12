"""How soon a reader that follows a ledger has an entry.

One client appends at a steady rate; a program of its own (``zbk.bench.tail_reader``), which is
another client, follows. A *delay* runs from the moment at which the writer knows that its LAC
covers an entry until the application that follows has the entry in its hands. Bookies learn of
a LAC from the writer's next add, or from the writer itself when there is none, so with few entries
a second the delay is that of the explicit LAC (``explicit_lac_ms``).

A follower may well have an entry before the writer has heard that it is acknowledged: bookies know
first. Such a delay counts as 0, and how many there were is told.

On a PD ledger the LAC covers an entry when its append is answered. On a VD ledger it does when a
sync is, so here a sync follows an append as soon as the one before it is done.
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
from zbk.client.ledger_writer import LedgerWriter
from zbk.durability.level import level_of
from zbk.errors import NoSuchEntryError, RequestTimeoutError
from zbk.protocol.words import LedgerType
from zbk.system.clock import monotonic_s

START_TIMEOUT_S: Final = 30.0
ANSWER_TIMEOUT_S: Final = 60.0
SEEN_TIMEOUT_S: Final = 90.0  # more than a reader waits for an entry


class TailLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What to append, and how fast."""

    entry_size: int = 100  # bytes of payload
    entry_count: int = 10_000
    rate: int = 1_000  # entries a second
    ledger_type: LedgerType = LedgerType.PD_JOURNAL


class TailResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    load: TailLoad
    ledger_id: int
    seconds: float  # of appending
    entries_per_s: float
    seen_before_ack_count: int
    latency: Percentiles  # the delays


class Acknowledged:
    """When the writer knew that the LAC covers each entry, by its id. Its thread tells."""

    def __init__(self, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._clock_s = clock_s
        self.at_s: array[float] = array("d")

    def up_to(self, lac: int) -> None:
        """Note that the LAC is known; a lower one than before is no news."""
        new_count = lac + 1 - len(self.at_s)
        if new_count > 0:
            self.at_s.extend([self._clock_s()] * new_count)

    def by(self, answer: "Future[int]") -> None:
        """Hear of the answer to an append of a PD ledger, or to a sync."""
        if answer.exception() is None:
            self.up_to(answer.result())


def run_tail(client: Client, load: TailLoad) -> TailResult:
    """Append to a new ledger, have it followed, and return the delays.

    Raises:
        NoSuchEntryError: the follower was not given an entry.
        ZbkError: the cluster could not do it.
    """
    acknowledged = Acknowledged()
    with client.create_ledger(
        ledger_type=load.ledger_type, custom_metadata={"purpose": b"bench"}
    ) as writer:
        writer.append(bytes(load.entry_size))  # connections are made, files are open
        acknowledged.up_to(writer.sync())
        arguments = [client.metadata_uri, str(writer.ledger_id)]
        with Program("zbk.bench.tail_reader", arguments) as reader:
            reader.hear(TailStarted, START_TIMEOUT_S)
            started_s = monotonic_s()
            _append(writer, load, acknowledged)
            seconds = monotonic_s() - started_s
            writer.close()
            seen_s = _seen(reader)
    if len(seen_s) != len(acknowledged.at_s):
        raise NoSuchEntryError(writer.ledger_id, len(seen_s))
    delays_s, early_count = delays(acknowledged.at_s[1:], seen_s[1:])
    return TailResult(
        load=load,
        ledger_id=writer.ledger_id,
        seconds=seconds,
        entries_per_s=load.entry_count / seconds,
        seen_before_ack_count=early_count,
        latency=percentiles(delays_s),
    )


def delays(acknowledged_s: Sequence[float], seen_s: Sequence[float]) -> tuple[list[float], int]:
    """Return the delay of each entry in seconds, and how many were seen before they were known.

    >>> delays([1.0, 2.0], [1.5, 1.75])
    ([0.5, 0.0], 1)
    """
    pairs = list(zip(acknowledged_s, seen_s, strict=True))
    return [max(0.0, seen - known) for known, seen in pairs], sum(
        seen < known for known, seen in pairs
    )


def _append(writer: LedgerWriter, load: TailLoad, acknowledged: Acknowledged) -> None:
    """Append at the rate: each entry is due at a time that no other entry can put off."""
    payload = bytes(load.entry_size)
    is_synced = level_of(load.ledger_type).has_sync_cursor
    pause = threading.Event()
    sync: Future[int] | None = None
    last: Future[int] | None = None
    started_s = monotonic_s()
    for number in range(load.entry_count):
        wait_s = started_s + number / load.rate - monotonic_s()
        if wait_s > 0:
            pause.wait(wait_s)
        last = writer.append_async(payload)
        if not is_synced:
            last.add_done_callback(acknowledged.by)
        elif sync is None or sync.done():
            sync = writer.sync_async()
            sync.add_done_callback(acknowledged.by)
    assert last is not None, "there was something to append"
    _wait(last, writer.ledger_id)
    if is_synced:
        sync = writer.sync_async()
        sync.add_done_callback(acknowledged.by)
        _wait(sync, writer.ledger_id)


def _wait(answer: "Future[int]", ledger_id: int) -> None:
    try:
        answer.result(ANSWER_TIMEOUT_S)
    except TimeoutError:
        raise RequestTimeoutError(f"ledger {ledger_id}", ANSWER_TIMEOUT_S) from None


def _seen(reader: Program) -> "array[float]":
    seen_s = array("d")
    while True:
        told = reader.hear(EntriesSeen, SEEN_TIMEOUT_S)
        assert told.first_entry_id == len(seen_s), "they are told in order"
        seen_s.extend(told.seen_s)
        if told.is_last:
            return seen_s
