"""Carries out ``read.confirmed_read``: a reader's looks at how far its ledger is confirmed.

A look runs in the thread of its caller. The metadata are read by a metadata actor of the client, at
most one read of a reader at a time: one that gets no answer goes on after the look, and what comes
of it is known to the next one.
"""

import queue
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias, assert_never

import msgspec

from zbk.client.cluster.ledger_calls import LedgerRequests
from zbk.client.cluster.requests import Requests
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
    LacRefused,
    MetadataRead,
    TimeIsOver,
    is_older,
)
from zbk.system.clock import monotonic_ms, monotonic_s
from zbk.system.deadline import left_s, rounded_s
from zbk.transport.events import News, Reply
from zbk.wire.messages import LacAnswer

WAIT_S_MAX: Final = 1.0
"""How long a look sleeps before it looks whether its client is still there."""

MetadataOutcome: TypeAlias = LedgerMetadata | ZbkError


class LookSetup(msgspec.Struct, frozen=True):
    """Everything the looks of a reader stand on."""

    ledger_key: bytes
    requests: Requests
    read_metadata: Callable[[Callable[[MetadataOutcome], None]], None]  # later, in another thread
    check_usable: Callable[[], None]


class _Ask(msgspec.Struct, frozen=True):
    """The key of a request: the look that it belongs to, and what was asked for."""

    look_id: int
    effect: AskLac


class ConfirmedLook:
    """The looks of one reader, one at a time."""

    def __init__(self, setup: LookSetup) -> None:
        self._setup = setup
        self._items: queue.SimpleQueue[Reply | MetadataRead] = queue.SimpleQueue()
        self._look_id = 0
        self._is_reading = False  # the metadata, on behalf of this look or an earlier one
        self._is_store_silent = False

    def deliver(self, news: list[News]) -> None:
        """Handle the replies of bookies."""
        for one in news:
            if isinstance(one, Reply):
                self._items.put(one)

    def run(
        self, metadata: LedgerMetadata, floor: int, timeout_s: float
    ) -> tuple[LedgerMetadata, int]:
        """Return how far an open ledger is confirmed, and the newest metadata heard of.

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
        """Handle what came after the last look; return the newest metadata."""
        with suppress(queue.Empty):
            while True:
                item = self._items.get_nowait()
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
            self._setup.read_metadata(lambda outcome: self._items.put(MetadataRead(outcome)))
        while True:
            for effect in effects:
                lac = self._carry_out(effect, core.metadata)
                if lac is not None:
                    return lac
            self._setup.check_usable()
            event = self._next(core, deadline_s, timeout_s)
            effects = core.handle(event, monotonic_ms()) if event is not None else []

    def _next(self, core: ConfirmedRead, deadline_s: float, timeout_s: float) -> Event | None:
        """Return what comes next; ``None``: nothing that counts."""
        wait_s = min(WAIT_S_MAX, max(0.0, deadline_s - monotonic_s()))
        if core.due_ms is not None:
            wait_s = min(wait_s, max(0.0, (core.due_ms - monotonic_ms()) / 1000))
        try:
            item = self._items.get(timeout=wait_s)
        except queue.Empty:
            if monotonic_s() >= deadline_s:
                what = f"LAC of ledger {core.metadata.ledger_id}"
                return TimeIsOver(RequestTimeoutError(what, rounded_s(timeout_s)))
            return ConfirmedReadTicked()
        if isinstance(item, MetadataRead):
            self._is_reading = False
            return item
        assert isinstance(item.key, _Ask), "each request has one"
        return _event_of(item.key.effect, item) if item.key.look_id == self._look_id else None

    def _carry_out(self, effect: Effect, metadata: LedgerMetadata) -> int | None:
        match effect:
            case AskLac():
                built = LedgerRequests.of(metadata, self._setup.ledger_key).read_lac()
                key = _Ask(self._look_id, effect)
                self._setup.requests.send(effect.bookie_id, *built, self, key)
                return None
            case Confirmed():
                return effect.lac
            case ConfirmedReadFailed():
                raise effect.error
            case _:
                assert_never(effect)


def _event_of(asked: AskLac, reply: Reply) -> LacAnswered | LacRefused:
    match reply.outcome:
        case LacAnswer(lac=lac):
            return LacAnswered(asked.round_id, asked.slot, lac)
        case _:
            return LacRefused(asked.round_id, asked.slot, reply.error)
