"""How a writer comes to the end that it closes its ledger at.

    FLUSH     everything appended is acknowledged, and no ensemble change is pending
    SYNC      on a VD ledger: what is acknowledged is durable, or can not become so
    LINGER    stragglers of live slots have answered, or ``close_linger_ms`` is over

Then the ledger is closed at its LAC.

Source: "The BookKeeper protocol", Closing a ledger as a writer; BookKeeper's
``LedgerHandle.doAsyncCloseInternal``.
"""

from enum import Enum

from zbk.protocol.sync_rounds import SyncRounds
from zbk.protocol.write_path import WritePath
from zbk.protocol.writer_events import Ticket


class _Phase(Enum):
    """How far a close has come."""

    FLUSH = "flush"
    SYNC = "sync"
    LINGER = "linger"


class Closing:
    """A close that is under way."""

    __slots__ = ("_deadline_ms", "_linger_ms", "_phase", "ticket")

    def __init__(self, ticket: Ticket, linger_ms: int) -> None:
        self.ticket = ticket
        self._linger_ms = linger_ms
        self._phase = _Phase.FLUSH
        self._deadline_ms = 0

    def wants_sync(self, path: WritePath, *, needs_sync: bool) -> bool:
        """Tell, once, that everything is flushed and a last sync is needed."""
        if self._phase is not _Phase.FLUSH or not path.is_flushed:
            return False
        self._phase = _Phase.SYNC
        return needs_sync and path.lac < path.last_acked_id

    def is_over(self, path: WritePath, syncs: SyncRounds, now_ms: int) -> bool:
        """Tell whether the ledger may be closed now."""
        if self._phase is _Phase.SYNC and not syncs:
            self._phase = _Phase.LINGER
            self._deadline_ms = now_ms + self._linger_ms
        is_answered = path.is_answered or now_ms >= self._deadline_ms
        return self._phase is _Phase.LINGER and is_answered
