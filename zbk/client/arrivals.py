"""Items that other threads hand to one thread, which waits for them.

Any thread puts; one thread at a time waits and takes. Not bounded: the owner knows how many items
can be on their way.
"""

import queue
from contextlib import suppress
from typing import Generic, TypeVar

from zbk.system.clock import monotonic_ms, monotonic_s

ItemT = TypeVar("ItemT")


class Arrivals(Generic[ItemT]):
    """Items in the order of their arrival.

    >>> arrivals = Arrivals[str]()
    >>> arrivals.put("a")
    >>> arrivals.next(), arrivals.next(0.0)
    ('a', None)
    """

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[ItemT] = queue.SimpleQueue()

    def put(self, item: ItemT) -> None:
        """Add an item. Any thread; never blocks."""
        self._items.put(item)

    def next(self, timeout_s: float | None = None) -> ItemT | None:
        """Return the next item, or ``None`` if none comes within ``timeout_s`` seconds."""
        try:
            return self._items.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def take_all(self) -> list[ItemT]:
        """Return all items that have arrived, without waiting."""
        items = []
        with suppress(queue.Empty):
            while True:
                items.append(self._items.get_nowait())
        return items


def pause_s(limit_s: float, deadline_s: float | None, due_ms: int | None) -> float:
    """Return how many seconds a thread may wait for the next item.

    That is ``limit_s``, or less if its deadline or the time of its next task comes earlier; both
    are monotonic times, and ``None`` is never.
    """
    if deadline_s is not None:
        limit_s = min(limit_s, deadline_s - monotonic_s())
    if due_ms is not None:
        limit_s = min(limit_s, (due_ms - monotonic_ms()) / 1000)
    return max(0.0, limit_s)
