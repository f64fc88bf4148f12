"""A batch of entries of one ledger: the unit of requests, journal records, storage and answers.

The entries lie back to back in ``body``, each exactly as in ``entry.entry``; no layer re-encodes
them. Their sizes travel beside the body, so that no layer has to walk it.

    on the wire   sizes: one u32, little-endian, for each entry; ids: see ``zbk.wire``
    in memory     sizes: ``array('I')`` in the host's byte order

A bookie checks a whole batch twice: ``validate`` (structure) and ``verify`` (checksum). After that
it trusts the bytes until it reads them back from a disk.

Everything here is a function of its arguments.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from struct import Struct
from typing import Final, Self

import msgspec

from zbk.errors import CorruptRecordError, MalformedMessageError
from zbk.protocol.entry.digest import checksum as checksum_of
from zbk.protocol.entry.entry import HEADER_SIZE, read_prefix
from zbk.protocol.entry.rounds import Rounds, gather, little_endian, rounds_of
from zbk.protocol.entry.words import LEDGER_ID_MAX

BODY_SIZE_MAX: Final = 256 * 1024 * 1024
"""Bytes of one batch's entries."""

MESSAGE_SIZE_MIN: Final = 4 * 1024 * 1024
"""Bytes of a batch that every bookie accepts, whatever its options. A writer's have no more."""

COUNT_MAX: Final = 1 << 20
"""Entries of one batch."""

STORED_ENTRY_ID_MAX: Final = (1 << 40) - 1
"""The highest entry id that bookies accept: an index file of 16 TiB has no room for more."""

assert array("I").itemsize == 4, "sizes are u32"
assert array("q").itemsize == 8, "ids are i64"


class EntryBatch(msgspec.Struct, frozen=True, gc=False):
    """Entries of one ledger, ascending. The batch owns all its parts, and they never change.

    >>> batch = EntryBatch.of(7, range(3, 4), [HEADER_SIZE], bytes(HEADER_SIZE))
    >>> batch.first_entry_id, batch.last_entry_id, batch.count, batch.size
    (3, 3, 1, 40)
    """

    ledger_id: int
    entry_ids: Sequence[int]  # a ``range`` if consecutive, else an ascending ``array('q')``
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
        """The number of entries."""
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
        """Check the body against the writer's checksum.

        Raises:
            MalformedMessageError: the checksum does not match.
        """
        if checksum_of(self.body) != self.checksum:
            raise MalformedMessageError(
                f"ledger {self.ledger_id}: the checksum of the batch at entry "
                f"{self.first_entry_id} does not match"
            )

    def validate(self) -> None:
        """Check the structure: counts, sizes, and the ids of the first and the last entry.

        Readers check every inner entry; the cost here must not grow with the count by more than a
        sum.

        Raises:
            MalformedMessageError: the structure is wrong; the text says where.
        """
        problem = self._problem()
        if problem:
            raise MalformedMessageError(f"a batch of ledger {self.ledger_id}: {problem}")

    def select(self, indexes: Sequence[int]) -> "EntryBatch":
        """Return a batch of the entries at these ascending indexes."""
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

    def only(self, entry_ids: Sequence[int]) -> "EntryBatch":
        """Return a batch of these ascending entries of a batch whose own ids are in a row.

        Those of one slot of a striped ledger take the time of their bytes, not of their number.
        """
        first = self.first_entry_id
        rounds = rounds_of(entry_ids)
        if rounds is None:
            return self.select([entry_id - first for entry_id in entry_ids])
        sizes = gather(self.sizes, entry_ids, first, rounds)
        pieces: Iterator[bytes | memoryview]
        if is_uniform(self.sizes):
            pieces = _equal_pieces(self.body, self.sizes[0], first, entry_ids, rounds)
        else:
            ends = [0, *accumulate(self.sizes)]
            runs = rounds.runs(entry_ids)
            pieces = (self.body[ends[a - first] : ends[b - first + 1]] for a, b in runs)
        return EntryBatch.of(self.ledger_id, entry_ids, sizes, b"".join(pieces))

    def _problem(self) -> str:
        ids, sizes, body_size = self.entry_ids, self.sizes, len(self.body)
        count = len(sizes)
        if not 1 <= count <= COUNT_MAX or count != len(ids):
            return f"{count} sizes for {len(ids)} entry ids"
        if body_size > BODY_SIZE_MAX:
            return f"{body_size} bytes are over the limit of {BODY_SIZE_MAX}"
        is_same = count == 1 or is_uniform(sizes)
        total = sizes[0] * count if is_same else sum(sizes)
        if total != body_size:
            return f"sizes that sum to {total} do not fit {body_size} bytes"
        if sizes[0] < HEADER_SIZE or (not is_same and _has_size_below(HEADER_SIZE, sizes)):
            return f"an entry of {min(sizes)} bytes"
        problem = self._ids_problem() or self._prefix_problem(0, 0)
        if problem or count == 1:
            return problem
        return self._prefix_problem(-1, body_size - sizes[-1])

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
        return "" if found == wanted else f"an entry has {found} instead of {wanted}"


def _equal_pieces(
    body: bytes, size: int, first: int, entry_ids: Sequence[int], rounds: Rounds
) -> Iterator[bytes | memoryview]:
    """Yield the pieces of a body that these entries fill. All entries have the same size."""
    head_end = (entry_ids[rounds.gap_place] - first + 1) * size
    yield body[(entry_ids[0] - first) * size : head_end]
    start = (entry_ids[rounds.gap_place + 1] - first) * size
    stop = (entry_ids[-1] - first + 1) * size
    round_size, run_size = rounds.step * size, rounds.size * size
    rest_start = start + (stop - start) // round_size * round_size
    view = memoryview(body)
    if run_size > _COPIED_SIZE_MAX:
        for at in range(start, rest_start, round_size):
            yield view[at : at + run_size]
    else:
        runs = _run_and_gap(run_size, round_size - run_size)
        yield from chain.from_iterable(runs.iter_unpack(view[start:rest_start]))
    yield view[rest_start:stop]


_COPIED_SIZE_MAX: Final = 1024  # a piece of this size is copied sooner than a view of it is made


@lru_cache(maxsize=64)
def _run_and_gap(run_size: int, gap_size: int) -> Struct:
    return Struct(f"{run_size}s{gap_size}x")


def sizes_to_wire(sizes: "array[int]") -> bytes:
    """Return sizes in their wire format: u32 little-endian each."""
    return little_endian(sizes).tobytes()


def sizes_from_wire(frame: bytes | memoryview) -> "array[int]":
    """Return the sizes in a frame.

    Raises:
        MalformedMessageError: the frame is empty, too long, or no whole number of sizes.
    """
    if not frame or len(frame) % 4 or len(frame) // 4 > COUNT_MAX:
        raise MalformedMessageError(f"{len(frame)} bytes are no list of 1 to {COUNT_MAX} sizes")
    sizes = array("I")
    sizes.frombytes(frame)
    return little_endian(sizes)


def is_uniform(sizes: "array[int]") -> bool:
    """Return whether all sizes are equal. Two copies and a comparison are cheaper than a loop."""
    return sizes.tobytes() == sizes[:1].tobytes() * len(sizes)


def _has_size_below(limit: int, sizes: "array[int]") -> bool:
    """Return whether a size is below ``limit``. All are below 2^31, because their sum was checked.

    One subtraction of two large numbers, with 32 bits for each size, compares all sizes. The
    highest bit of each size is set, so none borrows from its neighbor, and the bit is cleared where
    the size was too small. Six times as fast as ``min``.
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
