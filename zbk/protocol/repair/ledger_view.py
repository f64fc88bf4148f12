"""The view of a ledger that a repair works on: slots that may be bad, entries due, sources.

A value: the repair makes another one whenever the metadata or the registrations may have changed.
"""

from collections.abc import Iterator, Sequence

import msgspec

from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.features import needs_of
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.copy_order import CopyOrder, LostEntries, ends_of, without_source
from zbk.protocol.repair.repair_effects import RepairAim


class FragmentSlot(msgspec.Struct, frozen=True):
    """One slot of one fragment, and the bookie in it."""

    first_entry_id: int
    slot: int
    bookie_id: str


class LedgerView(msgspec.Struct, frozen=True):
    """The metadata, the registered bookies, and the aim of the repair."""

    metadata: LedgerMetadata
    registered: frozenset[str]
    aim: RepairAim

    @property
    def open_fragment(self) -> Fragment | None:
        """The fragment that may still grow, if there is one."""
        return None if self.metadata.is_closed else self.metadata.last_fragment

    @property
    def needs(self) -> frozenset[str]:
        """The features that a bookie needs to hold the ledger."""
        return needs_of(self.metadata)

    @property
    def away(self) -> frozenset[str]:
        """The bookies of any fragment that are not registered."""
        named = {one for fragment in self.metadata.fragments for one in fragment.bookies}
        return frozenset(named - self.registered)

    @property
    def is_readable(self) -> bool:
        """True when there is a key for the bookies."""
        return bool(self.metadata.ledger_key) or self.aim.has_password

    def closed_slots(self) -> Iterator[FragmentSlot]:
        """Yield the slots of closed fragments that may be bad, in order."""
        count = len(self.metadata.fragments) - (not self.metadata.is_closed)
        return self.slots(self.metadata.fragments[:count])

    def slots(self, fragments: Sequence[Fragment]) -> Iterator[FragmentSlot]:
        """Yield the slots of these fragments that may be bad, in order."""
        compared = self.aim.to_compare
        for fragment in fragments:
            for slot, bookie_id in enumerate(fragment.bookies):
                is_compared = compared is None or bookie_id in compared
                if is_compared or self._is_suspect(bookie_id) or bookie_id in self.aim.to_leave:
                    yield FragmentSlot(fragment.first_entry_id, slot, bookie_id)

    def is_bad(self, one: FragmentSlot) -> bool:
        """Return whether a slot needs another bookie: its own is lost, or is to leave."""
        return self.is_lost(one) or one.bookie_id in self.aim.to_leave

    def own_target(self, one: FragmentSlot) -> str | None:
        """Return the bookie in a slot if it can stay with its damaged replicas replaced."""
        is_mendable = one.bookie_id in self.registered and one.bookie_id in self.aim.to_mend
        return one.bookie_id if is_mendable else None

    def is_lost(self, one: FragmentSlot) -> bool:
        """Return whether the bookie in a slot is away, and the repair does not wait for it."""
        return one.bookie_id not in self.registered and self._is_suspect(one.bookie_id)

    def is_awaited(self, one: FragmentSlot) -> bool:
        """Return whether the bookie in a slot is away."""
        return one.bookie_id not in self.registered

    def _is_suspect(self, bookie_id: str) -> bool:
        return self.aim.suspects is None or bookie_id in self.aim.suspects

    def fragment(self, one: FragmentSlot) -> Fragment:
        """Return the fragment of a slot."""
        starts = [fragment.first_entry_id for fragment in self.metadata.fragments]
        return self.metadata.fragments[starts.index(one.first_entry_id)]

    def span(self, one: FragmentSlot) -> Span:
        """Return the span of a closed fragment; an empty one ends before it starts."""
        index = self.metadata.fragments.index(self.fragment(one))
        end = ends_of(self.metadata)[index]
        assert end is not None, "the fragment is closed"
        return one.first_entry_id, end

    def sources(self, one: FragmentSlot) -> tuple[int, ...]:
        """Return the slots to read from; the slot itself only if its bookie is to leave."""
        is_itself = one.bookie_id in self.aim.to_leave
        return tuple(
            slot
            for slot, bookie_id in enumerate(self.fragment(one).bookies)
            if bookie_id in self.registered and (slot != one.slot or is_itself)
        )

    def without_source(self, one: FragmentSlot, spans: Sequence[Span]) -> tuple[LostEntries, ...]:
        """Return the entries due on a slot that no source holds."""
        quorum, sources = self.metadata.quorum, self.sources(one)
        found = (without_source(quorum, one.slot, span, sources) for span in spans)
        return tuple(lost for lost in found if lost is not None)

    def copy_order(self, one: FragmentSlot, target: str, spans: tuple[Span, ...]) -> CopyOrder:
        """Return the order to copy these spans of a closed fragment to a bookie."""
        return CopyOrder(
            metadata=self.metadata,
            fragment=self.fragment(one),
            slot=one.slot,
            target=target,
            spans=spans,
            sources=self.sources(one),
            is_mend=target == one.bookie_id and target in self.aim.to_leave,
            lac=self.span(one)[1],  # all entries up to the end of a fragment are confirmed
        )
