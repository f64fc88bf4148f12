"""The location of an entry, in 8 bytes: its entry log, and the offset of its first byte.

    bits 34 .. 63   entry log id, 1 and up: 2^30 logs, a pebibyte with the smallest logs allowed
    bits  0 .. 33   offset in the log, bytes: 16 GiB, four times the largest log allowed

0 is no location: in the index it means "absent". All ones is in a log that cannot exist: it means
that the index was damaged there. A read of it fails, which is neither yes nor no.
"""

from array import array
from functools import lru_cache
from itertools import accumulate
from typing import Final

from zbk.protocol.entry.entry_batch import is_uniform
from zbk.storage.disk.byte_order import locations_from_disk

ABSENT: Final = 0
OFFSET_BITS: Final = 34
OFFSET_MAX: Final = (1 << OFFSET_BITS) - 1
LOG_ID_MAX: Final = (1 << 64 - OFFSET_BITS) - 1
UNKNOWN: Final = (1 << 64) - 1


def location_of(log_id: int, offset: int) -> int:
    """Return the location of the entry at ``offset`` in a log.

    >>> split_location(location_of(3, 112))
    (3, 112)
    """
    assert 1 <= log_id <= LOG_ID_MAX, "log ids are used up"
    assert 0 <= offset <= OFFSET_MAX, "a log is rolled long before"
    return log_id << OFFSET_BITS | offset


def split_location(location: int) -> tuple[int, int]:
    """Return the log id and the offset in a location."""
    return location >> OFFSET_BITS, location & OFFSET_MAX


def entry_locations(base: int, sizes: "array[int]") -> "array[int]":
    """Return the locations of entries that lie back to back from ``base`` on, as ``array('Q')``.

    >>> entry_locations(1000, array("I", [40, 50, 60])).tolist()
    [1000, 1040, 1090]
    """
    count = len(sizes)
    if count == 1:
        return array("Q", (base,))
    if count <= _UNIFORM_COUNT_MAX and is_uniform(sizes):
        # base + i * size for all i at once, in one sum of two numbers of 64 bits an entry. No
        # digit overflows, so none carries into the next: 4 times as fast as the loop below.
        ones, steps = _ones_and_steps(count, sizes[0])
        return locations_from_disk((base * ones + steps).to_bytes(8 * count, "little"))
    locations = array("Q", list(accumulate(sizes.tolist(), initial=base)))
    locations.pop()
    return locations


_UNIFORM_COUNT_MAX: Final = 8192
_ONES: Final = (1).to_bytes(8, "little") * _UNIFORM_COUNT_MAX
_RAMP: Final = b"".join(i.to_bytes(8, "little") for i in range(_UNIFORM_COUNT_MAX))


@lru_cache(maxsize=32)
def _ones_and_steps(count: int, step: int) -> tuple[int, int]:
    """Return the numbers whose 64-bit digits are 1, 1, 1 ... and 0, step, 2 * step ..."""
    size = 8 * count
    ramp = int.from_bytes(_RAMP[:size], "little")
    return int.from_bytes(_ONES[:size], "little"), step * ramp
