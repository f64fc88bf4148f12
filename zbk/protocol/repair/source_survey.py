"""Asking the sources of a copy what they hold, after one of them could not say. Pure.

A bookie *in limbo* may have lost what it does not hold: it says neither yes nor no. As long as
another source may have the entry, that is a reason to wait. Once every source has said what it
holds, entries that are in none of these answers are nowhere to be had: the bookie in limbo waits
for peers that are not there, and so would a repair. They are lost until one of those is back.

Of a striped ledger a source may hold entries that are not due on its slot, from an earlier ensemble
for example. No copy reads them there, so they do not count.

Source: part of ``zbk.protocol.repair.ledger_repair``.
"""

from collections.abc import Iterable

import msgspec

from zbk.protocol.entry.spans import Span, merged, overlaps
from zbk.protocol.repair.copy_order import CopyOrder, LostEntries, due_count, missing_spans
from zbk.protocol.repair.ledger_repair_events import HoldingsTold


class SourceSurvey(msgspec.Struct):
    """What was said so far. ``order``: the copy that could not be made."""

    order: CopyOrder
    to_ask: list[str]
    held: list[Span] = msgspec.field(default_factory=list)  # in order, by any source
    in_limbo: set[str] = msgspec.field(default_factory=set)

    unasked_id: int = 0  # from there on the first one to be asked was not asked

    @classmethod
    def begun(cls, order: CopyOrder) -> "SourceSurvey":
        """Return the survey that a copy needs."""
        to_ask = [order.fragment.bookies[slot] for slot in order.sources]
        return cls(order, to_ask, unasked_id=order.spans[0][0])

    @property
    def rest(self) -> Span:
        """What the first one to be asked has not told yet."""
        return self.unasked_id, self.order.spans[-1][1]

    def told(self, told: HoldingsTold) -> None:
        """Note what the first one to be asked holds."""
        order, quorum = self.order, self.order.metadata.quorum
        ranges: Iterable[Span] = overlaps(told.ranges, order.spans)
        if quorum.is_striped:
            slot = order.fragment.bookies.index(self.to_ask[0])
            ranges = (
                (entry_id, entry_id)
                for first, last in ranges
                for entry_id in quorum.entry_ids(slot, first, last)
            )
        self.held = merged([*self.held, *ranges])
        if told.is_in_limbo:
            self.in_limbo.add(self.to_ask[0])
        if told.last_entry_id is not None and told.last_entry_id < self.rest[1]:
            self.unasked_id = told.last_entry_id + 1
        else:
            self.to_ask.pop(0)
            self.unasked_id = self.order.spans[0][0]

    def lost(self) -> tuple[LostEntries, ...]:
        """Return what none of them holds, when all were asked."""
        assert not self.to_ask, "somebody else may hold it"
        order, quorum = self.order, self.order.metadata.quorum
        names = ", ".join(sorted(self.in_limbo))
        reason = f"no bookie that is there has a replica; {names} lost data and may have had one"
        return tuple(
            LostEntries(first, last, due_count(quorum, order.slot, first, last), reason)
            for span in order.spans
            for first, last in missing_spans(quorum, order.slot, span, self.held)
        )
