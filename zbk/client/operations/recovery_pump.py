"""Carries out one recovery: the requests of a ``RecoveryCore``, its metadata steps, its clock.

Runs in the thread of the caller, who waits. Every decision is the core's; what is decided here is
only that a recovery which failed has succeeded after all if somebody else closed the ledger.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol, assert_never

import msgspec

from zbk.client.cluster.ledger_calls import BuiltRequest, LedgerRequests
from zbk.client.cluster.requests import ReplyBox, RequestSender
from zbk.config import ClientConfig
from zbk.errors import MetadataUnavailableError, ZbkError
from zbk.metadata.records.ledger_closing import LedgerCloser, MissingReport
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.entry.digest import DigestFunction
from zbk.protocol.ledger.changes import close_by_recovery
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.recovery.events import (
    ChooseReplacements,
    CloseRecovered,
    Effect,
    Event,
    FenceAnswered,
    FenceFailed,
    ReadAnswered,
    ReadFailed,
    RecoveryFailed,
    RecoveryLimits,
    RecoveryStarted,
    ReplacementsChosen,
    SendFence,
    SendRead,
    SendWrite,
    Tick,
    TimeIsOver,
    WriteAnswered,
    WriteFailed,
)
from zbk.protocol.recovery.recovery import RecoveryCore
from zbk.system.clock import monotonic_ms
from zbk.system.deadline import left_s
from zbk.transport.events import Reply
from zbk.wire.messages import AddAnswer, LacAnswer, ReadAnswer

TICK_MS: Final = 100


class ReplacementChooser(Protocol):
    """Knows which bookies take entries."""

    def note_failed(self, bookie_ids: Collection[str]) -> None:
        """Hear that bookies failed."""
        ...

    def replacements(
        self, ensemble: Sequence[str], failed_slots: Collection[int], *, exclude: Collection[str]
    ) -> dict[int, str]:
        """Return a new bookie for each failed slot, as many as there are."""
        ...


class RecoverySetup(msgspec.Struct, frozen=True):
    """Everything a recovery stands on."""

    metadata: LedgerMetadata  # IN_RECOVERY
    ledger_key: bytes
    digest: DigestFunction
    requests: RequestSender
    placer: ReplacementChooser
    ledgers: LedgerStore
    tasks: UnderreplicationStore
    config: ClientConfig
    check_usable: Callable[[], None]


class RecoveryPump:
    """One recovery of one ledger."""

    def __init__(self, setup: RecoverySetup) -> None:
        self._setup = setup
        self._metadata = setup.metadata
        self._core = RecoveryCore(
            setup.metadata,
            digest=setup.digest,
            limits=RecoveryLimits(
                window_size=setup.config.window_size,
                batch_size_max=setup.config.batch_size_max,
                batch_count_max=setup.config.batch_count_max,
            ),
        )
        self._ledger = LedgerRequests.of(setup.metadata, setup.ledger_key)
        self._box = ReplyBox()
        self._events: list[Event] = []
        self._closed: LedgerMetadata | None = None

    def run(self, timeout_s: float) -> LedgerMetadata:
        """Recover the ledger; return its metadata, CLOSED.

        Raises:
            LedgerRecoveryError, NotEnoughBookiesError: not now; it stays IN_RECOVERY.
            UnauthorizedError: the bookies know the ledger under another password.
        """
        deadline_ms = monotonic_ms() + int(left_s(timeout_s) * 1000)
        self._events.append(RecoveryStarted())
        while self._closed is None:
            self._setup.check_usable()
            now_ms = monotonic_ms()
            if now_ms >= deadline_ms:
                self._events.append(TimeIsOver())
            elif not self._events:
                self._wait(min(TICK_MS, deadline_ms - now_ms) / 1000)
            events, self._events = self._events, []
            for event in events:
                for effect in self._core.handle(event, monotonic_ms()):
                    self._carry_out(effect)
        return self._closed

    def _wait(self, timeout_s: float) -> None:
        reply = self._box.next(timeout_s)
        self._events.append(Tick() if reply is None else _event_of(reply))

    # ------------------------------------------------------------------ effects

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendFence():
                self._send(effect, self._ledger.read_lac(is_fencing=True))
            case SendRead(entry_ids=ids, is_checked=is_checked):
                size_max = self._setup.config.read_size_max
                built = self._ledger.read(ids, size_max, is_fencing=True, is_checked=is_checked)
                self._send(effect, built)
            case SendWrite(batch=batch, lac=lac):
                self._send(effect, self._ledger.add(batch, lac, is_recovery=True))
            case ChooseReplacements():
                self._events.append(ReplacementsChosen(self._choose(effect)))
            case CloseRecovered():
                self._closed = self._close(effect)
            case RecoveryFailed():
                self._closed = self._read_closed(effect.error)
            case _:
                assert_never(effect)

    def _send(self, effect: SendFence | SendRead | SendWrite, built: BuiltRequest) -> None:
        self._setup.requests.send(effect.bookie_id, *built, self._box, effect)

    def _choose(self, effect: ChooseReplacements) -> dict[int, str]:
        placer = self._setup.placer
        placer.note_failed(effect.exclude)
        return placer.replacements(effect.ensemble, effect.failed_slots, exclude=effect.exclude)

    def _close(self, effect: CloseRecovered) -> LedgerMetadata:
        def change(current: LedgerMetadata) -> LedgerMetadata | None:
            return close_by_recovery(current, effect.fragments, effect.last_entry_id, effect.length)

        closer = LedgerCloser(self._setup.ledgers, self._setup.tasks)
        return closer.close(self._metadata.ledger_id, change, MissingReport.unchecked)

    def _read_closed(self, error: ZbkError) -> LedgerMetadata:
        """Return the ledger if another recoverer closed it; else raise why we could not."""
        try:
            metadata, _version = self._setup.ledgers.read(self._metadata.ledger_id)
        except MetadataUnavailableError:
            raise error from None
        if not metadata.is_closed:
            raise error
        return metadata


def _event_of(reply: Reply) -> Event:
    """Return the core's event for what came of a request; its key is the effect that sent it."""
    match reply.key, reply.outcome:
        case SendFence() as sent, LacAnswer() as answer:
            return FenceAnswered(sent.slot, answer.lac)
        case SendFence() as sent, _:
            return FenceFailed(sent.slot, reply.error)
        case SendRead() as sent, ReadAnswer() if len(reply.frames) == 1:
            return ReadAnswered(sent.read_id, reply.frames[0])
        case SendRead() as sent, _:
            return ReadFailed(sent.read_id, reply.error)
        case SendWrite() as sent, AddAnswer():
            return WriteAnswered(sent.write_id)
        case SendWrite() as sent, _:
            return WriteFailed(sent.write_id, reply.error)
    raise AssertionError("a recovery sends nothing else")
