"""The repairer of one ledger: carries out the effects of ``zbk.protocol.repair.ledger_repair``.

It blocks the thread of the caller. ``is_stopped`` ends it early, except during a recovery, which
ends with its own time-out.

With a lock, the metadata are changed only while the metadata store confirms that the lock is held.
Safety does not depend on it: the change itself is a compare-and-swap.
"""

import threading
from collections.abc import Callable
from typing import Final

import msgspec

from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.copier import Copier, Secret
from zbk.auditor.ledger_access import LedgerAccess
from zbk.auditor.target_policies import TargetPolicy
from zbk.client.cluster.ledger_calls import LedgerContext, LedgerRequests
from zbk.client.operations.recovery_pump import RecoveryPump, RecoverySetup
from zbk.errors import ClientClosedError, MetadataConflictError, ZbkError
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.changes import begin_recovery_of, cut_fragment, replace_bookie
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.ledger_repair import LedgerRepair
from zbk.protocol.repair.repair_effects import (
    BookieReplaced,
    ChooseTarget,
    CopyFragment,
    CutFragment,
    LedgerRecovered,
    RecoverLedger,
    RepairAim,
    RepairEffect,
    RepairLimits,
    RepairResult,
    ReplaceBookie,
    WaitUntil,
)
from zbk.system.clock import monotonic_ms

RECOVERY_TIMEOUT_S: Final = 60.0


class RepairWatcher:
    """A listener of repairs. This one ignores all events; a subclass overrides some."""

    def copy_begun(self, order: CopyOrder) -> None:
        """Receive the order of a copy that begins."""

    def copied(self, entry_count: int, size: int) -> None:
        """Receive the numbers of entries and bytes that the target fsynced since the last call."""

    def replaced(self, first_entry_id: int, old: str, new: str) -> None:
        """Receive a replacement that was made in the metadata."""


class RepairSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a repair, apart from the ledger."""

    connection: ClusterConnection
    copier: Copier
    targets: TargetPolicy
    limits: RepairLimits
    password: bytes | None = None
    watcher: RepairWatcher = msgspec.field(default_factory=RepairWatcher)
    holds_lock: Callable[[], bool] = lambda: True
    is_stopped: threading.Event = msgspec.field(default_factory=threading.Event)


class LedgerRepairer:
    """One repair of one ledger."""

    def __init__(self, aim: RepairAim, setup: RepairSetup) -> None:
        assert aim.has_password == (setup.password is not None), "rules and body have one password"
        self.aim = aim
        self._setup = setup
        self._connection = setup.connection
        self._ledger_id = aim.ledger_id
        self._repair = LedgerRepair(aim, setup.limits)
        self._access = LedgerAccess(
            setup.connection,
            aim.ledger_id,
            setup.copier,
            setup.is_stopped,
            password=setup.password,
            on_progress=setup.watcher.copied,
        )

    def run(self) -> RepairResult:
        """Repair the ledger as far as possible; return the result."""
        while (until_ms := self.advance()) is not None:
            self._setup.is_stopped.wait(max(0, until_ms - monotonic_ms()) / 1000)
        return self.result

    @property
    def result(self) -> RepairResult:
        """The result, after the end."""
        return self._repair.result

    def advance(self) -> int | None:
        """Proceed to the next wait; return the time, in ms, of the next call. ``None``: it is over.

        Call it sooner if ``is_stopped`` is set.
        """
        repair = self._repair
        effect = repair.begin() if repair.effect is None else repair.answer(monotonic_ms())
        while effect is not None and not self._setup.is_stopped.is_set():
            if isinstance(effect, WaitUntil):
                return effect.until_ms
            try:
                answer = self.carry_out(effect)
            except ZbkError as error:
                if self._setup.is_stopped.is_set():  # it may be only the stop of a question
                    break
                answer = error
            effect = repair.answer(answer)
        if effect is not None:
            repair.stop()
        return None

    # ------------------------------------------------------------------ effects

    def carry_out(self, effect: RepairEffect) -> object:
        """Carry out an effect of this repair, or of another procedure on the ledger.

        Raises:
            ZbkError: the answer is this error.
        """
        match effect:
            case ChooseTarget():
                return self._setup.targets.choose(effect)
            case CopyFragment():
                return self._copy(effect)
            case ReplaceBookie():
                return self._replace(effect)
            case CutFragment(first, starts):
                return self._update(lambda current: cut_fragment(current, first, starts))
            case RecoverLedger(fragment):
                return self._recover(fragment)
            case _:
                return self._access.carry_out(effect)

    def _copy(self, wanted: CopyFragment) -> CopyResult:
        self._setup.watcher.copy_begun(wanted.order)
        result = self._access.copy(wanted.order)
        if result.target_error is not None:
            self._connection.placer.note_failed([wanted.order.target])
        return result

    def _replace(self, wanted: ReplaceBookie) -> BookieReplaced:
        first, old, new = wanted.first_entry_id, wanted.old, wanted.new
        is_ours = False

        def change(current: LedgerMetadata) -> LedgerMetadata | None:
            nonlocal is_ours
            changed = replace_bookie(current, first, wanted.slot, old, new)
            is_ours = changed is not None
            return changed

        changed = self._update(change)
        if is_ours:
            self._setup.watcher.replaced(first, old, new)
        return BookieReplaced(changed, is_ours)

    def _update(self, change: Callable[[LedgerMetadata], LedgerMetadata | None]) -> LedgerMetadata:
        """Change the metadata while the lock is held; return them.

        Raises:
            NoSuchLedgerError: the ledger was deleted.
            ZbkError: they are not changed, or the outcome is unknown.
        """
        if not self._setup.holds_lock():
            what = f"the lock of ledger {self._ledger_id}"
            raise MetadataConflictError(what, "it is no longer held")
        return self._connection.ledgers.update(self._ledger_id, change)[0]

    def _recover(self, fragment: Fragment) -> LedgerRecovered:
        connection, password = self._connection, self._setup.password
        metadata, _version = connection.ledgers.update(
            self._ledger_id, lambda current: begin_recovery_of(current, fragment)
        )
        if metadata.state is not LedgerState.IN_RECOVERY:
            return LedgerRecovered(is_ours=False)
        secret = Secret.of(metadata, password)
        digest = secret.digest or digest_function(
            metadata.digest_type, password or b"", self._ledger_id
        )
        setup = RecoverySetup(
            metadata=metadata,
            context=LedgerContext(
                LedgerRequests.of(metadata, secret.ledger_key),
                connection.requests,
                digest,
                connection.config,
            ),
            placer=connection.placer,
            ledgers=connection.ledgers,
            tasks=connection.tasks,
            check_usable=self._check_going,
        )
        RecoveryPump(setup).run(RECOVERY_TIMEOUT_S)
        return LedgerRecovered()

    def _check_going(self) -> None:
        self._connection.check_usable()
        if self._setup.is_stopped.is_set():
            raise ClientClosedError
