"""The order to copy entries of a fragment to one bookie, and the arithmetic of due entries.

An entry is *due* on a slot if its write set has the slot. A *span* is a first and a last id; in a
striped fragment it means the due ids among them. Missing entries that follow each other on the slot
are one span, so spans stay few where ids are many.

Every function depends only on its arguments.

Source: BookKeeper's ``LedgerFragment`` and ``LedgerChecker``; the autorecovery page, The
Rereplication process.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum


class LostEntries(msgspec.Struct, frozen=True):
    """Entries of which no replica was found."""

    first_entry_id: int
    last_entry_id: int
    count: int  # in a striped fragment fewer than ``first .. last``
    reason: str

    def __str__(self) -> str:
        if self.count == 1:
            return f"entry {self.first_entry_id}: {self.reason}"
        ids = f"{self.first_entry_id} .. {self.last_entry_id}"
        some = "" if self.count == self.last_entry_id - self.first_entry_id + 1 else "among "
        return f"{self.count} entries, {some}{ids}: {self.reason}"


class CopyOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order to copy entries to one bookie: those due on ``slot`` in ``spans`` of one fragment.

    ``sources`` are the slots to read from; each due entry has one of them in its write set.
    """

    metadata: LedgerMetadata
    fragment: Fragment
    slot: int
    target: str  # a bookie; the one in the slot, if that one lacks entries
    spans: tuple[Span, ...]  # ascending, apart
    sources: tuple[int, ...]
    lac: int  # every entry up to it is confirmed
    is_mend: bool = False  # damaged copies of the target are replaced: it is a source, too

    @property
    def is_move(self) -> bool:
        """True when the target is to replace the bookie in the slot."""
        return self.fragment.bookies[self.slot] != self.target

    @property
    def entry_count(self) -> int:
        """The number of entries to copy."""
        quorum, slot = self.metadata.quorum, self.slot
        return sum(due_count(quorum, slot, first, last) for first, last in self.spans)


def ends_of(metadata: LedgerMetadata) -> list[int | None]:
    """Return the last entry id of each fragment; ``None``: not known yet.

    Only the end of the last fragment of an open ledger is unknown: a writer begins a fragment after
    its LAC. An empty fragment ends before it starts.
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
    """Return the due ids of a span that are not in the ascending ranges ``held``.

    >>> missing_spans(Quorum(3, 3, 2), 0, (0, 9), [(2, 3), (5, 7)])
    ((0, 1), (4, 4), (8, 9))
    """
    found: list[Span] = []
    joint = -1  # the due id that would continue the last span found
    for first, last in _gaps(span, held):
        start, end = _first_due(quorum, slot, first), _last_due(quorum, slot, last)
        if start > end:
            continue
        if start == joint:
            start = found.pop()[0]
        found.append((start, end))
        joint = _first_due(quorum, slot, end + 1)
    return tuple(found)


def due_runs(quorum: Quorum, slot: int, held: Iterable[Span]) -> Iterator[Span]:
    """Yield the ids among ascending ranges that are due on a slot, as runs without gaps.

    >>> list(due_runs(Quorum(3, 2, 1), 2, [(0, 5)]))
    [(1, 2), (4, 5)]
    """
    if not quorum.is_striped:
        yield from held
        return
    for first, last in held:
        start = _first_due(quorum, slot, first)
        while start <= last:
            end = start
            while end < last and quorum.holds(slot, end + 1):
                end += 1
            yield start, end
            start = _first_due(quorum, slot, end + 1)


def without_source(
    quorum: Quorum, slot: int, span: Span, sources: Collection[int]
) -> LostEntries | None:
    """Return the due entries of a span that none of ``sources`` holds; ``None``: no such entry."""
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
    return LostEntries(min(residues), max(ends), count, "no bookie with a replica is available")


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
