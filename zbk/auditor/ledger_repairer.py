"""Carries out the repair of one ledger: looks, waits, copies, changes the metadata, recovers.

Runs in the thread of the caller, who waits; ``is_stopped`` ends it early, whatever it does but a
recovery, which ends by its own time-out. Every decision is ``zbk.protocol.repair.ledger_repair``'s.

With a lock, the metadata are changed only while the metadata store says that the lock is still
ours. That is a courtesy: safe is the change by itself, by compare-and-swap.
"""

import threading
from collections.abc import Callable
from typing import Final, TypeAlias, assert_never

from zbk.auditor.copier import Copier, Secret
from zbk.auditor.copy_target import TargetPolicy
from zbk.auditor.repair_parts import RepairGround
from zbk.client.cluster.ledger_calls import LedgerCalls
from zbk.client.operations.recovery_pump import RecoveryPump, RecoverySetup
from zbk.errors import (
    ClientClosedError,
    MetadataConflictError,
    NoSuchLedgerError,
    UnauthorizedError,
    ZbkError,
)
from zbk.protocol.entry.digest import digest_function, is_same_secret, password_digest
from zbk.protocol.entry.spans import Span
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.changes import begin_recovery_of, cut_fragment, replace_bookie
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.ledger_repair import LedgerRepair
from zbk.protocol.repair.ledger_repair_events import (
    AskHoldings,
    BookieReplaced,
    ChooseTarget,
    CopyFragment,
    CutFragment,
    EndRepair,
    Event,
    FragmentCopied,
    FragmentCut,
    HoldingsFailed,
    HoldingsTold,
    LedgerGone,
    LedgerRecovered,
    LedgerSeen,
    LookAtLedger,
    LookFailed,
    RecoverLedger,
    RecoveryFailed,
    RepairAim,
    RepairLimits,
    RepairResult,
    RepairStarted,
    RepairStopped,
    ReplaceBookie,
    ReplaceFailed,
    TimePassed,
    WaitUntil,
)
from zbk.system.clock import monotonic_ms

RECOVERY_TIMEOUT_S: Final = 60.0

HELD_RANGE_COUNT_MAX: Final = 16_384
"""Ranges that a bookie holds of a ledger that are in memory; a page more may be."""

Question: TypeAlias = (
    LookAtLedger
    | AskHoldings
    | ChooseTarget
    | CopyFragment
    | ReplaceBookie
    | CutFragment
    | RecoverLedger
)
"""What is answered by doing it."""


class RepairWatcher:
    """Hears how a repair goes. This one does not care; others override what they want to know."""

    def copy_begun(self, order: CopyOrder) -> None:
        """Hear that entries are going to be copied."""

    def copied(self, entry_count: int, size: int) -> None:
        """Hear that so many more are fsynced by their target."""

    def replaced(self, first_entry_id: int, old: str, new: str) -> None:
        """Hear that a bookie took another one's place in the metadata."""


