"""Reading a range chunk by chunk, several chunks ahead of the application.

Each chunk is a ``RangeRead`` of one fragment. Chunks are requested from the replicas in turn, so
that all of them work; a bookie that failed or was slow is asked last for a while. The number of
entries in a chunk follows from the size of the entries read so far.

A chunk that cannot be read may have moved since its reader was opened. ``ReadAhead`` then wants the
metadata, and requests the chunk again if other bookies hold it now. No other failure is retried.

Entries may be far larger than those read so far, and each chunk then needs many replies. So the
replies for later chunks are set aside while ``read_ahead_count`` full replies wait to be returned;
a chunk requests its next entries when its reply is handled.

Nothing here waits: the owner hands in replies, metadata and time, in one thread. ``ReadPump`` waits
for the application that reads a range, a tail for the application that follows a ledger.

``lac`` rises with the LACs that bookies send beside entries, and with those that writers put into
entries: every value that was a ledger's LAC once is durable for good.
"""

from collections import deque
from typing import Final, cast

from zbk.client.cluster.ledger_calls import LedgerContext, body_of
from zbk.errors import MetadataUnavailableError, NoSuchEntryError, ZbkError
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.entry.words import NO_ENTRY, DigestType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.read.range_read import (
    Delivered,
    Effect,
    Event,
    RangeRead,
    ReadAnswered,
    ReadFailed,
    ReadStarted,
    ReadTicked,
    SendRead,
)
from zbk.system.clock import monotonic_ms
from zbk.transport.events import Reply, Sink
from zbk.wire.messages import ReadAnswer

CHUNK_COUNT: Final = 256
"""Entries in each of the first chunks, while the size of entries is not known."""

CHUNK_COUNT_MAX: Final = 8_192

MOVE_COUNT_MAX: Final = 8
"""How often one chunk is requested elsewhere because its ensemble has changed."""

AVOIDED_CHUNK_COUNT: Final = 32
"""The number of chunks for which a bookie that failed or was slow is asked last."""


class _Chunk:
    __slots__ = (
        "batches", "core", "error", "fragment", "is_refreshed", "kept_size", "last", "move_count",
        "next_id", "number", "replies",
    )  # fmt: skip

    def __init__(
        self, number: int, fragment: Fragment, core: RangeRead, first: int, last: int
    ) -> None:
        self.number = number
        self.fragment = fragment
        self.core = core
        self.next_id = first  # the first entry that was not delivered yet
        self.last = last
        self.move_count = 0
        self.batches: deque[ReadBatch] = deque()
        self.kept_size = 0  # bytes of replies that were handled, and not yet returned in batches
        self.replies: deque[Reply] = deque()  # set aside
        self.error: ZbkError | None = None
        self.is_refreshed = False  # the metadata were read after it failed


