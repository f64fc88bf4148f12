"""What an application holds of a ledger that it reads."""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self
from weakref import WeakSet

import msgspec

from zbk.client import arguments
from zbk.client.cluster.requests import Requests
from zbk.client.read.confirmed_look import ConfirmedLook, LookSetup, MetadataOutcome
from zbk.client.read.lac_watches import POLL_WAIT_MS, LacWatches
from zbk.client.read.read_ahead import ReadAhead
from zbk.client.read.read_pump import ReadPump
from zbk.client.read.tail import LedgerTail
from zbk.client.read.tail_body import MetadataNews, TailBody, TailBox, TailSetup
from zbk.config import ClientConfig
from zbk.errors import (
    InvalidOptionError,
    ReadBeyondLacError,
    ReaderClosedError,
)
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.entry import Entry
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read.confirmed_read import is_older
from zbk.protocol.read.tail import TailCore, TailLimits
from zbk.transport.events import Sink


class ReaderSetup(msgspec.Struct, frozen=True):
    """Everything a reader stands on."""

    metadata: LedgerMetadata
    refresh: Callable[[], LedgerMetadata]
    refresh_later: Callable[[Callable[[MetadataOutcome], None]], None]
    news: MetadataNews
    ledger_key: bytes
    digest: DigestFunction
    requests: Requests
    watches: LacWatches
    config: ClientConfig
    check_usable: Callable[[], None]


