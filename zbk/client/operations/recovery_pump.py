"""The body of one recovery: requests of a ``RecoveryCore``, its metadata changes, its clock.

Runs in the caller's thread. The core decides everything except one case: a recovery that failed
succeeds after all if another client has closed the ledger.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol, assert_never

import msgspec

from zbk.client.cluster.ledger_calls import (
    BuiltRequest,
    LedgerContext,
    LedgerRequests,
    body_of,
    lac_of,
)
from zbk.client.cluster.requests import ReplyBox, answer_of
from zbk.errors import MetadataUnavailableError, ZbkError
from zbk.metadata.records.ledger_closing import LedgerCloser, MissingReport
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.ledger.changes import close_by_recovery
from zbk.protocol.ledger.features import needs_of
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.recovery.events import (
    ChooseReplacements,
    CloseRecovered,
    Effect,
    Event,
    FenceAnswered,
    ReadAnswered,
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
)
from zbk.protocol.recovery.recovery import RecoveryCore
from zbk.system.clock import monotonic_ms
from zbk.system.deadline import left_s
from zbk.transport.events import Reply
from zbk.wire.messages import AddAnswer

TICK_MS: Final = 100


class ReplacementChooser(Protocol):
    """The bookies that accept new entries."""

    def note_failed(self, bookie_ids: Collection[str]) -> None:
        """Record that bookies failed."""
        ...

    def replacements(
        self,
        ensemble: Sequence[str],
        failed_slots: Collection[int],
        *,
        exclude: Collection[str],
        needs: Collection[str],
    ) -> dict[int, str]:
        """Return a new bookie, with these features, for each failed slot, if there are any."""
        ...


class RecoverySetup(msgspec.Struct, frozen=True):
    """The parts that a recovery works with."""

    metadata: LedgerMetadata  # IN_RECOVERY
    context: LedgerContext
    placer: ReplacementChooser
    ledgers: LedgerStore
    tasks: UnderreplicationStore
    check_usable: Callable[[], None]


class RecoveryPump:
    """One recovery of one ledger."""

    def __init__(self, setup: RecoverySetup) -> None:
        self._setup = setup
        self._context = setup.context
        self._metadata = setup.metadata
        self._core = RecoveryCore(
            setup.metadata,
            digest=setup.context.digest,
            limits=RecoveryLimits(
                window_size=setup.context.config.window_size,
                batch_size_max=setup.context.config.batch_size_max,
                batch_count_max=setup.context.config.batch_count_max,
            ),
        )
        self._box = ReplyBox()
        self._events: list[Event] = []
        self._closed: LedgerMetadata | None = None

    def run(self, timeout_s: float) -> LedgerMetadata:
        """Recover the ledger; return the metadata of the CLOSED ledger.

        Raises:
            LedgerRecoveryError, NotEnoughBookiesError: the ledger stays IN_RECOVERY; try again.
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
                reply = self._box.next(min(TICK_MS, deadline_ms - now_ms) / 1000)
                self._events.append(Tick() if reply is None else event_of(reply))
            events, self._events = self._events, []
            for event in events:
                for effect in self._core.handle(event, monotonic_ms()):
                    self._carry_out(effect)
        return self._closed

    # ------------------------------------------------------------------ effects

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendFence() | SendRead() | SendWrite():
                context = self._context
                built = request_of(effect, context.requests, context.config.read_size_max)
                context.sender.send(effect.bookie_id, *built, self._box, effect)
            case ChooseReplacements():
                placer = self._setup.placer
                placer.note_failed(effect.exclude)
                chosen = placer.replacements(
                    effect.ensemble,
                    effect.failed_slots,
                    exclude=effect.exclude,
                    needs=needs_of(self._metadata),
                )
                self._events.append(ReplacementsChosen(chosen))
            case CloseRecovered():
                self._closed = self._close(effect)
            case RecoveryFailed():
                self._closed = self._read_closed(effect.error)
            case _:
                assert_never(effect)

    def _close(self, effect: CloseRecovered) -> LedgerMetadata:
        def change(current: LedgerMetadata) -> LedgerMetadata | None:
            return close_by_recovery(current, effect.fragments, effect.last_entry_id, effect.length)

        closer = LedgerCloser(self._setup.ledgers, self._setup.tasks)
        return closer.close(self._metadata.ledger_id, change, MissingReport.unchecked)

    def _read_closed(self, error: ZbkError) -> LedgerMetadata:
        """Return the metadata if another client closed the ledger; else raise ``error``."""
        try:
            metadata, _version = self._setup.ledgers.read(self._metadata.ledger_id)
        except MetadataUnavailableError:
            raise error from None
        if not metadata.is_closed:
            raise error
        return metadata


def request_of(
    effect: SendFence | SendRead | SendWrite, ledger: LedgerRequests, read_size_max: int
) -> BuiltRequest:
    """Return the request of an effect."""
    match effect:
        case SendFence():
            return ledger.read_lac(is_fencing=True)
        case SendRead(entry_ids=ids, is_checked=is_checked):
            return ledger.read(ids, read_size_max, is_fencing=True, is_checked=is_checked)
        case SendWrite(batch=batch, lac=lac):
            return ledger.add(batch, lac, is_recovery=True)
        case _:
            assert_never(effect)


def event_of(reply: Reply) -> Event:
    """Return the event of a reply, whose key is the effect that sent the request."""
    match reply.key:
        case SendFence(slot):
            return FenceAnswered(slot, lac_of(reply))
        case SendRead(read_id):
            return ReadAnswered(read_id, body_of(reply))
        case SendWrite(write_id):
            added = answer_of(reply, AddAnswer)
            return WriteAnswered(write_id, added if isinstance(added, ZbkError) else None)
    raise AssertionError("a recovery sends nothing else")
