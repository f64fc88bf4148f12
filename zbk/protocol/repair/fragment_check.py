"""The check of a ledger's replicas: which entries to read from bookies, what the answers prove.

A *sampled* check reads the first and the last entry of each fragment that a bookie should hold. It
finds a bookie that lost a fragment, or its end, but no hole in the middle (as in BookKeeper by
default). A *full* check reads every entry. The check of *holdings* compares the ranges in a
bookie's index (``holdings``): it finds every hole, but no damage.

The last fragment of an open ledger is not checked: entries may be on their way, and its writer
replaces bookies that fail. Nor is a fragment without entries (#4551: workers tried to read entries
that never existed). Holdings are on stable storage, in VD ledgers, too; a replica of a VD ledger
that was read may not survive a loss of power.

An entry is missing if the bookie denies it, cannot read it, or returns it damaged. A bookie that
does not answer, or answers that it does not know (limbo), has proved nothing: its replicas are
*undecided*, and only the auditor's rule decides whether it is lost. Entries of a ledger without a
key in its metadata cannot be read without its password: they are undecided, too.

Every function depends only on its arguments.

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
    entry_ids: Sequence[int]  # to read, ascending


class Finding(Enum):
    """What one answer proves about a replica."""

    HELD = "held"
    ABSENT = "absent"
    DAMAGED = "damaged"
    UNDECIDED = "undecided"


class CheckedLedger(msgspec.Struct):
    """The findings about one ledger so far."""

    missing: dict[str, MissingReason] = msgspec.field(default_factory=dict)  # by bookie id
    ranges: dict[str, tuple[Span, ...]] = msgspec.field(default_factory=dict)  # if known
    undecided: set[str] = msgspec.field(default_factory=set)

    def note(self, bookie_id: str, finding: Finding) -> None:
        """Record one finding. Damage replaces absence, because it needs another repair."""
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

    def note_holdings(self, bookie_id: str, missing: Sequence[Span], *, is_in_limbo: bool) -> None:
        """Record the entries that a bookie does not hold; in limbo it proves nothing by that."""
        if missing and is_in_limbo:
            self.note(bookie_id, Finding.UNDECIDED)
        else:
            self.note_missing(bookie_id, missing)


def finding_of(error: ZbkError | None) -> Finding:
    """Return what an answer proves; ``None``: the entry arrived and is good.

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
        case _:  # no answer, limbo, refusals
            return Finding.UNDECIDED


def probes(
    metadata: LedgerMetadata, *, is_full: bool, left_out: Collection[str] = ()
) -> Iterator[Probe]:
    """Yield the reads of a check, fragment by fragment; none from bookies ``left_out``."""
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
    """Return the bookies that should hold entries of settled fragments, each once."""
    named = (fragment.bookies for fragment, _last in settled(metadata))
    return sorted({bookie_id for bookies in named for bookie_id in bookies})


def badly_placed(metadata: LedgerMetadata, racks: Mapping[str, str]) -> list[int]:
    """Return the first entry ids of the fragments with two replicas of an entry on one rack.

    ``racks`` are those of the registered bookies, by id; a replica on an unknown rack counts as
    well placed. With fewer racks than replicas some have to share one, but each rack needs one.
    """
    rack_count = len(set(racks.values()) - {NO_RACK})
    return [
        fragment.first_entry_id
        for fragment in metadata.fragments
        if _is_crowded(metadata, fragment, racks, rack_count)
    ]


def _is_crowded(
    metadata: LedgerMetadata, fragment: Fragment, racks: Mapping[str, str], rack_count: int
) -> bool:
    known = [racks.get(bookie_id, NO_RACK) for bookie_id in fragment.bookies]
    quorum = metadata.quorum
    needed_count = min(quorum.write_size, rack_count)
    for entry_id in range(quorum.ensemble_size):  # write sets repeat after that
        used = [known[slot] for slot in quorum.write_set(entry_id) if known[slot] != NO_RACK]
        unknown_count = quorum.write_size - len(used)
        if len(set(used)) + unknown_count < needed_count:
            return True
    return False


def settled(metadata: LedgerMetadata) -> Iterator[tuple[Fragment, int]]:
    """Yield the fragments that have entries and a known end, with their last entry ids."""
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
