"""The deadlines of many items in one heap.

A deadline that moves to a later time changes a dictionary only: the heap entry is corrected when
the earlier time has come. Each item has at most one live entry in the heap, and a stale one for
each time that its deadline moved to an earlier time. ``correct`` does so before, for the first few.

Pure. Owned by a writer actor or a tail group.
"""

import heapq
from collections.abc import Hashable
from itertools import count
from typing import Final, Generic, TypeVar

CORRECTED_COUNT_MAX: Final = 4
"""Entries of the heap that one call of ``correct`` looks at."""

ItemT = TypeVar("ItemT", bound=Hashable)


class Deadlines(Generic[ItemT]):
    """A deadline in milliseconds for each item that has one.

    Invariant, checked in ``_check``: an item with a deadline has an entry in the heap, not later.

    >>> deadlines = Deadlines[str]()
    >>> deadlines.put("a", 50)
    >>> deadlines.put("b", 70)
    >>> deadlines.put("a", 90)
    >>> deadlines.take_due(70), deadlines.next_ms
    (['b'], 90)
    """

    def __init__(self) -> None:
        self._due_ms: dict[ItemT, int] = {}
        self._entry_ms: dict[ItemT, int] = {}  # of the live entry in the heap
        self._heap: list[tuple[int, int, ItemT]] = []
        self._serial = count()

    def __len__(self) -> int:
        """Return the number of items that have a deadline."""
        return len(self._due_ms)

    @property
    def next_ms(self) -> int | None:
        """The time of the next ``take_due``, which may return nothing; ``None``: no deadline."""
        return self._heap[0][0] if self._heap else None

    def correct(self) -> int | None:
        """Correct the first entries of the heap, a few at most; return ``next_ms``."""
        for _ in range(CORRECTED_COUNT_MAX):
            if not self._heap:
                return None
            entry_ms, _, item = self._heap[0]
            is_live = self._entry_ms.get(item) == entry_ms
            due_ms = self._due_ms.get(item)
            if is_live and due_ms == entry_ms:
                break
            heapq.heappop(self._heap)
            if is_live:
                del self._entry_ms[item]
                if due_ms is not None:
                    self._push(item, due_ms)
        return self.next_ms

    def put(self, item: ItemT, due_ms: int | None) -> None:
        """Set the deadline of an item and drop its earlier one; ``None`` removes it."""
        if due_ms is None:
            self._due_ms.pop(item, None)
            return
        self._due_ms[item] = due_ms
        entry_ms = self._entry_ms.get(item)
        if entry_ms is None or due_ms < entry_ms:
            self._push(item, due_ms)
        self._check(item)

    def take_due(self, now_ms: int) -> list[ItemT]:
        """Return the items that are due, the earliest first, and remove their deadlines."""
        due = []
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry_ms, _, item = heapq.heappop(heap)
            if self._entry_ms.get(item) != entry_ms:
                continue  # it moved to an earlier time, and has another entry
            del self._entry_ms[item]
            due_ms = self._due_ms.get(item)
            if due_ms is None:
                continue
            if due_ms > now_ms:
                self._push(item, due_ms)
            else:
                del self._due_ms[item]
                due.append(item)
        return due

    def _push(self, item: ItemT, due_ms: int) -> None:
        self._entry_ms[item] = due_ms
        heapq.heappush(self._heap, (due_ms, next(self._serial), item))

    def _check(self, item: ItemT) -> None:
        assert self._entry_ms[item] <= self._due_ms[item], "an entry comes when it is due"
