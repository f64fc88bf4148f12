"""The re-check of a bookie's ledgers in limbo, in the process of that bookie.

A round checks one ledger after the other against its peers (``zbk.durability.limbo_recheck``).
Ledgers that stay in limbo are tried again after a pause, which grows. The re-check ends with the
last ledger, or with the bookie.

The list of ledgers only decides which ones are checked first. For each ledger the metadata store is
asked directly whether it exists: an incomplete list could make the bookie deny entries that it
lost, and a recovery would then cut off acknowledged entries.

A ledger of which the bookie got entries back may have been put aside as unrepairable before: it is
handed out again, also if the metadata store did not answer when the last ledger left limbo.

The re-check talks to its bookie over a socket, as clients do, with one exception: it clears ledgers
within the process (``zbk.actors.identity.losses``).

Thread: ``zbk-recheck``.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from zbk.actors.identity.losses import Losses
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.copier import Copier
from zbk.auditor.ledger_access import LedgerAccess
from zbk.durability.limbo_recheck import (
    ROUND_PAUSE_S,
    LedgerRecheck,
    Patience,
    ReadClock,
    RecheckEffect,
    RecheckResult,
    listed_first,
    next_pause_s,
)
from zbk.errors import StorageFailedError, ZbkError
from zbk.protocol.entry.spans import Span, merged
from zbk.system.clock import monotonic_ms
from zbk.system.event_log import EventLog

LOG = EventLog("zbk.bookie")

CLEAR_COUNT: Final = 256
"""Ledgers that are cleared together: each time, a file is written and synced."""

CLEAR_MS: Final = 1_000
"""The longest time that a checked ledger waits to be cleared with others."""

STOP_TIMEOUT_S: Final = 20.0
REPORT_COUNT_MAX: Final = 20
"""Ledgers that stay in limbo and are logged by name."""


class LimboRecheck:
    """The re-check of one bookie's ledgers. ``connect`` opens its connection."""

    def __init__(
        self,
        losses: Losses,
        bookie_id: str,
        connect: Callable[[], ClusterConnection],
        *,
        grace_ms: int,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._losses = losses
        self._bookie_id = bookie_id
        self._connect = connect
        self._patience = Patience(grace_ms)
        self._on_failure = on_failure
        self._is_stopped = threading.Event()
        self._cleared: list[Span] = []
        self._cleared_ms = 0
        self._to_hand_out: set[int] = set()  # ledgers, if they were put aside
        self._reported: dict[int, str] = {}
        self._logged_count = 0
        self._thread = threading.Thread(target=self._run, name="zbk-recheck", daemon=True)

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def stop(self) -> None:
        """Stop. When this returns, no ledger is cleared any more."""
        self._is_stopped.set()
        self._thread.join(STOP_TIMEOUT_S)
        self._losses.end_recheck()

    # ------------------------------------------------------------------ rounds

    def _run(self) -> None:
        pause_s = ROUND_PAUSE_S
        while self._has_more and not self._is_stopped.is_set():
            try:
                with self._connect() as connection:
                    pause_s = self._rounds(connection)
            except StorageFailedError as error:
                self._on_failure(error)
                return
            except ZbkError as error:
                level = logging.INFO if error.is_retriable else logging.WARNING
                LOG.log(
                    level,
                    "limbo.recheck_waits",
                    "the re-check of ledgers waits: %(error)s",
                    error=error,
                )
                pause_s = next_pause_s(pause_s, has_cleared=False)
            except Exception as error:  # noqa: BLE001 - the top of a thread; the bookie stops
                self._on_failure(error)
                return
            self._is_stopped.wait(pause_s)
        if not self._losses.reasons:
            LOG.info(
                "limbo.ended",
                "every ledger was checked against its peers: the bookie denies entries again",
            )

    def _rounds(self, connection: ClusterConnection) -> float:
        """Check the ledgers that are left, until none is; return the pause after an error."""
        pause_s = ROUND_PAUSE_S
        while self._has_more and not self._is_stopped.is_set():
            listed = list(connection.ledgers.list())
            has_cleared = False
            for has_lost_fences in (True, False):
                has_cleared |= self._check_ledgers(
                    connection, listed, has_lost_fences=has_lost_fences
                )
            self._log_count()
            pause_s = next_pause_s(pause_s, has_cleared=has_cleared)
            if self._has_more:
                self._is_stopped.wait(pause_s)
        return pause_s

    @property
    def _has_more(self) -> bool:
        """True while ledgers are in limbo, or could not be handed out after they left it."""
        return bool(self._losses.reasons or self._to_hand_out)

    def _check_ledgers(
        self, connection: ClusterConnection, listed: Sequence[int], *, has_lost_fences: bool
    ) -> bool:
        """Check the ledgers that are left after such losses; return whether one was cleared."""
        has_cleared = False
        left = self._left(has_lost_fences=has_lost_fences)
        for ledger_id in listed_first(left, listed):
            if self._is_stopped.is_set():
                return has_cleared
            result = self._check(connection, ledger_id, has_lost_fences=has_lost_fences)
            if result.is_cleared or result.copied_count:
                self._to_hand_out.add(ledger_id)
            if result.is_cleared:
                self._log_silent(ledger_id, result)
                self._cleared.append((ledger_id, ledger_id))
            else:
                self._log_report(ledger_id, result)
            has_cleared |= result.is_cleared
            self._flush(connection, is_due=False)
        self._flush(connection, is_due=True)
        return has_cleared

    def _check(
        self, connection: ClusterConnection, ledger_id: int, *, has_lost_fences: bool
    ) -> RecheckResult:
        recheck = LedgerRecheck(
            self._bookie_id, has_lost_fences=has_lost_fences, patience=self._patience
        )
        access = LedgerAccess(connection, ledger_id, Copier(connection.requests), self._is_stopped)

        def carry_out(effect: RecheckEffect) -> object:
            return monotonic_ms() if isinstance(effect, ReadClock) else access.carry_out(effect)

        effect = recheck.begin()
        while effect is not None:
            if self._is_stopped.is_set():
                return RecheckResult(reason="the bookie stops")
            effect = recheck.resume(carry_out)
        return recheck.result

    # ------------------------------------------------------------------ results

    def _flush(self, connection: ClusterConnection, *, is_due: bool) -> None:
        """Clear checked ledgers, if many or late; then hand out unrepairable ones."""
        now_ms = monotonic_ms()
        if len(self._cleared) >= CLEAR_COUNT or now_ms - self._cleared_ms >= CLEAR_MS or is_due:
            cleared, self._cleared = self._cleared, []
            self._cleared_ms = now_ms
            self._clear(cleared)
            self._count()
            self._hand_out(connection)

    def _clear(self, ranges: list[Span]) -> None:
        if ranges and not self._is_stopped.is_set() and not self._losses.clear(ranges):
            LOG.info(
                "limbo.not_recorded",
                "ledgers stay in limbo: the disk has no room to record that they are cleared",
            )

    def _hand_out(self, connection: ClusterConnection) -> None:
        """Hand out ledgers that were unrepairable while this bookie did not know its entries."""
        if self._to_hand_out:
            wanted = sorted(self._to_hand_out.intersection(connection.tasks.list_unrepairable()))
            if wanted:
                connection.tasks.retry_unrepairable(wanted)
            self._to_hand_out.clear()

    def _count(self) -> int:
        left = self._left(has_lost_fences=True) + self._left(has_lost_fences=False)
        count = sum(last - first + 1 for first, last in merged(left))
        self._losses.unchecked_count = count
        return count

    def _left(self, *, has_lost_fences: bool) -> list[Span]:
        left = self._losses.left(has_lost_fences=has_lost_fences)
        return list(zip(left.firsts, left.lasts, strict=True))

    def _log_count(self) -> None:
        count = self._count()
        if count and count != self._logged_count:
            LOG.info(
                "limbo.ledgers_left",
                "%(ledger_count)d ledgers are still to be checked against their peers",
                ledger_count=count,
            )
        self._logged_count = count

    def _log_silent(self, ledger_id: int, result: RecheckResult) -> None:
        if result.silent:
            LOG.info(
                "limbo.checked_without",
                "ledger %(ledger_id)d was checked without %(bookies)s, silent for too long: "
                "entries that only these hold, and that were never synced, may be missing in it",
                ledger_id=ledger_id,
                bookies=" and ".join(result.silent),
            )
        self._reported.pop(ledger_id, None)

    def _log_report(self, ledger_id: int, report: RecheckResult) -> None:
        if self._is_stopped.is_set() or self._reported.get(ledger_id) == report.reason:
            return
        if len(self._reported) < REPORT_COUNT_MAX or ledger_id in self._reported:
            self._reported[ledger_id] = report.reason
            level = logging.WARNING if report.is_hopeless else logging.INFO
            LOG.log(
                level,
                "limbo.ledger_stays",
                "ledger %(ledger_id)d stays in limbo: %(reason)s",
                ledger_id=ledger_id,
                reason=report.reason,
            )
