"""Whether a ledger's replicas are where its metadata say: what to ask bookies, what answers mean.

*Sampled*, a check reads the first and the last entry of each fragment that a bookie should hold.
It finds a bookie that lost a fragment, or its end; it does not find a hole in the middle (as in
BookKeeper by default). A *full* check reads every entry. The check of *holdings* asks for the
ranges that a bookie's index has (``holdings``): it finds every hole, and no damage.

The last fragment of a ledger that is not closed is its writer's: entries may be on their way, and
whatever fails there the writer replaces. It is not checked. Nor is a fragment that holds nothing
(#4551: workers tried to read what never was). What a bookie says that it holds is on its stable
storage, of VD ledgers, too; a replica of a VD ledger that was read may not outlive a loss of power.

What answers mean: an entry that the bookie says it has not, or cannot read, or that is damaged, is
missing. A bookie that does not answer, or says itself that it does not know (limbo), has proved
nothing: *undecided*; it is lost only if the auditor's rule says so. Of ledgers made without a key
in their metadata nothing can be read without their password: undecided too.

Every function here is of its arguments alone.

Source: BookKeeper's ``LedgerChecker``, ``AuditorCheckAllLedgersTask``,
``AuditorReplicasCheckTask``, ``AuditorPlacementPolicyCheckTask``.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

import msgspec

from zbk.errors import (
    DamageError,
    EntryUnreadableError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ZbkError,
)
from zbk.protocol.entry.spans import Span, covering
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.copy_order import ends_of
from zbk.protocol.repair.underreplicated import RANGES_COUNT_MAX, MissingReason

NO_RACK: Final = ""


class Probe(msgspec.Struct, frozen=True):
    """Entries of one fragment that a bookie should hold."""

    bookie_id: str
    slot: int
    first_entry_id: int
    last_entry_id: int  # of the fragment; the slot may hold neither
    entry_ids: Sequence[int]  # to be read, ascending


class Finding(Enum):
    """What one answer proves."""

    HELD = "held"
    ABSENT = "absent"
    DAMAGED = "damaged"
    UNDECIDED = "undecided"


class CheckedLedger(msgspec.Struct):
    """What was found out about one ledger so far."""

    missing: dict[str, MissingReason] = msgspec.field(default_factory=dict)  # by bookie id
    ranges: dict[str, tuple[Span, ...]] = msgspec.field(default_factory=dict)  # where known
    undecided: set[str] = msgspec.field(default_factory=set)

    def note(self, bookie_id: str, finding: Finding) -> None:
        """Record one finding. Damage outweighs absence: it has to be looked after."""
        match finding:
            case Finding.HELD:
                return
            case Finding.DAMAGED:
                self.missing[bookie_id] = MissingReason.DAMAGED
            case Finding.ABSENT:
                self.missing.setdefault(bookie_id, MissingReason.CHECKED)
            case Finding.UNDECIDED:
                self.undecided.add(bookie_id)

    def note_missing(self, bookie_id: str, spans: Sequence[Span]) -> None:
        """Record which entries a bookie lacks."""
        if spans:
            self.note(bookie_id, Finding.ABSENT)
            self.ranges[bookie_id] = covering(
                [*self.ranges.get(bookie_id, ()), *spans], RANGES_COUNT_MAX
            )


def finding_of(error: ZbkError | None) -> Finding:
    """Return what an answer proves; ``None``: the entry came and is good.

    >>> finding_of(NoSuchEntryError(7, 3))
    <Finding.ABSENT: 'absent'>
    """
    match error:
        case None:
            return Finding.HELD
        case NoSuchEntryError() | NoSuchLedgerError():
            return Finding.ABSENT
        case EntryUnreadableError() | DamageError():
            return Finding.DAMAGED
        case _:  # silence, limbo, refusals: neither yes nor no
            return Finding.UNDECIDED


def probes(
    metadata: LedgerMetadata, *, is_full: bool, left_out: Collection[str] = ()
) -> Iterator[Probe]:
    """Yield what to read of a ledger, fragment by fragment; nothing of bookies ``left_out``."""
    for fragment, last in settled(metadata):
        for slot, bookie_id in enumerate(fragment.bookies):
            if bookie_id in left_out:
                continue
            entry_ids = _ids_to_read(
                metadata, slot, (fragment.first_entry_id, last), is_full=is_full
            )
            if entry_ids:
                yield Probe(bookie_id, slot, fragment.first_entry_id, last, entry_ids)


def holders(metadata: LedgerMetadata) -> list[str]:
    """Return the bookies that should hold entries of a ledger for good, each once."""
    named = (fragment.bookies for fragment, _last in settled(metadata))
    return sorted({bookie_id for bookies in named for bookie_id in bookies})


def badly_placed(metadata: LedgerMetadata, racks: Mapping[str, str]) -> list[int]:
    """Return the first entry ids of the fragments with two replicas of an entry on one rack.

    ``racks``: of the bookies that are there, by id. Where a rack is not known, or there are fewer
    racks than replicas, nobody could do better: such fragments are left out.
    """
    rack_count = len(set(racks.values()) - {NO_RACK})
    if rack_count < metadata.write_quorum_size:
        return []
    return [
        fragment.first_entry_id
        for fragment in metadata.fragments
        if _is_crowded(metadata, fragment, racks)
    ]


def _is_crowded(metadata: LedgerMetadata, fragment: Fragment, racks: Mapping[str, str]) -> bool:
    known = [racks.get(bookie_id, NO_RACK) for bookie_id in fragment.bookies]
    quorum = metadata.quorum
    for entry_id in range(quorum.ensemble_size):  # write sets come again after that
        used = [known[slot] for slot in quorum.write_set(entry_id) if known[slot] != NO_RACK]
        if len(set(used)) < len(used):
            return True
    return False


def settled(metadata: LedgerMetadata) -> Iterator[tuple[Fragment, int]]:
    """Yield the fragments whose end is known and that hold something, with their last entry id."""
    for fragment, last in zip(metadata.fragments, ends_of(metadata), strict=True):
        if last is not None and last >= fragment.first_entry_id:
            yield fragment, last


def _ids_to_read(
    metadata: LedgerMetadata, slot: int, span: Span, *, is_full: bool
) -> Sequence[int]:
    quorum = metadata.quorum
    first, last = span
    if is_full:
        return quorum.entry_ids(slot, first, last)
    size = quorum.ensemble_size
    low = [one for one in range(first, min(first + size, last + 1)) if quorum.holds(slot, one)]
    high = [one for one in range(last, max(last - size, first - 1), -1) if quorum.holds(slot, one)]
    return sorted({*low[:1], *high[:1]})
