"""Requests to bookies about one ledger: built, sent, and their answers checked.

    LedgerRequests    builds the header and the frames of each request for one ledger
    LedgerContext      the requests of a ledger with the sender, the digest and the options
    answer_of         checks the kind of an answer; ``body_of``, that of a read
    LedgerCalls       sends a request and waits for the answer

A ``BuiltRequest`` is unpacked where it is sent: ``requests.send(bookie_id, *built, box, key)``. A
caller with several requests under way builds and sends them itself and checks each ``Reply``; a
caller that does one thing at a time uses ``LedgerCalls``. Any thread.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Self, TypeAlias

import msgspec

from zbk.client.cluster.requests import Requests, answer_of
from zbk.config import ClientConfig
from zbk.errors import UnavailableError, ZbkError
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.spans import Span
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.stripe import Stripe
from zbk.protocol.repair.holdings import HeldPages, Holdings
from zbk.transport.events import Reply
from zbk.wire.codec import encode_batch, encode_ids
from zbk.wire.messages import (
    Add,
    GetLedgerInfo,
    LacAnswer,
    LedgerInfo,
    Read,
    ReadAnswer,
    ReadLac,
    Request,
    Sync,
    WriteLac,
)

if TYPE_CHECKING:
    from zbk.tracing.client_spans import ClientSpans
    from zbk.tracing.span import GuardedSpan

BuiltRequest: TypeAlias = tuple[Request, tuple[bytes, ...]]
"""A request and its frames."""

_UNSENT: Final = 0  # the request id until the connection fills it in


class LedgerRequests(msgspec.Struct, frozen=True):
    """Builds the requests for one ledger."""

    ledger_id: int
    ledger_type: LedgerType
    ledger_key: bytes
    traceparent: str | msgspec.UnsetType = msgspec.UNSET  # of the call; unset: it is not traced

    def traced(self, span: "GuardedSpan") -> Self:
        """Return the builder of requests that belong to a call with this span."""
        return msgspec.structs.replace(self, traceparent=span.traceparent)

    @classmethod
    def of(cls, metadata: LedgerMetadata, ledger_key: bytes) -> Self:
        """Return the builder for a ledger whose key at the bookies is ``ledger_key``."""
        return cls(metadata.ledger_id, metadata.ledger_type, ledger_key)

    def add(
        self,
        batch: EntryBatch,
        lac: int,
        *,
        is_recovery: bool = False,
        stripe: Stripe | None = None,
    ) -> BuiltRequest:
        """Return an add. A fenced ledger accepts only the adds of a recovery.

        ``stripe``: of the bookie's slot, on a striped VD ledger.
        """
        request = Add(
            request_id=_UNSENT,
            traceparent=self.traceparent,
            ledger_id=self.ledger_id,
            ledger_key=self.ledger_key,
            ledger_type=self.ledger_type,
            first_entry_id=batch.first_entry_id,
            count=batch.count,
            lac=lac,
            checksum=batch.checksum,
            is_striped=not batch.is_in_a_row,
            is_recovery=is_recovery,
            stripe=stripe or msgspec.UNSET,
        )
        return request, encode_batch(batch)

    def read(
        self,
        entry_ids: Sequence[int],
        size_max: int,
        *,
        is_fencing: bool = False,
        is_checked: bool = False,
    ) -> BuiltRequest:
        """Return a read of ascending ids: a range, or ids with holes in a frame of their own."""
        is_striped = not isinstance(entry_ids, range)
        request = Read(
            request_id=_UNSENT,
            traceparent=self.traceparent,
            ledger_id=self.ledger_id,
            ledger_key=self.ledger_key,
            ledger_type=self.ledger_type,
            first_entry_id=entry_ids[0],
            last_entry_id=entry_ids[-1],
            size_max=size_max,
            is_striped=is_striped,
            is_fencing=is_fencing,
            is_checked=is_checked,
        )
        return request, (encode_ids(entry_ids),) if is_striped else ()

    def read_lac(
        self, *, known_lac: int = NO_ENTRY, wait_ms: int = 0, is_fencing: bool = False
    ) -> BuiltRequest:
        """Return a read of the LAC; with ``wait_ms`` the bookie waits until it has risen."""
        request = ReadLac(
            request_id=_UNSENT,
            traceparent=self.traceparent,
            ledger_id=self.ledger_id,
            ledger_key=self.ledger_key,
            ledger_type=self.ledger_type,
            known_lac=known_lac,
            wait_ms=wait_ms,
            is_fencing=is_fencing,
        )
        return request, ()

    def write_lac(self, lac: int) -> BuiltRequest:
        """Return a request that writes a LAC without an entry."""
        request = WriteLac(
            request_id=_UNSENT,
            traceparent=self.traceparent,
            ledger_id=self.ledger_id,
            ledger_key=self.ledger_key,
            ledger_type=self.ledger_type,
            lac=lac,
        )
        return request, ()

    def sync(self, lac: int, stripe: Stripe | None = None) -> BuiltRequest:
        """Return a request for an fsync of everything that the bookie has of the ledger.

        ``stripe``: as in ``add``.
        """
        request = Sync(
            request_id=_UNSENT,
            traceparent=self.traceparent,
            ledger_id=self.ledger_id,
            ledger_key=self.ledger_key,
            lac=lac,
            stripe=stripe or msgspec.UNSET,
        )
        return request, ()


class LedgerContext(msgspec.Struct, frozen=True):
    """Everything that reading one ledger needs, beside its metadata."""

    requests: LedgerRequests
    sender: Requests
    digest: DigestFunction
    config: ClientConfig
    spans: "ClientSpans | None" = None  # None: calls are not traced

    def traced(self, span: "GuardedSpan | None") -> Self:
        """Return the context of a call with this span, if it has one."""
        if span is None:
            return self
        return msgspec.structs.replace(self, requests=self.requests.traced(span))


def info_request(
    ledger_id: int,
    first_entry_id: int = 0,
    *,
    is_at_once: bool = False,
    stripe: Stripe | None = None,
) -> BuiltRequest:
    """Return a request for the ranges that a bookie holds of a ledger. It needs no key.

    ``is_at_once`` is for an answer that is only shown: what it names need not be durable.
    ``stripe``: the slot of the bookie that ``last_add_synced`` is to be for.
    """
    request = GetLedgerInfo(
        request_id=_UNSENT,
        ledger_id=ledger_id,
        first_entry_id=first_entry_id,
        is_at_once=is_at_once,
        stripe=stripe or msgspec.UNSET,
    )
    return request, ()


def body_of(reply: Reply) -> bytes | ZbkError:
    """Return the encoded entries in the reply to a read, or the reply's error."""
    is_read = isinstance(reply.outcome, ReadAnswer) and len(reply.frames) == 1
    return reply.frames[0] if is_read else reply.error


