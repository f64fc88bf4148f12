"""A survey: what the sources of a copy hold, asked after one of them could not say.

A bookie *in limbo* may have lost entries that it does not hold: it says neither yes nor no. As long
as another source may have the entry, that is a reason to wait. Once every source has said what it
holds, entries that are in none of the answers cannot be had: the bookie in limbo waits for peers
that are away, and a repair would wait with it. They are lost until such a peer is back.

Of a striped ledger a source may hold entries that are not due on its slot, from an earlier ensemble
for example. No copy reads them there, so they do not count.

Source: part of ``zbk.protocol.repair.ledger_repair``.
"""

from collections.abc import Iterable

import msgspec

from zbk.protocol.entry.spans import Span, merged, overlaps
from zbk.protocol.procedure import Steps
from zbk.protocol.repair.copy_order import CopyOrder, LostEntries, due_count, missing_spans
from zbk.protocol.repair.holdings import AskHoldings, Holdings


class SourceSurvey(msgspec.Struct):
    """The answers of the sources of ``order``, a copy that could not be made."""

    order: CopyOrder
    held: list[Span] = msgspec.field(default_factory=list)  # in order, by any source
    in_limbo: set[str] = msgspec.field(default_factory=set)

    def add(self, slot: int, told: Holdings) -> None:
        """Add an answer of the source in ``slot``."""
        order, quorum = self.order, self.order.metadata.quorum
        ranges: Iterable[Span] = overlaps(told.ranges, order.spans)
        if quorum.is_striped:
            ranges = (
                (entry_id, entry_id)
                for first, last in ranges
                for entry_id in quorum.entry_ids(slot, first, last)
            )
        self.held = merged([*self.held, *ranges])
        if told.is_in_limbo:
            self.in_limbo.add(order.fragment.bookies[slot])

    def lost(self) -> tuple[LostEntries, ...]:
        """Return the ordered entries that no source holds."""
        order, quorum = self.order, self.order.metadata.quorum
        names = ", ".join(sorted(self.in_limbo))
        reason = f"no bookie that is there has a replica; {names} lost data and may have had one"
        return tuple(
            LostEntries(first, last, due_count(quorum, order.slot, first, last), reason)
            for span in order.spans
            for first, last in missing_spans(quorum, order.slot, span, self.held)
        )


def survey_sources(order: CopyOrder) -> Steps[AskHoldings, SourceSurvey]:
    """Ask every source of a copy, in parts if its answer says so; return what they said."""
    survey = SourceSurvey(order)
    first, end = order.spans[0][0], order.spans[-1][1]
    for slot in order.sources:
        unasked_id = first
        while unasked_id <= end:
            told: Holdings = yield AskHoldings(order.fragment.bookies[slot], (unasked_id, end))
            survey.add(slot, told)
            unasked_id = (end if told.last_entry_id is None else told.last_entry_id) + 1
    return survey
