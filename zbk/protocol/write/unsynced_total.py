"""The limit on the bytes that all writers of a client keep because they are not durable.

Each writer has a limit of its own (``WriterLimits.unsynced_size_max``). Many VD ledgers could fill
memory before any of them reaches it. So at half of the shared limit every writer syncs what it
keeps, and at the limit those that keep something send no more batches until syncs have made room.

The writers of one thread count in a *part* of their own, and any thread may read the total.
"""


class UnsyncedPart:
    """Bytes of batches beyond the LAC, acknowledged or not, of the writers of one thread."""

    __slots__ = ("_total", "size")

    def __init__(self, total: "UnsyncedTotal") -> None:
        self._total = total
        self.size = 0  # the thread of the writers alone changes it

    @property
    def share_of_total(self) -> float:
        """How much of the shared limit all parts together use; 1 is all of it."""
        return self._total.share


class UnsyncedTotal:
    """The parts of one client, and their limit in bytes.

    >>> total = UnsyncedTotal(100, part_count=2)
    >>> total.parts[0].size += 30; total.parts[1].size += 20
    >>> total.parts[0].share_of_total
    0.5
    """

    __slots__ = ("_size_max", "parts")

    def __init__(self, size_max: int, part_count: int = 1) -> None:
        assert size_max >= 1, "without room nothing could be written"
        self._size_max = size_max
        self.parts = tuple(UnsyncedPart(self) for _ in range(part_count))

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size for part in self.parts)

    @property
    def share(self) -> float:
        """How much of the limit is used; 1 is all of it."""
        return self.size / self._size_max