class LedgerRepairer:
    """One repair of one ledger."""

    def __init__(
        self,
        ground: RepairGround,
        aim: RepairAim,
        *,
        copier: Copier,
        targets: TargetPolicy,
        limits: RepairLimits,
        password: bytes | None = None,
        watcher: RepairWatcher | None = None,
        holds_lock: Callable[[], bool] = lambda: True,
        is_stopped: threading.Event | None = None,
    ) -> None:
        assert aim.has_password == (password is not None), "the rules know what we know"
        self._ground = ground
        self._ledger_id = aim.ledger_id
        self._core = LedgerRepair(aim, limits)
        self._copier = copier
        self._targets = targets
        self._password = password
        self._watcher = watcher or RepairWatcher()
        self._holds_lock = holds_lock
        self._is_stopped = is_stopped or threading.Event()
        self._next_event: Event = RepairStarted()
        self._result: RepairResult | None = None

    def run(self) -> RepairResult:
        """Repair the ledger as far as possible; return what came of it."""
        while (until_ms := self.advance()) is not None:
            self._is_stopped.wait(max(0, until_ms - monotonic_ms()) / 1000)
        return self.result

    @property
    def result(self) -> RepairResult:
        """What came of it, once it has ended."""
        assert self._result is not None, "it has not ended"
        return self._result

    def advance(self) -> int | None:
        """Go on until there is nothing to do but wait; return until when, or ``None`` at the end.

        Call it again then, also if ``is_stopped`` was set meanwhile.
        """
        event, self._next_event = self._next_event, TimePassed()
        while True:
            if self._is_stopped.is_set():
                event = RepairStopped()
            (effect,) = self._core.handle(event, monotonic_ms())
            if isinstance(effect, EndRepair):
                self._result = effect.result
                return None
            if isinstance(effect, WaitUntil):
                return effect.until_ms
            event = self._carry_out(effect)

    def _carry_out(self, effect: Question) -> Event:  # noqa: PLR0911 - a case an effect
        match effect:
            case LookAtLedger():
                return self._look()
            case AskHoldings(bookie_id, span):
                return self._ask_holdings(bookie_id, span)
            case ChooseTarget():
                return self._targets.choose(effect)
            case CopyFragment(order):
                return self._copy(order)
            case ReplaceBookie():
                return self._replace(effect)
            case CutFragment():
                return self._cut(effect)
            case RecoverLedger(fragment):
                return self._recover(fragment)
            case _:
                assert_never(effect)

    def _look(self) -> Event:
        try:
            metadata, _version = self._ground.ledgers.read(self._ledger_id, is_fresh=True)
            self._check_password(metadata)
        except NoSuchLedgerError:
            return LedgerGone()
        except ZbkError as error:
            return LookFailed(error)
        return LedgerSeen(metadata, self._ground.registered())

    def _ask_holdings(self, bookie_id: str, span: Span) -> Event:
        calls = LedgerCalls(self._ground.requests, self._ledger_id)
        try:
            held = calls.holdings(
                bookie_id,
                span,
                range_count_max=HELD_RANGE_COUNT_MAX,
                is_stopped=self._is_stopped.is_set,
            )
        except ZbkError as error:
            return HoldingsFailed(error)
        return HoldingsTold(held.ranges, held.last_entry_id, held.is_in_limbo)

    def _copy(self, order: CopyOrder) -> Event:
        self._watcher.copy_begun(order)
        result = self._copier.copy(
            order,
            Secret.of(order.metadata, self._password),
            on_progress=self._watcher.copied,
            is_stopped=self._is_stopped,
        )
        if result.target_error is not None:
            self._ground.placer.note_failed([order.target])
        return FragmentCopied(result)

    def _replace(self, wanted: ReplaceBookie) -> Event:
        first, old, new = wanted.first_entry_id, wanted.old, wanted.new
        is_ours = False

        def change(current: LedgerMetadata) -> LedgerMetadata | None:
            nonlocal is_ours
            changed = replace_bookie(current, first, wanted.slot, old, new)
            is_ours = changed is not None
            return changed

        changed = self._update(change)
        if not isinstance(changed, LedgerMetadata):
            return changed
        if is_ours:
            self._watcher.replaced(first, old, new)
        return BookieReplaced(changed, is_ours)

    def _cut(self, wanted: CutFragment) -> Event:
        changed = self._update(
            lambda current: cut_fragment(current, wanted.first_entry_id, wanted.starts)
        )
        return FragmentCut(changed) if isinstance(changed, LedgerMetadata) else changed

    def _update(
        self, change: Callable[[LedgerMetadata], LedgerMetadata | None]
    ) -> LedgerMetadata | LedgerGone | ReplaceFailed:
        """Change the metadata while the lock is ours; return them, or why they are as they were."""
        try:
            if not self._holds_lock():
                what = f"the lock of ledger {self._ledger_id}"
                return ReplaceFailed(MetadataConflictError(what, "it is not ours any more"))
            return self._ground.ledgers.update(self._ledger_id, change)[0]
        except NoSuchLedgerError:
            return LedgerGone()
        except ZbkError as error:
            return ReplaceFailed(error)

    def _recover(self, fragment: Fragment) -> Event:
        ground = self._ground
        try:
            metadata, _version = ground.ledgers.update(
                self._ledger_id, lambda current: begin_recovery_of(current, fragment)
            )
            if metadata.state is not LedgerState.IN_RECOVERY:
                return LedgerRecovered(is_ours=False)
            secret = Secret.of(metadata, self._password)
            digest = secret.digest or digest_function(
                metadata.digest_type, self._password or b"", self._ledger_id
            )
            setup = RecoverySetup(
                metadata=metadata,
                ledger_key=secret.ledger_key,
                digest=digest,
                requests=ground.requests,
                placer=ground.placer,
                ledgers=ground.ledgers,
                tasks=ground.tasks,
                config=ground.config,
                check_usable=self._check_going,
            )
            RecoveryPump(setup).run(RECOVERY_TIMEOUT_S)
        except NoSuchLedgerError:
            return LedgerGone()
        except ZbkError as error:
            return RecoveryFailed(error)
        return LedgerRecovered()

    def _check_password(self, metadata: LedgerMetadata) -> None:
        if self._password is not None:
            ours = password_digest(self._password, self._ledger_id)
            if not is_same_secret(ours, metadata.password_digest):
                raise UnauthorizedError(self._ledger_id)

    def _check_going(self) -> None:
        self._ground.check_usable()
        if self._is_stopped.is_set():
            raise ClientClosedError
