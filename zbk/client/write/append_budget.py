"""The shared limit on bytes that a client's writers have pending.

Each writer has its own limit (``pending_size_max``). A thousand writers would fill memory and the
queues of the connections before they reached it. At the shared limit appends of all writers wait:
the application slows down to the speed of the bookies.

Any thread.
"""

import threading
from collections.abc import Callable
from typing import Final

from zbk.errors import RequestTimeoutError
from zbk.system.clock import monotonic_s

LOOK_S: Final = 1.0
"""Seconds after which a waiting append checks that its writer still exists."""


class AppendBudget:
    """Pending bytes, with a limit. An append larger than the limit is admitted alone."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._size = 0
        self._waiting_count = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    @property
    def size(self) -> int:
        """Bytes that are reserved."""
        return self._size

    def take(
        self, size: int, timeout_s: float, check: Callable[[], None], ahead_size: int = 0
    ) -> int:
        """Reserve room, and return how many bytes; wait until there is room.

        ``ahead_size`` more bytes are reserved while at least half of the limit is free, which saves
        later calls. ``check`` raises when the caller should wait no longer.

        Raises:
            RequestTimeoutError: no room within ``timeout_s`` seconds; nothing was reserved.
            ZbkError: as ``check``.
        """
        with self._lock:
            if self._size + size > self._size_max and self._size:
                self._wait(size, timeout_s, check)
            if self._size + size + ahead_size <= self._size_max // 2:
                size += ahead_size
            self._size += size
            return size

    def give_back(self, size: int) -> None:
        """Release reserved bytes."""
        with self._lock:
            self._size -= size
            if self._waiting_count:
                self._changed.notify_all()

    def rouse(self) -> None:
        """Wake the waiting calls: each runs its ``check``."""
        with self._lock:
            self._changed.notify_all()

    def _wait(self, size: int, timeout_s: float, check: Callable[[], None]) -> None:
        deadline_s = monotonic_s() + timeout_s
        self._waiting_count += 1
        try:
            while self._size and self._size + size > self._size_max:
                check()
                left_s = deadline_s - monotonic_s()
                if left_s <= 0:
                    what = "append: the client's writers have too many bytes pending together"
                    raise RequestTimeoutError(what, timeout_s)
                self._changed.wait(min(left_s, LOOK_S))
        finally:
            self._waiting_count -= 1
