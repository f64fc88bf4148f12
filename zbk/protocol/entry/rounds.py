"""Entry ids that repeat in rounds, as those of one slot of a striped ledger do. Everything in C.

Words: ids are *in rounds* if each of them is ``step`` above the one that is ``size`` places before
it. A slot of a ledger with E bookies and Qw copies has rounds of Qw ids and the step E.

    E = 5, Qw = 3, slot 0    ids 0 3 4 5 8 9 10 13    size 3, step 5

A loop costs up to 70 ns for each id. Here all ids of an array are one large number with 64 bits for
each, so a sum or a difference of two such numbers is that of all ids at once. No digit overflows,
because ids are below 2^63.
"""

import sys
from array import array
from collections import deque
from collections.abc import Iterator, MutableSequence, Sequence
from functools import lru_cache
from itertools import repeat
from operator import sub
from typing import Final, NamedTuple, TypeVar

ValueT = TypeVar("ValueT")

_KEPT_COUNT: Final = 8192  # nearly all batches have fewer entries
_ONES: Final = int.from_bytes((1).to_bytes(8, "little") * _KEPT_COUNT, "little")
_GAP_PLACE_MAX: Final = 128
"""Where the search for the second gap ends: a round has fewer ids than an ensemble has bookies."""


def little_endian(values: "array[int]") -> "array[int]":
    """Return the values in little-endian byte order, or such values in the order of the host."""
    if sys.byteorder == "little":
        return values
    swapped = values[:]
    swapped.byteswap()
    return swapped


