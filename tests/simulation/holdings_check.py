"""The body of a step of the auditor's check of holdings, around the real ``HoldingsComparison``.

It does what ``zbk.auditor.ledger_checks`` does, without waiting.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence

from tests.simulation.copier import HoldingsBody
from tests.simulation.links import ClientPool
from zbk.errors import ZbkError
from zbk.protocol.entry.words import ENTRY_ID_MAX
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.audit_events import Report
from zbk.protocol.repair.audit_job import reports_of
from zbk.protocol.repair.fragment_check import CheckedLedger, Finding, holders
from zbk.protocol.repair.holdings import Holdings, HoldingsComparison


class HoldingsCheckBody:
    """One step; ends with one call of ``done``, with what is to be reported."""

    def __init__(
        self,
        pool: ClientPool,
        ledgers: Sequence[LedgerMetadata],
        left_out: Collection[str],
        done: Callable[[list[Report]], None],
    ) -> None:
        self._pool = pool
        self._done = done
        self._found = {metadata.ledger_id: CheckedLedger() for metadata in ledgers}
        self._to_ask = deque(
            (metadata, bookie_id)
            for metadata in ledgers
            for bookie_id in holders(metadata)
            if bookie_id not in left_out
        )
        self._next()

    def _next(self) -> None:
        if not self._to_ask:
            found = self._found.items()
            self._done([one for number, checked in found for one in reports_of(number, checked)])
            return
        metadata, bookie_id = self._to_ask.popleft()
        comparison = HoldingsComparison(metadata, bookie_id)
        checked = self._found[metadata.ledger_id]
        first = comparison.next_entry_id
        assert first is not None, "it holds something"

        def told(outcome: Holdings | ZbkError) -> None:
            if isinstance(outcome, ZbkError):
                checked.note(bookie_id, Finding.UNDECIDED)
            else:
                comparison.add(outcome.ranges, None, is_in_limbo=outcome.is_in_limbo)
                checked.note_holdings(
                    bookie_id, comparison.missing, is_in_limbo=comparison.is_in_limbo
                )
            self._next()

        HoldingsBody(self._pool, bookie_id, metadata.ledger_id, (first, ENTRY_ID_MAX), told)
