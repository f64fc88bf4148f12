"""The requests that carry out the effects of a writer's core, and the events in their replies.

Runs in the writer's actor. A reply is matched by its key: the writer, the slot, what was sent, and
the epoch of the slot.
"""

from typing import Any, Final

import msgspec

from zbk.errors import MalformedMessageError, ZbkError
from zbk.protocol.entry.entry_batch import EntryBatch, sizes_to_wire
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.write import events as core
from zbk.transport.dealer import BookiePool
from zbk.transport.events import News, Outgoing, Reply, Sink
from zbk.wire.codec import encode_ids
from zbk.wire.messages import Add, AddAnswer, LacAnswer, Sync, SyncAnswer, WriteLac

REQUEST_OVERHEAD_SIZE: Final = 512
"""Bytes of a request beside its frames: header and routing."""


# The garbage collector follows these keys: a writer that waits for an answer is part of a cycle.
class _AddKey(msgspec.Struct, frozen=True):
    writer: object
    slot: int
    first_entry_id: int
    epoch: int


class _SyncKey(msgspec.Struct, frozen=True):
    writer: object
    slot: int
    sync_id: int
    epoch: int


class _LacKey(msgspec.Struct, frozen=True):
    writer: object
    slot: int
    lac: int


class WriterRequests:
    """Sends the requests of one writer. ``bookies`` are their receivers, by slot."""

    __slots__ = (
        "_ledger_id", "_ledger_key", "_ledger_type", "_pool", "_sent", "_sink", "_timeout_ms",
        "_unsent", "_writer", "bookies",
    )  # fmt: skip

    def __init__(
        self,
        ledger_id: int,
        ledger_type: LedgerType,
        ledger_key: bytes,
        pool: BookiePool,
        sink: Sink,
        timeout_ms: int,
        *,
        writer: object,
    ) -> None:
        self.bookies: tuple[str, ...] = ()
        self._ledger_id = ledger_id
        self._ledger_type = ledger_type
        self._ledger_key = ledger_key
        self._pool = pool
        self._sink = sink
        self._timeout_ms = timeout_ms
        self._writer = writer
        self._unsent: list[Outgoing] = []
        self._sent: tuple[EntryBatch, Add, tuple[bytes, ...], int] | None = None

    def add(self, effect: core.SendAdd) -> None:
        """Make the request that sends a batch; ``flush`` sends it."""
        batch, slot = effect.batch, effect.slot
        sent = self._sent
        if sent is None or sent[0] is not batch:  # one batch goes to many slots
            frames = _frames_of(batch)
            sent = (batch, self._add_of(batch, effect.lac), frames, _size_of(frames))
            self._sent = sent
        _, request, frames, size = sent
        key = _AddKey(self._writer, slot, request.first_entry_id, effect.epoch)
        self._unsent.append(
            Outgoing(self.bookies[slot], request, frames, self._sink, key, self._timeout_ms, size)
        )

    def flush(self) -> None:
        """Send the requests that ``add`` made."""
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            self._sent = None
            self._pool.request_all(unsent)

    def send_sync(self, effect: core.SendSync) -> None:
        """Request an fsync."""
        request = Sync(
            request_id=0,
            ledger_id=self._ledger_id,
            ledger_key=self._ledger_key,
            lac=effect.lac,
        )
        key = _SyncKey(self._writer, effect.slot, effect.sync_id, effect.epoch)
        self._request(effect.slot, request, key)

    def send_lac(self, effect: core.SendLac) -> None:
        """Send the LAC."""
        request = WriteLac(
            request_id=0,
            ledger_id=self._ledger_id,
            ledger_key=self._ledger_key,
            ledger_type=self._ledger_type,
            lac=effect.lac,
        )
        self._request(effect.slot, request, _LacKey(self._writer, effect.slot, effect.lac))

    def _add_of(self, batch: EntryBatch, lac: int) -> Add:
        return Add(
            request_id=0,
            ledger_id=batch.ledger_id,
            ledger_key=self._ledger_key,
            ledger_type=self._ledger_type,
            first_entry_id=batch.first_entry_id,
            count=batch.count,
            lac=lac,
            checksum=batch.checksum,
            is_striped=not isinstance(batch.entry_ids, range),
        )

    def _request(self, slot: int, request: Sync | WriteLac, key: object) -> None:
        size = REQUEST_OVERHEAD_SIZE
        self._pool.request(
            Outgoing(self.bookies[slot], request, (), self._sink, key, self._timeout_ms, size)
        )


def writer_of(news: News) -> Any:  # noqa: ANN401 - whatever was given as ``writer``
    """Return the writer that news from the connections concern."""
    key: Any = news.key
    return key.writer if isinstance(news, Reply) else key


def event_of(reply: Reply) -> core.Event:
    """Return the core's event for the outcome of a request."""
    outcome, key = reply.outcome, reply.key
    if isinstance(key, _AddKey):  # nearly all of them
        slot, first_entry_id, epoch = key.slot, key.first_entry_id, key.epoch
        if isinstance(outcome, AddAnswer):
            return core.AddAnswered(
                slot, first_entry_id, outcome.incarnation, outcome.last_add_synced, epoch
            )
        return core.AddFailed(slot, first_entry_id, _error_of(reply), epoch)
    match key:
        case _SyncKey(_, slot, sync_id, epoch):
            if isinstance(outcome, SyncAnswer):
                return core.SyncAnswered(
                    slot, sync_id, outcome.incarnation, outcome.last_add_synced, epoch
                )
            return core.SyncFailed(slot, sync_id, _error_of(reply), epoch)
        case _LacKey(_, slot, lac):
            if isinstance(outcome, LacAnswer):
                return core.LacTaken(slot, lac)
            return core.LacFailed(slot, lac, _error_of(reply))
        case _:
            raise AssertionError("a writer sends adds, syncs and LACs")


def _frames_of(batch: EntryBatch) -> tuple[bytes, ...]:
    frames = (sizes_to_wire(batch.sizes), batch.body)
    return frames if isinstance(batch.entry_ids, range) else (*frames, encode_ids(batch.entry_ids))


def _size_of(frames: tuple[bytes, ...]) -> int:
    return REQUEST_OVERHEAD_SIZE + sum(map(len, frames))


def _error_of(reply: Reply) -> ZbkError:
    if isinstance(reply.outcome, ZbkError):
        return reply.outcome
    answer = type(reply.outcome).__name__
    return MalformedMessageError(
        f"bookie {reply.bookie_id} gave an answer of another kind: {answer}"
    )
