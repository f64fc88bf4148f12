"""The way of appends from the application's threads to a writer's actor: bounded, in lists.

A message to an actor costs 2-5 µs, so an append only joins a list, and the reader is notified once
for all appends that joined while it was busy. The notice says whether the first append is alone:
small, with no unanswered append before it. The bytes in the list, and those that the writer has
taken and not answered, are bounded for each writer and for all writers of a client
(``AppendBudget``). At the limit ``put`` waits: the application slows down to the slowest bookie.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import accumulate
from typing import Final

from zbk.client.write.append_budget import AppendBudget
from zbk.client.write.append_future import AppendFuture
from zbk.errors import RequestTimeoutError, ZbkError
from zbk.system.clock import monotonic_s

LONE_SIZE_MAX: Final = 16 * 1024
"""Bytes of an append that may count as alone."""

AHEAD_SIZE: Final = 8 * 1024
"""Bytes of the client's budget that a busy writer reserves ahead: that saves locking."""

Item = tuple[AppendFuture, Sequence[bytes]]


class AppendMailbox:
    """A list of appends with a limit in bytes, which notifies its reader.

    ``items`` are the appends that wait here; others only look whether there are any.
    """

    __slots__ = (
        "_asks", "_budget", "_changed", "_end", "_granted_size", "_is_abandoned", "_is_over",
        "_is_roused", "_lock", "_rouse", "_size", "_size_max", "_waiter_count", "_waiting_size",
        "items",
    )  # fmt: skip

    def __init__(
        self, size_max: int, rouse: Callable[[bool], None], budget: AppendBudget | None = None
    ) -> None:
        """``rouse`` gets true for a lone append: a small one, with no unanswered one before it."""
        self._size_max = size_max
        self._budget = AppendBudget(size_max) if budget is None else budget
        self._rouse = rouse
        self.items: list[Item] = []
        self._waiting_size = 0  # bytes of these
        self._size = 0  # bytes waiting here or taken and not yet answered
        self._granted_size = 0  # bytes of the budget: as many, and what was taken ahead
        self._is_roused = False
        self._asks: dict[Future[int], None] = {}
        self._end: ZbkError | None = None
        self._is_over = False
        self._lock = threading.Lock()  # half the price of the condition's own ``with``
        self._changed: threading.Condition | None = None  # made by the first that waits: a kilobyte
        self._waiter_count = 0
        self._is_abandoned = False

    def abandon(self) -> None:
        """Record that the application has dropped its handle.

        Takes no lock: the garbage collector calls it in any thread, which may hold any lock.
        """
        self._is_abandoned = True

    @property
    def is_done_with(self) -> bool:
        """True when the handle was dropped and nothing is unanswered."""
        return self._is_abandoned and not self._size and not self.items and not self._asks

    @property
    def pending_size(self) -> int:
        """Bytes that were put and not yet released."""
        return self._size

    def put(self, future: AppendFuture, payloads: Sequence[bytes], timeout_s: float) -> None:
        """Add an append; wait while it does not fit. One larger than the limit goes in alone.

        Raises:
            RequestTimeoutError: no room within ``timeout_s`` seconds; nothing was added.
            ZbkError: the mailbox was ended.
        """
        size = future.size
        granted_size = 0  # of the client's budget, since the last look
        may_give_back = True
        while True:
            with self._lock:
                self._granted_size += granted_size
                if self._size and self._size + size > self._size_max and self._end is None:
                    timeout_s = self._wait_for_room(size, timeout_s)
                pending_size = self._size + size
                missing_size = pending_size - self._granted_size
                if missing_size <= 0 and self._end is None:
                    self._size = pending_size
                    self.items.append((future, payloads))
                    self._waiting_size += size
                    if self._is_roused:
                        return
                    self._is_roused = True
                    break
                is_busy = self._size > 0
                has_spare = missing_size < size
            if self._end is not None:
                self.release(0)
                raise self._end
            if has_spare and may_give_back:  # or one over the limit waits for what this writer has
                granted_size, may_give_back = 0, False
                self.release(0)
                continue
            deadline_s = monotonic_s() + timeout_s
            ahead_size = AHEAD_SIZE if is_busy else 0
            granted_size = self._budget.take(missing_size, timeout_s, self._check_end, ahead_size)
            timeout_s = max(0.0, deadline_s - monotonic_s())
        self._rouse(pending_size == size <= LONE_SIZE_MAX)

    def _check_end(self) -> None:
        if self._end is not None:
            raise self._end

    def _wait_for_room(self, size: int, timeout_s: float) -> float:
        """Wait until an append fits; return what is left of ``timeout_s``."""
        deadline_s = monotonic_s() + timeout_s
        changed = self._changed = self._changed or threading.Condition(self._lock)
        self._waiter_count += 1
        try:
            while self._size and self._size + size > self._size_max:
                left_s = deadline_s - monotonic_s()
                if left_s <= 0 or not changed.wait(left_s):
                    raise RequestTimeoutError("append: the writer's window stayed full", timeout_s)
                if self._end is not None:
                    raise self._end
        finally:
            self._waiter_count -= 1
        return max(0.0, deadline_s - monotonic_s())

    def ask(self, future: "Future[int]", *, is_close: bool = False) -> None:
        """Record a future that the reader must resolve, whatever happens to its message.

        A close may be repeated as long as there is a reader.

        Raises:
            ZbkError: the mailbox was ended.
        """
        with self._lock:
            if self._end is not None and (self._is_over or not is_close):
                raise self._end
            self._asks[future] = None
        future.add_done_callback(self._forget)

    def _forget(self, future: "Future[int]") -> None:
        self._asks.pop(future, None)

    @property
    def waiting_size(self) -> int:
        """Bytes of the appends that wait here."""
        return self._waiting_size

    def take(self, size_max: int | None = None) -> list[Item]:
        """Return waiting appends, up to ``size_max`` bytes, at least one append.

        After a notice the reader continues until nothing waits; the next append notifies it again.
        """
        with self._lock:
            items = self.items
            if size_max is None or self._waiting_size <= size_max:
                self.items = []
                self._waiting_size = 0
                self._is_roused = False
                return items
            sizes = list(accumulate([future.size for future, _payloads in items]))
            count = max(1, bisect_right(sizes, size_max))
            self.items = items[count:]
            self._waiting_size -= sizes[count - 1]
            self._is_roused = bool(self.items)
            return items[:count]

    def release(self, size: int) -> None:
        """Release room: appends of ``size`` bytes in all were answered."""
        with self._lock:
            self._size -= size
            spare_size = self._granted_size - self._size
            if self._size:
                spare_size = max(0, spare_size - AHEAD_SIZE)
            self._granted_size -= spare_size
            if self._changed is not None and self._waiter_count:
                self._changed.notify_all()
        if spare_size:
            self._budget.give_back(spare_size)

    def unanswered(self) -> "list[Future[int]]":
        """Return the futures recorded by ``ask`` that are not resolved. Call ``end`` first."""
        with self._lock:
            return [future for future in list(self._asks) if not future.done()]

    def end(self, error: ZbkError, *, is_over: bool = False) -> None:
        """Refuse everything from now on; calls that wait for room raise ``error``.

        ``is_over``: the reader has ended, too.
        """
        with self._lock:
            self._is_over |= is_over
            if self._end is None:
                self._end = error
            if self._changed is not None:
                self._changed.notify_all()
        self.release(0)  # what was taken ahead
        self._budget.rouse()
