"""The handle of an application that reads a ledger."""

from collections.abc import Callable, Iterator
from weakref import WeakSet

import msgspec

from zbk.client import arguments
from zbk.client.cluster.ledger_calls import LedgerContext
from zbk.client.read.confirmed_look import ConfirmedLook
from zbk.client.read.lac_watches import POLL_WAIT_MS, LacWatches
from zbk.client.read.metadata_source import MetadataSource
from zbk.client.read.read_ahead import ReadAhead
from zbk.client.read.read_pump import ReadPump
from zbk.client.read.tail import LedgerTail
from zbk.client.read.tail_body import TailBody, TailBox, TailSetup
from zbk.client.read.traced_batches import TracedBatches
from zbk.errors import InvalidOptionError, ReadBeyondLacError, ReaderClosedError
from zbk.protocol.entry.entry import Entry
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read.confirmed_read import is_older
from zbk.protocol.read.tail import TailCore, TailLimits
from zbk.system.handle import Handle
from zbk.transport.events import Sink


class ReaderSetup(msgspec.Struct, frozen=True):
    """The parts that a reader works with."""

    metadata: LedgerMetadata
    source: MetadataSource
    context: LedgerContext
    watches: LacWatches
    check_usable: Callable[[], None]


class LedgerReader(Handle):
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
        self._look = ConfirmedLook(setup.context, setup.source, setup.check_usable)
        self._lac = NO_ENTRY
        self._lac = self.read_last_add_confirmed()

    def __repr__(self) -> str:
        state = self._metadata.state
        return f"<LedgerReader {self.ledger_id} {state} lac={self._lac}>"

    @property
    def ledger_id(self) -> int:
        """The ledger's id."""
        return self._metadata.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as this reader last saw them."""
        return self._metadata

    @property
    def last_add_confirmed(self) -> int:
        """The LAC as this reader knows it; -1 is none. It rises with reads and never goes down."""
        return self._lac

    @property
    def is_closed(self) -> bool:
        """True when this handle was closed; the ledger may be open."""
        return self._is_closed

    @property
    def is_closed_ledger(self) -> bool:
        """True when the ledger is closed, so its last entry is known."""
        return self._metadata.is_closed

    def read_last_add_confirmed(self, *, timeout: float | None = None) -> int:
        """Ask the bookies how far the ledger is confirmed, and return its LAC; -1 is none.

        The metadata store is asked, too, for a new ensemble or the end of the ledger. If it does
        not answer, the call continues with the metadata that the reader has.

        Raises:
            NotEnoughBookiesError: too few bookies answered.
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

        With ``bookie_id`` only the replicas of that bookie are read; of a striped ledger these
        are the entries that it should hold. ``timeout``, in seconds, limits each wait; after a
        time-out the next call waits again for the same entry.

        Raises:
            ReadBeyondLacError: ``last`` is after the LAC.
            NoSuchEntryError, DigestMismatchError, ...: no replica of an entry can be read.
        """
        batches = self.read_batches(first, last, bookie_id=bookie_id, timeout=timeout)
        return BatchedEntries(batches)

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
        """Yield entries that may lie beyond the LAC, so a later read may not find them.

        Raises:
            NoSuchEntryError: no bookie has the next entry yet.
        """
        first = arguments.entry_id("first", first)
        last = arguments.last_entry_id("last", last)
        return BatchedEntries(self._batches(first, last, None, timeout))

    def tail(self, first: int = 0, *, timeout: float | None = None) -> LedgerTail:
        """Return an iterator over the entries from ``first`` on, including those still to come.

        It ends when the ledger is closed. ``timeout``, in seconds, limits the wait for one entry;
        without it the wait is not limited.
        """
        first = arguments.entry_id("first", first)
        timeout_s = arguments.optional_seconds(timeout)
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
        setup = self._setup
        outage_ms = setup.context.config.default_timeout_ms
        limits = TailLimits(wait_ms=POLL_WAIT_MS, outage_ms=outage_ms)
        return TailSetup(
            ledger=self,
            core=TailCore(self._metadata, 0, self._lac, limits),
            source=setup.source,
            requests=setup.context.requests,
            watches=setup.watches,
            timeout_s=timeout_s,
            check_usable=setup.check_usable,
        )

    def learn(self, metadata: LedgerMetadata, lac: int) -> None:
        """Record metadata and a LAC that a tail of this reader has found."""
        self._metadata = metadata
        end = metadata.last_entry_id
        self._lac = max(self._lac, lac) if end is None else end

    def read_ahead(self, first: int, last: int, sink: Sink) -> ReadAhead:
        """Begin to read entries that a tail of this reader knows to be confirmed."""
        return ReadAhead(self._setup.context, self._metadata, sink, first, last)

    def close(self) -> None:
        """Close this handle and end its tails. The ledger stays as it is.

        Closing twice is allowed. After that every other call of the handle raises
        ``ReaderClosedError``.
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
        context, span = self._setup.context, None
        if context.spans is not None:
            span = context.spans.start(
                "zbk.read",
                {
                    "zbk.ledger_id": self.ledger_id,
                    "zbk.first_entry_id": first,
                    "zbk.last_entry_id": last,
                },
            )
        pump = ReadPump(
            context.traced(span),
            self._metadata,
            self._refresh,
            self._learn_read,
            (first, last),
            bookie_id=bookie_id,
            timeout_s=timeout_s,
            check_usable=self._setup.check_usable,
        )
        return pump if span is None else TracedBatches(pump, span)

    def _learn_read(self, lac: int) -> None:
        """Record the LAC that came with entries; of a closed ledger it is known."""
        self._setup.check_usable()
        if not self._metadata.is_closed:
            self._lac = max(self._lac, lac)

    def _refresh(self) -> LedgerMetadata:
        self._metadata = self._setup.source.read()
        return self._metadata

    def _check(self) -> None:
        self._setup.check_usable()
        if self._is_closed:
            raise ReaderClosedError(self.ledger_id)

    def _timeout_s(self, timeout: float | None) -> float:
        if timeout is None:
            return self._setup.context.config.default_timeout_ms / 1000
        return arguments.seconds(timeout)


class BatchedEntries(Iterator[Entry]):
    """The entries of batches.

    No generator: that ends with its first error, and a caller who asks again after a time-out would
    take the end for that of the entries.
    """

    __slots__ = ("_batches", "_entries")

    def __init__(self, batches: Iterator[ReadBatch]) -> None:
        self._batches = batches
        self._entries: Iterator[Entry] = iter(())

    def __next__(self) -> Entry:
        """Return the next entry, with the errors of the batches."""
        for entry in self._entries:
            return entry
        while True:
            self._entries = next(self._batches).entries()
            for entry in self._entries:
                return entry