class ReadAhead:
    """One pass over the entries ``first .. last`` of a ledger. Replies go to ``sink``."""

    def __init__(
        self,
        context: LedgerContext,
        metadata: LedgerMetadata,
        sink: Sink,
        first: int,
        last: int,
        *,
        bookie_id: str | None = None,
    ) -> None:
        self._context = context
        self._config = context.config
        self._metadata = metadata
        self._sink = sink
        self._next_id = first  # of the next chunk to begin
        self._last = last
        self._bookie_id = bookie_id
        self._lac = NO_ENTRY
        self._chunks: deque[_Chunk] = deque()
        self._by_number: dict[int, _Chunk] = {}
        self._number = 0
        self._avoided_until: dict[str, int] = {}  # a chunk's number, by bookie
        self._chunk_count = CHUNK_COUNT
        self._ahead_count = 1  # grows: a reader of one entry does not request thousands
        self._kept_size_max = self._config.read_ahead_count * self._config.read_size_max

    @property
    def lac(self) -> int:
        """The highest LAC that came beside entries or in them; -1 is none."""
        return self._lac

    @property
    def is_over(self) -> bool:
        """True when ``next_batch`` has returned everything."""
        return not self._chunks and self._next_id > self._last

    @property
    def wants_metadata(self) -> bool:
        """True when reading continues only after ``refreshed`` or ``not_refreshed``."""
        return bool(self._chunks) and self._is_lost(self._chunks[0])

    @property
    def due_ms(self) -> int | None:
        """The time of the next ``tick``, which lets a chunk ask another replica; or ``None``."""
        due_ms = [chunk.core.speculate_at_ms for chunk in self._chunks if not chunk.replies]
        return min((at_ms for at_ms in due_ms if at_ms is not None), default=None)

    def next_batch(self) -> ReadBatch | None:
        """Return the next entries in order; ``None`` if there are none yet, or no more.

        Raises:
            ZbkError: the next entry cannot be read.
        """
        while True:
            self._begin_ahead()
            if not self._chunks:
                return None
            chunk = self._chunks[0]
            if chunk.batches:
                batch = chunk.batches.popleft()
                chunk.kept_size -= batch.size
                self._learn(batch)
                for one in self._chunks:
                    self._handle_replies(one)
                return batch
            if chunk.error is not None:
                if self._is_lost(chunk):
                    return None
                self._move(chunk, chunk.error)
            elif chunk.core.is_over:
                self._end(chunk)
                self._ahead_count = self._config.read_ahead_count
            elif chunk.replies:
                self._handle_replies(chunk)
            else:
                return None

    def take(self, reply: Reply) -> None:
        """Handle a reply to one of the requests."""
        if isinstance(reply.outcome, ReadAnswer):
            self._lac = max(self._lac, reply.outcome.lac)
        assert isinstance(reply.key, tuple), "a key is chunk, slot and read id"
        chunk = self._by_number.get(reply.key[0])
        if chunk is not None:
            chunk.replies.append(reply)
            self._handle_replies(chunk)

    def tick(self) -> None:
        """Handle the passing of time."""
        for chunk in self._chunks:
            if not chunk.replies:  # else the bookie may have answered
                self._handle(chunk, ReadTicked())

    def refreshed(self, metadata: LedgerMetadata) -> None:
        """Record the present metadata."""
        self._metadata = metadata
        if self._chunks:
            self._chunks[0].is_refreshed = True

    def not_refreshed(self, unknown: MetadataUnavailableError) -> None:
        """Record that the metadata cannot be read."""
        chunk = self._chunks[0]
        chunk.is_refreshed = True
        if isinstance(chunk.error, NoSuchEntryError):
            chunk.error = unknown  # the entry may be on other bookies

    def _begin_ahead(self) -> None:
        while self._next_id <= self._last and len(self._chunks) < self._ahead_count:
            chunk, self._next_id = self._begin(self._next_id, self._last)
            if chunk is not None:  # else the one bookie to read from holds nothing of it
                self._chunks.append(chunk)

    def _begin(self, first: int, last: int) -> tuple[_Chunk | None, int]:
        """Start the chunk at ``first``; return it, if any, and the start of the next chunk."""
        fragment, fragment_last = self._metadata.fragment_of(first)
        stop = first + self._chunk_count - 1
        last = min(last, stop, stop if fragment_last is None else max(fragment_last, first))
        only_slot = None
        if self._bookie_id is not None:
            if self._bookie_id not in fragment.bookies:
                return None, last + 1
            only_slot = fragment.bookies.index(self._bookie_id)
        core = RangeRead(
            self._metadata,
            first,
            last,
            digest=self._context.digest,
            slot_order=self._slot_order(fragment),
            only_slot=only_slot,
            speculative_ms=self._config.speculative_read_ms,
        )
        chunk = _Chunk(self._number, fragment, core, first, last)
        self._number += 1
        self._by_number[chunk.number] = chunk
        self._handle(chunk, ReadStarted())
        return chunk, last + 1

    def _slot_order(self, fragment: Fragment) -> list[int]:
        size = self._metadata.ensemble_size
        first_slot = (self._metadata.ledger_id + self._number) % size
        order = [(first_slot + i) % size for i in range(size)]
        avoided = self._avoided_until
        return sorted(order, key=lambda s: avoided.get(fragment.bookies[s], 0) > self._number)

    def _end(self, chunk: _Chunk) -> None:
        assert self._chunks[0] is chunk, "chunks end in order"
        self._chunks.popleft()
        del self._by_number[chunk.number]
        for slot, bookie_id in enumerate(chunk.fragment.bookies):
            if chunk.core.strike_count(slot):
                self._avoided_until[bookie_id] = self._number + AVOIDED_CHUNK_COUNT

    def _is_lost(self, chunk: _Chunk) -> bool:
        """Return whether a chunk failed and may have moved to other bookies."""
        return (
            chunk.error is not None
            and not chunk.batches
            and not chunk.is_refreshed
            and self._bookie_id is None
            and chunk.move_count < MOVE_COUNT_MAX
            and not self._is_moved(chunk)
        )

    def _move(self, chunk: _Chunk, error: ZbkError) -> None:
        """Begin the rest of a failed chunk again if it has moved; else raise its error."""
        is_stuck = self._bookie_id is not None or chunk.move_count == MOVE_COUNT_MAX
        if is_stuck or not self._is_moved(chunk):
            raise error
        self._end(chunk)
        parts: list[_Chunk] = []
        next_id = chunk.next_id
        while next_id <= chunk.last:  # it may lie in several fragments now
            part, next_id = self._begin(next_id, chunk.last)
            assert part is not None, "without a bookie's id every chunk has entries"
            part.move_count = chunk.move_count + 1
            parts.append(part)
        self._chunks.extendleft(reversed(parts))

    def _is_moved(self, chunk: _Chunk) -> bool:
        fragment, _ = self._metadata.fragment_of(chunk.next_id)
        return fragment.bookies != chunk.fragment.bookies

    def _handle_replies(self, chunk: _Chunk) -> None:
        """Handle the replies to a chunk, unless too much waits and the chunk is not the next."""
        while chunk.replies and (self._has_room or self._is_awaited(chunk)):
            reply = chunk.replies.popleft()
            _number, slot, read_id = cast("tuple[int, int, int]", reply.key)
            body = body_of(reply)
            if not isinstance(body, ZbkError):
                chunk.kept_size += len(body)
            self._handle(chunk, ReadAnswered(slot, read_id, body))

    @property
    def _has_room(self) -> bool:
        return sum(chunk.kept_size for chunk in self._chunks) < self._kept_size_max

    def _is_awaited(self, chunk: _Chunk) -> bool:
        return chunk is self._chunks[0] and not chunk.batches

    def _handle(self, chunk: _Chunk, event: Event) -> None:
        for effect in chunk.core.handle(event, monotonic_ms()):
            self._carry_out(chunk, effect)

    def _carry_out(self, chunk: _Chunk, effect: Effect) -> None:
        match effect:
            case SendRead():
                built = self._context.requests.read(effect.entry_ids, self._config.read_size_max)
                key = (chunk.number, effect.slot, effect.read_id)
                bookie_id = chunk.fragment.bookies[effect.slot]
                self._context.sender.send(bookie_id, *built, self._sink, key)
            case Delivered():
                chunk.batches.append(effect.batch)
                chunk.next_id = effect.batch.last_entry_id + 1
            case ReadFailed():
                chunk.error = effect.error

    def _learn(self, batch: ReadBatch) -> None:
        if batch.digest_type is not DigestType.NONE:  # without a digest it may be damaged
            self._lac = max(self._lac, batch.last_lac)
        mean_size = max(1, sum(batch.sizes) // max(1, len(batch)))
        self._chunk_count = min(CHUNK_COUNT_MAX, max(1, self._config.read_size_max // mean_size))
