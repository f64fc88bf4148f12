"""A reader's looks at how far its ledger is confirmed: the body of ``read.confirmed_read``.

A look runs in the caller's thread. A metadata actor of the client reads the metadata, at most one
read of a reader at a time. A read that gets no answer in time continues after the look, and its
outcome counts for the next one.
"""

from collections.abc import Callable
from typing import Final, assert_never

import msgspec

from zbk.client.arrivals import Arrivals, pause_s
from zbk.client.cluster.ledger_calls import LedgerContext, lac_of
from zbk.client.read.metadata_source import MetadataSource
from zbk.errors import RequestTimeoutError, ZbkError
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read.confirmed_read import (
    AskLac,
    Confirmed,
    ConfirmedRead,
    ConfirmedReadFailed,
    ConfirmedReadStarted,
    ConfirmedReadTicked,
    Effect,
    Event,
    LacAnswered,
    MetadataRead,
    TimeIsOver,
    is_older,
)
from zbk.system.clock import monotonic_ms, monotonic_s
from zbk.system.deadline import left_s, rounded_s
from zbk.transport.events import News, Reply

WAIT_S_MAX: Final = 1.0
"""The longest wait before a look checks that its client is still open."""


class _RequestKey(msgspec.Struct, frozen=True):
    """The look that a request belongs to, and the effect that asked for it."""

    look_id: int
    effect: AskLac


class ConfirmedLook:
    """The looks of one reader, one at a time."""

    def __init__(
        self, context: LedgerContext, source: MetadataSource, check_usable: Callable[[], None]
    ) -> None:
        self._context = context
        self._source = source
        self._check_usable = check_usable
        self._items = Arrivals[Reply | MetadataRead]()
        self._look_id = 0
        self._is_reading = False  # the metadata, for this look or an earlier one
        self._is_store_silent = False

    def deliver(self, news: list[News]) -> None:
        """Handle the replies of bookies."""
        for one in news:
            if isinstance(one, Reply):
                self._items.put(one)

    def run(
        self, metadata: LedgerMetadata, floor: int, timeout_s: float
    ) -> tuple[LedgerMetadata, int]:
        """Return the newest metadata and how far the ledger is confirmed, at least ``floor``.

        Raises:
            NotEnoughBookiesError: too few bookies answered.
            NoSuchLedgerError: the ledger was deleted.
            RequestTimeoutError: the answers did not come in time.
        """
        metadata = self._take_late(metadata)
        if metadata.last_entry_id is not None:
            return metadata, metadata.last_entry_id
        core = ConfirmedRead(metadata, floor)
        try:
            lac = self._run(core, left_s(timeout_s))
        finally:
            self._is_store_silent = core.is_store_silent
        return core.metadata, lac

    def _take_late(self, metadata: LedgerMetadata) -> LedgerMetadata:
        """Handle items that came after the last look; return the newest metadata."""
        for item in self._items.take_all():
            if isinstance(item, MetadataRead):
                self._is_reading = False
                found = item.outcome
                if isinstance(found, LedgerMetadata):
                    self._is_store_silent = False
                    metadata = metadata if is_older(found, metadata) else found
        return metadata

    def _run(self, core: ConfirmedRead, timeout_s: float) -> int:
        deadline_s = monotonic_s() + timeout_s
        self._look_id += 1
        start = ConfirmedReadStarted(is_store_silent=self._is_store_silent or self._is_reading)
        effects = core.handle(start, monotonic_ms())
        if not self._is_reading:
            self._is_reading = True
            self._source.read_later(self._on_metadata, is_fresh=True)
        while True:
            for effect in effects:
                lac = self._carry_out(effect)
                if lac is not None:
                    return lac
            self._check_usable()
            event = self._next(core, deadline_s, timeout_s)
            effects = core.handle(event, monotonic_ms()) if event is not None else []

    def _on_metadata(self, outcome: tuple[LedgerMetadata, int] | ZbkError) -> None:
        self._items.put(MetadataRead(outcome if isinstance(outcome, ZbkError) else outcome[0]))

    def _next(self, core: ConfirmedRead, deadline_s: float, timeout_s: float) -> Event | None:
        """Return the next event; ``None`` for the reply to an earlier look."""
        item = self._items.next(pause_s(WAIT_S_MAX, deadline_s, core.due_ms))
        if item is None:
            if monotonic_s() >= deadline_s:
                what = f"LAC of ledger {core.metadata.ledger_id}"
                return TimeIsOver(RequestTimeoutError(what, rounded_s(timeout_s)))
            return ConfirmedReadTicked()
        if isinstance(item, MetadataRead):
            self._is_reading = False
            return item
        assert isinstance(item.key, _RequestKey), "each request has one"
        if item.key.look_id != self._look_id:
            return None
        effect = item.key.effect
        return LacAnswered(effect.round_id, effect.slot, lac_of(item))

    def _carry_out(self, effect: Effect) -> int | None:
        match effect:
            case AskLac():
                built = self._context.requests.read_lac()
                key = _RequestKey(self._look_id, effect)
                self._context.sender.send(effect.bookie_id, *built, self, key)
                return None
            case Confirmed():
                return effect.lac
            case ConfirmedReadFailed():
                raise effect.error
            case _:
                assert_never(effect)
