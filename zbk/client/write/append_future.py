"""Futures of appends: a tenth of the cost of a ``concurrent.futures.Future``.

The standard future creates its own lock, condition and two lists, which takes several microseconds.
The futures of one writer share a condition, a list of them is resolved under one hold of it, and
their lists are created on first use. Otherwise they are standard futures: callbacks, ``wait``,
``as_completed`` and ``asyncio.wrap_future`` work. The last requires the class, so it is the base;
nothing of it is initialized.

They cannot be cancelled: an entry on its way cannot be revoked.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any

from zbk.system.clock import monotonic_s


class SharedCondition(threading.Condition):
    """A condition for many futures, which takes little memory while no thread waits.

    ``lock`` guards the futures. A standard condition makes a kilobyte of objects at once.
    """

    __slots__ = ("lock", "waiting")

    def __init__(self) -> None:  # nothing of the base is initialized
        self.lock = threading.RLock()  # a thread may hold it for several futures
        self.waiting: threading.Condition | None = None  # made by the first thread that waits

    def __enter__(self) -> bool:
        return self.lock.__enter__()

    def __exit__(self, *_error: object) -> None:
        self.lock.release()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock."""
        return self.lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Release the lock."""
        self.lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a ``notify_all``, with the lock held; return false after the time-out."""
        if self.waiting is None:
            self.waiting = threading.Condition(self.lock)
        return self.waiting.wait(timeout)

    def notify_all(self) -> None:
        """Wake all threads that wait; with the lock held."""
        if self.waiting is not None:
            self.waiting.notify_all()


_PENDING = "PENDING"  # states of concurrent.futures, which keeps their names to itself
_FINISHED = "FINISHED"


class AppendFuture(Future[Any]):
    """A future whose condition may be shared with others.

    ``size`` is the bytes of payload that it stands for; with ``is_many`` its result is the range
    of the ids, else the one id.
    """

    __slots__ = (
        "_callbacks", "_condition", "_exception", "_result", "_state", "_watchers", "is_many",
        "size",
    )  # fmt: skip

    def __init__(
        self,
        condition: SharedCondition | None = None,
        size: int = 0,
        is_many: bool = False,
    ) -> None:
        self._condition: SharedCondition = condition or SharedCondition()
        self._state = _PENDING
        self._result = self._exception = None
        self._callbacks: list[Any] | None = None  # most futures have neither
        self._watchers: list[Any] | None = None
        self.size = size
        self.is_many = is_many

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]  # never set
        if self._watchers is None:
            self._watchers = []
        return self._watchers

    @property
    def _done_callbacks(self) -> list[Any]:
        if self._callbacks is None:
            self._callbacks = []
        return self._callbacks

    def cancel(self) -> bool:
        """Return False."""
        return False

    def done(self) -> bool:
        """Return whether there is a result or an error."""
        return self._state == _FINISHED

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """Call ``fn`` with this future once it is done: at once, if it is."""
        with self._condition.lock:
            if self._state != _FINISHED:
                if self._callbacks is None:
                    self._callbacks = [fn]
                else:
                    self._callbacks.append(fn)
                return
        super().add_done_callback(fn)  # which logs what ``fn`` raises

    def result(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - as Future has it
        """Return the result, or raise the error, once there is one; ``timeout`` in seconds."""
        if self._state != _FINISHED:
            self._wait(timeout)
        if self._state != _FINISHED or self._exception is not None:
            return super().result(0)
        return self._result  # a finished future does not change: no lock is needed

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error, or ``None`` for a result, once there is one."""
        if self._state != _FINISHED:
            self._wait(timeout)
        if self._state != _FINISHED:
            return super().exception(0)
        return self._exception

    def _wait(self, timeout: float | None) -> None:
        """Wait; the condition is notified for others, too."""
        with self._condition:
            if timeout is None:
                while self._state != _FINISHED:
                    self._condition.wait()
                return
            deadline_s = monotonic_s() + timeout
            while self._state != _FINISHED:
                left_s = deadline_s - monotonic_s()
                if left_s <= 0 or not self._condition.wait(left_s):
                    return


def fail_unless_done(future: Future[Any], error: BaseException) -> bool:
    """Set the error of a future that has no answer yet; return whether it was set.

    For a future that two threads may end: ``done`` is too old to rely on when it returns.
    """
    try:
        future.set_exception(error)  # checks and sets under the condition of the future
    except InvalidStateError:
        return False
    return True


def resolve_all(
    condition: SharedCondition, tickets: Sequence[tuple[AppendFuture, int, int]]
) -> None:
    """Resolve futures that share ``condition``, in order.

    With each comes the id of its first entry and how many entries there are.
    """
    followed: list[AppendFuture] = []
    with condition.lock:
        for future, first_id, count in tickets:
            assert future._state == _PENDING, "an append is answered once"  # noqa: SLF001
            future._result = range(first_id, first_id + count) if future.is_many else first_id  # noqa: SLF001
            future._state = _FINISHED  # noqa: SLF001 - last: it is read without the lock
            if future._callbacks is not None:  # noqa: SLF001
                followed.append(future)
            if future._watchers is not None:  # noqa: SLF001
                for watcher in future._watchers:  # noqa: SLF001
                    watcher.add_result(future)
        condition.notify_all()
    for future in followed:  # callbacks are not called with the lock held
        future._invoke_callbacks()  # type: ignore[attr-defined]  # noqa: SLF001 - as set_result does
