"""The wrong methods about several directories that ``tests.simulation.defects`` puts in."""

from collections.abc import Sequence

from zbk.actors.serve.tickets import Ticket
from zbk.actors.serve.turn import Turn
from zbk.storage.checkpoint import Checkpoint
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.ledger_directory import LedgerDirectory

_take_synced = Turn.take_synced


def one_sync_counts_for_all(self: Turn, _journal_no: int, number: int) -> Sequence[Ticket]:
    """D1: tickets are counted as if there were one journal."""
    return [
        ticket
        for journal_no in range(len(self._tickets))
        for ticket in _take_synced(self, journal_no, number)
    ]


def first_directory_is_synced(self: Checkpoint) -> None:
    """D2: entries in the logs of the others are lost with the page cache, and their mark moves."""
    first, *others = self.flushes
    first.sync_entry_logs()
    for one in others:
        with one.flush._lock:
            one.flush._step_count = max(one.flush._step_count, 1)


def drops_its_own(self: LedgerDirectory, _noted: LedgerRanges) -> None:
    """D3: the journal is not replayed for the ledger, and the rest of it is served."""
    self.garbage.finish()
