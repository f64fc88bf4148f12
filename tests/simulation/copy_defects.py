"""The wrong methods about missing copies that ``tests.simulation.defects`` puts in."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from zbk.metadata.records.ledger_closing import MissingReport
from zbk.protocol.entry.spans import Span
from zbk.protocol.write.write_path import WritePath
from zbk.protocol.write.write_window import WriteWindow
from zbk.storage.entry_logs.entry_reader import Resolved
from zbk.storage.entry_logs.stored_copies import StoredCopies


def sends_what_is_pending(self: WritePath, slot: int, now_ms: int, *, is_revoked: bool) -> Any:  # noqa: ANN401 - effects
    """W1: what an ack quorum has is not sent, and nobody knows that it is missing."""
    if is_revoked:
        self._tracker.revoke(slot)
    self._window.up(slot, now_ms)
    pending = [ids.start for ids in self._tracker.unacked(slot)]
    _forget_late(self._window)
    return [effect for first in pending for effect in self._send([slot], first)]


def _forget_late(window: WriteWindow) -> None:
    """Forget the acked batches that nobody is owed any more."""
    for batch in [b for b in window.batches.values() if b.is_acked]:
        if not batch.awaited_count and not batch.owed_count:
            window._unrest(batch)
            window._rest(batch)


def knows_of_nothing_missing(
    _self: WritePath, _entry_id: int, *, leave_out: Collection[str] = ()
) -> Mapping[str, Sequence[Span]]:
    """W2: neither when a fragment ends nor with the close."""
    del leave_out
    return {}


def has_nothing_compared(closed: Any) -> MissingReport:  # noqa: ANN401 - metadata
    """W3: the writer that died knew of holes; nobody looks."""
    return MissingReport(MissingReport.unchecked(closed).reason, {})


def vouches_for_all(_self: StoredCopies, resolved: Resolved) -> Resolved:
    """W4: rot of a MAC or NONE ledger is taken for an entry, and spreads."""
    return resolved
