"""How many bytes the writers of a client may have pending together.

Each writer has a limit of its own (``pending_size_max``); a thousand of them would fill memory, and
the queues of the connections, long before they met theirs. At the limit appends wait, whichever
writer they are for: the application slows down to the speed of the bookies.

Any thread.
"""

import threading
from collections.abc import Callable
from typing import Final

from zbk.errors import RequestTimeoutError
from zbk.system.clock import monotonic_s

LOOK_S: Final = 1.0
"""How long an append sleeps before it looks whether its writer is still there."""


class AppendBudget:
    """Bytes that are pending, with a limit. An append over the limit goes in alone."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._size = 0
        self._waiting_count = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    @property
    def size(self) -> int:
        """Bytes that were taken and not given back."""
        return self._size

    def take(
        self, size: int, timeout_s: float, check: Callable[[], None], ahead_size: int = 0
    ) -> int:
        """Reserve room, return how much; wait until there is some.

        ``ahead_size`` more is taken while at least half of the room is free: it saves the next
        calls. ``check`` raises when it is of no use any more.

        Raises:
            RequestTimeoutError: no room within ``timeout_s`` seconds; nothing was taken.
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
        """Give room back."""
        with self._lock:
            self._size -= size
            if self._waiting_count:
                self._changed.notify_all()

    def rouse(self) -> None:
        """Wake those that wait, to look whether they still should."""
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
