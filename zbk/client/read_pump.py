"""Reads a range chunk by chunk, several chunks ahead of the application.

Each chunk is a ``RangeRead`` of one fragment; the pump carries out what the cores decide, in the
thread of whoever iterates. Chunks are asked for from the replicas in turn, so that all of them
work. The size of a chunk follows the size of the entries met so far.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from zbk.client.requests import ReplyBox, Requests
from zbk.config import ClientConfig
from zbk.errors import BookieUnavailableError, RequestTimeoutError, ZbkError
from zbk.protocol.digest import DigestFunction
from zbk.protocol.ledger_metadata import Fragment, LedgerMetadata
from zbk.protocol.read_batch import ReadBatch
from zbk.protocol.reader import (
    Delivered,
    Effect,
    Event,
    RangeRead,
    ReadAnswered,
    ReadFailed,
    ReadRefused,
    ReadStarted,
    SendRead,
)
from zbk.system.clock import monotonic_ms
from zbk.transport.news import Reply
from zbk.wire.codec import encode_ids
from zbk.wire.messages import Read, ReadAnswer

CHUNK_COUNT: Final = 256
"""Entries of the first chunks, while the size of entries is not known."""

CHUNK_COUNT_MAX: Final = 8_192


class _Chunk:
    __slots__ = ("batches", "core", "error", "fragment", "number")

    def __init__(self, number: int, fragment: Fragment, core: RangeRead) -> None:
        self.number = number
        self.fragment = fragment
        self.core = core
        self.batches: deque[ReadBatch] = deque()
        self.error: ZbkError | None = None


class ReadPump:
    """One pass over a range of a ledger."""

    def __init__(
        self,
        metadata: LedgerMetadata,
        ledger_key: bytes,
        digest: DigestFunction,
        requests: Requests,
        config: ClientConfig,
        *,
        bookie_id: str | None,
        timeout_s: float,
    ) -> None:
        self._metadata = metadata
        self._ledger_key = ledger_key
        self._digest = digest
        self._requests = requests
        self._config = config
        self._bookie_id = bookie_id
        self._timeout_s = timeout_s
        self._box = ReplyBox()
        self._chunks: deque[_Chunk] = deque()
        self._by_number: dict[int, _Chunk] = {}
        self._number = 0
        self._chunk_count = CHUNK_COUNT
        self._ahead_count = 1  # grows: a reader of one entry does not ask for thousands

    def run(self, first: int, last: int) -> Iterator[ReadBatch]:
        """Yield the entries ``first .. last`` in batches, in order."""
        next_id = first
        while self._chunks or next_id <= last:
            while next_id <= last and len(self._chunks) < self._ahead_count:
                next_id = self._begin(next_id, last)
            chunk = self._chunks[0]
            while chunk.batches:
                batch = chunk.batches.popleft()
                self._learn(batch)
                yield batch
            if chunk.error is not None:
                raise chunk.error
            if chunk.core.is_over:
                self._chunks.popleft()
                del self._by_number[chunk.number]
                self._ahead_count = self._config.read_ahead_count
            else:
                self._wait()

    def _begin(self, first: int, last: int) -> int:
        """Start the chunk at ``first``; return where the next one begins."""
        fragment, fragment_last = self._metadata.fragment_of(first)
        stop = first + self._chunk_count - 1
        last = min(last, stop, stop if fragment_last is None else max(fragment_last, first))
        only_slot = None
        if self._bookie_id is not None:
            if self._bookie_id not in fragment.bookies:
                return last + 1
            only_slot = fragment.bookies.index(self._bookie_id)
        size = self._metadata.ensemble_size
        turn = (self._metadata.ledger_id + self._number) % size
        core = RangeRead(
            self._metadata.ledger_id,
            self._metadata.quorum,
            first,
            last,
            digest_type=self._metadata.digest_type,
            digest=self._digest,
            slot_order=[(turn + i) % size for i in range(size)],
            only_slot=only_slot,
        )
        chunk = _Chunk(self._number, fragment, core)
        self._number += 1
        self._chunks.append(chunk)
        self._by_number[chunk.number] = chunk
        self._handle(chunk, ReadStarted())
        return last + 1

    def _wait(self) -> None:
        reply = self._box.next(self._timeout_s)
        if reply is None:
            what = f"read of ledger {self._metadata.ledger_id}"
            raise RequestTimeoutError(what, self._timeout_s)
        assert isinstance(reply.key, tuple), "a key is chunk, slot and read id"
        number, slot, read_id = reply.key
        chunk = self._by_number.get(number)
        if chunk is not None:
            self._handle(chunk, _event_of(slot, read_id, reply))

    def _handle(self, chunk: _Chunk, event: Event) -> None:
        for effect in chunk.core.handle(event, monotonic_ms()):
            self._carry_out(chunk, effect)

    def _carry_out(self, chunk: _Chunk, effect: Effect) -> None:
        match effect:
            case SendRead():
                self._send(chunk, effect)
            case Delivered():
                chunk.batches.append(effect.batch)
            case ReadFailed():
                chunk.error = effect.error

    def _send(self, chunk: _Chunk, effect: SendRead) -> None:
        ids = effect.entry_ids
        is_striped = not isinstance(ids, range)
        request = Read(
            request_id=0,
            ledger_id=self._metadata.ledger_id,
            ledger_key=self._ledger_key,
            first_entry_id=ids[0],
            last_entry_id=ids[-1],
            size_max=self._config.read_size_max,
            is_striped=is_striped,
        )
        frames = (encode_ids(ids),) if is_striped else ()
        key = (chunk.number, effect.slot, effect.read_id)
        self._requests.send(chunk.fragment.bookies[effect.slot], request, frames, self._box, key)

    def _learn(self, batch: ReadBatch) -> None:
        mean_size = max(1, sum(batch.sizes) // max(1, len(batch)))
        self._chunk_count = min(CHUNK_COUNT_MAX, max(1, self._config.read_size_max // mean_size))


def _event_of(slot: int, read_id: int, reply: Reply) -> ReadAnswered | ReadRefused:
    match reply.outcome:
        case ReadAnswer() if len(reply.frames) == 1:
            return ReadAnswered(slot, read_id, reply.frames[0])
        case ZbkError() as error:
            return ReadRefused(slot, read_id, error)
        case other:
            reason = f"gave an answer of another kind: {type(other).__name__}"
            return ReadRefused(slot, read_id, BookieUnavailableError(reply.bookie_id, reason))