def lac_of(reply: Reply) -> int | ZbkError:
    """Return the LAC in the reply to a read of the LAC, or the reply's error."""
    answer = answer_of(reply, LacAnswer)
    return answer if isinstance(answer, ZbkError) else answer.lac


class LedgerCalls:
    """Calls about one ledger that wait for the answer, up to the caller's deadline."""

    def __init__(self, sender: Requests, ledger_id: int) -> None:
        self._sender = sender
        self._ledger_id = ledger_id

    def info(self, bookie_id: str, first_entry_id: int = 0) -> LedgerInfo:
        """Return a bookie's state of the ledger and one page of what it holds.

        Raises:
            ZbkError: the bookie refuses, or does not answer.
        """
        request, _no_frames = info_request(self._ledger_id, first_entry_id)
        return self._sender.call(bookie_id, request, LedgerInfo)

    def holdings(
        self,
        bookie_id: str,
        span: Span,
        *,
        range_count_max: int | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Holdings:
        """Return what a bookie holds of ``span``, read page by page.

        The result is incomplete once ``range_count_max`` ranges are known. A stopped caller gets
        no result: one without progress would make it ask for ever.

        Raises:
            UnavailableError: the caller is stopped.
            ZbkError: the bookie refuses, or does not answer.
        """
        pages = HeldPages(span, range_count_max)
        while pages.next_entry_id is not None and not pages.is_full:
            if is_stopped():
                what = f"ledger {self._ledger_id}: the question of what {bookie_id} holds"
                raise UnavailableError(f"{what} was stopped")
            info = self.info(bookie_id, pages.next_entry_id)
            pages.add(info.ranges, info.next_entry_id, is_in_limbo=info.is_in_limbo)
        return pages.holdings
