"""How a writer comes to the end that it closes its ledger at.

    FLUSH     everything appended is acknowledged, or has failed; no ensemble change is pending. If
              the caller accepts a loss, entries that do not become durable, and so leave no room
              for what is queued, end the writer once the wait is over (``unsynced_limit``)
    SYNC      what is acknowledged is durable. One sync after the other, as long as the wait lasts:
              bookies that come back take part in the next one
    LINGER    live slots have answered all, and bookies that are being connected have taken what
              they are owed, or ``close_linger_ms`` is over
    STUCK     the wait is over, and acknowledged entries are not durable; or entries that were sent
              were never acknowledged, and others can sync them

Then the ledger is closed at its LAC, which is the last acknowledged entry: a close never drops an
acknowledged entry. STUCK leaves the ledger open: bookies that do not answer now may hold all of it,
and a later close, or a recovery, asks them. Only a caller that accepts the loss gets a ledger that
is closed below what was acknowledged.

On a PD ledger the LAC is the last acknowledged entry at any time, so there SYNC is over at once.

After an error, entries may be on bookies that this writer never heard acknowledge them. On a level
with a sync cursor a client that is not the writer can sync them, and readers rely on what it found
durable. This writer cannot know how far that went, so it does not choose the ledger's end: a
recovery finds it. On a PD ledger no reader goes beyond the LAC that the writer itself told.

Source: "The BookKeeper protocol", Closing a ledger as a writer; BookKeeper's
``LedgerHandle.doAsyncCloseInternal``.
"""

from enum import Enum
from typing import Final

from zbk.errors import (
    AppendUnansweredError,
    IllegalTransitionError,
    LedgerClosedError,
    LedgerFencedError,
    NoSuchLedgerError,
    NotDurableError,
    UnauthorizedError,
    ZbkError,
)
from zbk.protocol.write.events import CloseRequested, Ticket
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.sync_rounds import SyncRounds
from zbk.protocol.write.write_path import WritePath

FINAL_ERRORS: Final = (LedgerFencedError, UnauthorizedError, LedgerClosedError)
"""Errors of a bookie that end the writer at once."""

_LOST_ERRORS: Final = (*FINAL_ERRORS, NoSuchLedgerError, IllegalTransitionError)
"""After these nothing becomes durable any more: the ledger is not this writer's, or is gone."""

SYNC_PAUSE_MS: Final = 500
"""Least time between a sync of a close that has failed and the next one, unless a bookie comes."""


class ClosePhase(Enum):
    """How far a close has come."""

    FLUSH = "flush"
    SYNC = "sync"
    LINGER = "linger"
    STUCK = "stuck"


class Closing:
    """A close that is under way."""

    __slots__ = (
        "_accepts_loss", "_has_sync_cursor", "_has_synced", "_limits", "_linger_until_ms",
        "_next_sync_ms", "_phase", "_wait_until_ms", "ticket",
    )  # fmt: skip

    def __init__(
        self, event: CloseRequested, limits: WriterLimits, now_ms: int, *, has_sync_cursor: bool
    ) -> None:
        """``has_sync_cursor``: whether others can sync what this writer sent."""
        self.ticket: Ticket = event.ticket
        self._limits = limits
        self._has_sync_cursor = has_sync_cursor
        self._phase = ClosePhase.FLUSH
        self._accepts_loss = False
        self._wait_until_ms = now_ms
        self._has_synced = False
        self._next_sync_ms = now_ms
        self._linger_until_ms = now_ms
        self.take_terms(event, now_ms)

    @property
    def accepts_loss(self) -> bool:
        """True when the caller lets acknowledged entries go that are not durable in time."""
        return self._accepts_loss

    def take_terms(self, event: CloseRequested, now_ms: int) -> None:
        """Apply the terms of a caller: the longest wait counts; a permission is not taken back."""
        wait_ms = event.wait_ms
        if event.accepts_loss:
            wait_ms = min(wait_ms, self._limits.quorum_grace_ms)
            self._wait_until_ms = now_ms + wait_ms
        self._accepts_loss |= event.accepts_loss
        if not self._accepts_loss:
            self._wait_until_ms = max(self._wait_until_ms, now_ms + wait_ms)

    def may_wait(self, now_ms: int) -> bool:
        """Return whether there is time left to wait for bookies that are down."""
        return now_ms < self._wait_until_ms

    def gives_up(self, path: WritePath, now_ms: int) -> bool:
        """Return whether what waits for room has waited for long enough."""
        return self._accepts_loss and path.is_held_up and not self.may_wait(now_ms)

    def slot_up(self, now_ms: int) -> None:
        """Record that a bookie came: another sync may reach further."""
        self._next_sync_ms = now_ms

    def wants_sync(self, path: WritePath, syncs: SyncRounds, now_ms: int) -> bool:
        """Return whether to sync now, once for each time: at first, and while the wait lasts."""
        if self._phase is ClosePhase.FLUSH and path.is_flushed:
            self._phase = ClosePhase.SYNC
        is_durable = path.lac >= path.last_acked_id
        if self._phase is not ClosePhase.SYNC or is_durable or not syncs.is_idle:
            return False  # there is nothing to do, or a sync is under way
        is_due = now_ms >= self._next_sync_ms and self.may_wait(now_ms)
        if self._has_synced and not is_due:
            return False
        self._has_synced = True
        self._next_sync_ms = now_ms + SYNC_PAUSE_MS
        return True

    def proceed(self, path: WritePath, syncs: SyncRounds, now_ms: int) -> ClosePhase:
        """Return how far it has come, after ``wants_sync`` was followed."""
        if self._phase is ClosePhase.SYNC and not syncs:
            is_durable = path.lac >= path.last_acked_id
            is_over = is_durable or (syncs.is_idle and not self.may_wait(now_ms))
            if is_over and (self.accepts_loss or self.drops_nothing(path)):
                self._phase = ClosePhase.LINGER
                self._linger_until_ms = now_ms + self._limits.close_linger_ms
            elif is_over:
                self._phase = ClosePhase.STUCK
        return self._phase

    def drops_nothing(self, path: WritePath) -> bool:
        """Return whether no client can rely on an entry beyond the LAC."""
        is_in_doubt = self._has_sync_cursor and path.is_tail_in_doubt
        return path.lac >= path.last_acked_id and not is_in_doubt

    def is_barred(self, error: ZbkError, path: WritePath) -> bool:
        """Return whether the writer's error leaves its end to recovery: the ledger stays open."""
        is_lost = isinstance(error, _LOST_ERRORS) and not self.drops_nothing(path)
        return is_lost and not self.accepts_loss

    def is_lingering_over(self, path: WritePath, now_ms: int) -> bool:
        """Return whether the ledger may be closed now, once it lingers."""
        is_whole = path.is_answered and not path.is_awaited_by_newcomers
        return is_whole or now_ms >= self._linger_until_ms


def not_durable(ledger_id: int, path: WritePath, syncs: SyncRounds) -> NotDurableError:
    """Return the error of a close that leaves its ledger open."""
    reason = "" if path.lac >= path.last_acked_id else syncs.last_failure
    return NotDurableError(ledger_id, path.lac, path.last_acked_id, reason, path.last_appended_id)


def in_doubt(ledger_id: int, error: ZbkError) -> ZbkError:
    """Return the error of appends that bookies may have, if the writer ends with ``error``."""
    if error.outcome == "unknown":
        return error
    if isinstance(error, LedgerClosedError):
        return LedgerFencedError(ledger_id)
    return AppendUnansweredError(ledger_id, str(error))
