"""The requests that carry out the effects of a writer's core, and the events in their replies.

Runs in the writer's actor. A reply is matched by its key: the writer, the slot, what was sent, and
the epoch of the slot.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from zbk.client.cluster.ledger_calls import BuiltRequest, LedgerRequests
from zbk.client.cluster.requests import REQUEST_OVERHEAD_SIZE
from zbk.client.write.traced_appends import TracedAppends
from zbk.errors import MalformedMessageError, UnsupportedVersionError, ZbkError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.ledger.stripe import Stripe
from zbk.protocol.write import events as core
from zbk.protocol.write.catch_up import SendCatchUp
from zbk.transport.dealer import BookiePool
from zbk.transport.events import BookieUp, News, Outgoing, Reply, Sink
from zbk.wire.messages import STRIPE_VERSION, AddAnswer, LacAnswer, Request, SyncAnswer


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
    epoch: int


class _CatchUpKey(msgspec.Struct, frozen=True):
    writer: object
    change_id: int
    slot: int


class CatchUpAnswered(msgspec.Struct, frozen=True):
    """The outcome of one request to a bookie that catches up.

    ``None`` if it took a batch; its ``LastAddSynced`` if it has synced.
    """

    change_id: int
    slot: int
    outcome: int | ZbkError | None


class WriterRequests:
    """Sends the requests of one writer. ``bookies`` are their receivers, by slot."""

    __slots__ = (
        "_build", "_pool", "_sent", "_sink", "_stripes", "_timeout_ms", "_traced", "_unsent",
        "_writer", "bookies",
    )  # fmt: skip

    def __init__(
        self,
        build: LedgerRequests,
        pool: BookiePool,
        sink: Sink,
        timeout_ms: int,
        *,
        writer: object,
        stripes: Sequence[Stripe | None],
        traced: TracedAppends | None = None,
    ) -> None:
        """``stripes``: by slot, on a striped VD ledger."""
        self.bookies: tuple[str, ...] = ()
        self._stripes = stripes
        self._build = build
        self._pool = pool
        self._sink = sink
        self._timeout_ms = timeout_ms
        self._writer = writer
        self._unsent: list[Outgoing] = []
        self._sent: tuple[EntryBatch, Request, tuple[bytes, ...], int] | None = None
        self._traced = traced

    def add(self, effect: core.SendAdd) -> None:
        """Make the request that sends a batch; ``flush`` sends it."""
        batch, slot = effect.batch, effect.slot
        sent = self._sent
        if sent is None or sent[0] is not batch:  # one batch goes to many slots
            build, traced = self._build, self._traced
            if traced is not None:
                build = traced.of_batch(build, batch)
            request, frames = build.add(batch, effect.lac, stripe=self._stripes[slot])
            sent = self._sent = (batch, request, frames, _size_of(frames))
        _, request, frames, size = sent
        key = _AddKey(self._writer, slot, batch.first_entry_id, effect.epoch)
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
        key = _SyncKey(self._writer, effect.slot, effect.sync_id, effect.epoch)
        built = self._build_of_sync.sync(effect.lac, self._stripes[effect.slot])
        self._request(effect.slot, built, key)

    def send_lac(self, effect: core.SendLac) -> None:
        """Send the LAC."""
        key = _LacKey(self._writer, effect.slot, effect.lac, effect.epoch)
        self._request(effect.slot, self._build_of_sync.write_lac(effect.lac), key)

    def catch_up(self, send: SendCatchUp, change_id: int) -> None:
        """Send a new bookie what it needs before the metadata name it."""
        key = _CatchUpKey(self._writer, change_id, send.slot)
        stripe = self._stripes[send.slot]
        built = [self._build.add(batch, send.lac, stripe=stripe) for batch in send.batches]
        built.append(self._build.sync(send.lac, stripe))
        self._pool.request_all(
            [
                Outgoing(
                    send.bookie_id, request, frames, self._sink, key, self._timeout_ms,
                    _size_of(frames),
                )
                for request, frames in built
            ]
        )  # fmt: skip

    @property
    def _build_of_sync(self) -> LedgerRequests:
        return self._build if self._traced is None else self._traced.of_sync(self._build)

    def _request(self, slot: int, built: BuiltRequest, key: object) -> None:
        request, frames = built
        size = _size_of(frames)
        self._pool.request(
            Outgoing(self.bookies[slot], request, frames, self._sink, key, self._timeout_ms, size)
        )


def without_stripes(bookie: BookieUp) -> UnsupportedVersionError:
    """Return why a bookie of an older release cannot be in the ensemble of a striped VD ledger."""
    return UnsupportedVersionError(
        f"bookie {bookie.bookie_id} speaks version {bookie.version} of the protocol; a striped VD "
        f"ledger needs version {STRIPE_VERSION}: install a newer release on that bookie"
    )


def writer_of(news: News) -> Any:  # noqa: ANN401 - whatever was given as ``writer``
    """Return the writer that news from the connections concern."""
    key: Any = news.key
    return key.writer if isinstance(news, Reply) else key


def event_of(  # noqa: PLR0911 - one for each kind of answer
    reply: Reply,
) -> core.Event | CatchUpAnswered:
    """Return the core's event for the outcome of a request, or that of a bookie that catches up."""
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
        case _LacKey(_, slot, lac, epoch):
            if isinstance(outcome, LacAnswer):
                return core.LacTaken(slot, lac, epoch)
            return core.LacFailed(slot, lac, _error_of(reply), epoch)
        case _CatchUpKey(_, change_id, slot):
            return CatchUpAnswered(change_id, slot, _caught_up(reply))
        case _:
            raise AssertionError("a writer sends adds, syncs and LACs")


def _caught_up(reply: Reply) -> int | ZbkError | None:
    match reply.outcome:
        case AddAnswer():
            return None
        case SyncAnswer() as answer:
            return answer.last_add_synced
        case _:
            return _error_of(reply)


def _size_of(frames: tuple[bytes, ...]) -> int:
    return REQUEST_OVERHEAD_SIZE + sum(map(len, frames))


def _error_of(reply: Reply) -> ZbkError:
    if isinstance(reply.outcome, ZbkError):
        return reply.outcome
    answer = type(reply.outcome).__name__
    return MalformedMessageError(
        f"bookie {reply.bookie_id} gave an answer of another kind: {answer}"
    )
