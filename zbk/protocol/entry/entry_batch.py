"""A batch of entries of one ledger: the unit that travels, is journaled, stored and answered.

The entries lie back to back in ``body``, each exactly as in ``entry.entry``; nobody on the
way re-encodes them. Their sizes travel beside the body, so that nobody has to walk it.

    on the wire   sizes: u32 little-endian an entry; ids: see ``zbk.wire``
    in memory     sizes: ``array('I')`` in the host's byte order

A batch is checked twice in its life at a bookie, each time as a whole: ``validate`` (structure)
and ``verify`` (checksum). After that its bytes are trusted until they are read back from a disk.

Everything here is a function of its arguments.
"""

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, Self

import msgspec

from zbk.errors import CorruptRecordError, MalformedMessageError
from zbk.protocol.entry.digest import checksum as checksum_of
from zbk.protocol.entry.entry import HEADER_SIZE, read_prefix
from zbk.protocol.entry.words import LEDGER_ID_MAX

BODY_SIZE_MAX: Final = 256 * 1024 * 1024
"""Bytes of one batch's entries."""

COUNT_MAX: Final = 1 << 20
"""Entries of one batch."""

STORED_ENTRY_ID_MAX: Final = (1 << 40) - 1
"""The highest entry id that bookies take: an index file has no room for more in 16 TiB."""

assert array("I").itemsize == 4, "sizes are u32"
assert array("q").itemsize == 8, "ids are i64"


class EntryBatch(msgspec.Struct, frozen=True, gc=False):
    """Entries of one ledger, ascending. All parts belong to the batch: nobody changes them.

    >>> batch = EntryBatch.of(7, range(3, 4), [HEADER_SIZE], bytes(HEADER_SIZE))
    >>> batch.first_entry_id, batch.last_entry_id, batch.count, batch.size
    (3, 3, 1, 40)
    """

    ledger_id: int
    entry_ids: Sequence[int]  # a ``range`` when in a row, else an ascending ``array('q')``
    sizes: "array[int]"  # ``array('I')``: bytes of each encoded entry
    body: bytes  # the encoded entries, back to back
    checksum: int  # of ``body``

    @classmethod
    def of(
        cls, ledger_id: int, entry_ids: Sequence[int], sizes: Sequence[int], body: bytes
    ) -> Self:
        """Return a batch with its checksum computed."""
        return cls(ledger_id, entry_ids, array("I", sizes), body, checksum_of(body))

    @property
    def first_entry_id(self) -> int:
        """The lowest id."""
        return self.entry_ids[0]

    @property
    def last_entry_id(self) -> int:
        """The highest id."""
        return self.entry_ids[-1]

    @property
    def count(self) -> int:
        """How many entries."""
        return len(self.sizes)

    @property
    def size(self) -> int:
        """Bytes of the encoded entries."""
        return len(self.body)

    @property
    def is_in_a_row(self) -> bool:
        """True when the ids have no holes."""
        return isinstance(self.entry_ids, range)

    def verify(self) -> None:
        """Accept the body as the one that the writer made the checksum of.

        Raises:
            MalformedMessageError: it is another one.
        """
        if checksum_of(self.body) != self.checksum:
            raise MalformedMessageError(
                f"ledger {self.ledger_id}: the checksum of the batch at entry "
                f"{self.first_entry_id} does not match"
            )

    def validate(self) -> None:
        """Accept the structure: counts, sizes, and who the first and the last entry are.

        Every inner entry is checked by its reader; here the cost must not grow with the count
        by more than a sum.

        Raises:
            MalformedMessageError: says what does not fit.
        """
        problem = self._problem()
        if problem:
            raise MalformedMessageError(f"a batch of ledger {self.ledger_id}: {problem}")

    def select(self, indexes: Sequence[int]) -> "EntryBatch":
        """Return the batch of the entries at these ascending places of this one."""
        ends = [0, *accumulate(self.sizes)]
        body = b"".join([self.body[ends[i] : ends[i + 1]] for i in indexes])
        ids = array("q", [self.entry_ids[i] for i in indexes])
        is_in_a_row = ids[-1] - ids[0] + 1 == len(ids)
        return EntryBatch.of(
            self.ledger_id,
            range(ids[0], ids[-1] + 1) if is_in_a_row else ids,
            [self.sizes[i] for i in indexes],
            body,
        )

    def _problem(self) -> str:
        ids, sizes, body_size = self.entry_ids, self.sizes, len(self.body)
        count = len(sizes)
        if not 1 <= count <= COUNT_MAX or count != len(ids):
            return f"{count} sizes for {len(ids)} entry ids"
        if body_size > BODY_SIZE_MAX:
            return f"{body_size} bytes are over the limit of {BODY_SIZE_MAX}"
        is_same = is_uniform(sizes)
        total = sizes[0] * count if is_same else sum(sizes)
        if total != body_size:
            return f"sizes that sum to {total} do not fit {body_size} bytes"
        if sizes[0] < HEADER_SIZE or (not is_same and _has_size_below(HEADER_SIZE, sizes)):
            return f"an entry of {min(sizes)} bytes"
        return (
            self._ids_problem()
            or self._prefix_problem(0, 0)
            or self._prefix_problem(-1, body_size - sizes[-1])
        )

    def _ids_problem(self) -> str:
        ids = self.entry_ids
        if not 0 <= self.ledger_id <= LEDGER_ID_MAX:
            return "an impossible ledger id"
        if isinstance(ids, range) and ids.step != 1:
            return f"entry ids {ids} are not in a row"
        if not 0 <= ids[0] <= ids[-1] <= STORED_ENTRY_ID_MAX:
            return f"entry ids {ids[0]} .. {ids[-1]} are not in 0 .. {STORED_ENTRY_ID_MAX}"
        return ""

    def _prefix_problem(self, index: int, offset: int) -> str:
        wanted = (self.ledger_id, self.entry_ids[index], self.sizes[index])
        try:
            found = read_prefix(self.body, offset)
        except CorruptRecordError as error:
            return str(error)
        return "" if found == wanted else f"an entry says {found} where {wanted} is due"


