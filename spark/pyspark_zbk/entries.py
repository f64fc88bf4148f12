"""Record batches as entries of a ledger, and back.

An entry is one Arrow IPC message, a schema or a record batch: its first four bytes are
``ff ff ff ff``. A row too large for one entry is a message cut into *parts*, in consecutive
entries:

    offset  size  field     type  meaning
    ------  ----  --------  ----  ------------------------------------------
         0     4  magic     u32   "zbkP"
         4     4  number    u32   of the part, from 0
         8     4  count     u32   parts of the message
        12     4  reserved  u32   0
        16     n  bytes     u8[]  a piece of the message

A reader that starts in the middle of a message skips its parts: the reader with the first part
reads them all.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import zbk

if TYPE_CHECKING:
    import pyarrow as pa

_PART: Final = struct.Struct("<4sIII")
_MAGIC: Final = b"zbkP"


def entries_of(batch: "pa.RecordBatch", size_max: int) -> Iterator[bytes]:
    """Yield a batch as entries of at most ``size_max`` bytes.

    The batch is first cut by rows, into slices of about the right size by its average; a slice with
    larger rows is halved until it fits.
    """
    slice_count = min(batch.num_rows, -(-batch.nbytes // size_max))
    row_count = -(-batch.num_rows // max(1, slice_count))
    for start in range(0, batch.num_rows, row_count):
        yield from _fitting(batch.slice(start, row_count), size_max)


class MessageJoiner:
    """Assembles messages from the entries of one range of a ledger, in order."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0  # of the parts of this message
        self._has_begun = False

    @property
    def missing_count(self) -> int:
        """Parts of the message that have not come yet."""
        return self._count - len(self._parts) if self._parts else 0

    def add(self, payload: "bytes | memoryview") -> "bytes | memoryview | None":
        """Return the message that this entry completes; ``None`` if it completes none.

        Raises:
            CorruptRecordError: parts are missing in between.
        """
        if bytes(payload[:4]) != _MAGIC:
            if self._parts:
                raise zbk.CorruptRecordError("a message in parts", len(self._parts), "ends early")
            self._has_begun = True
            return payload
        if len(payload) < _PART.size:
            raise zbk.CorruptRecordError("a message in parts", len(payload), "has no part here")
        _, number, count, _ = _PART.unpack_from(payload)
        if number and not self._has_begun:
            return None  # of a message that began before this range
        if number != len(self._parts) or (number and count != self._count):
            raise zbk.CorruptRecordError("a message in parts", number, "is not the next part")
        self._has_begun = True
        self._count = count
        self._parts.append(bytes(payload[_PART.size :]))
        if len(self._parts) < count:
            return None
        message, self._parts = b"".join(self._parts), []
        return message


def _fitting(batch: "pa.RecordBatch", size_max: int) -> Iterator[bytes]:
    message = batch.serialize().to_pybytes()
    if len(message) <= size_max:
        yield message
    elif batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from _fitting(batch.slice(0, half), size_max)
        yield from _fitting(batch.slice(half), size_max)
    else:
        yield from _parts(message, size_max)


def _parts(message: bytes, size_max: int) -> Iterable[bytes]:
    piece_size = size_max - _PART.size
    pieces = [message[start : start + piece_size] for start in range(0, len(message), piece_size)]
    for number, piece in enumerate(pieces):
        yield _PART.pack(_MAGIC, number, len(pieces), 0) + piece