class Rounds(NamedTuple):
    """How ascending ids repeat."""

    size: int  # ids in a round
    step: int  # from an id to the one that is ``size`` places after it
    gap_place: int  # of the first id that is not followed by its neighbor

    def runs(self, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the first and the last id of each run of neighbors.

        >>> ids = array("q", [3, 5, 6, 8, 9])
        >>> list(rounds_of(ids).runs(ids))
        [(3, 3), (5, 6), (8, 9)]
        """
        firsts = [ids[0], *ids[self.gap_place + 1 :: self.size]]
        lasts = [*ids[self.gap_place :: self.size]]
        if len(lasts) < len(firsts):
            lasts.append(ids[-1])
        return zip(firsts, lasts, strict=True)


def rounds_of(ids: Sequence[int]) -> Rounds | None:
    """Return how these ascending ids repeat; ``None`` if they do not, or have no two gaps.

    >>> rounds_of(array("q", [3, 5, 6, 8, 9]))
    Rounds(size=2, step=3, gap_place=0)
    >>> rounds_of(array("q", [3, 5, 6, 9])), rounds_of(range(9))
    (None, None)
    """
    if not isinstance(ids, array):
        return None
    first = _next_gap(ids, 0)
    second = None if first is None else _next_gap(ids, first + 1)
    if first is None or second is None:
        return None
    size = second - first
    step = ids[size] - ids[0]
    return Rounds(size, step, first) if is_in_rounds(ids, size, step) else None


def gather(
    values: "array[int]", ids: Sequence[int], base: int, rounds: Rounds | None
) -> "array[int]":
    """Return the values of these ids, where ``values[0]`` is that of id ``base``.

    >>> ids = array("q", [3, 5, 6, 8])
    >>> gather(array("I", range(10, 20)), ids, 3, rounds_of(ids)).tolist()
    [10, 12, 13, 15]
    """
    if rounds is None:
        return array(values.typecode, map(values.__getitem__, map(sub, ids, repeat(base))))
    found = array(values.typecode, bytes(values.itemsize * len(ids)))
    end = ids[-1] - base + 1
    for at in range(min(rounds.size, len(ids))):
        found[at :: rounds.size] = values[ids[at] - base : end : rounds.step]
    return found


def scatter(
    values: MutableSequence[ValueT], ids: Sequence[int], base: int, news: Sequence[ValueT]
) -> None:
    """Set the values of these ids, where ``values[0]`` is that of id ``base``.

    >>> values = array("Q", bytes(32))
    >>> scatter(values, array("q", [5, 7]), 5, array("Q", [1, 2])); values.tolist()
    [1, 0, 2, 0]
    """
    rounds = rounds_of(ids)
    if rounds is None:
        deque(map(values.__setitem__, map(sub, ids, repeat(base)), news), maxlen=0)
        return
    end = ids[-1] - base + 1
    for at in range(rounds.size):
        values[ids[at] - base : end : rounds.step] = news[at :: rounds.size]


def is_in_rounds(ids: "array[int]", size: int, step: int) -> bool:
    """Return whether each id is ``step`` above the one that is ``size`` places before it.

    >>> is_in_rounds(array("q", [0, 1, 4, 5, 8]), 2, 4)
    True
    """
    count = len(ids) - size
    if count <= 0:
        return True
    numbers = _number(ids)
    return numbers >> 64 * size == (numbers & _all_bits(count)) + step * _ones(count)


def ids_in_rounds(firsts: Sequence[int], step: int, stop: int) -> "array[int]":
    """Return the ids below ``stop`` that begin with these and go on in rounds, ascending.

    ``firsts``: one round, ascending, within less than ``step``.

    >>> ids_in_rounds([3, 5], 3, 10).tolist()
    [3, 5, 6, 8, 9]
    """
    start = firsts[0]
    count = sum(len(range(first, stop, step)) for first in firsts)
    offsets = tuple(first - start for first in firsts)
    if count > _KEPT_COUNT:
        return _ids_in_rounds(firsts, step, stop)
    return _ids((_pattern(offsets, step) & _all_bits(count)) + start * _ones(count), count)


def is_ascending(ids: "array[int]") -> bool:
    """Return whether the ids ascend from 0 or more.

    >>> is_ascending(array("q", [0, 2, 3])), is_ascending(array("q", [0, 2, 2]))
    (True, False)
    """
    numbers, ones, count = _number(ids), _ones(len(ids)), len(ids)
    high_bits = ones << 63
    if numbers & high_bits:  # a negative one
        return False
    # 2^63 + next - former - 1 keeps the highest bit of its digit if the next one is larger
    next_ones, next_high_bits = ones >> 64, high_bits >> 64
    former = numbers & _all_bits(count - 1)
    found = (numbers >> 64) + next_high_bits - former - next_ones
    return found & next_high_bits == next_high_bits


@lru_cache(maxsize=64)
def _pattern(offsets: tuple[int, ...], step: int) -> int:
    """Return the number of many ids in rounds that begin with these."""
    rounds = -(-_KEPT_COUNT // len(offsets))
    return _number(_ids_in_rounds(offsets, step, rounds * step))


def _ids_in_rounds(firsts: Sequence[int], step: int, stop: int) -> "array[int]":
    parts = [array("q", range(first, stop, step)) for first in firsts]
    ids = array("q", bytes(8 * sum(map(len, parts))))
    for at, part in enumerate(parts):
        if part:
            ids[at :: len(parts)] = part
    return ids


def _next_gap(ids: "array[int]", start: int) -> int | None:
    """Return the place of the first id from there on that is not followed by its neighbor."""
    for place in range(start, min(len(ids) - 1, _GAP_PLACE_MAX)):
        if ids[place + 1] != ids[place] + 1:
            return place
    return None


def _number(ids: "array[int]") -> int:
    return int.from_bytes(little_endian(ids).tobytes(), "little")


def _ids(number: int, count: int) -> "array[int]":
    return little_endian(array("q", number.to_bytes(8 * count, "little")))


def _ones(count: int) -> int:
    """Return the number whose ``count`` digits are all 1."""
    if count <= _KEPT_COUNT:
        return _ONES >> 64 * (_KEPT_COUNT - count)
    return int.from_bytes((1).to_bytes(8, "little") * count, "little")


def _all_bits(count: int) -> int:
    """Return the number whose ``count`` digits have all bits."""
    return (1 << 64 * count) - 1
