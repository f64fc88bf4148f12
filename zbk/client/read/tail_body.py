"""What follows one ledger while it is written; it never waits.

The core (``read.tail``) decides; this carries out. What comes in, from the pool's thread
and from the metadata store's, goes into a box that the owner takes it out of: one tail's own
(``LedgerTail``), or that of many tails (``TailGroup``). Everything else is called by the owner, in
one thread at a time. While nobody asks for the next entry, nothing happens: at most one watch a
bookie is under way, and its answer waits in the box.
"""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

import msgspec
import pykka

from zbk.client.cluster.metadata_actor import MetadataActors, MetadataTask
from zbk.client.read.lac_watches import LacWatches
from zbk.errors import (
    MetadataUnavailableError,
    NoSuchLedgerError,
    ZbkError,
)
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.stores.store import Watch
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read.tail import (
    Effect,
    EntriesConfirmed,
    EntriesUnread,
    EntriesWanted,
    Event,
    LacTold,
    MetadataSeen,
    PollLac,
    PollRefused,
    ReadMetadata,
    TailCore,
    TailEnded,
    TailFailed,
    TailTicked,
)
from zbk.system.clock import monotonic_ms
from zbk.transport.events import News, Reply, Sink
from zbk.wire.messages import LacAnswer, ReadLac


class MetadataNews(Protocol):
    """How the metadata of one ledger become known. Callbacks run in foreign threads."""

    def watch(self, callback: Callable[[tuple[LedgerMetadata, int] | None], None]) -> Watch:
        """Call back with metadata and version: now, and after each change; None: deleted."""
        ...

    def read_later(self, callback: Callable[[tuple[LedgerMetadata, int] | ZbkError], None]) -> None:
        """Read them once, and call back."""
        ...


class LedgerNews:
    """The metadata of one ledger, from the store; read by the client's metadata actor."""

    def __init__(
        self, ledgers: LedgerStore, metadata_actors: MetadataActors, ledger_id: int
    ) -> None:
        self._ledgers = ledgers
        self._metadata_actors = metadata_actors
        self._ledger_id = ledger_id

    def watch(self, callback: Callable[[tuple[LedgerMetadata, int] | None], None]) -> Watch:
        """Call back with metadata and version: now, and after each change; None: deleted."""
        return self._ledgers.watch(self._ledger_id, callback)

    def read_later(self, callback: Callable[[tuple[LedgerMetadata, int] | ZbkError], None]) -> None:
        """Read them once, and call back."""
        task = MetadataTask(lambda: self._ledgers.read(self._ledger_id), callback)
        with suppress(pykka.ActorDeadError):  # the client was closed
            self._metadata_actors.tell(self._ledger_id, task)


class EntriesAhead(Protocol):
    """A range that is read: see ``ReadAhead``."""

    @property
    def lac(self) -> int:
        """The highest LAC that came with entries."""
        ...

    @property
    def is_over(self) -> bool:
        """True when ``next_batch`` has returned everything."""
        ...

    @property
    def wants_metadata(self) -> bool:
        """True when the metadata have to be read before anything goes on."""
        ...

    @property
    def due_ms(self) -> int | None:
        """When to call ``tick``."""
        ...

    def next_batch(self) -> ReadBatch | None:
        """Return the next entries; ``None``: there are none now, or no more."""
        ...

    def take(self, reply: Reply) -> None:
        """Handle a reply."""
        ...

    def tick(self) -> None:
        """Note that time has passed."""
        ...

    def refreshed(self, metadata: LedgerMetadata) -> None:
        """Record the metadata as they are now."""
        ...

    def not_refreshed(self, unknown: MetadataUnavailableError) -> None:
        """Note that the metadata cannot be read."""
        ...


