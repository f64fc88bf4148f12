"""The body of one copy of entries to a bookie, around the real ``FragmentCopy``.

It does what ``zbk.auditor.copier`` does, without waiting.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from tests.simulation.kernel import Node
from tests.simulation.links import ClientPool
from zbk.auditor.copier import Secret, event_of
from zbk.client.cluster.ledger_calls import BuiltRequest, LedgerRequests, info_request
from zbk.client.cluster.requests import answer_of
from zbk.errors import ZbkError
from zbk.protocol.repair import fragment_copy_events as ev
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.fragment_copy import FragmentCopy
from zbk.protocol.repair.holdings import AskHoldings, HeldPages, Holdings
from zbk.transport.events import News, Reply
from zbk.wire.messages import LedgerInfo

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
        secret = Secret.of(order.metadata)
        self._ledger = LedgerRequests.of(order.metadata, secret.ledger_key)
        self._done = done
        self._core = FragmentCopy(order, secret.digest, COPY_LIMITS)
        self._node.after(0, self._handle, ev.CopyStarted())

    def stop(self) -> None:
        """End it early."""
        self._handle(ev.CopyStopped())

    def _handle(self, event: ev.Event) -> None:
        ledger = self._ledger
        for effect in self._core.handle(event, self._node.now_ms()):
            match effect:
                case ev.SendRead(entry_ids=ids, is_checked=is_checked):
                    size_max = COPY_LIMITS.read_size
                    self._send(effect, ledger.read(ids, size_max, is_checked=is_checked))
                case ev.SendAdd(batch=batch, lac=lac):
                    self._send(effect, ledger.add(batch, lac, is_recovery=True))
                case AskHoldings(span=(first_id, _)):
                    self._send(effect, info_request(ledger.ledger_id, first_id))
                case ev.CopyAdvanced():
                    self._node.trace(f"copied {effect.count} of L{ledger.ledger_id}")
                case ev.CopyEnded(result):
                    self._done(result)

    def _send(self, effect: ev.SendRead | ev.SendAdd | AskHoldings, built: BuiltRequest) -> None:
        request, frames = built
        frames = tuple(map(bytes, frames))
        self._pool.request(effect.bookie_id, request, frames, effect, self._on_reply)

    def _on_reply(self, news: News) -> None:
        assert isinstance(news, Reply), "each question gets a reply"
        self._handle(event_of(news))


class HoldingsBody:
    """Asks a bookie what it holds of a span, page by page; ends with one call of ``done``.

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
        self._pages = HeldPages(span)
        self._done = done
        self._ask()

    def _ask(self) -> None:
        next_id = self._pages.next_entry_id
        if next_id is None:
            self._done(self._pages.holdings)
            return
        built = info_request(self._ledger_id, next_id)
        self._pool.request(self._bookie_id, *built, None, self._on_reply)

    def _on_reply(self, news: News) -> None:
        assert isinstance(news, Reply), "a request gets a reply"
        info = answer_of(news, LedgerInfo)
        if isinstance(info, ZbkError):
            self._done(info)
            return
        self._pages.add(info.ranges, info.next_entry_id, is_in_limbo=info.is_in_limbo)
        self._ask()
