"""Following a ledger while it is written: what ``LedgerReader.tail`` returns.

The core (``zbk.protocol.tail``) decides; this carries out, in the thread of whoever iterates. While
nobody asks for the next entry, nothing happens: at most one poll a bookie is under way, and its
answer waits here.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec
import pykka

from zbk.client import arguments
from zbk.client.metadata_actor import MetadataActors, MetadataTask
from zbk.client.requests import Requests
from zbk.errors import (
    BookieUnavailableError,
    NoSuchLedgerError,
    RequestTimeoutError,
    ZbkError,
)
from zbk.metadata.ledgers import LedgerStore
from zbk.metadata.store import Watch
from zbk.protocol.entry import Entry
from zbk.protocol.ledger_metadata import LedgerMetadata
from zbk.protocol.read_batch import ReadBatch
from zbk.protocol.tail import (
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
from zbk.system.clock import monotonic_ms, monotonic_s
from zbk.transport.news import News, Reply
from zbk.wire.messages import LacAnswer, ReadLac

WAIT_S_MAX: Final = 1.0
"""How long a tail sleeps before it looks whether its client is still there."""


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
        with suppress(pykka.ActorDeadError):  # the client was closed: nobody wants to know
            self._metadata_actors.tell(self._ledger_id, task)


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
        """Take what the tail has found out."""
        ...

    def read_confirmed(self, first: int, last: int) -> Iterator[ReadBatch]:
        """Read entries that are confirmed."""
        ...


class TailSetup(msgspec.Struct, frozen=True):
    """Everything a tail stands on."""

    ledger: FollowedLedger
    core: TailCore
    news: MetadataNews
    ledger_key: bytes
    requests: Requests
    timeout_s: float | None
    check_usable: Callable[[], None]


class _TailBox:
    """Where replies and metadata come in. Bounded: a poll a bookie, and the latest metadata."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._seen: MetadataSeen | None = None

    def deliver(self, news: list[News]) -> None:
        """Take the replies to polls."""
        for one in news:
            if isinstance(one, Reply):
                self._items.put(one)

    def see(self, event: MetadataSeen) -> None:
        """Take metadata; only the latest are kept."""
        with self._lock:
            is_known = self._seen is not None
            if self._seen is None or event.metadata is None or event.version >= self._seen.version:
                self._seen = event
        if not is_known:
            self._items.put(None)

    def rouse(self) -> None:
        """Let the waiting thread look around."""
        self._items.put(None)

    def next(self, timeout_s: float) -> Reply | MetadataSeen | None:
        """Return what came, or ``None`` if nothing comes in time."""
        try:
            item = self._items.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if item is not None:
            return item
        with self._lock:
            seen, self._seen = self._seen, None
        return seen


