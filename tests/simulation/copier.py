"""The body of one copy of entries to a bookie, around the real ``FragmentCopy``.

It does what ``zbk.auditor.copier`` does, without waiting.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from tests.simulation.kernel import Node
from tests.simulation.network import ClientPool
from zbk.auditor.copier import Secret
from zbk.errors import ZbkError
from zbk.protocol.repair import fragment_copy_events as ev
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.fragment_copy import FragmentCopy
from zbk.transport.events import News, Reply
from zbk.wire.codec import encode_batch, encode_ids
from zbk.wire.messages import Add, AddAnswer, GetLedgerInfo, LedgerInfo, Read, ReadAnswer

COPY_LIMITS: Final = ev.CopyLimits(
    window_size=2_000,
    read_size=600,
    read_count_max=2,
    batch_size_max=400,
    batch_count_max=3,
    chunk_count_max=6,
)
"""Small, so that a copy of some entries has all the steps of one of many."""

Done: TypeAlias = Callable[[ev.CopyResult], None]


class CopyBody:
    """One copy; ends with one call of ``done``, if its node lives then."""

    def __init__(self, node: Node, pool: ClientPool, order: CopyOrder, done: Done) -> None:
        self._node = node
        self._pool = pool
        self._metadata = order.metadata
        self._secret = Secret.of(order.metadata)
        self._done = done
        self._core = FragmentCopy(order, self._secret.digest, COPY_LIMITS)
        self._node.after(0, self._handle, ev.CopyStarted())

    def stop(self) -> None:
        """End it early."""
        self._handle(ev.CopyStopped())

    def _handle(self, event: ev.Event) -> None:
        for effect in self._core.handle(event, self._node.now_ms()):
            match effect:
                case ev.SendRead():
                    self._send_read(effect)
                case ev.SendAdd():
                    self._send_add(effect)
                case ev.AskHoldings(bookie_id, first_entry_id):
                    request = GetLedgerInfo(
                        request_id=0,
                        ledger_id=self._metadata.ledger_id,
                        first_entry_id=first_entry_id,
                    )
                    self._pool.request(bookie_id, request, (), effect, self._on_reply)
                case ev.CopyAdvanced():
                    self._node.trace(f"copied {effect.count} of L{self._metadata.ledger_id}")
                case ev.CopyEnded(result):
                    self._done(result)

    def _send_read(self, effect: ev.SendRead) -> None:
        ids = effect.entry_ids
        is_striped = not isinstance(ids, range)
        request = Read(
            request_id=0,
            ledger_id=self._metadata.ledger_id,
            ledger_key=self._secret.ledger_key,
            ledger_type=self._metadata.ledger_type,
            first_entry_id=ids[0],
            last_entry_id=ids[-1],
            size_max=COPY_LIMITS.read_size,
            is_striped=is_striped,
            is_checked=effect.is_checked,
        )
        frames = (bytes(encode_ids(ids)),) if is_striped else ()
        self._pool.request(effect.bookie_id, request, frames, effect, self._on_reply)

    def _send_add(self, effect: ev.SendAdd) -> None:
        batch = effect.batch
        request = Add(
            request_id=0,
            ledger_id=batch.ledger_id,
            ledger_key=self._secret.ledger_key,
            ledger_type=self._metadata.ledger_type,
            first_entry_id=batch.first_entry_id,
            count=batch.count,
            lac=effect.lac,
            checksum=batch.checksum,
            is_striped=not batch.is_in_a_row,
            is_recovery=True,
        )
        frames = tuple(bytes(frame) for frame in encode_batch(batch))
        self._pool.request(effect.bookie_id, request, frames, effect, self._on_reply)

    def _on_reply(self, news: News) -> None:
        assert isinstance(news, Reply), "whoever asks gets replies"
        self._handle(_event_of(news))


def _event_of(reply: Reply) -> ev.Event:
    match reply.key, reply.outcome:
        case ev.SendRead() as sent, ReadAnswer() if len(reply.frames) == 1:
            return ev.ReadAnswered(sent.request_id, reply.frames[0])
        case ev.SendRead() as sent, _:
            return ev.ReadRefused(sent.request_id, reply.error)
        case ev.SendAdd() as sent, AddAnswer():
            return ev.AddAnswered(sent.request_id)
        case ev.SendAdd() as sent, _:
            return ev.AddRefused(sent.request_id, reply.error)
        case ev.AskHoldings(), LedgerInfo() as info:
            return ev.HoldingsTold(info.ranges, info.next_entry_id)
        case ev.AskHoldings(), _:
            return ev.HoldingsRefused(reply.error)
    raise AssertionError("a copy sends nothing else")


class Holdings(msgspec.Struct, frozen=True):
    """What a bookie says that it holds."""

    ranges: tuple[tuple[int, int], ...]
    is_in_limbo: bool


class HoldingsBody:
    """Asks a bookie what it holds of a span, as often as it takes; ends with one call of ``done``.

    ``done`` gets what it holds, or the refusal.
    """

    def __init__(
        self,
        pool: ClientPool,
        bookie_id: str,
        ledger_id: int,
        span: tuple[int, int],
        done: Callable[[Holdings | ZbkError], None],
    ) -> None:
        self._pool = pool
        self._bookie_id = bookie_id
        self._ledger_id = ledger_id
        self._span = span
        self._done = done
        self._ranges: list[tuple[int, int]] = []
        self._ask(span[0])

    def _ask(self, first_entry_id: int) -> None:
        request = GetLedgerInfo(
            request_id=0, ledger_id=self._ledger_id, first_entry_id=first_entry_id
        )
        self._pool.request(self._bookie_id, request, (), None, self._on_reply)

    def _on_reply(self, news: News) -> None:
        assert isinstance(news, Reply), "whoever asks gets replies"
        info = news.outcome
        if not isinstance(info, LedgerInfo):
            self._done(news.error)
            return
        self._ranges += info.ranges
        if info.next_entry_id is not None and info.next_entry_id <= self._span[1]:
            self._ask(info.next_entry_id)
        else:
            self._done(Holdings(tuple(self._ranges), info.is_in_limbo))