def sizes_to_wire(sizes: "array[int]") -> bytes:
    """Return sizes as they travel: u32 little-endian each."""
    return _little_endian(sizes).tobytes()


def sizes_from_wire(frame: bytes | memoryview) -> "array[int]":
    """Return the sizes in a frame.

    Raises:
        MalformedMessageError: no whole number of sizes, none, or too many.
    """
    if not frame or len(frame) % 4 or len(frame) // 4 > COUNT_MAX:
        raise MalformedMessageError(f"{len(frame)} bytes are no list of 1 to {COUNT_MAX} sizes")
    sizes = array("I")
    sizes.frombytes(frame)
    return _little_endian(sizes)


def is_uniform(sizes: "array[int]") -> bool:
    """Return whether all sizes are the same. Two copies and a compare: far cheaper than a loop."""
    return sizes.tobytes() == sizes[:1].tobytes() * len(sizes)


def _has_size_below(limit: int, sizes: "array[int]") -> bool:
    """Return whether a size is below ``limit``; none may be 2^31 or more, as no sum allows it.

    All sizes are compared in one subtraction of two numbers of 32 bits a size: with the highest
    bit set in each, none borrows from its neighbour, and the bit falls where the size was too
    small. Six times as fast as ``min``.
    """
    if len(sizes) > _LANE_COUNT_MAX:
        return min(sizes) < limit
    high_bits, limits = _high_bits_and_limits(len(sizes), limit)
    numbers = int.from_bytes(sizes.tobytes(), sys.byteorder)
    return (numbers | high_bits) - limits & high_bits != high_bits


_LANE_COUNT_MAX: Final = 8192  # the numbers are kept, 64 KiB a count at most


@lru_cache(maxsize=32)
def _high_bits_and_limits(count: int, limit: int) -> tuple[int, int]:
    one, other = (number.to_bytes(4, sys.byteorder) * count for number in (1 << 31, limit))
    return int.from_bytes(one, sys.byteorder), int.from_bytes(other, sys.byteorder)


def _little_endian(values: "array[int]") -> "array[int]":
    """Return the values with little-endian bytes, or, of such, those of the host."""
    if sys.byteorder == "little":
        return values
    swapped = values[:]
    swapped.byteswap()
    return swapped