class FollowedLedger(Protocol):
    """What a tail needs of the reader that it belongs to."""

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as last seen."""
        ...

    @property
    def last_add_confirmed(self) -> int:
        """The LAC as last heard."""
        ...

    def learn(self, metadata: LedgerMetadata, lac: int) -> None:
        """Record what the tail has found out."""
        ...

    def read_ahead(self, first: int, last: int, sink: Sink) -> EntriesAhead:
        """Begin to read entries that are confirmed."""
        ...


class TailSetup(msgspec.Struct, frozen=True):
    """Everything a tail stands on."""

    ledger: FollowedLedger
    core: TailCore
    news: MetadataNews
    ledger_key: bytes
    watches: LacWatches
    timeout_s: float | None
    check_usable: Callable[[], None]


class MetadataUnread(msgspec.Struct, frozen=True):
    """The metadata cannot be read."""

    error: ZbkError


class EntriesRead(msgspec.Struct, frozen=True):
    """The reply to a request of a ``ReadAhead``; those of an earlier one count no more."""

    sink: "_ReadSink"
    reply: Reply


Item: TypeAlias = Reply | EntriesRead | MetadataUnread | None
"""What comes into a box for a tail; ``None``: there are metadata to look at, or it was closed."""


class TailBox:
    """Where what comes for one tail, or for many, waits for its owner.

    Bounded: a watch a bookie, the replies to what is read ahead, and the latest metadata.
    """

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[tuple[TailBody, Item]] = queue.SimpleQueue()

    def put(self, body: "TailBody", item: Item) -> None:
        """Put something into the box. Any thread."""
        self._items.put((body, item))

    def next(self, timeout_s: float) -> "tuple[TailBody, Item] | None":
        """Return what came next, or ``None`` if nothing comes in time."""
        try:
            return self._items.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def take_all(self) -> "list[tuple[TailBody, Item]]":
        """Return everything that has come."""
        items = []
        with suppress(queue.Empty):
            while True:
                items.append(self._items.get_nowait())
        return items


class _ReadSink:
    """Where the replies to one ``ReadAhead`` go."""

    def __init__(self, body: "TailBody", box: TailBox) -> None:
        self._body = body
        self._box = box

    def deliver(self, news: list[News]) -> None:
        """Handle the answers of bookies."""
        for one in news:
            if isinstance(one, Reply):
                self._box.put(self._body, EntriesRead(self, one))


class TailBody:
    """One ledger that is followed from an entry on. Replies and metadata go into ``box``."""

    def __init__(self, setup: TailSetup, first: int, box: TailBox) -> None:
        self._setup = setup
        self._core = setup.core
        self._next_id = first
        self._box = box
        self._watch: Watch | None = None
        self._lac_watches: dict[int, int] = {}  # by poll: the watch's number
        self._ahead: EntriesAhead | None = None
        self._read_sink: _ReadSink | None = None  # of it
        self._is_reading_metadata = False
        self._lock = threading.Lock()
        self._seen: MetadataSeen | None = None
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
        """How far the ledger was confirmed when last heard."""
        return self._core.lac

    @property
    def due_ms(self) -> int | None:
        """When to call ``tick``."""
        if self.is_over:
            return None
        times_ms = (self._core.due_ms, None if self._ahead is None else self._ahead.due_ms)
        return min((at_ms for at_ms in times_ms if at_ms is not None), default=None)

    # -------------------------------------------------------------- any thread

    def deliver(self, news: list[News]) -> None:
        """Handle the answers of bookies."""
        for one in news:
            if isinstance(one, Reply):
                self._box.put(self, one)

    def close(self) -> None:
        """End it. Twice is fine."""
        self.is_over = True
        if self._watch is not None:
            self._watch.cancel()
        for number in list(self._lac_watches.values()):
            self._setup.watches.end(number)
        self._box.put(self, None)

    def _see(self, event: MetadataSeen) -> None:
        """Record metadata; only the latest are kept."""
        with self._lock:
            is_known = self._seen is not None
            if self._seen is None or event.metadata is None or event.version >= self._seen.version:
                self._seen = event
        if not is_known:
            self._box.put(self, None)

    def _on_change(self, found: tuple[LedgerMetadata, int] | None) -> None:
        self._see(MetadataSeen(*found) if found is not None else MetadataSeen(None))

    def _on_read(self, outcome: tuple[LedgerMetadata, int] | ZbkError) -> None:
        match outcome:
            case NoSuchLedgerError():
                self._see(MetadataSeen(None))
            case ZbkError():
                self._box.put(self, MetadataUnread(outcome))
            case _:
                self._see(MetadataSeen(*outcome))

    # -------------------------------------------------------------- the owner's thread

    def start(self) -> None:
        """Begin to follow, unless that has happened."""
        if self._watch is None and not self.is_over:
            self._watch = self._setup.news.watch(self._on_change)
            self._handle(EntriesWanted(self._next_id))

    def take(self, item: Item) -> None:
        """Handle something that came into the box."""
        match item:
            case Reply(key=int() as poll_id):
                self._lac_watches.pop(poll_id, None)
                self._handle(_event_of(poll_id, item))
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
        """Note that time has passed."""
        if self._ahead is not None:
            self._ahead.tick()
        self._handle(TailTicked())

    def next_batch(self) -> ReadBatch | None:
        """Return the next entries; ``None``: there are none now, or it is over."""
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
            if ahead.wants_metadata:
                self._read_metadata()
                return None
            if not ahead.is_over:
                return None
            self._ahead = None
            self._handle(EntriesWanted(self._next_id))
        return None

    # -------------------------------------------------------------- private

    def _on_unread_metadata(self, error: ZbkError) -> None:
        """Go on without; the core reads them again, and the watch goes on."""
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
                self._poll(effect)
            case ReadMetadata():
                self._setup.news.read_later(self._on_read)
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

    def _read_metadata(self) -> None:
        """Read the metadata for what cannot be read where it was."""
        if not self._is_reading_metadata:
            self._is_reading_metadata = True
            self._setup.news.read_later(self._on_read)

    def _poll(self, effect: PollLac) -> None:
        metadata = self._setup.ledger.metadata
        request = ReadLac(
            request_id=0,
            ledger_id=metadata.ledger_id,
            ledger_key=self._setup.ledger_key,
            ledger_type=metadata.ledger_type,
            known_lac=effect.known_lac,
            wait_ms=effect.wait_ms,
        )
        number = self._setup.watches.begin(effect.bookie_id, request, self, effect.poll_id)
        self._lac_watches[effect.poll_id] = number


def _event_of(poll_id: int, reply: Reply) -> LacTold | PollRefused:
    match reply.outcome:
        case LacAnswer(lac=lac):
            return LacTold(poll_id, lac)
        case _:
            return PollRefused(poll_id, reply.error)
