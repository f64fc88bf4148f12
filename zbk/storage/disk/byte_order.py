"""Arrays of numbers on disk: little-endian, for any byte order of the host."""

import sys
from array import array
from typing import Final

from zbk.system.files import Buffer

_IS_LITTLE: Final = sys.byteorder == "little"

assert array("Q").itemsize == 8, "locations are u64"


def to_disk(values: "array[int]") -> memoryview:
    """Return the bytes of an array on disk; a little-endian host does not copy them."""
    if _IS_LITTLE:
        return memoryview(values).cast("B")
    swapped = values[:]
    swapped.byteswap()
    return memoryview(swapped).cast("B")


def locations_from_disk(buffer: Buffer) -> "array[int]":
    """Return the u64 values in a buffer."""
    return _from_disk("Q", buffer)


def ids_from_disk(buffer: Buffer) -> "array[int]":
    """Return the i64 values in a buffer."""
    return _from_disk("q", buffer)


def _from_disk(typecode: str, buffer: Buffer) -> "array[int]":
    values: array[int] = array(typecode)
    values.frombytes(buffer)
    if not _IS_LITTLE:
        values.byteswap()
    return values