class LedgerReader:
    """A reader of one ledger. It never fences. One thread at a time reads with it.

    ``read`` goes up to the LAC, which is as far as everything is durable; ``read_unconfirmed``
    goes on without a promise. Ranges are inclusive at both ends.

    Source: BookKeeper's ``ReadHandle``.
    """

    def __init__(self, setup: ReaderSetup) -> None:
        self._setup = setup
        self._metadata = setup.metadata
        self._is_closed = False
        self._tails: WeakSet[LedgerTail | TailBody] = WeakSet()
        self._look = ConfirmedLook(
            LookSetup(
                ledger_key=setup.ledger_key,
                requests=setup.requests,
                read_metadata=setup.refresh_later,
                check_usable=setup.check_usable,
            )
        )
        self._lac = NO_ENTRY
        self._lac = self.read_last_add_confirmed()

    def __repr__(self) -> str:
        state = self._metadata.state
        return f"<LedgerReader {self.ledger_id} {state} lac={self._lac}>"

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
    def ledger_id(self) -> int:
        """The ledger's id."""
        return self._metadata.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as this reader last saw it."""
        return self._metadata

    @property
    def last_add_confirmed(self) -> int:
        """The LAC as this reader last heard it, with entries too; -1 is none. Never goes down."""
        return self._lac

    @property
    def is_closed(self) -> bool:
        """True when this handle was given back; the ledger may be open."""
        return self._is_closed

    @property
    def is_closed_ledger(self) -> bool:
        """True when the ledger has its final end."""
        return self._metadata.is_closed

    def read_last_add_confirmed(self, *, timeout: float | None = None) -> int:
        """Ask again how far the ledger is confirmed, and return it.

        The bookies say it. The metadata store is asked, too, for a new ensemble or the end of the
        ledger; where it does not answer the call goes on with what is known.

        Raises:
            NotEnoughBookiesError: too few bookies answered to know.
        """
        timeout_s = self._timeout_s(timeout)
        self._check()
        if not self._metadata.is_closed:
            metadata, lac = self._look.run(self._metadata, self._lac, timeout_s)
            self._lac = max(self._lac, lac)
            if not is_older(metadata, self._metadata):
                self._metadata = metadata
        if self._metadata.last_entry_id is not None:
            self._lac = self._metadata.last_entry_id
        return self._lac

    def read(
        self,
        first: int,
        last: int,
        *,
        bookie_id: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[Entry]:
        """Yield the entries ``first .. last``, verified, reading ahead. Empty if ``last < first``.

        With ``bookie_id`` only the replicas of that bookie are read: of a striped ledger those
        entries that it should hold. ``timeout``, in seconds, is for each wait.

        Raises:
            ReadBeyondLacError: ``last`` is after the LAC.
            NoSuchEntryError, DigestMismatchError, ...: no replica of an entry can be read.
        """
        batches = self.read_batches(first, last, bookie_id=bookie_id, timeout=timeout)
        return _entries_of(batches)

    def read_batches(
        self,
        first: int,
        last: int,
        *,
        bookie_id: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[ReadBatch]:
        """As ``read``, in batches: ``batch.first_entry_id``, ``len(batch)``, ``batch[i]``."""
        first = arguments.entry_id("first", first)
        last = arguments.last_entry_id("last", last)
        if last >= first and last > self._lac:
            raise ReadBeyondLacError(self.ledger_id, last, self._lac)
        return self._batches(first, last, bookie_id, timeout)

    def read_unconfirmed(
        self, first: int, last: int, *, timeout: float | None = None
    ) -> Iterator[Entry]:
        """Yield entries that may lie beyond the LAC: they may be gone the next time.

        Raises:
            NoSuchEntryError: no bookie has the next one (yet).
        """
        first = arguments.entry_id("first", first)
        last = arguments.last_entry_id("last", last)
        return _entries_of(self._batches(first, last, None, timeout))

    def tail(self, first: int = 0, *, timeout: float | None = None) -> LedgerTail:
        """Return an iterator over the entries from ``first`` on, those to come too.

        It ends when the ledger is closed. ``timeout``, in seconds, is for the wait for one entry;
        without it the tail waits for as long as it takes.
        """
        first = arguments.entry_id("first", first)
        timeout_s = None if timeout is None else arguments.seconds(timeout)
        self._check()
        tail = LedgerTail(self._tail_setup(timeout_s), first)
        self._tails.add(tail)
        return tail

    def begin_tail(self, first: int, box: TailBox) -> TailBody:
        """Return a tail whose owner is a ``TailGroup``."""
        first = arguments.entry_id("first", first)
        self._check()
        body = TailBody(self._tail_setup(None), first, box)
        self._tails.add(body)
        return body

    def _tail_setup(self, timeout_s: float | None) -> TailSetup:
        setup, config = self._setup, self._setup.config
        limits = TailLimits(wait_ms=POLL_WAIT_MS, outage_ms=config.default_timeout_ms)
        return TailSetup(
            ledger=self,
            core=TailCore(self._metadata, 0, self._lac, limits),
            news=setup.news,
            ledger_key=setup.ledger_key,
            watches=setup.watches,
            timeout_s=timeout_s,
            check_usable=setup.check_usable,
        )

    def learn(self, metadata: LedgerMetadata, lac: int) -> None:
        """Record what a tail of this reader has found out."""
        self._metadata = metadata
        end = metadata.last_entry_id
        self._lac = max(self._lac, lac) if end is None else end

    def read_ahead(self, first: int, last: int, sink: Sink) -> ReadAhead:
        """Begin to read entries that a tail of this reader knows to be confirmed."""
        setup = self._setup
        return ReadAhead(
            self._metadata,
            setup.ledger_key,
            setup.digest,
            setup.requests,
            setup.config,
            sink,
            first,
            last,
        )

    def close(self) -> None:
        """Close this handle, and end its tails. The ledger stays as it is. Closing twice is fine.

        Every other call of the handle raises ``ReaderClosedError`` afterwards.
        """
        self._is_closed = True
        for tail in list(self._tails):
            tail.close()

    def _batches(
        self, first: int, last: int, bookie_id: str | None, timeout: float | None
    ) -> Iterator[ReadBatch]:
        timeout_s = self._timeout_s(timeout)
        if bookie_id is not None:
            bookie_id = arguments.bookie_id(bookie_id)
        self._check()
        holders = {b for fragment in self._metadata.fragments for b in fragment.bookies}
        if bookie_id is not None and bookie_id not in holders:
            raise InvalidOptionError(
                "bookie_id", bookie_id, f"holds nothing of ledger {self.ledger_id}"
            )
        return self._run(first, last, bookie_id, timeout_s)

    def _run(self, first: int, last: int, bookie_id: str | None, timeout_s: float) -> "_Batches":
        setup = self._setup
        pump = ReadPump(
            self._metadata,
            self._refresh,
            setup.ledger_key,
            setup.digest,
            setup.requests,
            setup.config,
            bookie_id=bookie_id,
            timeout_s=timeout_s,
        )
        return _Batches(pump.run(first, last), self._learn_read)

    def _learn_read(self, lac: int) -> None:
        """Record the LAC that came with entries; the end of a closed ledger is known already."""
        self._setup.check_usable()
        if not self._metadata.is_closed:
            self._lac = max(self._lac, lac)

    def _refresh(self) -> LedgerMetadata:
        self._metadata = self._setup.refresh()
        return self._metadata

    def _check(self) -> None:
        self._setup.check_usable()
        if self._is_closed:
            raise ReaderClosedError(self.ledger_id)

    def _timeout_s(self, timeout: float | None) -> float:
        if timeout is None:
            return self._setup.config.default_timeout_ms / 1000
        return arguments.seconds(timeout)


class _Batches(Iterator[ReadBatch]):
    """Batches of a pump, on their way to an application; the reader learns the LAC of each."""

    def __init__(self, pump: ReadPump, learn: Callable[[int], None]) -> None:
        self._pump = pump
        self._learn = learn

    def __next__(self) -> ReadBatch:
        batch = next(self._pump)
        self._learn(self._pump.lac)
        return batch


def _entries_of(batches: Iterator[ReadBatch]) -> Iterator[Entry]:
    for batch in batches:
        yield from batch.entries()
