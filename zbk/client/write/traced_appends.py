"""The traced appends and syncs of one writer, and which of them a request carries.

A batch holds entries of many calls, and a request has room for one traceparent. It belongs to the
trace of the first traced append in it; the spans of the others get a link to that one. So the cost
is one span for each call and bookie, however many entries there are.

Owned by the writer's body.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import msgspec

from zbk.client.cluster.ledger_calls import LedgerRequests
from zbk.client.write.mailbox import Item
from zbk.protocol.entry.entry_batch import EntryBatch

if TYPE_CHECKING:
    from zbk.tracing.client_spans import ClientSpans
    from zbk.tracing.span import GuardedSpan


class _TracedAppend(msgspec.Struct, frozen=True):
    future: "Future[Any]"
    span: "GuardedSpan"
    first_id: int
    last_id: int


class TracedAppends:
    """Appends whose ids are known and that may be part of a request still."""

    __slots__ = ("_appends", "_spans", "_sync")

    def __init__(self, spans: "ClientSpans") -> None:
        self._spans = spans
        self._appends: list[_TracedAppend] = []
        self._sync: tuple[Future[Any], GuardedSpan] | None = None  # the last one

    def take(self, items: Sequence[Item], first_id: int) -> None:
        """Record appends that get ids from ``first_id`` on, as far as they are traced."""
        pending = self._spans.pending
        if not pending:
            return
        for future, payloads in items:
            span = pending.pop(future, None)
            if span is not None and payloads:
                last_id = first_id + len(payloads) - 1
                self._appends.append(_TracedAppend(future, span, first_id, last_id))
            first_id += len(payloads)

    def take_sync(self, future: "Future[int]") -> None:
        """Record a sync, if it is traced."""
        span = self._spans.pending.pop(future, None)
        if span is not None:
            self._sync = future, span

    def of_batch(self, requests: LedgerRequests, batch: EntryBatch) -> LedgerRequests:
        """Return the builder of the request that carries a batch."""
        if not self._appends:
            return requests
        self._appends = [one for one in self._appends if not one.future.done()]
        spans = [
            one.span
            for one in self._appends
            if one.first_id <= batch.last_entry_id and one.last_id >= batch.first_entry_id
        ]
        if not spans:
            return requests
        carrier, *others = spans
        for span in others:
            span.link(carrier)
        return requests.traced(carrier)

    def of_sync(self, requests: LedgerRequests) -> LedgerRequests:
        """Return the builder of a request for an fsync, or of the LAC that follows one."""
        if self._sync is not None and self._sync[0].done():
            self._sync = None
        return requests if self._sync is None else requests.traced(self._sync[1])
