"""The body of one tail: it follows a ledger while it is written, and never waits.

The core (``read.tail``) decides, and the body carries out. Replies from the pool's thread and
metadata from the store's thread go into a box, from which the owner takes them. The owner is one
tail (``LedgerTail``) or a group (``TailGroup``); it calls everything else, in one thread at a time.
While the owner does not ask for the next entry, nothing happens: at most one LAC watch per bookie
is under way, and its answer stays in the box.
"""

import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec

from zbk.client.arrivals import Arrivals
from zbk.client.cluster.ledger_calls import LedgerRequests, lac_of
from zbk.client.read.lac_watches import LacWatches
from zbk.client.read.metadata_source import MetadataSource
from zbk.client.read.read_ahead import ReadAhead
from zbk.errors import MetadataUnavailableError, NoSuchLedgerError, ZbkError
from zbk.metadata.stores.store import Watch
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read.tail import (
    Effect,
    EntriesConfirmed,
    EntriesUnread,
    EntriesWanted,
    Event,
    MetadataSeen,
    PollAnswered,
    PollLac,
    ReadMetadata,
    TailCore,
    TailEnded,
    TailFailed,
    TailTicked,
)
from zbk.system.clock import monotonic_ms
from zbk.transport.events import News, Reply, Sink


class FollowedLedger(Protocol):
    """The reader that a tail belongs to."""

    @property
    def metadata(self) -> LedgerMetadata:
        """The metadata as the reader knows them."""
        ...

    @property
    def last_add_confirmed(self) -> int:
        """The LAC as the reader knows it."""
        ...

    def learn(self, metadata: LedgerMetadata, lac: int) -> None:
        """Record metadata and a LAC that the tail has found."""
        ...

    def read_ahead(self, first: int, last: int, sink: Sink) -> ReadAhead:
        """Begin to read confirmed entries."""
        ...


class TailSetup(msgspec.Struct, frozen=True):
    """The parts that a tail works with."""

    ledger: FollowedLedger
    core: TailCore
    source: MetadataSource
    requests: LedgerRequests
    watches: LacWatches
    timeout_s: float | None
    check_usable: Callable[[], None]


class MetadataUnread(msgspec.Struct, frozen=True):
    """The metadata cannot be read."""

    error: ZbkError


class EntriesRead(msgspec.Struct, frozen=True):
    """The reply to a request of a ``ReadAhead``, which a later one ignores."""

    sink: "_ReadSink"
    reply: Reply


Item: TypeAlias = Reply | EntriesRead | MetadataUnread | None
"""An item for a tail. ``None``: new metadata have been recorded, or the tail was closed."""


class TailBox(Arrivals[tuple["TailBody", Item]]):
    """Items for one tail, or for many, until their owner takes them.

    Bounded: a LAC watch per bookie, the replies to reads, and the latest metadata of each ledger.
    """


class _ReadSink:
    """The sink of one ``ReadAhead``."""

    def __init__(self, body: "TailBody", box: TailBox) -> None:
        self._body = body
        self._box = box

    def deliver(self, news: list[News]) -> None:
        """Handle the answers of bookies."""
        for one in news:
            if isinstance(one, Reply):
                self._box.put((self._body, EntriesRead(self, one)))


