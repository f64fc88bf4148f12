"""The entries of a log for a batch, and their partitions. Pure: lengths come through a port.

A batch is the range from one position up to, and excluding, another one. Positions have *one form*:
none is after the last entry of a ledger with a successor; it is the first one of the successor
then. So the end of a range that was read never needs a ledger that was truncated after the read.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

import zbk
from pyspark_zbk.log_rows import EntryRange

RANGE_COUNT_MAX: Final = 4_096
"""Limit on the ranges of one partition, from small ledgers that share it."""


class Lengths(Protocol):
    """The known lengths of a log's ledgers."""

    def last_of(self, ledger_id: int) -> int:
        """Return the last entry of a closed ledger; -1: it is empty."""

    def length_at(self, ledger_id: int, entry_id: int) -> int:
        """Return the bytes of payload up to and including an entry; 0 for -1."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limit of a micro-batch; ``None``: no limit."""

    entry_count: int | None = None
    size: int | None = None  # bytes of payload; one entry is taken however large it is


def ranges(
    ledger_ids: Iterable[int], start: zbk.LogPosition, end: zbk.LogPosition, lengths: Lengths
) -> Iterator[EntryRange]:
    """Yield the ranges between two positions, ledger by ledger, in order."""
    for ledger_id in ledger_ids:
        if not start.ledger_id <= ledger_id <= end.ledger_id:
            continue
        first = start.entry_id if ledger_id == start.ledger_id else 0
        last = end.entry_id - 1 if ledger_id == end.ledger_id else lengths.last_of(ledger_id)
        if first <= last:
            yield EntryRange(ledger_id, first, last)


def limited(
    ledger_ids: Sequence[int],
    start: zbk.LogPosition,
    head: zbk.LogPosition,
    limits: Limits,
    lengths: Lengths,
) -> zbk.LogPosition:
    """Return the end of a batch that begins at ``start``, at most ``head``.

    The batch has at least one entry, if there is one.
    """
    count_left, size_left = limits.entry_count, limits.size
    is_empty = True
    for one in ranges(ledger_ids, start, head, lengths):
        count = len(one) if count_left is None else min(len(one), count_left)
        if size_left is not None:
            count, size = _fitting(one, count, size_left, lengths)
            if is_empty and not count:
                count, size = 1, size_left + 1  # it is alone: nothing fits beside it, however small
            size_left -= size
        is_empty = is_empty and not count
        if count_left is not None:
            count_left -= count
        if count < len(one):
            return zbk.LogPosition(one.ledger_id, one.first + count)
    return head


def partitions(
    found: Iterable[EntryRange], size_max: int, lengths: Lengths
) -> Iterator[list[EntryRange]]:
    """Yield the ranges of each partition: large ones split, small ones together, in order."""
    packed: list[EntryRange] = []
    packed_size = 0
    for one in found:
        size = _size(one, lengths)
        pieces = list(_split(one, size, size_max))
        for piece in pieces:
            piece_size = size // len(pieces)
            if packed and (packed_size + piece_size > size_max or len(packed) == RANGE_COUNT_MAX):
                yield packed
                packed, packed_size = [], 0
            packed.append(piece)
            packed_size += piece_size
    if packed:
        yield packed


def _fitting(one: EntryRange, count: int, size_max: int, lengths: Lengths) -> tuple[int, int]:
    """Return how many entries from the first one on fit, at most ``count``, and their size."""
    before = lengths.length_at(one.ledger_id, one.first - 1)

    def size(of_count: int) -> int:
        return lengths.length_at(one.ledger_id, one.first + of_count - 1) - before

    whole = size(count)
    if whole <= size_max:
        return count, whole
    low, high, low_size = 0, count, 0  # ``low`` entries fit, ``high`` do not
    while high - low > 1:
        middle = (low + high) // 2
        middle_size = size(middle)
        if middle_size <= size_max:
            low, low_size = middle, middle_size
        else:
            high = middle
    return low, low_size


def _size(one: EntryRange, lengths: Lengths) -> int:
    """Return the weight of a range: its payloads, and a constant per entry."""
    before = lengths.length_at(one.ledger_id, one.first - 1)
    return lengths.length_at(one.ledger_id, one.last) - before + len(one) * ENTRY_WEIGHT


ENTRY_WEIGHT: Final = 64
"""Bytes of payload with about the same cost for a reader as an entry itself."""


def _split(one: EntryRange, size: int, size_max: int) -> Iterator[EntryRange]:
    piece_count = min(len(one), -(-size // size_max))
    step = -(-len(one) // max(1, piece_count))
    for first in range(one.first, one.last + 1, step):
        yield EntryRange(one.ledger_id, first, min(first + step - 1, one.last))
