"""Access to one ledger for a repair or a re-check: looks, holdings, copies.

It carries out the effects that both procedures have (``zbk.protocol.repair.repair_effects``), and
blocks the thread of the caller. ``is_stopped`` ends a copy or a question early.
"""

import threading
from collections.abc import Callable
from typing import Final, assert_never

from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.copier import Copier, Secret
from zbk.client.cluster.ledger_calls import LedgerCalls
from zbk.errors import UnauthorizedError
from zbk.protocol.entry.digest import is_same_secret, password_digest
from zbk.protocol.repair.copy_order import CopyOrder
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.holdings import AskHoldings, Holdings
from zbk.protocol.repair.repair_effects import (
    CopyFragment,
    LedgerSeen,
    LookAtLedger,
    SharedEffect,
    WaitUntil,
)
from zbk.system.clock import monotonic_ms

HELD_RANGE_COUNT_MAX: Final = 16_384
"""The limit on ranges of one bookie's holdings in memory; the last page may exceed it."""


class LedgerAccess:
    """Access to one ledger. ``on_progress`` receives entries and bytes that a target fsynced."""

    def __init__(
        self,
        connection: ClusterConnection,
        ledger_id: int,
        copier: Copier,
        is_stopped: threading.Event,
        *,
        password: bytes | None = None,
        on_progress: Callable[[int, int], None] = lambda _count, _size: None,
    ) -> None:
        self._connection = connection
        self._ledger_id = ledger_id
        self._copier = copier
        self._is_stopped = is_stopped
        self._password = password
        self._on_progress = on_progress
        self._calls = LedgerCalls(connection.requests, ledger_id)

    def carry_out(self, effect: SharedEffect) -> LedgerSeen | Holdings | CopyResult | int:
        """Carry out an effect; return the answer.

        Raises:
            ZbkError: the answer is this error.
        """
        match effect:
            case LookAtLedger():
                return self._look()
            case AskHoldings(bookie_id, span):
                return self._calls.holdings(
                    bookie_id,
                    span,
                    range_count_max=HELD_RANGE_COUNT_MAX,
                    is_stopped=self._is_stopped.is_set,
                )
            case CopyFragment(order):
                return self.copy(order)
            case WaitUntil(until_ms):
                self._is_stopped.wait(max(0, until_ms - monotonic_ms()) / 1000)
                return monotonic_ms()
            case _:
                assert_never(effect)

    def copy(self, order: CopyOrder) -> CopyResult:
        """Carry out an order; return the result."""
        return self._copier.copy(
            order,
            Secret.of(order.metadata, self._password),
            on_progress=self._on_progress,
            is_stopped=self._is_stopped,
        )

    def _look(self) -> LedgerSeen:
        asked_ms = monotonic_ms()
        metadata, version = self._connection.ledgers.read(self._ledger_id, is_fresh=True)
        if self._password is not None:
            digest = password_digest(self._password, self._ledger_id)
            if not is_same_secret(digest, metadata.password_digest):
                raise UnauthorizedError(self._ledger_id)
        registered = self._connection.registered()
        return LedgerSeen(metadata, registered, asked_ms, monotonic_ms(), version)