class TailBody:
    """One ledger that is followed from an entry on. Replies and metadata go into ``box``."""

    def __init__(self, setup: TailSetup, first: int, box: TailBox) -> None:
        self._setup = setup
        self._core = setup.core
        self._next_id = first
        self._box = box
        self._watch: Watch | None = None
        self._lac_watches: dict[int, int] = {}  # by poll, the number of the watch
        self._ahead: ReadAhead | None = None
        self._read_sink: _ReadSink | None = None  # of ``_ahead``
        self._is_reading_metadata = False  # for entries that have moved
        self._lock = threading.Lock()
        self._seen: MetadataSeen | None = None
        self._is_read_under_way = False  # of the metadata, for any reason
        self._is_read_wanted = False  # once more after that
        self.is_over = False
        self.error: ZbkError | None = None

    def __repr__(self) -> str:
        return f"ledger {self.ledger_id} next={self._next_id} lac={self._core.lac}"

    @property
    def ledger_id(self) -> int:
        """The ledger's id."""
        return self._setup.ledger.metadata.ledger_id

    @property
    def lac(self) -> int:
        """The LAC of the ledger as this tail knows it; -1 is none."""
        return self._core.lac

    @property
    def due_ms(self) -> int | None:
        """The time of the next ``tick``, or ``None``."""
        if self.is_over:
            return None
        times_ms = (self._core.due_ms, None if self._ahead is None else self._ahead.due_ms)
        return min((at_ms for at_ms in times_ms if at_ms is not None), default=None)

    # -------------------------------------------------------------- any thread

    def deliver(self, news: list[News]) -> None:
        """Handle the answers of bookies."""
        for one in news:
            if isinstance(one, Reply):
                self._box.put((self, one))

    def close(self) -> None:
        """End the tail. Closing twice is allowed."""
        self.is_over = True
        if self._watch is not None:
            self._watch.cancel()
        for number in list(self._lac_watches.values()):
            self._setup.watches.end(number)
        self._box.put((self, None))

    def _see(self, event: MetadataSeen) -> None:
        """Record metadata; the body keeps only the latest."""
        with self._lock:
            is_known = self._seen is not None
            if self._seen is None or event.metadata is None or event.version >= self._seen.version:
                self._seen = event
        if not is_known:
            self._box.put((self, None))

    def _on_change(self, found: tuple[LedgerMetadata, int] | None) -> None:
        self._see(MetadataSeen(*found) if found is not None else MetadataSeen(None))

    def _read_metadata(self) -> None:
        """Read the metadata, at most once at a time: a silent store gets no more requests."""
        with self._lock:
            if self._is_read_under_way:
                self._is_read_wanted = True
                return
            self._is_read_under_way = True
        self._setup.source.read_later(self._on_read, is_fresh=True)

    def _on_read(self, outcome: tuple[LedgerMetadata, int] | ZbkError) -> None:
        with self._lock:
            self._is_read_under_way = False
            is_wanted, self._is_read_wanted = self._is_read_wanted, False
        if is_wanted and not self.is_over:
            self._read_metadata()
        match outcome:
            case NoSuchLedgerError():
                self._see(MetadataSeen(None))
            case ZbkError():
                self._box.put((self, MetadataUnread(outcome)))
            case _:
                self._see(MetadataSeen(*outcome))

    # -------------------------------------------------------------- the owner's thread

    def start(self) -> None:
        """Start to follow the ledger, once."""
        if self._watch is None and not self.is_over:
            self._watch = self._setup.source.watch(self._on_change)
            if self.is_over:  # another thread closed it meanwhile, and saw no watch
                self._watch.cancel()
            self._handle(EntriesWanted(self._next_id))

    def take(self, item: Item) -> None:
        """Handle an item from the box."""
        match item:
            case Reply(key=int() as poll_id):
                self._lac_watches.pop(poll_id, None)
                self._handle(PollAnswered(poll_id, lac_of(item)))
            case EntriesRead():
                if self._ahead is not None and item.sink is self._read_sink:
                    self._ahead.take(item.reply)
            case MetadataUnread():
                self._on_unread_metadata(item.error)
            case None:
                self._look_at_metadata()
            case Reply():
                raise AssertionError("the key of a poll is its number")

    def tick(self) -> None:
        """Handle the passing of time."""
        if self._ahead is not None:
            self._ahead.tick()
        self._handle(TailTicked())

    def next_batch(self) -> ReadBatch | None:
        """Return the next entries; ``None`` if there are none yet, or the tail is over."""
        while self._ahead is not None and not self.is_over:
            ahead = self._ahead
            try:
                batch = ahead.next_batch()
            except ZbkError as error:
                self._ahead = None
                self._handle(EntriesUnread(error))
                continue
            if batch is not None:
                self._next_id = batch.last_entry_id + 1
                lac = max(ahead.lac, self._core.lac)
                self._setup.ledger.learn(self._setup.ledger.metadata, lac)
                return batch
            if ahead.wants_metadata and not self._is_reading_metadata:
                self._is_reading_metadata = True  # to find entries that have moved
                self._read_metadata()
            if ahead.wants_metadata or not ahead.is_over:
                return None
            self._ahead = None
            self._handle(EntriesWanted(self._next_id))
        return None

    # -------------------------------------------------------------- private

    def _on_unread_metadata(self, error: ZbkError) -> None:
        """Continue without them: the core reads them again, and the watch goes on."""
        self._is_reading_metadata = False
        if self._ahead is None or not self._ahead.wants_metadata:
            return
        if isinstance(error, MetadataUnavailableError):
            self._ahead.not_refreshed(error)
        else:
            self._ahead = None
            self._handle(EntriesUnread(error))

    def _look_at_metadata(self) -> None:
        with self._lock:
            seen, self._seen = self._seen, None
        if seen is None:
            return
        self._is_reading_metadata = False
        self._handle(seen)
        if seen.metadata is not None:
            latest = self._core.metadata
            self._setup.ledger.learn(latest, self._core.lac)
            if self._ahead is not None and self._ahead.wants_metadata:
                self._ahead.refreshed(latest)

    def _handle(self, event: Event) -> None:
        effects = [] if self.is_over else self._core.handle(event, monotonic_ms())
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case PollLac():
                number = self._setup.watches.begin(
                    effect.bookie_id, self._setup.requests, effect.known_lac, self, effect.poll_id
                )
                self._lac_watches[effect.poll_id] = number
            case ReadMetadata():
                self._read_metadata()
            case EntriesConfirmed():
                ledger = self._setup.ledger
                ledger.learn(ledger.metadata, effect.lac)
                self._read_sink = _ReadSink(self, self._box)
                self._ahead = ledger.read_ahead(self._next_id, effect.lac, self._read_sink)
            case TailEnded():
                self.close()
            case TailFailed():
                self.error = effect.error
                self.close()
