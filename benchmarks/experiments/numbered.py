"""Payloads that begin with the id of their entry, so that a reader detects missing entries."""

import os
from collections.abc import Iterator
from typing import Final

ID_SIZE: Final = 8  # bytes, big-endian

_FILLER: Final = os.urandom(64 * 1024)


class NumberedPayloads:
    """Payloads of one size; the bytes after the id are the same in each."""

    def __init__(self, size: int) -> None:
        assert size >= ID_SIZE, "there is room for the id"
        rest_size = size - ID_SIZE
        self._filler = (_FILLER * (rest_size // len(_FILLER) + 1))[:rest_size]

    def __getitem__(self, entry_id: int) -> bytes:
        """Return the payload of one entry.

        >>> NumberedPayloads(8)[258].hex()
        '0000000000000102'
        """
        return entry_id.to_bytes(ID_SIZE, "big") + self._filler

    def batch(self, first: int, end: int) -> list[bytes]:
        """Return the payloads of the entries ``first .. end - 1``."""
        filler = self._filler
        return [entry_id.to_bytes(ID_SIZE, "big") + filler for entry_id in range(first, end)]


def batches(count: int, batch_count: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each batch of ``count`` entries.

    >>> list(batches(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    for first in range(0, count, batch_count):
        yield first, min(count, first + batch_count)


def entry_id_of(payload: bytes | memoryview) -> int:
    """Return the id at the start of a payload.

    >>> entry_id_of(NumberedPayloads(100)[7])
    7
    """
    return int.from_bytes(payload[:ID_SIZE], "big")
