"""What of one fragment a slot lacks, who else has it, and what nobody has: plain arithmetic.

An entry is *due* on a slot if its write set has the slot. A *span* is a first and a last id; of a
striped fragment it means the due ones among them. Spans stay few where ids would be many: entries
that are missing one after the other, as the slot counts, are one span.

Every function here is of its arguments alone.

Source: BookKeeper's ``LedgerFragment`` and ``LedgerChecker``; the autorecovery page, The
Rereplication process.
"""

from collections.abc import Collection, Iterator, Sequence

import msgspec

from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum


class LostEntries(msgspec.Struct, frozen=True):
    """Entries of which no replica is left, as far as anybody could find."""

    first_entry_id: int
    last_entry_id: int
    count: int  # of a striped fragment fewer than ``first .. last`` has
    reason: str

    def __str__(self) -> str:
        if self.count == 1:
            return f"entry {self.first_entry_id}: {self.reason}"
        ids = f"{self.first_entry_id} .. {self.last_entry_id}"
        some = "" if self.count == self.last_entry_id - self.first_entry_id + 1 else "among "
        return f"{self.count} entries, {some}{ids}: {self.reason}"


class CopyOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Entries to be copied to one bookie: those due on ``slot`` in ``spans``, all of one fragment.

    ``sources`` are the slots to read from; each due entry has one of them in its write set.
    """

    metadata: LedgerMetadata
    fragment: Fragment
    slot: int
    target: str  # a bookie; the one in the slot, if it lacks entries
    spans: tuple[Span, ...]  # ascending, apart
    sources: tuple[int, ...]
    lac: int  # every entry up to it is confirmed

    @property
    def is_move(self) -> bool:
        """True when the target is to take the place of the bookie in the slot."""
        return self.fragment.bookies[self.slot] != self.target

    @property
    def entry_count(self) -> int:
        """How many entries are to be copied."""
        quorum, slot = self.metadata.quorum, self.slot
        return sum(due_count(quorum, slot, first, last) for first, last in self.spans)


def ends_of(metadata: LedgerMetadata) -> list[int | None]:
    """Return the last entry id of each fragment; ``None``: not known yet.

    Only of the last fragment of a ledger that is not closed it is not known: the writer begins a
    fragment behind its LAC. A fragment may be empty: it ends before it starts then.
    """
    ends: list[int | None] = [after.first_entry_id - 1 for after in metadata.fragments[1:]]
    ends.append(metadata.last_entry_id)
    last = metadata.last_entry_id
    if last is None:
        return ends
    return [last if end is None else min(end, last) for end in ends]


def due_count(quorum: Quorum, slot: int, first: int, last: int) -> int:
    """Return how many of the ids ``first .. last`` are due on a slot.

    >>> due_count(Quorum(3, 2, 2), 0, 0, 6)
    5
    """
    count = max(0, last - first + 1)
    if not quorum.is_striped:
        return count
    rounds, rest = divmod(count, quorum.ensemble_size)
    odd = sum(quorum.holds(slot, entry_id) for entry_id in range(last - rest + 1, last + 1))
    return rounds * quorum.write_size + odd


def missing_spans(quorum: Quorum, slot: int, span: Span, held: Sequence[Span]) -> tuple[Span, ...]:
    """Return what of the due ids of a span is not in the ascending ranges ``held``.

    >>> missing_spans(Quorum(3, 3, 2), 0, (0, 9), [(2, 3), (5, 7)])
    ((0, 1), (4, 4), (8, 9))
    """
    found: list[Span] = []
    joint = -1  # the due id that would go on with the last span found
    for first, last in _gaps(span, held):
        start, end = _first_due(quorum, slot, first), _last_due(quorum, slot, last)
        if start > end:
            continue
        if start == joint:
            start = found.pop()[0]
        found.append((start, end))
        joint = _first_due(quorum, slot, end + 1)
    return tuple(found)


def without_source(
    quorum: Quorum, slot: int, span: Span, sources: Collection[int]
) -> LostEntries | None:
    """Return the due entries of a span that none of these slots holds; ``None``: there are none."""
    first, last = span
    residues = [
        first + offset
        for offset in range(min(quorum.ensemble_size, last - first + 1))
        if quorum.holds(slot, first + offset)
        and not any(source in sources for source in quorum.write_set(first + offset))
    ]
    if not residues:
        return None
    size = quorum.ensemble_size
    ends = [last - (last - residue) % size for residue in residues]
    count = sum((end - start) // size + 1 for start, end in zip(residues, ends, strict=True))
    return LostEntries(min(residues), max(ends), count, "no bookie that has a replica is there")


def _gaps(span: Span, held: Sequence[Span]) -> Iterator[Span]:
    next_id, last = span
    for held_first, held_last in held:
        if held_last < next_id:
            continue
        if held_first > last:
            break
        if held_first > next_id:
            yield next_id, held_first - 1
        next_id = held_last + 1
    if next_id <= last:
        yield next_id, last


def _first_due(quorum: Quorum, slot: int, entry_id: int) -> int:
    while not quorum.holds(slot, entry_id):  # fewer steps than the ensemble has bookies
        entry_id += 1
    return entry_id


def _last_due(quorum: Quorum, slot: int, entry_id: int) -> int:
    while not quorum.holds(slot, entry_id):
        entry_id -= 1
    return entry_id
