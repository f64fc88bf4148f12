"""Brings ledgers out of limbo, beside the bookie that is in it, and in its process.

Rounds: one ledger after the other is checked against its peers (``zbk.durability.limbo_recheck``).
What stays in limbo is tried again later, and rests longer each time. It ends with the last ledger,
or with the bookie.

The list of ledgers says only which ones to check first. That a ledger is gone the metadata store
has to say of each directly: a bookie that denies, on the word of a list that leaves ledgers out,
what it has lost may have entries cut off that were acknowledged.

A ledger of which something came back here may have been put aside as unrepairable, because of what
this bookie did not know: it is handed out again.

It talks to the bookie as everybody does, over its socket, but for one thing: that a ledger is
cleared it tells in the process (``zbk.actors.identity.losses``); nobody else can.

Thread: one of its own, ``zbk-recheck``.
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
    LedgerRecheck,
    Patience,
    ReadClock,
    RecheckEffect,
    RecheckResult,
    listed_first,
)
from zbk.errors import StorageFailedError, ZbkError
from zbk.protocol.entry.spans import Span, merged
from zbk.system.clock import monotonic_ms

logger = logging.getLogger("zbk.bookie")

CLEAR_COUNT: Final = 256
"""Ledgers that are cleared together: each time a file is written and synced."""

CLEAR_MS: Final = 1_000
"""How long one that is checked waits for others to be cleared with it."""

ROUND_PAUSE_S: Final = 2.0
"""Between the first two rounds; it doubles with every round that cleared nothing."""

ROUND_PAUSE_MAX_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0
REPORT_COUNT_MAX: Final = 20
"""Ledgers that stay in limbo that one round tells of by name."""


class LimboRecheck:
    """The re-check of one bookie's ledgers. ``connect`` connects to the cluster."""

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
        self._with_news: set[int] = set()  # ledgers to be handed out if they were put aside
        self._reported: dict[int, str] = {}
        self._told_count = 0
        self._thread = threading.Thread(target=self._run, name="zbk-recheck", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, whatever is under way; nothing is cleared any more when this returns."""
        self._is_stopped.set()
        self._thread.join(STOP_TIMEOUT_S)
        self._losses.end_recheck()

    # ------------------------------------------------------------------ rounds

    def _run(self) -> None:
        pause_s = ROUND_PAUSE_S
        while self._losses.reasons and not self._is_stopped.is_set():
            try:
                with self._connect() as connection:
                    pause_s = self._rounds(connection)
            except StorageFailedError as error:
                self._on_failure(error)
                return
            except ZbkError as error:
                level = logging.INFO if error.is_retriable else logging.WARNING
                logger.log(level, "the re-check of ledgers waits: %s", error)
                pause_s = min(2 * pause_s, ROUND_PAUSE_MAX_S)
            except Exception as error:  # noqa: BLE001 - the top of a thread; the bookie stops
                self._on_failure(error)
                return
            self._is_stopped.wait(pause_s)
        if not self._losses.reasons:
            logger.info("every ledger was checked against its peers: this bookie denies again")

    def _rounds(self, connection: ClusterConnection) -> float:
        """Check what is left, again and again, until nothing is; return how long to rest then."""
        pause_s = ROUND_PAUSE_S
        while self._losses.reasons and not self._is_stopped.is_set():
            listed = list(connection.ledgers.list())
            is_news = False
            for has_lost_fences in (True, False):
                is_news |= self._check_ledgers(connection, listed, has_lost_fences=has_lost_fences)
            self._tell_count()
            pause_s = ROUND_PAUSE_S if is_news else min(2 * pause_s, ROUND_PAUSE_MAX_S)
            if self._losses.reasons:
                self._is_stopped.wait(pause_s)
        return pause_s

    def _check_ledgers(
        self, connection: ClusterConnection, listed: Sequence[int], *, has_lost_fences: bool
    ) -> bool:
        """Check every ledger that is left after such losses; return whether one was cleared."""
        is_news = False
        left = self._left(has_lost_fences=has_lost_fences)
        for ledger_id in listed_first(left, listed):
            if self._is_stopped.is_set():
                return is_news
            result = self._check(connection, ledger_id, has_lost_fences=has_lost_fences)
            if result.is_cleared or result.copied_count:
                self._with_news.add(ledger_id)
            if result.is_cleared:
                self._tell_silent(ledger_id, result)
                self._cleared.append((ledger_id, ledger_id))
            else:
                self._tell_report(ledger_id, result)
            is_news |= result.is_cleared
            self._flush(connection, is_due=False)
        self._flush(connection, is_due=True)
        return is_news

    def _check(
        self, connection: ClusterConnection, ledger_id: int, *, has_lost_fences: bool
    ) -> RecheckResult:
        recheck = LedgerRecheck(
            self._bookie_id, has_lost_fences=has_lost_fences, patience=self._patience
        )
        access = LedgerAccess(connection, ledger_id, Copier(connection.requests), self._is_stopped)
        effect = recheck.begin()
        while effect is not None:
            if self._is_stopped.is_set():
                return RecheckResult(reason="the bookie stops")
            effect = recheck.answer(_outcome(access, effect))
        return recheck.result

    # ------------------------------------------------------------------ what comes of it

    def _flush(self, connection: ClusterConnection, *, is_due: bool) -> None:
        """Clear what was checked, if that is enough or has waited; then hand out what has news."""
        now_ms = monotonic_ms()
        if len(self._cleared) >= CLEAR_COUNT or now_ms - self._cleared_ms >= CLEAR_MS or is_due:
            cleared, self._cleared = self._cleared, []
            self._cleared_ms = now_ms
            self._clear(cleared)
            self._count()
            self._hand_out(connection)

    def _clear(self, ranges: list[Span]) -> None:
        if ranges and not self._is_stopped.is_set() and not self._losses.clear(ranges):
            logger.info("ledgers stay in limbo: the disk has no room to note that they need not")

    def _hand_out(self, connection: ClusterConnection) -> None:
        """Ask workers to try ledgers again that they gave up while this bookie did not know."""
        if self._with_news:
            wanted = sorted(self._with_news.intersection(connection.tasks.list_unrepairable()))
            if wanted:
                connection.tasks.retry_unrepairable(wanted)
            self._with_news.clear()

    def _count(self) -> int:
        left = self._left(has_lost_fences=True) + self._left(has_lost_fences=False)
        count = sum(last - first + 1 for first, last in merged(left))
        self._losses.unchecked_count = count
        return count

    def _left(self, *, has_lost_fences: bool) -> list[Span]:
        left = self._losses.left(has_lost_fences=has_lost_fences)
        return list(zip(left.firsts, left.lasts, strict=True))

    def _tell_count(self) -> None:
        count = self._count()
        if count and count != self._told_count:
            logger.info("%d ledgers are still to be checked against their peers", count)
        self._told_count = count

    def _tell_silent(self, ledger_id: int, result: RecheckResult) -> None:
        if result.silent:
            logger.info(
                "ledger %d was checked without %s, silent for too long: what these alone hold of "
                "what was never synced may be left out of it",
                ledger_id,
                " and ".join(result.silent),
            )
        self._reported.pop(ledger_id, None)

    def _tell_report(self, ledger_id: int, report: RecheckResult) -> None:
        if self._is_stopped.is_set() or self._reported.get(ledger_id) == report.reason:
            return
        if len(self._reported) < REPORT_COUNT_MAX or ledger_id in self._reported:
            self._reported[ledger_id] = report.reason
            level = logging.WARNING if report.is_hopeless else logging.INFO
            logger.log(level, "ledger %d stays in limbo: %s", ledger_id, report.reason)


def _outcome(access: LedgerAccess, effect: RecheckEffect) -> object:
    """Carry out an effect; return its answer, or the error that is the answer."""
    try:
        return monotonic_ms() if isinstance(effect, ReadClock) else access.carry_out(effect)
    except ZbkError as error:
        return error
