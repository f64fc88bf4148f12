"""Reads entries at known locations, with few reads, and checks that they are these entries.

Words: *near* entries follow each other in one log, their starts no more than ``GAP_SIZE_MAX`` bytes
apart: they are read together with the bytes between them. A *row* is a run of near entries.

An entry in the index that cannot be read, or is another entry, is *unreadable*: an error. Only the
index can say "no such entry".

Any thread. Digests are not verified: only the client knows the key, and reads another replica.

Source: BookKeeper #2908: ids that do not match are an error, not an absence.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, compress, count, pairwise, repeat
from operator import add, ne, sub
from typing import Final, TypeAlias

import msgspec

from zbk.errors import CorruptRecordError, EntryUnreadableError
from zbk.protocol.entry.digest import DIGEST_SIZE_BY_CODE
from zbk.protocol.entry.entry import ENTRY_VERSION, HEADER_SIZE, read_prefix
from zbk.storage.entry_logs.format import BLOCK_MAGIC

GAP_SIZE_MAX: Final = 64 * 1024
"""Bytes from one entry to the next up to which one read is better than two."""

LAST_SIZE_GUESS: Final = 4 * 1024
"""Bytes read for the last entry of a row, whose size is not in the index. A second read gets the
rest of a larger entry."""

LONE_SIZE_MAX: Final = 1024 * 1024
"""Bytes read for an entry alone in its row, if the next one is no farther away."""

_PREFIX = struct.Struct("<IIqq")  # payload size, version | digest code << 8, ledger id, entry id
_OVERHEAD_BY_FLAGS: Final = {
    ENTRY_VERSION | code << 8: HEADER_SIZE + digest_size
    for code, digest_size in enumerate(DIGEST_SIZE_BY_CODE)
}

ReadLog: TypeAlias = Callable[[int, int], bytes]
"""Location and size to bytes; fewer only at the end of the log. Raises ``OSError``."""


class Resolved(msgspec.Struct, frozen=True):
    """Entries in the index, with their locations."""

    ledger_id: int
    entry_ids: Sequence[int]  # ascending, at least one
    locations: "array[int]"
    size_max: int  # bytes to return at most, but at least one entry
    directory_no: int = 0  # the place of the ledger's directory among the bookie's
    is_checked: bool = False  # only those whose blocks are sound


def fetch(read_log: ReadLog, resolved: Resolved) -> tuple[int, bytes]:
    """Return how many of the entries were read, from the first on, and their bytes back to back.

    At least one, and as many as ``size_max`` allows. An unreadable one ends the answer; the next
    call reads after it.

    Raises:
        EntryUnreadableError: the first one cannot be read.
    """
    locations = resolved.locations.tolist()
    borders = _row_borders(locations)
    spans: list[bytes] = []
    low = border = 0
    room = resolved.size_max
    while low < len(locations):
        if low == border:
            border = next(borders)
        # entries that start beyond the room do not fit
        high = bisect_left(locations, locations[low] + max(room, 1), low, border)
        try:
            row = _read_row(read_log, resolved, locations, low, high)
        except EntryUnreadableError:
            if low:
                break
            raise
        fitting = bisect_right(list(accumulate(row.sizes)), room)
        fitting = max(fitting, 1) if not low else fitting
        spans += row.spans(fitting)
        low += fitting
        room -= sum(row.sizes[:fitting])
        if low < high or room <= 0:
            break
    return low, b"".join(spans)


class _Row:
    """Entries that were read together, verified."""

    def __init__(self, buffer: bytes, offsets: list[int], sizes: list[int]) -> None:
        self.buffer = buffer
        self.offsets = offsets
        self.sizes = sizes  # of the good ones; as many or fewer than offsets

    def spans(self, entry_count: int) -> list[bytes]:
        """Return the bytes of the first entries, cut only where other bytes lie between them."""
        starts = self.offsets[:entry_count]
        ends = list(map(add, starts, self.sizes))
        cuts = [0, *compress(count(1), map(ne, ends, starts[1:])), entry_count]
        return [self.buffer[starts[a] : ends[b - 1]] for a, b in pairwise(cuts) if a < b]


def _row_borders(locations: list[int]) -> Iterator[int]:
    """Yield the places where a row of near entries ends, ascending; the last is the end."""
    steps = map(sub, locations[1:], locations)
    for at, step in enumerate(steps, 1):
        if not 0 < step <= GAP_SIZE_MAX:
            yield at
    yield len(locations)


def _read_row(
    read_log: ReadLog, resolved: Resolved, locations: list[int], low: int, high: int
) -> _Row:
    """Return the entries ``low .. high - 1``, near ones, up to the first that is unreadable.

    Raises:
        EntryUnreadableError: the first one is unreadable.
    """
    start = locations[low]
    offsets = list(map(sub, locations[low:high], repeat(start)))
    ledger_id, entry_ids = resolved.ledger_id, resolved.entry_ids[low:high]
    try:
        buffer = read_log(start, offsets[-1] + _last_size_guess(locations, low, high))
        sizes = _sizes(buffer, offsets, ledger_id, entry_ids)
        end = offsets[len(sizes) - 1] + sizes[-1] if sizes else 0
        if end > len(buffer):
            buffer += read_log(start + len(buffer), end - len(buffer))
    except OSError as error:
        raise EntryUnreadableError(ledger_id, entry_ids[0], str(error)) from error
    if end > len(buffer):
        sizes.pop()
    if not sizes:
        raise EntryUnreadableError(
            ledger_id, entry_ids[0], f"the entry log has other bytes at {start:#x}"
        )
    return _Row(buffer, offsets, sizes)


def _last_size_guess(locations: list[int], low: int, high: int) -> int:
    if high - low > 1:
        return max(LAST_SIZE_GUESS, locations[high - 1] - locations[high - 2])
    if high < len(locations) and 0 < locations[high] - locations[low] <= LONE_SIZE_MAX:
        return locations[high] - locations[low]
    return LAST_SIZE_GUESS


def _sizes(
    buffer: bytes, offsets: list[int], ledger_id: int, entry_ids: Sequence[int]
) -> list[int]:
    """Return the sizes in the headers of entries, up to the first that is another entry.

    The last one may extend beyond the buffer, the others not beyond the start of the next one.
    """
    entry_count = len(offsets)
    try:
        prefixes = map(_PREFIX.unpack_from, repeat(buffer), offsets)
        payload_sizes, flags, ledger_ids, ids = zip(*prefixes, strict=True)
    except struct.error:  # the buffer ends early
        return _sizes_one_by_one(buffer, offsets, ledger_id, entry_ids)
    overhead = _OVERHEAD_BY_FLAGS.get(flags[0])
    if (
        overhead is None
        or flags.count(flags[0]) != entry_count
        or ledger_ids.count(ledger_id) != entry_count
        or ids != tuple(entry_ids)
    ):
        return _sizes_one_by_one(buffer, offsets, ledger_id, entry_ids)
    sizes = list(map(add, payload_sizes, repeat(overhead)))
    ends = list(map(add, offsets, sizes))
    borders = compress(count(), map(ne, ends, offsets[1:]))
    if all(_may_end_at(buffer, ends[at], offsets[at + 1], ledger_id) for at in borders):
        return sizes
    return _sizes_one_by_one(buffer, offsets, ledger_id, entry_ids)


def _sizes_one_by_one(
    buffer: bytes, offsets: list[int], ledger_id: int, entry_ids: Sequence[int]
) -> list[int]:
    sizes: list[int] = []
    for offset, next_offset, entry_id in zip(offsets, [*offsets[1:], None], entry_ids, strict=True):
        try:
            found_ledger, found_entry, size = read_prefix(buffer, offset)
        except CorruptRecordError:
            break
        if (found_ledger, found_entry) != (ledger_id, entry_id):
            break
        end = offset + size
        if next_offset not in {None, end} and not _may_end_at(buffer, end, next_offset, ledger_id):
            break
        sizes.append(size)
    return sizes


def _may_end_at(buffer: bytes, end: int, next_offset: int, ledger_id: int) -> bool:
    """Return whether an entry may end here, before the next one; a damaged size ends elsewhere.

    An entry is followed by another one of its ledger, or by the header of a block.
    """
    if end > next_offset:
        return False
    if buffer.startswith(BLOCK_MAGIC, end):
        return True
    try:
        return read_prefix(buffer, end)[0] == ledger_id
    except CorruptRecordError:
        return False