class LedgerTail(Iterator[Entry]):
    """The entries of a ledger, those too that are still to come; ends when the ledger is closed.

    One thread at a time iterates. It sees each entry once it is confirmed, across ensemble
    changes, lost bookies and recoveries. With a ``timeout`` the wait for one entry ends with
    ``RequestTimeoutError``; the tail is as good as before, and the next call waits again.

    Until it has ended or is closed, a tail keeps a watch in the metadata store; closing its reader
    closes it too.

    Example:
        >>> import zbk
        >>> with zbk.connect() as client, client.open_ledger(7) as reader:  # doctest: +SKIP
        ...     for entry in reader.tail():
        ...         print(entry.entry_id, entry.payload)
    """

    def __init__(self, setup: TailSetup, first: int) -> None:
        self._setup = setup
        self._core = setup.core
        self._next_id = first
        self._box = _TailBox()
        self._watch: Watch | None = None
        self._batches: Iterator[ReadBatch] | None = None
        self._entries: Iterator[Entry] = iter(())
        self._is_over = False
        self._error: ZbkError | None = None

    def __repr__(self) -> str:
        ledger_id = self._setup.ledger.metadata.ledger_id
        return f"<LedgerTail {ledger_id} next={self._next_id} lac={self._core.lac}>"

    def __iter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def last_add_confirmed(self) -> int:
        """How far the ledger was confirmed when last heard."""
        return self._core.lac

    def __next__(self) -> Entry:
        """Return the next entry; wait for it.

        Raises:
            RequestTimeoutError: none came within ``timeout``; call again to wait on.
            NoSuchLedgerError: the ledger was deleted.
            NotEnoughBookiesError, ...: the cluster was not to be reached for long.
        """
        while True:
            for entry in self._entries:
                return entry
            batch = self.next_batch()
            if batch is None:
                raise StopIteration
            self._entries = batch.entries()

    def batches(self) -> Iterator[ReadBatch]:
        """Yield the entries in batches, as they come."""
        while (batch := self.next_batch()) is not None:
            yield batch

    def next_batch(self, *, timeout: float | None = None) -> ReadBatch | None:
        """Return the next entries; wait for them; ``None``: the ledger is closed, that was all.

        ``timeout``, in seconds, is for this call, in place of the tail's own.
        """
        timeout_s = self._setup.timeout_s if timeout is None else arguments.seconds(timeout)
        if self._watch is None and not self._is_over:
            self._start()
        deadline_s = None if timeout_s is None else monotonic_s() + timeout_s
        while True:
            if self._error is not None:
                raise self._error
            if self._is_over:
                return None
            self._setup.check_usable()
            if self._batches is None:
                self._wait(deadline_s, timeout_s)
                continue
            batch = self._read_next()
            if batch is not None:
                return batch

    def close(self) -> None:
        """End it. Twice is fine; any thread."""
        self._is_over = True
        if self._watch is not None:
            self._watch.cancel()
        self._box.rouse()

    # ------------------------------------------------------------------ private

    def _start(self) -> None:
        def on_change(found: tuple[LedgerMetadata, int] | None) -> None:
            self._box.see(MetadataSeen(*found) if found is not None else MetadataSeen(None))

        self._setup.check_usable()
        self._watch = self._setup.news.watch(on_change)
        self._handle(EntriesWanted(self._next_id))

    def _wait(self, deadline_s: float | None, timeout_s: float | None) -> None:
        """Take one piece of news, or let the core know that time has passed."""
        left_s = WAIT_S_MAX if deadline_s is None else max(0.0, deadline_s - monotonic_s())
        wait_s = min(WAIT_S_MAX, left_s)
        due_ms = self._core.due_ms
        if due_ms is not None:
            wait_s = max(0.0, min(wait_s, (due_ms - monotonic_ms()) / 1000))
        match self._box.next(wait_s):
            case None if left_s == 0.0:
                what = f"tail of ledger {self._setup.ledger.metadata.ledger_id}"
                raise RequestTimeoutError(what, timeout_s or 0.0)
            case None:
                self._handle(TailTicked())
            case Reply() as reply:
                self._handle(_event_of(reply))
            case MetadataSeen() as seen:
                self._handle(seen)
                if seen.metadata is not None:
                    self._setup.ledger.learn(seen.metadata, self._core.lac)

    def _read_next(self) -> ReadBatch | None:
        """Return a batch of those that are confirmed; ``None``: there are no more, or not now."""
        assert self._batches is not None, "something is confirmed"
        try:
            batch = next(self._batches, None)
        except ZbkError as error:
            self._batches = None
            self._handle(EntriesUnread(error))
            return None
        if batch is None:
            self._batches = None
            self._handle(EntriesWanted(self._next_id))
            return None
        self._next_id = batch.last_entry_id + 1
        return batch

    def _handle(self, event: Event) -> None:
        for effect in self._core.handle(event, monotonic_ms()):
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
                self._batches = ledger.read_confirmed(self._next_id, effect.lac)
            case TailEnded():
                self.close()
            case TailFailed():
                self._error = effect.error
                self.close()

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
        self._setup.requests.send(
            effect.bookie_id, request, (), self._box, effect.poll_id, wait_ms=effect.wait_ms
        )

    def _on_read(self, outcome: tuple[LedgerMetadata, int] | ZbkError) -> None:
        match outcome:
            case NoSuchLedgerError():
                self._box.see(MetadataSeen(None))
            case ZbkError():
                return  # the store does not answer: it is asked again, and the watch goes on
            case _:
                self._box.see(MetadataSeen(*outcome))


def _event_of(reply: Reply) -> LacTold | PollRefused:
    assert isinstance(reply.key, int), "the key is the poll's id"
    match reply.outcome:
        case LacAnswer(lac=lac):
            return LacTold(reply.key, lac)
        case ZbkError() as error:
            return PollRefused(reply.key, error)
        case other:
            reason = f"gave an answer of another kind: {type(other).__name__}"
            return PollRefused(reply.key, BookieUnavailableError(reply.bookie_id, reason))
