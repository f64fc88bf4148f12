"""The copy of entries of one fragment to one bookie: read, verify, add, confirm.

    read      in chunks, several at a time, from the slots of the order, in turn; with the digest
              (``read.range_read``) or, if it cannot be verified, by comparing replicas
              (``read.compared_read``)
    add       the same bytes, in order, in batches, as recovery adds: the target answers after an
              fsync, whatever the ledger's type
    confirm   the target must hold what was copied (``copy_confirmation``)

An entry without a good replica is *lost*. If the target is to replace a bookie, a loss rules that
out: the copy adds nothing more, but reads the rest, so that its result names every loss. If the
target itself only lacked entries, all others are added.

Only what the target has fsynced counts: a copy that fails promises nothing, and can be repeated
from the start, because adds are idempotent.

Invariants, checked in ``_check``:
  * a copy that is not over waits for an answer;
  * at most ``read_count_max`` chunks are being read; they end in order;
  * nothing is added after a loss in a move.

Source: BookKeeper's ``LedgerFragmentReplicator``; reliability rules I26 and I27: a copy is
verified before and after writing, so that damage does not spread.
"""

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never

from zbk.errors import (
    DamageError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.read import range_read as reader
from zbk.protocol.read.compared_read import ComparedRead
from zbk.protocol.read.range_read import RangeRead
from zbk.protocol.read.read_race import proves_loss
from zbk.protocol.repair.copy_confirmation import CopyConfirmation
from zbk.protocol.repair.copy_ids import LossNotes, ids_in_pieces
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.fragment_copy_events import (
    AddAnswered,
    CopyAdvanced,
    CopyEnded,
    CopyLimits,
    CopyResult,
    CopyStarted,
    CopyStopped,
    Effect,
    Event,
    HoldingsAnswered,
    ReadAnswered,
    SendAdd,
    SendRead,
)
from zbk.protocol.repair.holdings import Holdings

FIRST_CHUNK_COUNT = 4
"""Entries of the first chunks, while the size of entries is not known."""

_ABSENT = "no bookie that answers has a replica"
_DAMAGED = "no replica is undamaged"

Core: TypeAlias = RangeRead | ComparedRead


class _Chunk:
    __slots__ = ("batches", "core", "entry_ids", "error", "position")

    def __init__(self, entry_ids: Sequence[int]) -> None:
        self.entry_ids = entry_ids
        self.position = 0  # ids taken from it, or lost
        self.core: Core | None = None
        self.batches: deque[ReadBatch] = deque()
        self.error: ZbkError | None = None


class _Read:
    __slots__ = ("chunk", "core", "read_id", "slot")

    def __init__(self, chunk: _Chunk, core: Core, slot: int, read_id: int) -> None:
        self.chunk = chunk
        self.core = core
        self.slot = slot
        self.read_id = read_id

    @property
    def is_stale(self) -> bool:
        """True when its chunk was begun again, after an entry that could not be read."""
        return self.chunk.core is not self.core


class FragmentCopy:
    """One copy. ``CopyStarted`` comes first, nothing follows ``CopyEnded``.

    ``digest`` is ``None`` if it cannot be verified.
    """

    def __init__(
        self, order: CopyOrder, digest: DigestFunction | None, limits: CopyLimits | None = None
    ) -> None:
        is_own_source = order.slot in order.sources and not order.is_move
        assert order.is_mend or not is_own_source, "only a bookie to mend is its own source"
        self._order = order
        self._digest = digest
        self._limits = limits or CopyLimits()
        self._ids = ids_in_pieces(order)
        self._leftover: Sequence[int] = ()
        self._chunk_count = FIRST_CHUNK_COUNT
        self._chunks: deque[_Chunk] = deque()
        self._reads: dict[int, _Read] = {}  # by request
        self._outbox: deque[SendRead] = deque()  # until there is room for their answers
        self._sent_reads: set[int] = set()  # requests
        self._adds: dict[int, EntryBatch] = {}  # by request
        self._next_request_id = 0
        self._rotation = 0  # the source that the next chunk prefers, of the slots in turn
        self._unreachable: set[int] = set()  # slots with a failed read that may succeed later
        self._in_limbo: set[int] = set()  # slots that could not say whether they had an entry
        self._lost = LossNotes(order)
        self._copied_count = 0
        self._copied_size = 0
        self._source_error: ZbkError | None = None
        self._confirmation = CopyConfirmation(order, self._lost)
        self._sample_requests: dict[int, int] = {}  # entry id, by request
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """True after ``CopyEnded``."""
        return self._is_over

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Handle one event; return the effects. After the end, events are ignored."""
        if self._is_over:
            return []
        effects: list[Effect] = []
        match event:
            case CopyStarted():
                assert not self._next_request_id, "a copy starts once"
            case CopyStopped():
                effects += self._end(is_stopped=True)
            case ReadAnswered(request_id, body) if request_id in self._sample_requests:
                effects += self._on_sample(request_id, body)
            case ReadAnswered(request_id, body):
                effects += self._on_read(request_id, body, now_ms)
            case AddAnswered(request_id, error):
                effects += self._on_added(request_id, error)
            case HoldingsAnswered(held):
                effects += self._on_holdings(held)
            case _:
                assert_never(event)
        effects += self._proceed(now_ms)
        self._check()
        return effects

    # ------------------------------------------------------------------ read

    def _proceed(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        is_confirming = self._confirmation.is_begun
        read_count_max = 0 if is_confirming or self._is_over else self._limits.read_count_max
        while len(self._chunks) < read_count_max:
            chunk = self._next_chunk()
            if chunk is None:
                break
            self._chunks.append(chunk)
            self._begin_read(chunk, now_ms)
        effects += self._send_reads()
        if not (self._chunks or self._adds or is_confirming or self._is_over):
            effects += self._confirm()
        return effects

    def _send_reads(self) -> Iterator[SendRead]:
        """Yield the reads for whose answers there is room; one, if nothing else is under way."""
        while self._outbox and not self._is_over:
            if (self._sent_reads or self._adds) and self._waiting_size() > self._limits.window_size:
                return
            wanted = self._outbox.popleft()
            if self._reads[wanted.request_id].is_stale:
                del self._reads[wanted.request_id]
                continue
            self._sent_reads.add(wanted.request_id)
            yield wanted

    def _waiting_size(self) -> int:
        """Return the bytes in memory, with the answers under way and one more."""
        kept_size = sum(batch.size for batch in self._adds.values())
        kept_size += sum(batch.size for chunk in self._chunks for batch in chunk.batches)
        return kept_size + (len(self._sent_reads) + 1) * self._limits.read_size

    def _next_chunk(self) -> _Chunk | None:
        ids = self._leftover or next(self._ids, ())
        if not ids:
            return None
        count = self._chunk_count
        self._leftover = ids[count:]
        return _Chunk(ids[:count])

    def _begin_read(self, chunk: _Chunk, now_ms: int) -> None:
        metadata = self._order.metadata
        sources = self._order.sources
        first = self._rotation % len(sources)
        self._rotation += 1
        slots = (*sources[first:], *sources[:first])
        late = self._unreachable | self._in_limbo
        slots = tuple(sorted(slots, key=lambda slot: slot in late))
        ids = chunk.entry_ids[chunk.position :]
        if self._digest is None:
            chunk.core = ComparedRead(metadata, ids, sources=slots)
        else:
            chunk.core = RangeRead(
                metadata, ids[0], ids[-1], digest=self._digest, slot_order=slots, entry_ids=ids
            )
        self._feed(chunk, reader.ReadStarted(), now_ms)

    def _feed(self, chunk: _Chunk, event: reader.Event, now_ms: int) -> None:
        assert chunk.core is not None, "it was begun"
        for wanted in chunk.core.handle(event, now_ms):
            match wanted:
                case reader.SendRead(slot, entry_ids, read_id, is_checked):
                    request_id = self._request_id()
                    self._reads[request_id] = _Read(chunk, chunk.core, slot, read_id)
                    bookie_id = self._order.fragment.bookies[slot]
                    self._outbox.append(SendRead(request_id, bookie_id, entry_ids, is_checked))
                case reader.Delivered(batch):
                    chunk.batches.append(batch)
                case reader.ReadFailed(error):
                    chunk.error = error
                case _:
                    assert_never(wanted)

    def _on_read(self, request_id: int, body: bytes | ZbkError, now_ms: int) -> list[Effect]:
        read = self._reads.pop(request_id)
        self._sent_reads.discard(request_id)
        if isinstance(body, UnknownLedgerStateError):
            self._in_limbo.add(read.slot)
        elif isinstance(body, ZbkError) and not proves_loss(body):
            self._unreachable.add(read.slot)
        if not read.is_stale:
            self._feed(read.chunk, reader.ReadAnswered(read.slot, read.read_id, body), now_ms)
        return self._drain(now_ms)

    def _drain(self, now_ms: int) -> list[Effect]:
        """Handle what was read, in the order of the ids."""
        effects: list[Effect] = []
        while self._chunks and not self._is_over:
            chunk = self._chunks[0]
            while chunk.batches:
                batch = chunk.batches.popleft()
                chunk.position += len(batch)
                effects += self._add(batch)
            if chunk.error is not None:
                error, chunk.error = chunk.error, None
                effects += self._miss(chunk, error, now_ms)
            if chunk.position < len(chunk.entry_ids):
                break
            self._chunks.popleft()
        return effects

    def _miss(self, chunk: _Chunk, error: ZbkError, now_ms: int) -> list[Effect]:
        """Leave out an entry that could not be read, and continue with the next one."""
        entry_id = chunk.entry_ids[chunk.position]
        chunk.position += 1
        holders = self._order.metadata.quorum.write_set(entry_id)
        if proves_loss(error) and not self._unreachable.intersection(holders):
            self._lost.note(entry_id, _DAMAGED if isinstance(error, DamageError) else _ABSENT)
        elif self._source_error is None:
            self._source_error = error
        if self._source_error is not None:  # the whole copy is tried again
            return self._end()
        if chunk.position < len(chunk.entry_ids):
            self._begin_read(chunk, now_ms)
        return []

    # ------------------------------------------------------------------ add

    def _add(self, batch: ReadBatch) -> list[Effect]:
        if self._lost.found and self._order.is_move:
            return []
        sizes = list(batch.sizes)
        mean_size = max(1, sum(sizes) // len(sizes))
        count = self._limits.read_size // mean_size
        self._chunk_count = max(1, min(self._limits.chunk_count_max, count))
        return [self._send_add(part) for part in self._cut(batch, sizes)]

    def _cut(self, batch: ReadBatch, sizes: Sequence[int]) -> Iterator[ReadBatch]:
        start = size = 0
        for index, entry_size in enumerate(sizes):
            is_full = size + entry_size > self._limits.batch_size_max
            if index > start and (is_full or index - start == self._limits.batch_count_max):
                yield batch.part(start, index)
                start, size = index, 0
            size += entry_size
        yield batch.part(start, len(sizes))

    def _send_add(self, part: ReadBatch) -> SendAdd:
        ids = part.entry_ids
        if not isinstance(ids, range):
            is_in_a_row = ids[-1] - ids[0] + 1 == len(ids)
            ids = range(ids[0], ids[-1] + 1) if is_in_a_row else array("q", ids)
        sizes = array("I", part.sizes)
        batch = EntryBatch.of(part.ledger_id, ids, sizes, part.encoded)
        request_id = self._request_id()
        self._adds[request_id] = batch
        return SendAdd(request_id, self._order.target, batch, self._order.lac)

    def _on_added(self, request_id: int, error: ZbkError | None) -> list[Effect]:
        if error is not None:
            return self._end(target_error=error)
        batch = self._adds.pop(request_id)
        self._copied_count += batch.count
        self._copied_size += batch.size
        self._confirmation.note_copied(batch)
        return [CopyAdvanced(batch.count, batch.size)]

    # ------------------------------------------------------------------ confirm

    def _confirm(self) -> list[Effect]:
        question = self._confirmation.begin()
        if not self._copied_count or (self._lost.found and self._order.is_move):
            return self._end()
        return [question]

    def _on_holdings(self, held: Holdings | ZbkError) -> list[Effect]:
        if isinstance(held, ZbkError):
            return self._end(target_error=held)
        question = self._confirmation.on_holdings(held)
        if question is not None:
            return [question]
        absence = self._confirmation.absence()
        if absence is not None:
            return self._end(target_error=absence)
        effects: list[Effect] = []
        for entry_id in self._confirmation.sample_ids:
            request_id = self._request_id()
            self._sample_requests[request_id] = entry_id
            ids = range(entry_id, entry_id + 1)
            effects.append(SendRead(request_id, self._order.target, ids))
        return effects

    def _on_sample(self, request_id: int, body: bytes | ZbkError) -> list[Effect]:
        entry_id = self._sample_requests.pop(request_id)
        error = self._confirmation.on_sample(entry_id, body)
        if error is not None or not self._sample_requests:
            return self._end(target_error=error)
        return []

    # ------------------------------------------------------------------ private

    def _end(
        self, *, target_error: ZbkError | None = None, is_stopped: bool = False
    ) -> list[Effect]:
        self._is_over = True
        result = CopyResult(
            copied_count=self._copied_count,
            copied_size=self._copied_size,
            lost=self._lost.found,
            source_error=self._source_error,
            target_error=target_error,
            is_stopped=is_stopped,
        )
        return [CopyEnded(result)]

    def _request_id(self) -> int:
        self._next_request_id += 1
        return self._next_request_id

    def _check(self) -> None:
        if self._is_over:
            return
        is_confirming = self._confirmation.is_begun
        assert self._reads or self._adds or is_confirming, "an answer is awaited"
        assert len(self._chunks) <= self._limits.read_count_max
