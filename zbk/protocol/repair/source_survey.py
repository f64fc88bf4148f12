"""The survey of the sources of a copy, after one of them did not know whether it had an entry.

A bookie *in limbo* may have lost entries: it neither confirms nor denies those that it does not
hold. While another source may have an entry, that is a reason to wait. After every source has
returned its holdings, entries in none of them are not available: the bookie in limbo waits for
peers that are away, and a repair would wait with it. They are lost until such a peer returns.

In a striped ledger a source may hold entries that are not due on its slot, from an earlier ensemble
for example. Copies do not read them there, so they do not count.

Source: part of ``zbk.protocol.repair.ledger_repair``.
"""

from collections.abc import Iterable

import msgspec

from zbk.protocol.entry.spans import Span, merged, overlaps
from zbk.protocol.procedure import Steps
from zbk.protocol.repair.copy_order import CopyOrder, LostEntries, due_count, missing_spans
from zbk.protocol.repair.holdings import AskHoldings, Holdings


class SourceSurvey(msgspec.Struct):
    """The holdings of the sources of ``order``, a copy that failed."""

    order: CopyOrder
    held: list[Span] = msgspec.field(default_factory=list)  # in order, by any source
    in_limbo: set[str] = msgspec.field(default_factory=set)

    def add(self, slot: int, held: Holdings) -> None:
        """Add holdings of the source in ``slot``."""
        order, quorum = self.order, self.order.metadata.quorum
        ranges: Iterable[Span] = overlaps(held.ranges, order.spans)
        if quorum.is_striped:
            ranges = (
                (entry_id, entry_id)
                for first, last in ranges
                for entry_id in quorum.entry_ids(slot, first, last)
            )
        self.held = merged([*self.held, *ranges])
        if held.is_in_limbo:
            self.in_limbo.add(order.fragment.bookies[slot])

    def lost(self) -> tuple[LostEntries, ...]:
        """Return the ordered entries that no source holds."""
        order, quorum = self.order, self.order.metadata.quorum
        names = ", ".join(sorted(self.in_limbo))
        reason = f"no available bookie has a replica; {names} lost data and may have had one"
        return tuple(
            LostEntries(first, last, due_count(quorum, order.slot, first, last), reason)
            for span in order.spans
            for first, last in missing_spans(quorum, order.slot, span, self.held)
        )

    def due_spans(self) -> tuple[Span, ...]:
        """Return the ordered spans that a source holds."""
        order, quorum = self.order, self.order.metadata.quorum
        return tuple(
            known
            for span in order.spans
            for known in overlaps([span], self.held)
            if due_count(quorum, order.slot, *known)
        )


def survey_sources(order: CopyOrder) -> Steps[AskHoldings, SourceSurvey]:
    """Ask every source of a copy what it holds, in as many parts as needed; return the survey."""
    survey = SourceSurvey(order)
    first, end = order.spans[0][0], order.spans[-1][1]
    for slot in order.sources:
        unasked_id = first
        while unasked_id <= end:
            held: Holdings = yield AskHoldings(order.fragment.bookies[slot], (unasked_id, end))
            survey.add(slot, held)
            unasked_id = (end if held.last_entry_id is None else held.last_entry_id) + 1
    return survey
